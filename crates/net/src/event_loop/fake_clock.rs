//! Substitute for the timerfd under Miri, which does not support it: a thread that waits. Sockets, epoll and
//! eventfd are emulated by Miri itself.

use super::kernel::Signal;
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Like the kernel's clock: readable once the last set time has come.
#[derive(Debug)]
pub struct AlarmClock {
    signal: Arc<Signal>,
    times: Option<Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl AlarmClock {
    /// Creates a clock that is not set.
    pub fn new() -> io::Result<AlarmClock> {
        let (signal, (times, set)) = (Arc::new(Signal::new()?), channel());
        let raised = signal.clone();
        let thread = std::thread::spawn(move || wait(&set, &raised));
        Ok(AlarmClock { signal, times: Some(times), thread: Some(thread) })
    }

    /// Sets the clock to ring after this time.
    pub fn set(&self, after: Duration) {
        let _ = self.times.as_ref().map(|times| times.send(after));
    }
}

fn wait(set: &Receiver<Duration>, signal: &Signal) {
    let mut due: Option<Instant> = None;
    loop {
        let next = match due {
            None => set.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => set.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(after) => due = Some(Instant::now() + after),
            Err(RecvTimeoutError::Timeout) => {
                due = None;
                signal.raise();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl AsFd for AlarmClock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

impl Drop for AlarmClock {
    fn drop(&mut self) {
        self.times = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
