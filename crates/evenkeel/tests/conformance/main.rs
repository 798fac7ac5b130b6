//! HTTP/1, HTTP/2, gRPC and TLS of evenkeel, judged by clients and tools of other projects. Real programs on both sides of a
//! real evenkeel. What needs only the programs of `make setup` runs with every test, the rest in `make conformance`.
//!
//! With `EVENKEEL_CONFORMANCE_OF=haproxy` HAProxy takes evenkeel's place: what fails there too is not a fault of evenkeel.

mod acme;
mod acme_patience;
mod api;
mod browser;
mod clients;
mod doors;
mod endpoints;
mod files;
mod grpc;
mod h2spec;
mod h3i;
mod http3;
mod http3_paths;
mod http3_versions;
#[path = "../../../proxy/tests/support/lossy.rs"]
mod lossy;
mod matrix;
mod prometheus;
mod scan;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod websocket;

/// Said by tests that are left out of an ordinary run.
#[macro_export]
macro_rules! judges {
    ($($program:literal),+) => {
        if !evenkeel_peers::installed(&[$($program),+]) {
            return;
        }
    };
}
