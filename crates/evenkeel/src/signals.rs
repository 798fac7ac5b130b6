//! When is the process told to end? SIGTERM, SIGQUIT and Ctrl-C, one after the other.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, caught from the moment this exists.
pub struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end.
    End,
    /// SIGHUP: to read the configuration again, or that the terminal is gone.
    Hangup,
}

impl Signals {
    /// Catches them. To be called on a runtime.
    ///
    /// # Errors
    /// As `sigaction(2)`.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.quit.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Hangup,
        }
    }
}
