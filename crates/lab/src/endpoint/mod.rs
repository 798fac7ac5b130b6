//! What do the endpoints of an experiment do? They are processes of this program that do a little work for each
//! request, write down what reached them, and fail in the way they are told.

pub mod http2;
mod mode;
mod process;
mod request;
mod serve;
pub mod websocket;

pub use mode::Mode;
pub use process::{Endpoint, arguments, run};
pub use request::{Arrival, Ask, Id};
