//! Data of HTTPS records (RFC 9460): protocols, port and addresses of a service.

use evenkeel_config::plan::HttpsRecord;
use std::net::IpAddr;

/// Priority of the only record of a name. 0 would be an alias.
const PRIORITY: u16 = 1;

/// Keys of parameters (RFC 9460 section 14.3.2).
const ALPN: u16 = 1;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;

/// Writes the data of a record for a service at the queried name.
pub fn write(record: &HttpsRecord, hints: &[IpAddr], out: &mut Vec<u8>) {
    out.extend_from_slice(&PRIORITY.to_be_bytes());
    // The target is the queried name.
    out.push(0);
    // In the order of the keys.
    parameter(ALPN, out, |out| {
        for protocol in &record.alpn {
            let name = protocol.name();
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        }
    });
    parameter(PORT, out, |out| out.extend(record.port.into_iter().flat_map(u16::to_be_bytes)));
    parameter(IPV4_HINT, out, |out| {
        hints.iter().for_each(|ip| {
            if let IpAddr::V4(ip) = ip {
                out.extend_from_slice(&ip.octets())
            }
        });
    });
    parameter(IPV6_HINT, out, |out| {
        hints.iter().for_each(|ip| {
            if let IpAddr::V6(ip) = ip {
                out.extend_from_slice(&ip.octets())
            }
        });
    });
}

/// Writes a parameter, unless its value is empty.
fn parameter(key: u16, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    value(out);
    match (out.len() - begin - 4) as u16 {
        0 => out.truncate(begin),
        len => out[begin + 2..begin + 4].copy_from_slice(&len.to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::HttpsProtocol::{Http2, Http3};

    #[test]
    fn data_is_that_of_rfc_9460() {
        let written = |alpn, port, hints: &[&str]| {
            let mut out = Vec::new();
            let hints: Vec<IpAddr> = hints.iter().map(|ip| ip.parse().expect("an address")).collect();
            write(&HttpsRecord { alpn, port }, &hints, &mut out);
            out
        };
        assert_eq!(written(Vec::new(), None, &[]), [0, 1, 0]);
        let all = written(vec![Http3, Http2], Some(8443), &["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
        let mut want = b"\x00\x01\x00\x00\x01\x00\x06\x02h3\x02h2\x00\x03\x00\x02\x20\xfb".to_vec();
        want.extend(b"\x00\x04\x00\x08\xc0\x00\x02\x01\xc0\x00\x02\x02");
        want.extend(b"\x00\x06\x00\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01");
        assert_eq!(all, want);
    }
}
