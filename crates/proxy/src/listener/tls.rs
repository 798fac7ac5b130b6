//! What does a listener need to speak TLS? What handshakes are agreed by, which may be another one for each, and how many
//! there may be at once.

use rustls::ServerConfig;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Gives the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ServerConfig> + Send + Sync;

/// Clients that may wait at one worker with part of a ClientHello at most, for each handshake that may be under way there. Each
/// holds a socket and a task of some KiB, and the work of a handshake is still to come.
const HELLOS: usize = 4;

/// TLS at one listener.
#[derive(Clone)]
pub struct ListenerTls {
    current: Arc<Current>,
    /// How long a handshake may take.
    pub timeout: Duration,
    /// Handshakes under way at one worker, from a whole ClientHello on.
    pub handshakes_max: usize,
    /// Whether clients are asked for certificates.
    pub asks: bool,
}

impl ListenerTls {
    /// With whatever `current` gives when a client comes.
    pub fn new(current: Arc<Current>, timeout: Duration, handshakes_max: usize) -> ListenerTls {
        ListenerTls { current, timeout, handshakes_max, asks: false }
    }

    /// The same, with clients that are asked for certificates.
    pub fn asking(self, asks: bool) -> ListenerTls {
        ListenerTls { asks, ..self }
    }

    /// Clients at one worker whose ClientHello has not come whole.
    pub fn hellos_max(&self) -> usize {
        self.handshakes_max.saturating_mul(HELLOS)
    }

    /// For the next handshake.
    pub fn config(&self) -> Arc<ServerConfig> {
        (self.current)()
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerTls").finish_non_exhaustive()
    }
}
