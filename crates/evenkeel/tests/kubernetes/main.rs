//! evenkeel beside a real kube-apiserver, whose objects the tests write, and the Helm chart. Run them by `make test-kubernetes`.

#![allow(clippy::disallowed_macros, reason = "it prints figures, and its reader stays")]

mod chart;
mod endpoints;
mod fleet;
mod gateways;
mod manifests;
#[path = "../kernel/namespace.rs"]
mod namespace;
mod network;
mod rolling;
