//! evenkeel's proxying planes: HTTP, TCP, UDP. The folders have an order: each uses only
//! those below it.
//!
//! 1. [`plan`]: a plan, the first or the next one, is prepared by the [`Proxy`] and applied to every worker in one go.
//! 2. [`serve`]: the client's side of a connection, request after request; [`tcp`]: sessions whose bytes are not read; [`udp`]: flows
//!    of datagrams.
//! 3. [`forward`]: a request's way to an endpoint and back; [`pipeline`]: what is decided before, and the door of responses; [`record`]: how it went.
//! 4. [`listener`]: by which rules clients are served that come in here, and who they are; [`filters`]: what requests and responses
//!    pass.
//! 5. [`load`]: how busy endpoints are, as they say, and what this process says of itself.
//! 6. [`upstream`]: one pool as one worker sees it: a place at an endpoint, and a connection there.
//! 7. [`http2`]: how a connection of HTTP/2 runs, on either side; [`body`]: what passes between both sides of a request.
//! 8. [`core`]: what serving needs of its thread.
//! 9. [`observe`]: counters, metrics, the access log.
//! 10. [`peer`]: who the client is, and what it may use up.

mod body;
mod core;
mod filters;
mod forward;
mod http2;
mod listener;
mod load;
mod observe;
mod peer;
mod pipeline;
mod plan;
mod record;
mod serve;
mod tcp;
mod udp;
mod upstream;

pub use crate::core::Command;
pub use body::fault::Unfit;
pub use body::filter::{BodyFilter, Ended};
pub use body::response::{Content, Response};
pub use filters::exchange::Exchange;
pub use filters::filter::{Filter, RequestHead, ResponseHead, Resume, Verdict, Waiting};
pub use filters::{row, table};
pub use listener::tls::ListenerTls;
pub use observe::numbers::{Members, Numbers};
pub use observe::{end, finished, metrics, stats, summary, taps, timing, traces, tries};
pub use plan::alone::Server;
pub use plan::look::{self, Looker};
pub use plan::secured::Secured;
pub use plan::server::Proxy;
pub use plan::tap::Tap;
