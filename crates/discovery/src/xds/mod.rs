//! xDS: resources of a control plane, over a single stream for the provider and all pools (ADS).
//!
//! 1. [`ads`]: the streams, one after the other.
//! 2. [`topics`]: the clusters that pools have subscribed to, and the [`consumer`] of other resources.
//! 3. [`session`]: requests and responses of a stream, without I/O. [`world`] and [`delta`] are the two forms of the
//!    protocol: whole lists, and differences.
//! 4. [`assignment`]: turns the assignment of a cluster into endpoints.
//! 5. [`messages`]: the part of Envoy's API that is used here.

// Order: ads, world & delta, session, topics, assignment, consumer, messages
pub mod ads;
pub mod assignment;
pub mod consumer;
mod delta;
#[cfg(test)]
mod hostile;
pub mod messages;
mod session;
mod topics;
mod world;
