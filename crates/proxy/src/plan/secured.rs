//! Where is TLS spoken? By listener towards clients, by pool towards endpoints.

use crate::listener::tls::ListenerTls;
use evenkeel_net::tls::towards::Towards;
use std::collections::HashMap;
use std::sync::Arc;

/// What speaks TLS, by name; all else is plain.
#[derive(Clone, Debug, Default)]
pub struct Secured {
    /// Towards clients.
    pub listeners: HashMap<Arc<str>, ListenerTls>,
    /// Towards endpoints.
    pub pools: HashMap<Arc<str>, Towards>,
}
