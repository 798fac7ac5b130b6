//! How do bytes get there and back? evenkeel's data plane. Read the files in this order:
//!
//! 1. [`server`] starts the [`worker`]s and owns the [`pools`]; sockets may come with the process ([`inherit`]). A plan, the
//!    first or the next one ([`generation`]), goes to each worker as [`parts`], of which it [`install`]s what its thread
//!    alone uses: [`rules`], and sockets to [`accept`] at, sometimes for another worker ([`share`]). What all count
//!    together is a [`total`].
//! 2. [`connection`] serves a [`client`]: request after request, each in an [`exchange`].
//! 3. An exchange reads the head with [`http1`] (sans-io), finds its pool by [`route`], an endpoint by [`pick`], a
//!    connection by [`upstream`] or [`dial`], and relays both ways in [`talk`]; [`fault`] says what went wrong and whose fault
//!    it was, [`record`] what is counted ([`stats`]) and logged ([`access_log`]); a pool may keep a [`journal`].
//!    Where requests are not read, the whole connection is one session ([`tcp`]); datagrams are relayed by flows ([`udp`]).
//! 4. How busy endpoints are: [`orca`] reads what they say, [`reports`] passes it on, [`probe`] asks them; and what a
//!    listener says of itself, [`sidecar`].
//! 5. Who a client is and what it may use up: [`edge`], [`proxy_protocol`], [`origin`], [`per_address`], [`pace`].
//! 6. Underneath: [`event_loop`], [`stream`] (sockets that meet it only when they would block), [`splice`],
//!    [`buffer`], [`outgoing`],
//!    [`deadline`], [`clock`].

mod accept;
mod access_log;
mod address_text;
mod attempt;
mod attempts;
mod boxed;
mod buffer;
mod check;
mod client;
mod clock;
mod connection;
pub mod control;
mod deadline;
mod dial;
mod edge;
pub mod end;
mod event_loop;
mod exchange;
mod fault;
pub mod generation;
mod hash_key;
mod hedge;
pub mod http1;
pub mod inherit;
mod install;
mod journal;
pub mod metrics;
pub mod orca;
mod origin;
mod outgoing;
mod pace;
mod parts;
mod per_address;
mod pick;
pub mod pools;
mod probe;
pub mod proxy_protocol;
mod record;
mod reports;
mod retries;
mod route;
mod rules;
pub mod server;
mod session;
mod share;
mod sidecar;
mod splice;
mod start_error;
pub mod stats;
mod stream;
mod talk;
pub mod tcp;
mod total;
mod udp;
mod upstream;
pub mod watched;
mod worker;

pub use generation::{Generation, Summary};
pub use server::Server;
pub use start_error::StartError;
pub use worker::Command;
