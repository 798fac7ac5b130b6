//! Lingering close, so that the last response arrives. Unread bytes would turn the close into a reset, which may
//! destroy the response before the client has read it (RFC 9112 section 9.6), so they are read and discarded.

use super::{Command, Core};
use crate::observe::stats::ListenerStats;
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop::alarm;
use evenkeel_net::transport::Transport;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

/// Time for the client to take a piece of a last response, and for the rest of the lingering once this side is ending.
pub const LINGER: Duration = Duration::from_secs(2);

/// Limits on lingering until the client closes.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Longest time of lingering.
    pub time: Duration,
    /// Longest time without a byte from the client.
    pub silence: Duration,
    /// Bytes that are discarded at most.
    bytes: u64,
}

impl Patience {
    /// Limits for a client that may still send the rest of its answered request. Many clients write a whole upload
    /// before they read, so a limit on bytes would cut off fast clients. The times are the defaults of NGINX's
    /// `lingering_time` and `lingering_timeout`.
    pub const UPLOAD: Patience =
        Patience { time: Duration::from_secs(30), silence: Duration::from_secs(5), bytes: u64::MAX };

    /// Limits for a client that may have violated the protocol on purpose.
    pub const FAULT: Patience = Patience { time: LINGER, silence: LINGER, bytes: 256 * 1024 };
}

/// Counts a connection as lingering until dropped.
struct Lingering<'s>(&'s ListenerStats);

impl<'s> Lingering<'s> {
    fn begin(stats: &'s ListenerStats) -> Lingering<'s> {
        stats.lingering.add(1);
        Lingering(stats)
    }
}

impl Drop for Lingering<'_> {
    fn drop(&mut self) {
        self.0.lingering.sub(1);
    }
}

/// Waits until the peer's kernel has acknowledged everything that was sent, before a reset that would discard the rest.
/// Waits at most [`LINGER`], and not for a peer that has reset the connection. The kernel reports no such event, so it
/// is polled, after 1 ms at first and doubled each time.
#[cold]
pub async fn delivered(transport: &Transport) {
    let waits = (0..).map(|n| Duration::from_millis(1 << n));
    let mut left = LINGER;
    for wait in waits {
        let wait = left.min(wait);
        if transport.unacknowledged() == 0 || wait.is_zero() {
            return;
        }
        left -= wait;
        let mut over = pin!(alarm::sleep(wait));
        let is_reset = poll_fn(|cx| {
            // Over TLS, encrypted bytes may not have been written yet.
            let _ = transport.poll_flush(cx);
            if transport.poll_reset(cx).is_ready() { Poll::Ready(true) } else { over.as_mut().poll(cx).map(|()| false) }
        });
        if is_reset.await {
            return;
        }
    }
}

/// Closes this side's half of the connection and waits until the peer closes its own. Bytes that arrive until then are
/// discarded without copying them. `is_gone` is true once the listener has left the plan.
pub async fn linger(
    transport: &Transport,
    timer: &Timer,
    patience: Patience,
    core: &Core,
    stats: &ListenerStats,
    is_gone: &Cell<bool>,
) {
    let Patience { time, silence, bytes: mut left } = patience;
    transport.shutdown_write();
    let _counted = Lingering::begin(stats);
    let mut last = timer.tick_after(time);
    let mut is_cut = false;
    timer.set(timer.tick_after(silence).min(last));
    let discard = poll_fn(|cx| {
        if !is_cut && (core.command.get() == Command::Drain || is_gone.get()) {
            is_cut = true;
            last = timer.tick_after(LINGER).min(last);
            timer.set(last);
        }
        // Over TLS, encrypted bytes of the response may not have been written yet.
        let _ = transport.poll_flush(cx);
        loop {
            match ready!(transport.poll_discard(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(true),
                Ok(n) if n as u64 >= left => return Poll::Ready(false),
                Ok(n) => left -= n as u64,
            }
            timer.set(timer.tick_after(silence).min(last));
        }
    });
    if timer.limit(pin!(discard)).await != Ok(true) {
        stats.linger_cut.add(1);
    }
}
