//! Replay of recorded requests with other algorithms: the requests ([`trace`]), models of the endpoints that served them
//! ([`fit`]) and [`clients`], the [`memory`] of work that models leave unexplained, and runs in virtual time ([`play`]).

// Order: stateless, play, bounds, tally, memory, ranks, fit, clients, drawn, trace
pub mod bounds;
pub mod clients;
pub mod drawn;
pub mod fit;
pub mod memory;
pub mod play;
pub mod ranks;
pub mod stateless;
mod tally;
pub mod trace;

pub use bounds::Bound;
pub use clients::Clients;
pub use drawn::Drawn;
pub use fit::Way;
pub use play::{Course, Hedging, Joining, System, play};
pub use tally::{Figure, Played};
pub use trace::{Arrival, Seen, Trace, quantile};
