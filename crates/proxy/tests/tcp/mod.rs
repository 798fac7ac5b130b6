//! Sessions of listeners with `mode = "tcp"`, whatever happens to them.

mod checks;
mod on_down;
mod peers;
mod reload;
mod sessions;
mod source;
mod splits;
mod tls;
