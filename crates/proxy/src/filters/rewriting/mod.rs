//! The path and the host that endpoints get: `strip_prefix`, `rewrite`, `restore_prefix` and `send_host` of a route.

pub mod restore;
pub mod rewrite;
pub mod send_host;
