//! Subcommands, each in a file; and [`client`], by which they ask a running evenkeel, and [`place`], where that is.

// Order: advise, algorithms, cache, cleanup, completing, convert, demo, explain, manual, reference, configure, replay, run,
// running, sim, whatif, status, steer, tap, top, client & place, check
pub mod advise;
pub mod algorithms;
pub mod cache;
pub mod check;
pub mod cleanup;
pub mod client;
pub mod completing;
pub mod configure;
pub mod convert;
pub mod demo;
pub mod explain;
pub mod manual;
pub mod place;
pub mod reference;
pub mod replay;
pub mod run;
pub mod running;
pub mod sim;
pub mod status;
pub mod steer;
pub mod tap;
pub mod top;
pub mod whatif;
