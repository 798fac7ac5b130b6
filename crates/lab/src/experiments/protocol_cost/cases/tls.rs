//! Cases of `tls-cost`: handshakes, and HTTP/1.1 over TLS.

use super::case::{Case, USUAL, Work, best, both};
use crate::balancers::Front;
use crate::certificates::Certificate;
use crate::client::tls::Version;
use crate::load::handshakes::Handshakes;

const fn full(version: Version) -> Work {
    Work::Handshakes(Handshakes { clients: 32, version, resumed: false })
}

const FULL: Case = Case {
    name: "full-p256",
    about: "full handshake of TLS 1.3 with a P-256 certificate, 1 kB, close; 32 clients",
    front: Front::Https,
    work: full(Version::Tls13),
    bounds: &[both(
        0.65,
        "Full handshakes, P-256: evenkeel's CPU time is at most 0.65 of the less of HAProxy's and NGINX's",
    )],
    ..USUAL
};

/// Cases in the order in which they run.
pub static CASES: &[Case] = &[
    FULL,
    Case {
        name: "full-rsa",
        about: "as full-p256, with an RSA certificate of 2,048 bits",
        certificate: Certificate::Rsa2048,
        bounds: &[both(
            0.65,
            "Full handshakes, RSA: evenkeel's CPU time is at most 0.65 of the less of HAProxy's and NGINX's",
        )],
        ..FULL
    },
    Case {
        name: "full-p256-tls12",
        about: "as full-p256, with TLS 1.2",
        work: full(Version::Tls12),
        bounds: &[both(
            0.65,
            "Full handshakes of TLS 1.2: evenkeel's CPU time is at most 0.65 of the less of HAProxy's and NGINX's",
        )],
        ..FULL
    },
    Case {
        name: "resumed",
        about: "as full-p256, but each session resumes the one before by its ticket",
        work: Work::Handshakes(Handshakes { clients: 32, version: Version::Tls13, resumed: true }),
        bounds: &[both(
            0.8,
            "Resumed sessions: evenkeel's CPU time is at most 0.8 of the less of HAProxy's and NGINX's",
        )],
        ..FULL
    },
    Case {
        name: "https-1k",
        about: "1 kB, 64 clients that keep their connection (wrk), TLS 1.3",
        work: Work::Kept(64),
        bounds: &[both(
            0.85,
            "HTTPS, 1 kB: evenkeel's CPU time per request is at most 0.85 of the less of HAProxy's and NGINX's",
        )],
        ..FULL
    },
    Case {
        name: "https-1m",
        about: "1 MB, 16 clients that keep their connection (wrk), TLS 1.3",
        work: Work::Kept(16),
        path: "/1m",
        bounds: &[best(1.0, "HTTPS, 1 MB: evenkeel's CPU time per request is at most that of the best of the others")],
        ..FULL
    },
    Case {
        name: "idle-tls",
        about: "2,000 connections over TLS 1.3 that asked for 1 kB once; resident memory beside that before the first",
        work: Work::Idle(2000),
        bounds: &[both(
            1.0,
            "An idle connection over TLS takes at most the memory that the less of HAProxy's and NGINX's takes",
        )],
        ..FULL
    },
];
