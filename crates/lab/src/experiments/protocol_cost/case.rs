//! Under which loads are HTTP/2, gRPC and TLS measured, and what is aimed at? The tables of cases: a new one is a row.

use crate::load::h2load::Streams;
use crate::load::handshakes::{Handshakes, Version};

/// One load, and what is measured under it.
pub struct Case {
    /// Its name in `--only`.
    pub name: &'static str,
    /// What happens in it.
    pub about: &'static str,
    /// What the clients speak.
    pub front: Front,
    /// What the endpoints speak.
    pub back: Back,
    /// What the clients do.
    pub work: Work,
    /// What they ask for.
    pub path: &'static str,
    /// What evenkeel's figure is to be, beside others'.
    pub goals: &'static [Goal],
}

/// What clients speak to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// HTTP/2 from the first byte, without TLS.
    H2c,
    /// HTTP/2 over TLS.
    H2(Certificate),
    /// HTTP/1.1 over TLS.
    Https(Certificate),
}

impl Front {
    /// The certificate, if there is TLS.
    pub fn certificate(self) -> Option<Certificate> {
        match self {
            Front::H2c => None,
            Front::H2(certificate) | Front::Https(certificate) => Some(certificate),
        }
    }
}

/// A key and its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// ECDSA with P-256.
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

/// What the proxy speaks to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// HTTP/1.1 on kept connections.
    Http1,
    /// HTTP/2 without TLS.
    H2c,
    /// The same, with calls of gRPC, whose status comes in the trailers.
    Grpc,
}

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// So many streams at once on each connection (h2load).
    Streams(Streams),
    /// One request after the other on each of so many connections (wrk).
    Kept(u32),
    /// A connection for each request (the lab's own clients).
    Handshakes(Handshakes),
    /// Nothing, on so many connections that asked once.
    Idle(u32),
}

impl Work {
    /// What a figure counts.
    pub fn unit(self) -> &'static str {
        if let Work::Idle(_) = self { "KiB/connection" } else { "CPU us/request" }
    }
}

/// That evenkeel's figure is at most a share of the smallest of the others' figures.
pub struct Goal {
    /// The others.
    pub of: &'static [&'static str],
    /// The share.
    pub at_most: f64,
}

const THE_BETTER: &[&str] = &["haproxy", "nginx", "envoy"];
const HAPROXY_AND_NGINX: &[&str] = &["haproxy", "nginx"];

const MANY_STREAMS: Work = Work::Streams(Streams { clients: 16, streams: 32 });

const fn full(version: Version) -> Work {
    Work::Handshakes(Handshakes { clients: 32, version, resumed: false })
}

/// The path of the gRPC method.
pub const METHOD: &str = "/lab.Echo/Say";

/// The cases of HTTP/2, in the order in which they run.
pub static H2: &[Case] = &[
    Case {
        name: "h2c-16x32",
        about: "1 kB, 16 connections with 32 streams each (h2load), HTTP/2 without TLS",
        front: Front::H2c,
        back: Back::Http1,
        work: MANY_STREAMS,
        path: "/1k",
        goals: &[Goal { of: &["haproxy"], at_most: 0.85 }],
    },
    Case {
        name: "h2c-64x1",
        about: "1 kB, 64 connections with one stream each (h2load), HTTP/2 without TLS",
        front: Front::H2c,
        back: Back::Http1,
        work: Work::Streams(Streams { clients: 64, streams: 1 }),
        path: "/1k",
        goals: &[Goal { of: &["haproxy"], at_most: 0.85 }],
    },
    Case {
        name: "h2c-64k",
        about: "64 kB, 8 connections with 8 streams each (h2load), HTTP/2 without TLS",
        front: Front::H2c,
        back: Back::Http1,
        work: Work::Streams(Streams { clients: 8, streams: 8 }),
        path: "/64k",
        goals: &[Goal { of: THE_BETTER, at_most: 0.8 }],
    },
    Case {
        name: "h2-tls-16x32",
        about: "as h2c-16x32, over TLS 1.3",
        front: Front::H2(Certificate::P256),
        back: Back::Http1,
        work: MANY_STREAMS,
        path: "/1k",
        goals: &[],
    },
    Case {
        name: "grpc-unary",
        about: "gRPC, messages of 100 bytes both ways, 16 connections with 32 calls each (h2load), without TLS",
        front: Front::H2c,
        back: Back::Grpc,
        work: MANY_STREAMS,
        path: METHOD,
        goals: &[Goal { of: &["envoy"], at_most: 0.35 }],
    },
    Case {
        name: "h2-to-h2",
        about: "as h2c-16x32, with endpoints that speak HTTP/2 too",
        front: Front::H2c,
        back: Back::H2c,
        work: MANY_STREAMS,
        path: "/1k",
        goals: &[],
    },
    Case {
        name: "idle-h2",
        about: "2,000 connections of HTTP/2 without TLS that asked for 1 kB once; resident memory beside that before the first",
        front: Front::H2c,
        back: Back::Http1,
        work: Work::Idle(2000),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 1.0 }],
    },
];

/// The cases of TLS, in the order in which they run.
pub static TLS: &[Case] = &[
    Case {
        name: "full-p256",
        about: "full handshake of TLS 1.3 with a P-256 certificate, 1 kB, close; 32 clients",
        front: Front::Https(Certificate::P256),
        back: Back::Http1,
        work: full(Version::Tls13),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 0.65 }],
    },
    Case {
        name: "full-rsa",
        about: "as full-p256, with an RSA certificate of 2,048 bits",
        front: Front::Https(Certificate::Rsa2048),
        back: Back::Http1,
        work: full(Version::Tls13),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 0.65 }],
    },
    Case {
        name: "full-p256-tls12",
        about: "as full-p256, with TLS 1.2",
        front: Front::Https(Certificate::P256),
        back: Back::Http1,
        work: full(Version::Tls12),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 0.65 }],
    },
    Case {
        name: "resumed",
        about: "as full-p256, but each session resumes the one before by its ticket",
        front: Front::Https(Certificate::P256),
        back: Back::Http1,
        work: Work::Handshakes(Handshakes { clients: 32, version: Version::Tls13, resumed: true }),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 0.8 }],
    },
    Case {
        name: "https-1k",
        about: "1 kB, 64 clients that keep their connection (wrk), TLS 1.3",
        front: Front::Https(Certificate::P256),
        back: Back::Http1,
        work: Work::Kept(64),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 0.85 }],
    },
    Case {
        name: "https-1m",
        about: "1 MB, 16 clients that keep their connection (wrk), TLS 1.3",
        front: Front::Https(Certificate::P256),
        back: Back::Http1,
        work: Work::Kept(16),
        path: "/1m",
        goals: &[Goal { of: THE_BETTER, at_most: 1.0 }],
    },
    Case {
        name: "idle-tls",
        about: "2,000 connections over TLS 1.3 that asked for 1 kB once; resident memory beside that before the first",
        front: Front::Https(Certificate::P256),
        back: Back::Http1,
        work: Work::Idle(2000),
        path: "/1k",
        goals: &[Goal { of: HAPROXY_AND_NGINX, at_most: 1.0 }],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::FILES;

    #[test]
    fn every_case_has_its_own_name_and_asks_for_what_there_is() {
        for case in H2.iter().chain(TLS) {
            assert_eq!(H2.iter().chain(TLS).filter(|c| c.name == case.name).count(), 1, "{}", case.name);
            let known = match case.back {
                Back::Grpc => case.path == METHOD,
                Back::Http1 | Back::H2c => FILES.iter().any(|(path, _)| *path == case.path),
            };
            assert!(known, "{}", case.name);
            assert!(matches!(case.work, Work::Streams(_)) || case.back == Back::Http1, "{}", case.name);
        }
    }
}
