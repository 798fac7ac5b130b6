//! Which worker serves a client? The one that accepted it, unless it has many more connections than another: the kernel
//! spreads clients by a hash, which is even over many short connections but not over some that stay.

use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc;

/// How many more connections than the least loaded worker one may have before it hands over: so many, and a sixteenth.
/// Below that, which short connections rarely leave, each is served where it was accepted.
const SLACK: usize = 4;

/// An accepted connection on its way to another worker.
pub struct Handed {
    pub fd: OwnedFd,
    pub peer: SocketAddr,
    /// The name of its listener.
    pub listener: Arc<str>,
    /// The generation in which that was accepted: a worker that is behind has to wait for it.
    pub generation: u64,
}

/// What the workers know of each other.
pub struct Peers {
    /// Open connections by worker. Whoever hands one over counts it there at once, or several would choose the same.
    open: Box<[Padded]>,
    doors: Vec<mpsc::UnboundedSender<Handed>>,
}

/// On a line of its own, as each is mostly written by one worker.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicUsize);

impl Peers {
    /// As many workers as there are doors to them.
    pub fn new(doors: Vec<mpsc::UnboundedSender<Handed>>) -> Peers {
        Peers { open: doors.iter().map(|_| Padded::default()).collect(), doors }
    }

    /// Counts a connection.
    pub fn opened(&self, worker: usize) {
        self.add(worker, 1);
    }

    /// It is closed; whether it was the last one.
    pub fn closed(&self, worker: usize) -> bool {
        self.add(worker, usize::MAX) == 1 // wraps: minus one
    }

    /// Adds to a worker's connections; how many there were. Relaxed, as the number stands for itself.
    fn add(&self, worker: usize, n: usize) -> usize {
        let open = &self.open[worker].0;
        if self.open.len() > 1 {
            return open.fetch_add(n, Relaxed);
        }
        // Only the worker itself writes where there is no other: no need to lock.
        let before = open.load(Relaxed);
        open.store(before.wrapping_add(n), Relaxed);
        before
    }

    /// Open connections, and those on their way there.
    pub fn open(&self, worker: usize) -> usize {
        self.open[worker].0.load(Relaxed)
    }

    /// The worker that should rather serve another connection than `mine`.
    pub fn rather(&self, mine: usize) -> Option<usize> {
        let open = self.open(mine);
        if open < SLACK {
            return None;
        }
        let (least, other) = (0..self.open.len()).map(|worker| (self.open(worker), worker)).min()?;
        (open >= least + least / 16 + SLACK).then_some(other)
    }

    /// Hands a connection over.
    ///
    /// # Errors
    /// With the connection: that worker takes none any more.
    pub fn hand(&self, to: usize, handed: Handed) -> Result<(), Handed> {
        self.opened(to);
        self.doors[to].send(handed).map_err(|refused| {
            self.closed(to);
            refused.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_clearly_more_hands_over() {
        let peers = Peers::new((0..3).map(|_| mpsc::unbounded_channel().0).collect());
        let set = |open: [usize; 3]| open.iter().zip(&peers.open).for_each(|(n, at)| at.0.store(*n, Relaxed));
        for (open, rather) in [
            ([0, 0, 0], None),
            ([3, 0, 0], None),
            ([4, 1, 0], Some(2)),
            ([100, 96, 97], None),
            ([106, 96, 97], Some(1)),
            ([0, 100, 100], None),
        ] {
            set(open);
            assert_eq!(peers.rather(0), rather, "{open:?}");
        }
    }
}
