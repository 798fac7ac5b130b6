//! Do clients and judges that others wrote find evenkeel's HTTP/1, HTTP/2, gRPC and TLS right? Real programs on both sides of a
//! real evenkeel. What needs only the programs of `make setup` runs with every test, the rest in `make conformance`.
//!
//! With `EVENKEEL_CONFORMANCE_OF=haproxy` HAProxy stands in evenkeel's place: what fails there too is no fault of evenkeel.

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
