//! xDS: endpoints that a control plane assigns to clusters, over one stream for all pools (ADS, state of the world).
//!
//! 1. [`ads`]: the stream, and the clusters that pools have subscribed to.
//! 2. [`exchange`]: which version is acknowledged or refused, without I/O.
//! 3. [`assignment`]: what the endpoints of a cluster mean here.
//! 4. [`messages`]: the part of Envoy's API that is used.

pub mod ads;
mod assignment;
mod exchange;
mod messages;
