//! evenkeel's proxying planes: HTTP, TCP and UDP. The modules are layered: each uses only those below it.
//!
//! 1. [`plan`]: the [`Proxy`] prepares a plan, the first or the next, and applies it to all workers at once.
//! 2. [`serve`]: client connections with HTTP; [`tcp`]: sessions relayed as bytes; [`udp`]: flows of datagrams.
//! 3. [`forward`]: forwarding of a request to an endpoint, and of its response; [`pipeline`]: the decisions before that,
//!    and the last step of every response; [`record`]: progress and result of a request.
//! 4. [`listener`]: listeners with their rules, routes, TLS and clients; [`filters`]: steps that requests and responses
//!    pass.
//! 5. [`side`]: requests that filters send on their own; [`load`]: load reports of endpoints and of this process.
//! 6. [`upstream`]: a pool on one worker: picks of endpoints, and connections to them.
//! 7. [`http2`]: HTTP/2 connections, on either side; [`body`]: the interface between both sides of a request.
//! 8. [`core`]: state of a worker that does not depend on the plan.
//! 9. [`observe`]: counters, metrics, the access log.
//! 10. [`matching`]: criteria of routes and of conditions; [`peer`]: identity and limits of clients; [`cache`]: stored responses, shared by all workers.
//! 11. [`resource`]: state of filters that all workers share; [`threads`]: threads for work that would hold a
//!     worker for too long.

mod body;
mod cache;
mod core;
mod encoder_memory;
mod filters;
mod forward;
mod http2;
mod listener;
mod load;
mod matching;
mod observe;
mod peer;
mod pipeline;
mod plan;
mod record;
mod resource;
mod serve;
mod side;
mod tcp;
mod threads;
mod udp;
mod upstream;

pub use crate::core::Command;
pub use body::fault::Unfit;
pub use body::filter::{BodyFilter, Direction, Ended, Pace};
pub use body::response::{Content, Response};
pub use cache::handover::{self, Giving, Taken};
pub use filters::exchange::Exchange;
pub use filters::filter::{DryRun, Filter, Own, Predict, Pure, RequestHead, ResponseHead, Resume, Verdict, Waiting};
pub use filters::step::Step;
pub use filters::{row, table};
pub use listener::tls::ListenerTls;
pub use observe::numbers::{Members, Numbers};
pub use observe::shown_cache::{CacheRefused, NotEverywhere, Purging};
pub use observe::{end, finished, metrics, stats, summary, taps, timing, traces, tries};
pub use plan::alone::Server;
pub use plan::look::{self, Looker};
pub use plan::secured::Secured;
pub use plan::server::Proxy;
pub use plan::tap::Tap;
pub use resource::{Maker, Resource, Resources};
