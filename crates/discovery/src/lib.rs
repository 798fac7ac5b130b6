//! Discovery of plans and endpoints: providers of whole plans, and sources of the endpoints of a pool. Both
//! push changes while evenkeel runs. Read the files in this order:
//!
//! 1. [`providers`]: origins of plans, and the plans that were in use.
//! 2. [`following`]: the sources of a plan, and the endpoints that its pools get from them. Everything runs as tasks of
//!    a single event loop, and no source waits for another.
//! 3. [`kept`] decides, without I/O, which answers count; [`out`] accepts the answers of a source.
//! 4. [`sources`]: a file per kind of source. Their common settings and connections are in [`context`] and [`shared`];
//!    sources that have to poll use [`polling`].
//! 5. Registries: [`blocking`] queries servers that respond when something changes, [`engine`] follows containers,
//!    [`cluster`] the [`slices`] of a Kubernetes cluster, [`entries`] reads lists, [`registry`] and [`backoff`] have
//!    common parts.
//! 6. Registries over gRPC: [`grpc`] has the calls, [`etcd`] follows keys, [`xds`] control planes.
//! 7. DNS: [`ask`] queries servers with messages of [`message`]; [`system`] reads the resolver settings of the machine.
//! 8. [`guard`]: addresses that endpoints must not have.
//! 9. [`metrics`]: counters of the sources.
#![forbid(unsafe_code)]

// Order: metrics, providers, following, sources, ask, context, engine, cluster, etcd, xds, grpc, blocking, registry,
// backoff, entries, guard, message, polling, out, kept, shared, slices, lock, system
mod ask;
mod backoff;
mod blocking;
#[cfg(feature = "kubernetes")]
mod cluster;
mod context;
mod engine;
mod entries;
#[cfg(feature = "etcd")]
mod etcd;
mod following;
#[cfg(feature = "grpc")]
mod grpc;
mod guard;
#[cfg(test)]
mod hostile;
mod kept;
mod lock;
mod message;
mod metrics;
mod out;
mod polling;
pub mod providers;
mod registry;
mod shared;
#[cfg(feature = "kubernetes")]
mod slices;
mod sources;
mod system;
#[cfg(feature = "xds")]
mod xds;

pub use following::{Discovery, Following, Found, Unresolved};
pub use metrics::Numbers;
