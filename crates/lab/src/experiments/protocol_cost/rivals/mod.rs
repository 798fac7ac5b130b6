//! Which proxies are measured, and how is each set up? A row of [`KINDS`] and a file for each: one worker, connections to
//! endpoints kept, session tickets on, nothing logged but where a case says so, and no limit that the load could reach.

mod bare;
mod envoy;
mod evenkeel;
mod haproxy;
mod kind;
mod nginx;

pub use kind::{Kind, Site};
pub use nginx::STREAM_MODULE;

/// Every kind, in the order of the rows.
pub static KINDS: &[Kind] = &[evenkeel::KIND, haproxy::KIND, haproxy::SPLICING, nginx::KIND, envoy::KIND, bare::KIND];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::{Certificate, Files};
    use crate::experiments::protocol_cost::cases::{Back, Front, Setup};
    use std::path::Path;

    const PAIRS: [(Front, Back); 8] = [
        (Front::PLAIN, Back::Http1),
        (Front::Http1(Setup::CloseUpstream), Back::Http1),
        (Front::Http1(Setup::Logged), Back::Http1),
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
            let pairs = PAIRS.iter().chain([&(Front::Tcp, Back::Http1)]);
            let able: Vec<_> = pairs.filter(|(front, back)| (kind.cannot)(*front, *back).is_none()).collect();
            let mut texts: Vec<String> = Vec::new();
            for &&(front, back) in &able {
                let certificate = front.certificate().map(|_| &files);
                let (folder, endpoints) = (Path::new("somewhere"), [20001, 20002]);
                let site = Site { folder, port: 1, endpoints, front, back, certificate, log_port: 4 };
                let text = (kind.config)(&site);
                assert!(text.contains("20001") && text.contains("20002"), "{}: {text}", kind.name);
                assert_eq!(text.contains("some."), certificate.is_some(), "{}: {text}", kind.name);
                if front.setup() == Setup::Logged {
                    let log = if kind.logs_to_socket { "127.0.0.1:4 " } else { "access.log" };
                    assert!(text.contains(log), "{}: {text}", kind.name);
                }
                texts.push(text);
            }
            // A proxy may need no word for gRPC, or for HTTP/2 over TLS.
            let all = texts.len();
            texts.sort_unstable();
            texts.dedup();
            assert!(!texts.is_empty() && texts.len() + 2 >= all, "{}: {} of {all}", kind.name, texts.len());
        }
    }
}
