//! TLS of a listener: the configuration for handshakes, which may change between two of them, and the limits on how
//! many may run at once.

use evenkeel_config::plan;
use evenkeel_tls::sessions::Sessions;
use rustls::ServerConfig;
use std::fmt;
use std::sync::Arc;

/// Returns the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ServerConfig> + Send + Sync;

/// Clients with an incomplete ClientHello that a worker admits, per handshake that it allows in progress. Each holds
/// only a socket and a task of a few KiB, so more of them are affordable.
const HELLOS: usize = 4;

#[derive(Clone)]
pub struct ListenerTls {
    current: Arc<Current>,
    /// The listener's `tls` section.
    pub plan: plan::ListenerTls,
    /// Sessions for early data, if the listener accepts it.
    pub sessions: Option<Arc<Sessions>>,
}

impl ListenerTls {
    /// Creates the TLS settings. `current` is called for each handshake.
    pub fn new(current: Arc<Current>, plan: plan::ListenerTls) -> ListenerTls {
        ListenerTls { current, plan, sessions: None }
    }

    /// Limit per worker on clients with an incomplete ClientHello.
    pub fn hellos_max(&self) -> usize {
        self.plan.handshakes.saturating_mul(HELLOS)
    }

    /// Configuration for the next handshake.
    pub fn config(&self) -> Arc<ServerConfig> {
        (self.current)()
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerTls").finish_non_exhaustive()
    }
}
