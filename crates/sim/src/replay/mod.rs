//! Replay of recorded requests with other algorithms: the requests ([`trace`]), models of the endpoints that served them
//! ([`fit`]) and [`clients`], the [`memory`] of work that models leave unexplained, and runs in virtual time ([`play`]).

// Order: play, memory, ranks, fit, clients, trace
pub mod clients;
pub mod fit;
pub mod memory;
pub mod play;
pub mod ranks;
pub mod trace;

pub use clients::Clients;
pub use fit::Way;
pub use play::{Course, Figure, Played, System, play};
pub use trace::{Arrival, Seen, Trace, quantile};
