//! Live view of finished requests over all workers. A [`Tap`] is opened on each worker, and closed when it is dropped.

use super::look::Looker;
use super::parts::Update;
use crate::observe::finished::FinishedRequest;
use crate::observe::taps::{Filter, Open, Place, WAITING_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Id of the next tap, unique in the process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Receiver of the requests that end while it is open.
pub struct Tap {
    id: u64,
    looker: Arc<Looker>,
    requests: mpsc::Receiver<Arc<FinishedRequest>>,
    dropped: Arc<AtomicU64>,
    _place: Place,
}

impl Looker {
    /// Opens a tap for requests that end from now on; `None` if the limit of open taps is reached.
    pub fn tap(self: &Arc<Self>, filter: &Filter) -> Option<Tap> {
        let place = Place::take()?;
        let id = NEXT.fetch_add(1, Relaxed);
        let (to, requests) = mpsc::channel(WAITING_MAX);
        let dropped = Arc::<AtomicU64>::default();
        for door in self.doors() {
            let tap = Open { id, filter: filter.clone(), to: to.clone(), dropped: dropped.clone() };
            door.send(Update::Look(Box::new(move |worker| worker.core.taps.open(tap))));
        }
        Some(Tap { id, looker: self.clone(), requests, dropped, _place: place })
    }
}

impl Tap {
    /// Polls for the next request; `None` once no worker runs any more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<FinishedRequest>>> {
        self.requests.poll_recv(cx)
    }

    /// Number of requests dropped since the last call, as they arrived faster than they were read.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let id = self.id;
        for door in self.looker.doors() {
            door.send(Update::Look(Box::new(move |worker| worker.core.taps.close(id))));
        }
    }
}
