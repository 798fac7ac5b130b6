//! Cases of the cost experiments: loads and claims, in a table for each experiment. A new case is a row.

// Order: h2, h3, http, tcp, tls, case
mod case;
mod h2;
mod h3;
mod http;
mod tcp;
mod tls;

pub use case::{Case, Count, RULED, Work};
pub use h2::{CASES as H2, METHOD};
pub use h3::CASES as H3;
pub use http::CASES as HTTP;
pub use tcp::CASES as TCP;
pub use tls::CASES as TLS;

#[cfg(test)]
mod tests {
    use super::case::Work;
    use super::*;
    use crate::balancers::Back;
    use crate::origin::FILES;

    #[test]
    fn every_case_has_its_own_name_and_asks_for_what_there_is() {
        for table in [HTTP, TCP, H2, H3, TLS] {
            for case in table {
                assert_eq!(table.iter().filter(|c| c.name == case.name).count(), 1, "{}", case.name);
                let known = match case.back {
                    Back::Grpc => case.path == METHOD,
                    Back::Http1 | Back::H2c => FILES.iter().any(|(path, _)| *path == case.path),
                };
                assert!(known, "{}", case.name);
                assert!(matches!(case.work, Work::Streams(_)) || case.back == Back::Http1, "{}", case.name);
            }
        }
    }
}
