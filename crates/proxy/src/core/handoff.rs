//! Handoff of new connections between workers. The worker that accepted a connection serves it, unless it has many more
//! connections than another worker: the kernel distributes connections by a hash, which is even for many short
//! connections but not for a few long-lived connections.

use evenkeel_net::counter::Counter;
use evenkeel_net::total::Total;
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;

/// Lead over the least loaded worker, in connections, from which a worker hands over new connections; 1/16 of that
/// worker's count is added. Short connections rarely reach it.
const SLACK: u64 = 4;

/// An accepted connection on its way to another worker.
pub struct Handoff {
    pub fd: OwnedFd,
    pub peer: SocketAddr,
    /// Name of the listener that accepted it.
    pub listener: Arc<str>,
    /// Open connections of that listener, including this connection.
    pub open: Arc<Total>,
    /// Generation of the plan at the accept. A worker with an older plan must wait for this plan.
    pub generation: u64,
}

impl Handoff {
    /// Moves the connection to the count `open`: the listener that accepted it may have been replaced by a new listener
    /// of the same name.
    pub fn count_among(&self, open: &Arc<Total>) {
        if !Arc::ptr_eq(&self.open, open) {
            open.add();
            self.open.sub();
        }
    }
}

/// Connection counts and handoff channels, shared by the workers.
pub struct Peers {
    /// Open connections by worker.
    open: Box<[Open]>,
    doors: Vec<mpsc::UnboundedSender<Handoff>>,
}

/// Open connections of a worker. Aligned to 128 bytes, so that the counters of two workers share no cache line.
#[derive(Default)]
#[repr(align(128))]
struct Open {
    /// Connections accepted here minus all closed here. Wraps below zero when handed-over connections close; only the
    /// sum with `handed` is meaningful.
    own: Counter,
    /// Connections handed to this worker, counted by the sender before it sends: otherwise several workers would choose
    /// the same target.
    handed: AtomicU64,
}

impl Open {
    /// Sum of both counts. Relaxed: no other data depends on it, and a slightly old value only affects the choice of a
    /// worker.
    fn get(&self) -> u64 {
        self.own.get().wrapping_add(self.handed.load(Relaxed))
    }
}

impl Peers {
    /// Creates the state for as many workers as there are `doors`.
    pub fn new(doors: Vec<mpsc::UnboundedSender<Handoff>>) -> Peers {
        Peers { open: doors.iter().map(|_| Open::default()).collect(), doors }
    }

    /// Counts a connection that the worker accepted.
    pub fn opened(&self, worker: usize) {
        self.open[worker].own.add(1);
    }

    /// Counts a closed connection; true if it was the worker's last.
    pub fn closed(&self, worker: usize) -> bool {
        self.open[worker].own.sub(1);
        self.open(worker) == 0
    }

    /// Open connections of a worker, including those on their way to it.
    pub fn open(&self, worker: usize) -> u64 {
        self.open[worker].get()
    }

    /// Returns the least loaded worker, if it should serve a new connection instead of `mine`.
    pub fn less_loaded(&self, mine: usize) -> Option<usize> {
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
    /// The other worker accepts no more connections; returns the connection.
    pub fn hand(&self, to: usize, handed: Handoff) -> Result<(), Handoff> {
        self.open[to].handed.fetch_add(1, Relaxed);
        self.doors[to].send(handed).map_err(|refused| {
            self.open[to].handed.fetch_sub(1, Relaxed);
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
        let set = |open: [u64; 3]| open.iter().zip(&peers.open).for_each(|(n, at)| at.own.set(*n));
        for (open, less_loaded) in [
            ([0, 0, 0], None),
            ([3, 0, 0], None),
            ([4, 1, 0], Some(2)),
            ([100, 96, 97], None),
            ([106, 96, 97], Some(1)),
            ([0, 100, 100], None),
        ] {
            set(open);
            assert_eq!(peers.less_loaded(0), less_loaded, "{open:?}");
        }
    }

    #[test]
    fn one_that_was_handed_over_counts_where_it_is_served() {
        let (door, mut handed) = mpsc::unbounded_channel();
        let peers = Peers::new(vec![door.clone(), door]);
        let hand = || {
            let fd = std::net::TcpListener::bind("127.0.0.1:0").unwrap().into();
            let (peer, open) = (([127, 0, 0, 1], 1).into(), Total::new(2).into());
            peers.hand(1, Handoff { fd, peer, listener: "web".into(), open, generation: 1 })
        };
        peers.opened(0);
        assert!(hand().is_ok() && hand().is_ok());
        assert_eq!((peers.open(0), peers.open(1)), (1, 2));
        assert!(!peers.closed(1) && peers.closed(1) && peers.closed(0));
        handed.close();
        assert!(hand().is_err());
        assert_eq!((peers.open(0), peers.open(1)), (0, 0));
    }

    #[test]
    fn a_connection_counts_once_though_its_listener_has_left_and_come_again() {
        let [before, after]: [Arc<Total>; 2] = std::array::from_fn(|_| Total::new(2).into());
        before.add();
        let fd = std::net::TcpListener::bind("127.0.0.1:0").unwrap().into();
        let (peer, open) = (([127, 0, 0, 1], 1).into(), before.clone());
        let handed = Handoff { fd, peer, listener: "web".into(), open, generation: 1 };
        handed.count_among(&before);
        assert_eq!(before.get(), 1);
        handed.count_among(&after);
        assert_eq!((before.get(), after.get()), (0, 1));
    }
}
