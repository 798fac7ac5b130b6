//! A listener on a worker: its [`rules`], taken from the plan and [`compiled`] from it, its routes ([`route`], by
//! [`paths`], [`candidates`] and [`readings`]; [`tls_route`]), its [`client`]s, their [admission](admit), TLS
//! ([`secure`], [`tls`]), its own [`error_pages`], and its answers to load probes of balancers in front
//! ([`probe_answers`]).

pub mod admit;
mod by_host;
mod candidates;
pub mod client;
pub mod compiled;
pub mod handshakes;
mod paths;
pub mod per_route;
pub mod probe_answers;
mod readings;
pub mod route;
mod route_id;
pub mod route_why;
pub mod rules;
pub mod secure;
pub mod tls;
pub mod tls_route;
