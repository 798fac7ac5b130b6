//! Does a connection that is not read become a session, whatever happens to it?

mod checks;
mod peers;
mod reload;
mod sessions;
mod source;
mod tls;
