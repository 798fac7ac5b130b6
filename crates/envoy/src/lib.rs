//! Configurations of Envoy as pieces of a plan: one translation for resources of a control plane and for files.
//! Modules, in the order in which they handle a resource:
//!
//! 1. [`node`]: a tree of the fields that [`schema`] names. [`wire`] reads it from protobuf; readers of files build it
//!    themselves. Unread fields of a resource are refused; unread fields of a file are reported.
//! 2. [`listener`], [`route`] and [`cluster`] each translate a kind of resource. Parts of resources: [`matching`],
//!    [`values`], [`action`], `headers`, `formats`, [`assignment`], `spelling` and `tls`. `order` sorts routes, `names` forms
//!    their names.
//! 3. [`plan`]: resources in use, as listeners, routes and pools.
#![forbid(unsafe_code)]

// Order: plan, listener, route, action, cluster, assignment, tls, headers, formats, spelling, order, names,
// matching, pairs, values, wire, node, testing, schema
pub mod action;
pub mod assignment;
pub mod cluster;
mod formats;
mod headers;
pub mod listener;
pub mod matching;
mod names;
pub mod node;
mod order;
pub mod pairs;
pub mod plan;
pub mod route;
pub mod schema;
mod spelling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
pub mod values;
pub mod wire;
