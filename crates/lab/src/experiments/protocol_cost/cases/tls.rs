//! The cases of `tls-cost`: handshakes, and HTTP/1.1 over TLS.

use super::{Bound, Case, Count, HAPROXY_AND_NGINX, Handshakes, THE_BEST, Work};
use crate::balancers::{Back, Front};
use crate::certificates::Certificate;
use crate::load::handshakes::Version;

const fn full(version: Version) -> Work {
    Work::Handshakes(Handshakes { clients: 32, version, resumed: false })
}

const FULL: Case = Case {
    name: "full-p256",
    about: "full handshake of TLS 1.3 with a P-256 certificate, 1 kB, close; 32 clients",
    front: Front::Https,
    certificate: Certificate::P256,
    back: Back::Http1,
    closes: false,
    logs: false,
    work: full(Version::Tls13),
    count: Count::Cpu,
    path: "/1k",
    bounds: &[Bound::new(
        "Full handshakes, P-256: evenkeel's CPU time is at most 0.65 of the less of HAProxy's and NGINX's",
        HAPROXY_AND_NGINX,
        0.65,
    )],
};

/// In the order in which they run.
pub static CASES: &[Case] = &[
    FULL,
    Case {
        name: "full-rsa",
        about: "as full-p256, with an RSA certificate of 2,048 bits",
        certificate: Certificate::Rsa2048,
        bounds: &[Bound::new(
            "Full handshakes, RSA: evenkeel's CPU time is at most 0.65 of the less of HAProxy's and NGINX's",
            HAPROXY_AND_NGINX,
            0.65,
        )],
        ..FULL
    },
    Case {
        name: "full-p256-tls12",
        about: "as full-p256, with TLS 1.2",
        work: full(Version::Tls12),
        bounds: &[Bound::new(
            "Full handshakes of TLS 1.2: evenkeel's CPU time is at most 0.65 of the less of HAProxy's and NGINX's",
            HAPROXY_AND_NGINX,
            0.65,
        )],
        ..FULL
    },
    Case {
        name: "resumed",
        about: "as full-p256, but each session resumes the one before by its ticket",
        work: Work::Handshakes(Handshakes { clients: 32, version: Version::Tls13, resumed: true }),
        bounds: &[Bound::new(
            "Resumed sessions: evenkeel's CPU time is at most 0.8 of the less of HAProxy's and NGINX's",
            HAPROXY_AND_NGINX,
            0.8,
        )],
        ..FULL
    },
    Case {
        name: "https-1k",
        about: "1 kB, 64 clients that keep their connection (wrk), TLS 1.3",
        work: Work::Kept(64),
        bounds: &[Bound::new(
            "HTTPS, 1 kB: evenkeel's CPU time per request is at most 0.85 of the less of HAProxy's and NGINX's",
            HAPROXY_AND_NGINX,
            0.85,
        )],
        ..FULL
    },
    Case {
        name: "https-1m",
        about: "1 MB, 16 clients that keep their connection (wrk), TLS 1.3",
        work: Work::Kept(16),
        path: "/1m",
        bounds: &[Bound::new(
            "HTTPS, 1 MB: evenkeel's CPU time per request is at most that of the best of the others",
            THE_BEST,
            1.0,
        )],
        ..FULL
    },
    Case {
        name: "idle-tls",
        about: "2,000 connections over TLS 1.3 that asked for 1 kB once; resident memory beside that before the first",
        work: Work::Idle(2000),
        bounds: &[Bound::new(
            "An idle connection over TLS takes at most the memory that the less of HAProxy's and NGINX's takes",
            HAPROXY_AND_NGINX,
            1.0,
        )],
        ..FULL
    },
];
