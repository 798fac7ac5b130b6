//! The endpoint's side of requests. A [`pool`], as a worker sees it, follows the [`rules`] of the plan. [`pick`] finds
//! an endpoint or waits for one; [`session`] remembers the endpoint of a client, with cookies that [`sticky`] signs.
//! [`connections`] opens connections or takes [`idle`] connections, over [`tls`] if the pool uses it, and
//! [`h1_endpoint`] speaks HTTP/1 there. HTTP/2 requests get a [`stream`] on a [`link`] of the endpoint's [`sessions`],
//! within the [`allowance`] that the endpoint has shown. [`retries`] decides which requests are tried again, and
//! [`hosts`] has the configured hosts of endpoints. Pools with connections are [`marked`] for the worker's sweep.

mod allowance;
pub mod connections;
pub mod h1_endpoint;
pub mod hosts;
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
pub mod target;
pub mod tls;
pub mod waiting;
