//! How do bytes get there and back? evenkeel's data plane. Read the files in this order:
//!
//! 1. [`server`] starts the [`worker`]s; each [`accept`]s clients of its own.
//! 2. [`connection`] serves a [`client`]: request after request, each in an [`exchange`].
//! 3. An exchange reads the head with [`http1`] (sans-io), finds its pool by [`route`], an endpoint by [`pick`], a
//!    connection by [`upstream`], and relays both ways in [`talk`]; [`fault`] says what went wrong and whose fault it
//!    was, [`record`] what is counted ([`stats`]) and logged ([`access_log`]).
//! 4. Underneath: [`stream`] (sockets that meet the event loop only when they would block), [`buffer`], [`outgoing`],
//!    [`deadline`], [`clock`].

pub mod accept;
pub mod access_log;
pub mod buffer;
pub mod client;
pub mod clock;
pub mod connection;
pub mod deadline;
pub mod exchange;
pub mod fault;
pub mod hash_key;
pub mod http1;
pub mod outgoing;
pub mod pick;
pub mod record;
pub mod route;
pub mod server;
pub mod stats;
pub mod stream;
pub mod talk;
pub mod upstream;
pub mod worker;
