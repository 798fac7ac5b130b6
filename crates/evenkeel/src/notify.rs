//! Messages to the service manager, sd_notify(3): a datagram for each change of state, to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent.

use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to the service manager.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads the socket and the watchdog time from the environment.
    pub fn from_environment() -> Notify {
        let socket =
            std::env::var("NOTIFY_SOCKET").ok().and_then(|name| Some((UnixDatagram::unbound().ok()?, at(&name)?)));
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // Without a named process, the variable applies to every reader.
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| ours && *us > 0).map(Duration::from_micros);
        Notify { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    /// Longest time between two messages; `None` if the service manager does not watch.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Reports that the process serves.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Reports that the process reads its configuration again; [`ready`](Self::ready) has to follow in any case.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={}{:06}", now.tv_sec, now.tv_nsec / 1000));
    }

    /// Reports that the process ends.
    pub fn stopping(&self, status: &str) {
        self.say(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
    }

    /// Another process takes over.
    pub fn main_process(&self, pid: u32) {
        self.say(&format!("MAINPID={pid}"));
    }

    /// Reports that the process is alive.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }

    fn say(&self, state: &str) {
        let Some((socket, to)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(state.as_bytes(), to) {
            tracing::warn!(%error, "cannot notify the service manager");
        }
    }
}

/// A path, or with `@` in front a name that is in no folder.
fn at(name: &str) -> Option<SocketAddr> {
    let addr: io::Result<SocketAddr> = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    addr.ok()
}

/// First line that is not empty: a line end would end the status.
fn one_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}
