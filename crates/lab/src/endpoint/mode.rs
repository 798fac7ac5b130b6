//! Modes of an endpoint, which an experiment changes while it runs.

use crate::rng::Rng;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Pause before a response is cut: long enough for a proxy to have relayed the part before.
pub(super) const BEFORE_RESET: Duration = Duration::from_millis(20);

/// Mode of an endpoint: how it treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers in about 10 ms.
    Well,
    /// Takes ten times as long, also for health checks.
    Slow,
    /// Accepts and reads, but never answers.
    Hang,
    /// Resets each connection as soon as it is accepted.
    ResetAccept,
    /// Resets within the head of the response.
    ResetHead,
    /// Resets within the body of the response.
    ResetBody,
    /// Answers 500 at once, while the health check still passes: a defect in the program.
    Error500,
    /// Answers 503 at once, and fails the health check: it reports overload itself.
    Error503,
}

impl Mode {
    const ALL: [(Mode, &'static str); 8] = [
        (Mode::Well, "well"),
        (Mode::Slow, "slow"),
        (Mode::Hang, "hang"),
        (Mode::ResetAccept, "reset-accept"),
        (Mode::ResetHead, "reset-head"),
        (Mode::ResetBody, "reset-body"),
        (Mode::Error500, "error-500"),
        (Mode::Error503, "error-503"),
    ];

    /// Name of the mode in commands.
    pub fn name(self) -> &'static str {
        Mode::ALL.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }

    /// Status that requests are answered with, if not by their work.
    pub(super) fn status(self) -> Option<u16> {
        match self {
            Mode::Error500 => Some(500),
            Mode::Error503 => Some(503),
            _ => None,
        }
    }

    /// Status that the health check is answered with.
    pub(super) fn health(self) -> u16 {
        if self == Mode::Error503 { 503 } else { 200 }
    }

    pub(super) fn named(name: &str) -> Option<Mode> {
        Mode::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }
}

/// Current mode of an endpoint, shared by its connections.
#[derive(Debug, Default)]
pub(super) struct Dial(AtomicU8);

impl Dial {
    // Relaxed: the mode guards no other data, and connections share a thread.
    pub(super) fn set(&self, mode: Mode) {
        let row = Mode::ALL.iter().position(|(known, _)| *known == mode).unwrap_or(0);
        self.0.store(row as u8, Ordering::Relaxed);
    }

    pub(super) fn mode(&self) -> Mode {
        Mode::ALL[usize::from(self.0.load(Ordering::Relaxed)).min(Mode::ALL.len() - 1)].0
    }
}

/// Time that the endpoint works on a request: 8 to 12 ms by its number, ten times that when slow.
pub(super) fn work(number: usize, mode: Mode) -> Duration {
    let well = Duration::from_millis(8) + Duration::from_millis(4).mul_f64(Rng::new(number as u64).unit());
    if mode == Mode::Slow { well * 10 } else { well }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_shows_what_it_was_set_to() {
        let dial = Dial::default();
        assert_eq!(dial.mode(), Mode::Well, "an endpoint starts well");
        for (mode, name) in Mode::ALL {
            dial.set(mode);
            assert_eq!((dial.mode(), Mode::named(name), mode.name()), (mode, Some(mode), name));
        }
        assert_eq!(Mode::named("ill"), None);
    }
}
