//! TLS of a listener: the configuration for handshakes, which may change from one to the next, and the limit on how many
//! there may be at once.

use evenkeel_config::plan;
use rustls::ServerConfig;
use std::fmt;
use std::sync::Arc;

/// Gives the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ServerConfig> + Send + Sync;

/// Clients that may wait at one worker with part of a ClientHello at most, for each handshake that may be under way there. Each
/// holds a socket and a task of some KiB, and the work of a handshake is still to come.
const HELLOS: usize = 4;

#[derive(Clone)]
pub struct ListenerTls {
    current: Arc<Current>,
    /// The keys of the listener's `tls`.
    pub plan: plan::ListenerTls,
}

impl ListenerTls {
    /// With whatever `current` gives when a client comes.
    pub fn new(current: Arc<Current>, plan: plan::ListenerTls) -> ListenerTls {
        ListenerTls { current, plan }
    }

    /// Clients at one worker whose ClientHello has not come whole.
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
