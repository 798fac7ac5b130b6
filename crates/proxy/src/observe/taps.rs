//! Taps of a worker: the open taps, and the filter of each. While no tap is open, a request costs a single branch.

use super::finished::FinishedRequest;
use evenkeel_balance::Rng;
use evenkeel_wire::head::Request;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Taps that may be open at once: more than the streams allowed over the admin's TCP socket, so that the Unix socket
/// always has some left.
pub const OPEN_MAX: u64 = 24;

/// Requests that may wait for the reader of a tap; more are dropped.
pub const WAITING_MAX: usize = 1024;

/// Number of open taps in this process.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Requests dropped because readers of taps were too slow.
static DROPPED: AtomicU64 = AtomicU64::new(0);

pub fn open() -> u64 {
    OPEN.load(Relaxed)
}

/// Number of requests dropped because readers of taps were too slow.
pub fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}

/// Place for a tap; freed on drop.
#[derive(Debug)]
pub struct Place(());

impl Place {
    /// Takes a place for a tap; `None` if all are taken.
    pub fn take() -> Option<Place> {
        let more = |open: u64| (open < OPEN_MAX).then_some(open + 1);
        OPEN.fetch_update(Relaxed, Relaxed, more).is_ok().then_some(Place(()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// Statuses of this class, 1 to 5.
    Class(u16),
    /// This status; 0 for requests without a response.
    Only(u16),
}

impl Statuses {
    fn has(self, status: u16) -> bool {
        match self {
            Statuses::Class(class) => status / 100 == class,
            Statuses::Only(only) => status == only,
        }
    }
}

/// Filter of a tap: it shows requests that meet every condition that is set.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Share of the matching requests to take, at random; all by default.
    pub sample: Option<f64>,
    pub listener: Option<String>,
    pub route: Option<String>,
    pub pool: Option<String>,
    /// Endpoint of any attempt, by name.
    pub endpoint: Option<String>,
    /// Method, compared exactly as sent.
    pub method: Option<String>,
    /// Host, compared without regard to case, with the port if the client sent it.
    pub host: Option<String>,
    pub path: Option<String>,
    pub status: Option<Statuses>,
    /// Minimum duration from the request's head to its end, in nanoseconds.
    pub min_ns: u64,
}

impl Filter {
    /// True if a request with this head may match; the other conditions are checked at its end.
    fn may_have(&self, request: &Request<'_, '_>) -> bool {
        self.method.as_ref().is_none_or(|method| *request.method == **method)
            && self.host.as_ref().is_none_or(|host| request.host.eq_ignore_ascii_case(host.as_bytes()))
            && self.path.as_ref().is_none_or(|path| request.target.starts_with(&**path))
    }

    fn has(&self, request: &FinishedRequest) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.listener, &request.listener)
            && is(&self.route, &request.route)
            && is(&self.pool, &request.pool)
            && self.endpoint.as_ref().is_none_or(|name| request.tries.iter().any(|one| *one.endpoint == **name))
            && self.status.is_none_or(|statuses| statuses.has(request.summary.status))
            && request.summary.timing.total_ns >= self.min_ns
    }
}

/// An open tap, as a worker sees it.
pub struct Open {
    /// Id, unique in this process.
    pub id: u64,
    pub filter: Filter,
    pub to: mpsc::Sender<Arc<FinishedRequest>>,
    /// Requests dropped because its reader was too slow.
    pub dropped: Arc<AtomicU64>,
}

pub struct Taps {
    is_open: Cell<bool>,
    open: RefCell<Vec<Open>>,
    rng: RefCell<Rng>,
}

impl Taps {
    /// Creates the taps of worker `index`.
    pub fn new(index: usize) -> Taps {
        Taps {
            is_open: Cell::new(false),
            open: RefCell::default(),
            rng: RefCell::new(Rng::new(0x7a95 ^ (index as u64) << 32)),
        }
    }

    /// Opens a tap, for requests that begin from now on.
    pub fn open(&self, tap: Open) {
        self.open.borrow_mut().push(tap);
        self.is_open.set(true);
    }

    /// Closes the tap with this id, if it is open.
    pub fn close(&self, id: u64) {
        let mut open = self.open.borrow_mut();
        open.retain(|tap| tap.id != id);
        self.is_open.set(!open.is_empty());
    }

    /// Returns the ids of the taps that may want a request with this head; `None` if none does. Also draws for the taps
    /// that sample.
    #[inline]
    pub fn wanting(&self, request: &Request<'_, '_>) -> Option<Vec<u64>> {
        if self.is_open.get() { self.wanting_now(request) } else { None }
    }

    #[inline(never)]
    fn wanting_now(&self, request: &Request<'_, '_>) -> Option<Vec<u64>> {
        let (open, mut rng) = (self.open.borrow(), self.rng.borrow_mut());
        let mut sampled = |tap: &Open| tap.filter.sample.is_none_or(|part| rng.unit() < part);
        let may_want = open.iter().filter(|tap| tap.filter.may_have(request) && sampled(tap));
        let ids: Vec<u64> = may_want.map(|tap| tap.id).collect();
        (!ids.is_empty()).then_some(ids)
    }

    /// Sends a finished request to each tap of `ids` whose filter it matches. Never waits for a reader.
    pub fn tell(&self, ids: &[u64], request: &Arc<FinishedRequest>) {
        for tap in self.open.borrow().iter().filter(|tap| ids.contains(&tap.id) && tap.filter.has(request)) {
            // `Closed` is not counted: the reader is gone, and the tap is about to be closed.
            if let Err(TrySendError::Full(_)) = tap.to.try_send(request.clone()) {
                tap.dropped.fetch_add(1, Relaxed);
                DROPPED.fetch_add(1, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::Summary;
    use super::super::timing::Timing;
    use super::super::tries::Try;
    use super::*;
    use evenkeel_wire::head::Table;

    fn opened(taps: &Taps, filter: Filter, room: usize) -> (mpsc::Receiver<Arc<FinishedRequest>>, Arc<AtomicU64>) {
        let (to, records) = mpsc::channel(room);
        let dropped = Arc::<AtomicU64>::default();
        let id = taps.open.borrow().len() as u64;
        taps.open(Open { id, filter, to, dropped: dropped.clone() });
        (records, dropped)
    }

    fn ids(taps: &Taps, method: &str, target: &str) -> Vec<u64> {
        let mut table: Table = std::iter::empty().collect();
        let request = Request { method, target, host: b"Shop.test", fields: table.fields() };
        taps.wanting(&request).unwrap_or_default()
    }

    #[test]
    fn a_head_is_kept_for_the_taps_that_may_want_the_request() {
        let taps = Taps::new(0);
        assert_eq!(ids(&taps, "GET", "/"), [0; 0]);
        let text = |text: &str| Some(text.to_string());
        let filters = [
            Filter::default(),
            Filter { method: text("POST"), ..Filter::default() },
            Filter { path: text("/cart"), host: text("shop.TEST"), ..Filter::default() },
            Filter { host: text("other"), ..Filter::default() },
            Filter { sample: Some(0.0), ..Filter::default() },
        ];
        let _readers: Vec<_> = filters.into_iter().map(|filter| opened(&taps, filter, 1)).collect();
        assert_eq!(ids(&taps, "GET", "/"), [0]);
        assert_eq!(ids(&taps, "POST", "/cart?x"), [0, 1, 2]);
        (0..5).for_each(|id| taps.close(id));
        assert_eq!(ids(&taps, "POST", "/cart"), [0; 0]);
        assert!(!taps.is_open.get());
    }

    #[test]
    fn a_part_of_the_requests_is_sampled() {
        let taps = Taps::new(3);
        let _reader = opened(&taps, Filter { sample: Some(0.1), ..Filter::default() }, 1);
        let sampled = (0..10_000).filter(|_| !ids(&taps, "GET", "/").is_empty()).count();
        assert!((850..1150).contains(&sampled), "{sampled}");
    }

    #[test]
    fn what_a_reader_does_not_take_is_dropped_and_counted() {
        let taps = Taps::new(0);
        let one = Try { endpoint: "a".into(), ..Try::default() };
        let request = |status, total_ns| {
            let timing = Timing { total_ns, ..Timing::default() };
            let summary = Summary { status, timing, ..Summary::default() };
            Arc::new(FinishedRequest { summary, tries: vec![one.clone()], pool: "shop".into(), ..Default::default() })
        };
        let wants = Filter {
            status: Some(Statuses::Class(5)),
            min_ns: 10,
            endpoint: Some("a".into()),
            pool: Some("shop".into()),
            ..Filter::default()
        };
        let (mut records, dropped) = opened(&taps, wants.clone(), 1);
        let (_other, none) = opened(&taps, Filter { endpoint: Some("b".into()), ..wants }, 1);
        for (status, ns) in [(200, 10), (503, 9), (503, 10), (500, 99)] {
            taps.tell(&[0, 1], &request(status, ns));
        }
        assert_eq!(records.try_recv().map(|one| one.summary.status), Ok(503));
        assert_eq!((dropped.load(Relaxed), none.load(Relaxed)), (1, 0));
        drop(records);
        taps.tell(&[0], &request(500, 10));
        assert_eq!(dropped.load(Relaxed), 1, "a reader that is gone drops nothing");
        assert!(Statuses::Only(0).has(0) && !Statuses::Only(200).has(204));
    }
}
