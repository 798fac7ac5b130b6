//! A plan in the workers of the proxy. [`server`] is the plane: it prepares what can fail and gives each [`worker`] its [`parts`],
//! which it [`install`]s; [`alone`] runs it without other planes. [`accept`] takes the clients in. [`look`] asks workers what they
//! know, and a [`tap`] watches the requests of all.

pub mod accept;
pub mod alone;
pub mod install;
pub mod installed;
pub mod look;
pub mod parts;
pub mod secured;
pub mod server;
pub mod tap;
pub mod worker;
