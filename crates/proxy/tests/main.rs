//! Behaviour of the proxy over real sockets: endpoints that follow a script, and clients that send bytes. A file or
//! folder for each subject.
//!
//! A single binary, so that the crate and the shared support are linked once. To run one subject:
//! `cargo test -p evenkeel-proxy --test all SUBJECT::`

mod announced;
mod cached;
#[path = "../../config/tests/support/committed.rs"]
mod committed;
mod dead_tier;
mod ejection;
mod ends_page;
mod explanations;
mod explored;
mod filters;
mod health;
mod http;
mod http2;
mod http2_endpoints;
mod http3;
mod journal;
mod limits;
mod log_formats;
mod queue;
mod reload;
mod request_id;
mod shared_load;
mod spread;
mod sticky;
mod strictness;
mod support;
mod tcp;
mod tls;
mod tries;
mod trusted;
mod udp;
mod unix;
