//! Tests of endpoint sources against name servers and registries.
//!
//! All are in one binary, so that the crate and shared helpers are linked once. To run one subject: `cargo
//! test -p evenkeel-discovery --test all SUBJECT::`

#[cfg(any(feature = "etcd", feature = "xds"))]
mod certificates;
mod contract;
#[cfg(feature = "etcd")]
mod etcd;
mod names;
mod nsd;
mod podman;
mod registries;
#[cfg(feature = "etcd")]
mod relay;
mod support;
#[cfg(feature = "xds")]
mod xds;
