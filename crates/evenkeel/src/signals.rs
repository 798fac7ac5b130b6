//! What is the process told from outside? To end by SIGTERM, SIGQUIT and Ctrl-C, one after the other; and to change.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, caught from the moment this exists.
pub struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end.
    End,
    /// SIGHUP: to read the configuration again, or that the terminal is gone.
    Hangup,
    /// SIGUSR1: to open its log again.
    Reopen,
    /// SIGUSR2: to let the program in its place take over.
    Upgrade,
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
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.quit.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Hangup,
            _ = self.user1.recv() => Asked::Reopen,
            _ = self.user2.recv() => Asked::Upgrade,
        }
    }
}
