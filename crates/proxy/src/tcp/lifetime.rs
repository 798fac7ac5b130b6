//! Lifetime of a session: relays until both directions have ended, a side resets, or the session is silent for too
//! long.

use super::duplex::{Duplex, Side};
use evenkeel_net::deadline::{Elapsed, Timer};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// The way a session ended, and which side caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Both sides have ended their halves.
    Whole,
    /// This side has reset its connection.
    Reset(Side),
    /// The session was silent for too long while this side had to act.
    Idle(Side),
    /// The endpoint has left its pool, and the drain timeout is over.
    Cut,
}

/// Time limits of a session.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// Longest silence while both halves are open.
    pub idle: Duration,
    /// Longest silence once either half is closed.
    pub half_closed: Duration,
    /// Silence before the kernel probes both peers; `None` = no probes.
    pub keepalive: Option<Duration>,
    /// Tick at which the session ends, whatever its state; `u64::MAX` without a limit.
    pub deadline: u64,
}

/// Relays until the session ends. `moved` is called after each read with the side that was read and the number of
/// bytes.
pub async fn run(
    duplex: &mut Duplex<'_>,
    timer: &Timer,
    silence: Silence,
    is_cut: impl Fn() -> bool,
    moved: impl Fn(Side, usize),
) -> SessionEnd {
    let limit = Cell::new(silence.idle);
    // Keepalive is enabled only after that much silence, so that short sessions save the system calls.
    let unprobed = Cell::new(silence.keepalive.filter(|after| *after < silence.idle));
    let due = |time| timer.tick_after(time).min(silence.deadline);
    let allow = || timer.set(due(unprobed.get().unwrap_or(limit.get())));
    allow();
    let mut was_half_closed = false;
    loop {
        let relaying = pin!(poll_fn(|cx| {
            if is_cut() {
                return Poll::Ready(SessionEnd::Cut);
            }
            let relayed = duplex.poll(cx, |side, n| {
                moved(side, n);
                allow();
            });
            if relayed.is_pending() && !was_half_closed && duplex.is_half_closed() {
                was_half_closed = true;
                limit.set(silence.half_closed.min(silence.idle));
                unprobed.set(unprobed.get().filter(|after| *after < limit.get()));
                allow();
            }
            relayed.map(|ended| ended.map_or_else(SessionEnd::Reset, |()| SessionEnd::Whole))
        }));
        match (timer.limit(relaying).await, unprobed.take()) {
            (Ok(ended), _) => return ended,
            (Err(Elapsed), None) => return SessionEnd::Idle(duplex.awaits()),
            (Err(Elapsed), Some(after)) => {
                duplex.keep_alive(after);
                timer.set(due(limit.get().saturating_sub(after)));
            }
        }
    }
}
