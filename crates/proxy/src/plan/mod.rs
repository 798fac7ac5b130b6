//! How does a plan become a running proxy, and how does the next plan take its place? [`server`] prepares what can fail and
//! gives each [`worker`] its [`parts`], which it [`install`]s; [`accept`] takes the clients in. [`look`] asks workers what they know,
//! and a [`tap`] watches the requests of all.

pub mod accept;
pub mod install;
pub mod installed;
pub mod look;
pub mod parts;
pub mod secured;
pub mod server;
pub mod start_error;
pub mod tap;
pub mod worker;
