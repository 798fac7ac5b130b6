//! Networks of addresses that mean this machine, its links, or no machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Description of the local network that an address is in: this machine, its links, or reserved; `None` for other
/// addresses.
pub fn local(ip: IpAddr) -> Option<&'static str> {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_loopback() => Some("a loopback address"),
        // Clouds give credentials of the machine at 169.254.169.254.
        IpAddr::V4(ip) if ip.is_link_local() => Some("a link-local address"),
        IpAddr::V4(ip) if ip.octets()[0] == 0 || ip.octets()[0] >= 224 => Some("in a reserved network"),
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) if ip.is_loopback() => Some("a loopback address"),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some("a link-local address"),
        IpAddr::V6(ip) if ip.is_unspecified() || ip.is_multicast() => Some("in a reserved network"),
        // As 169.254.169.254 in clouds with IPv6 alone.
        IpAddr::V6(ip) if ip == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254) => Some("a link-local address"),
        IpAddr::V6(ip) => embedded(ip).and_then(|ip| local(ip.into())),
    }
}

/// The IPv4 address that a translator (RFC 6052) or 6to4 router (RFC 3056) sends packets to.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let words = ip.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match words {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

/// True if a name means this machine without being resolved (RFC 6761, section 6.3).
#[cfg(any(test, feature = "kubernetes"))]
pub fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_this_machine() {
        assert!(["localhost", "LOCALHOST.", "a.localhost"].into_iter().all(is_localhost));
        assert!(!["localhost.example", "notlocalhost"].into_iter().any(is_localhost));
    }
}
