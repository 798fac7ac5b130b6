//! A listener as one worker has it: its [`rules`], which are those of the plan and what is [`compiled`] from them, its routes
//! ([`route`], [`tls_route`]), its [`client`]s, how they are [admitted](admit) and [`secure`]d by [`tls`], its own [`error_pages`],
//! and its answers to load probes of balancers in front ([`probe_answers`]).

pub mod admit;
mod by_host;
pub mod client;
pub mod compiled;
pub mod error_pages;
pub mod handshakes;
pub mod per_route;
pub mod probe_answers;
pub mod route;
pub mod route_why;
pub mod rules;
pub mod secure;
pub mod tls;
pub mod tls_route;
