//! Which proxies are measured, and how is each set up? A row of [`KINDS`] and a file for each: one worker, connections to
//! endpoints kept, nothing logged, session tickets on, and no limit that the load could reach.

mod envoy;
mod evenkeel;
mod haproxy;
mod kind;
mod nginx;

pub use kind::{Kind, Site};

/// The name of the proxy that the others are compared with.
pub const OURS: &str = evenkeel::KIND.name;

/// Every kind, in the order of the rows.
pub static KINDS: &[Kind] = &[evenkeel::KIND, haproxy::KIND, nginx::KIND, envoy::KIND];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::protocol_cost::case::{Back, Certificate, Front};
    use crate::experiments::protocol_cost::certificates::Files;
    use std::path::Path;

    const PAIRS: [(Front, Back); 5] = [
        (Front::H2c, Back::Http1),
        (Front::H2c, Back::H2c),
        (Front::H2c, Back::Grpc),
        (Front::H2(Certificate::P256), Back::Http1),
        (Front::Https(Certificate::P256), Back::Http1),
    ];

    #[test]
    fn each_pair_of_protocols_has_its_configuration_and_names_the_endpoints() {
        let files = Files { certificate: "some.crt".into(), key: "some.key".into(), both: "some.pem".into() };
        for kind in KINDS {
            let able = PAIRS.iter().filter(|(_, back)| (kind.cannot)(*back).is_none());
            let mut texts: Vec<String> = Vec::new();
            for &(front, back) in able {
                let certificate = front.certificate().map(|_| &files);
                let folder = Path::new("somewhere");
                let site = Site { folder, port: 1, endpoints: [20001, 20002], front, back, certificate };
                let text = (kind.config)(&site);
                assert!(text.contains("20001") && text.contains("20002"), "{}: {text}", kind.name);
                assert_eq!(text.contains("some."), certificate.is_some(), "{}: {text}", kind.name);
                texts.push(text);
            }
            // A proxy may need no word for gRPC, or for HTTP/2 over TLS.
            texts.sort_unstable();
            texts.dedup();
            assert!(texts.len() >= 3, "{}", kind.name);
        }
    }
}
