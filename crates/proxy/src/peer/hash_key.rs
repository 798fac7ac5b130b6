//! Hash keys: the parts of a request that algorithms with affinity hash.

use evenkeel_balance::endpoint::stable_hash;
use evenkeel_config::plan::HashKey;
use evenkeel_wire::head::Request;
use std::net::IpAddr;

/// Hash of the part of the request that `key` names; `None` if the request does not have it.
pub fn hash(key: &HashKey, request: &Request<'_, '_>, client: IpAddr) -> Option<u64> {
    let bytes = match key {
        HashKey::ClientIp => return Some(of_client(client)),
        HashKey::Path => request.path().as_bytes(),
        HashKey::Header(name) => request.field(name)?,
        HashKey::Cookie(name) => cookie(request.field("cookie")?, name.as_bytes())?,
        HashKey::Query(name) => parameter(request.query()?, name)?.as_bytes(),
    };
    Some(stable_hash(bytes))
}

/// Hash of a client's address: 4 or 16 octets, so IPv4-mapped addresses must be made canonical first.
pub fn of_client(client: IpAddr) -> u64 {
    match client {
        IpAddr::V4(ip) => stable_hash(&ip.octets()),
        IpAddr::V6(ip) => stable_hash(&ip.octets()),
    }
}

/// Value of the first cookie of this name in a `Cookie` field (RFC 6265 section 4.2), without spaces around it.
pub fn cookie<'b>(field: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
    let pairs = field.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let values = pairs.filter_map(|pair| pair.strip_prefix(name));
    values.map(<[u8]>::trim_ascii_start).find_map(|rest| rest.strip_prefix(b"=")).map(<[u8]>::trim_ascii_start)
}

/// Value of the first query parameter of this name, not decoded.
fn parameter<'b>(query: &'b str, name: &str) -> Option<&'b str> {
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(n, _)| *n == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_cookies_and_parameters() {
        assert_eq!(cookie(b"a=1; ab=2;b=3", b"ab"), Some(&b"2"[..]));
        assert_eq!(cookie(b"a=1; ab=2;b=3", b"b"), Some(&b"3"[..]));
        assert_eq!(cookie(b"abc", b"a"), None);
        assert_eq!(parameter("x=1&user=bob", "user"), Some("bob"));
        assert_eq!(parameter("x=1", "user"), None);
    }
}
