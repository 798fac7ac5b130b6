//! How do bytes get there and back? evenkeel's proxying planes: HTTP, TCP, UDP. The folders have an order: each uses only
//! those below it.
//!
//! 1. [`plan`]: a plan, the first or the next one, is prepared by the [`Proxy`] and applied to every worker in one go.
//! 2. [`http`]: request after request; [`tcp`]: sessions whose bytes are not read; [`udp`]: flows of datagrams.
//! 3. [`listener`]: by which rules clients are served that come in here, and who they are.
//! 4. [`load`]: how busy endpoints are, as they say, and what this process says of itself.
//! 5. [`upstream`]: one pool as one worker sees it: a place at an endpoint, and a connection there.
//! 6. [`http2`]: how a connection of HTTP/2 runs, on either side.
//! 7. [`core`]: what serving needs of its thread.
//! 8. [`observe`]: counters, metrics, the access log.
//! 9. [`peer`]: who the client is, and what it may use up.

mod core;
mod http;
mod http2;
mod listener;
mod load;
mod observe;
mod peer;
mod plan;
mod tcp;
mod udp;
mod upstream;

pub use crate::core::Command;
pub use listener::tls::ListenerTls;
pub use observe::numbers::{Members, Moment, Numbers};
pub use observe::{end, metrics, stats, taps, traces, watched};
pub use plan::alone::Server;
pub use plan::look::{self, Looker};
pub use plan::secured::Secured;
pub use plan::server::Proxy;
pub use plan::tap::Tap;
