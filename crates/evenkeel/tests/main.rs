//! Behaviour of the whole program, as a process of its own. A file or folder for each subject.
//!
//! A single binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel --test all SUBJECT::`

mod admin;
mod advise;
mod caching;
mod command_line;
#[path = "../../config/tests/support/committed.rs"]
mod committed;
mod config;
mod dashboard;
mod demo;
mod deploy;
mod descriptors;
mod differential;
mod discovery;
mod dns;
mod explain;
mod full_disk;
mod http3;
mod instances;
#[path = "../../discovery/tests/support/mod.rs"]
mod names;
mod originals;
mod pages;
mod planes;
mod process;
#[path = "../../discovery/tests/registries/fake.rs"]
mod registries;
mod reload;
mod run;
mod sessions;
mod sim;
mod steering;
mod support;
mod tap;
mod tls;
mod traces;
mod upgrade;
mod xds;
