//! Tests of endpoint sources against name servers and registries.
//!
//! All are in one binary, so that the crate and shared helpers are linked once. To run one subject: `cargo
//! test -p evenkeel-discovery --test all SUBJECT::`

#[cfg(feature = "etcd")]
mod etcd;
mod names;
mod nsd;
mod podman;
mod registries;
mod support;
#[cfg(feature = "xds")]
mod xds;
