//! Hosts of requests, as clients send them: a name or an address, perhaps with a port.

use memchr::{memchr, memrchr};

/// Strips the port and a final dot; an IPv6 address keeps its brackets.
pub fn without_port(host: &[u8]) -> &[u8] {
    let from = memrchr(b']', host).unwrap_or(0);
    let host = memchr(b':', &host[from..]).map_or(host, |at| &host[..from + at]);
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_final_dots_do_not_count() {
        for (host, want) in
            [("a.b:80", "a.b"), ("a.b.", "a.b"), ("a.b.:1", "a.b"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")]
        {
            assert_eq!(without_port(host.as_bytes()), want.as_bytes(), "{host}");
        }
    }
}
