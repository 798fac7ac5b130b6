//! Configurations of Envoy as pieces of a plan: one translation for resources of a control plane and for files. Modules in
//! the order of the way of a resource:
//!
//! 1. [`node`]: a tree of the fields that [`schema`] names. [`wire`] reads one from protobuf; readers of files make their own.
//!    Unread fields of a resource are refused; unread fields of a file are reported.
//! 2. [`listener`], [`route`] and [`cluster`] translate, each resource for itself: [`matching`], `action`, `headers`, `retry`,
//!    `checks`, [`assignment`], `spelling` and `tls` their parts, `order` the order of routes, `names` their names.
//! 3. [`plan`]: those in use, as listeners, routes and pools.
#![forbid(unsafe_code)]

// Order: plan, listener, route, action, cluster, checks, assignment, tls, retry, headers, spelling, order, names,
// matching, wire, node, testing, schema
mod action;
pub mod assignment;
mod checks;
pub mod cluster;
mod headers;
pub mod listener;
pub mod matching;
mod names;
pub mod node;
mod order;
pub mod plan;
mod retry;
pub mod route;
pub mod schema;
mod spelling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
pub mod wire;
