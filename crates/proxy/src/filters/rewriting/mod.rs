//! The path and the host that endpoints get: `strip_prefix`, `rewrite` and `send_host` of a route.

pub mod checked;
pub mod rewrite;
pub mod send_host;
