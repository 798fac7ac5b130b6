//! Who proves what by TLS? The files that a plan names become what handshakes are configured by: [`client`]s are shown
//! certificates, [`endpoint`]s have to show theirs. Nothing is sent here.

mod by_name;
pub mod client;
pub mod endpoint;
mod files;

pub use files::Unusable;
