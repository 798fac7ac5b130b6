//! Descriptors that the event loop watches besides sockets: an eventfd with which other threads wake it, and
//! a timerfd.

#[cfg(miri)]
pub use super::fake_clock::AlarmClock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
#[cfg(not(miri))]
use {
    rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    },
    std::time::Duration,
};

/// A signal raised by other threads. Once raised it stays readable, but edge-triggered epoll still reports
/// each raise.
#[derive(Debug)]
pub struct Signal(OwnedFd);

impl Signal {
    /// Creates a signal.
    ///
    /// # Errors
    /// Errors of `eventfd(2)`.
    pub fn new() -> io::Result<Signal> {
        Ok(Signal(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises the signal, from any thread.
    pub fn raise(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Timer descriptor, readable once the last set time has come.
#[cfg(not(miri))]
#[derive(Debug)]
pub struct AlarmClock(OwnedFd);

#[cfg(not(miri))]
impl AlarmClock {
    /// Creates a clock that is not set.
    ///
    /// # Errors
    /// Errors of `timerfd_create(2)`.
    pub fn new() -> io::Result<AlarmClock> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(AlarmClock(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Sets the clock to ring after this time.
    pub fn set(&self, after: Duration) {
        // Zero would disarm it.
        let after = after.max(Duration::from_nanos(1));
        let it_value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let value = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        let set = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &value);
        debug_assert!(set.is_ok(), "a clock of ours, and a time within its range");
    }
}

#[cfg(not(miri))]
impl AsFd for AlarmClock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
