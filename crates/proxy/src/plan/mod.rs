//! The proxy's side of a plan. [`server`] is the plane: it prepares everything that can fail and sends each [`worker`]
//! its [`parts`], which the worker [`install`]s; [`alone`] runs it without other planes. [`accept`] holds the listening
//! sockets. [`look`] queries workers, also for a [`dry_run`] of a described request, and a [`tap`] follows the requests
//! of all of them. [`shown_routes`] sums the traffic of routes for operators.

pub mod accept;
pub mod alone;
mod dry_run;
pub mod install;
pub mod installed;
pub mod look;
pub mod parts;
pub mod secured;
pub mod server;
mod shown_maps;
mod shown_routes;
pub mod tap;
pub mod worker;
