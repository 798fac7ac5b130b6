//! How does a request get to an endpoint? A [`pool`] as one worker sees it, which follows the [`rules`] of the plan: [`pick`] has a place at an endpoint, or waits for
//! one; [`session`] knows where it was before ([`sticky`] signs that); [`connections`] has a connection there, one
//! that is [`idle`] or a new one, over [`tls`] where the pool says so, of which a [`h1_endpoint`] makes parts; where requests share connections, it has a
//! [`stream`] of a [`link`], which is one of the [`sessions`] and keeps to the [`allowance`] of its endpoint. [`retries`]
//! decides what may be tried again. Pools that hold connections are [`marked`], to be looked after.

mod allowance;
pub mod connections;
pub mod h1_endpoint;
pub mod idle;
pub mod link;
pub mod marked;
pub mod pick;
pub mod pool;
pub mod probe_rate;
pub mod retries;
pub mod rules;
pub mod session;
pub mod sessions;
pub mod sticky;
pub mod stream;
pub mod tls;
pub mod waiting;
