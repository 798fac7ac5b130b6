//! Endpoints of experiments: processes of this program that do a little work for each request, record the requests that
//! reached them, and fail on command.

// Order: process, serve, http2, mode, request, websocket
pub mod http2;
mod mode;
mod process;
mod request;
mod serve;
pub mod websocket;

pub use mode::Mode;
pub use process::{Endpoint, arguments, run};
pub use request::{Arrival, Ask, Id};
