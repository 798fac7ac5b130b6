//! The read model: the parts of a running evenkeel that operators see. The runtime and the planes fill these types in;
//! the API serves them as JSON, and the dashboard, `evenkeel top` and the commands read them. Their fields and docs are
//! the documentation of the API.
//!
//! 1. [`status`]: the process with its listeners, pools and endpoints; [`orders`] of operators; [`events`].
//! 2. [`picks`]: why requests went where they went, and where a [`described`] request would go; [`shadows`]:
//!    predictions of other algorithms would have done; [`tap`]: requests as they end; [`served`]: routes, certificates,
//!    zones; [`cache`]: stored responses.
//! 3. [`config`]: configurations, and their outcomes; [`advice`] on them.
//! 4. [`history`]: the last quarter of an hour, as a [`timeline`] keeps it from the counts of planes; [`latencies`] and
//!    [`durations`].
//! 5. [`words`] for states, times and names.
#![forbid(unsafe_code)]

// Order: advice, described, events, picks, shadows, tap, timeline, durations, history, latencies, words, status, served,
// cache, config, orders
pub mod advice;
pub mod cache;
pub mod config;
pub mod described;
pub mod durations;
pub mod events;
pub mod history;
pub mod latencies;
pub mod orders;
pub mod picks;
pub mod served;
pub mod shadows;
pub mod status;
pub mod tap;
pub mod timeline;
pub mod words;

pub use described::Described;
pub use events::Event;
pub use orders::{Drain, Health, Order, Patch, SplitPatch};
pub use status::{
    Check, CompressionMemory, Endpoint, Http3, LatencyOfLate, Listener, LoadReport, Pool, Status, Weights,
};
