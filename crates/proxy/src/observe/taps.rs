//! Who watches requests as they end, and which? What a worker knows of the taps that are open; a request that no tap wants
//! pays a branch.

use super::watched::Watched;
use evenkeel_balance::Rng;
use evenkeel_wire::head::Request;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Taps that may be open at once: more than clients of the admin over TCP may have streams, so that the Unix socket has some left.
pub const OPEN_MAX: u64 = 24;

/// Requests that wait for the reader of a tap; more are dropped.
pub const WAITING_MAX: usize = 1024;

/// Most bytes of host and path that are kept.
const TEXT_MAX: usize = 1024;

/// Taps of this process.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Requests that no reader took in time.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many taps are open.
pub fn open() -> u64 {
    OPEN.load(Relaxed)
}

/// How many requests were dropped, as readers of taps were too slow.
pub fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}

/// Room for one tap, until it is dropped.
#[derive(Debug)]
pub struct Place(());

impl Place {
    /// One, unless all are taken.
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

/// Statuses of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// From a hundred times this on.
    Class(u16),
    /// This one; 0 for requests that got none.
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

/// Which requests a tap is for: those for which all holds that is said.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of these requests, this part is taken, at random; all if it is not said.
    pub sample: Option<f64>,
    /// By name.
    pub listener: Option<String>,
    /// By name.
    pub route: Option<String>,
    /// By name.
    pub pool: Option<String>,
    /// By name: one that a try went to.
    pub endpoint: Option<String>,
    /// As sent.
    pub method: Option<String>,
    /// Without regard to case, and with the port if the client sent it.
    pub host: Option<String>,
    /// How the path begins.
    pub path: Option<String>,
    /// Of the response.
    pub status: Option<Statuses>,
    /// From the request's head to its end, nanoseconds at least.
    pub min_ns: u64,
}

impl Filter {
    /// Whether it may be for a request with this head.
    fn may_have(&self, request: &Request<'_, '_>) -> bool {
        self.method.as_ref().is_none_or(|method| *request.method == **method)
            && self.host.as_ref().is_none_or(|host| request.host.eq_ignore_ascii_case(host.as_bytes()))
            && self.path.as_ref().is_none_or(|path| request.target.starts_with(&**path))
    }

    fn has(&self, request: &Watched) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.listener, &request.listener)
            && is(&self.route, &request.route)
            && is(&self.pool, &request.pool)
            && self.endpoint.as_ref().is_none_or(|name| request.tries.iter().any(|one| *one.endpoint == **name))
            && self.status.is_none_or(|statuses| statuses.has(request.status))
            && request.total_ns >= self.min_ns
    }
}

/// One that is open, as a worker knows it.
pub struct Open {
    /// Of no other in this process.
    pub id: u64,
    /// Which requests it is for.
    pub filter: Filter,
    /// To its reader.
    pub to: mpsc::Sender<Arc<Watched>>,
    /// Requests that its reader did not take in time.
    pub dropped: Arc<AtomicU64>,
}

/// What is kept of the head of a request that a tap may want, or that is recorded.
#[derive(Debug, Default)]
pub struct Head {
    /// The taps.
    ids: Vec<u64>,
    /// When it came, nanoseconds since 1970.
    pub at_ns: u64,
    /// As sent.
    pub method: String,
    /// As the client wrote it.
    pub host: String,
    /// With the query, as the access log has it.
    pub path: String,
}

/// The taps of one worker.
pub struct Taps {
    is_open: Cell<bool>,
    open: RefCell<Vec<Open>>,
    rng: RefCell<Rng>,
}

impl Taps {
    /// Those of worker number `index`.
    pub fn new(index: usize) -> Taps {
        Taps {
            is_open: Cell::new(false),
            open: RefCell::default(),
            rng: RefCell::new(Rng::new(0x7a95 ^ (index as u64) << 32)),
        }
    }

    /// Requests that end from now on are for this one too.
    pub fn open(&self, tap: Open) {
        self.open.borrow_mut().push(tap);
        self.is_open.set(true);
    }

    /// Its reader is gone.
    pub fn close(&self, id: u64) {
        let mut open = self.open.borrow_mut();
        open.retain(|tap| tap.id != id);
        self.is_open.set(!open.is_empty());
    }

    /// What is to be kept of a request's head, if a tap may want the request.
    #[inline]
    pub fn wants(&self, request: &Request<'_, '_>) -> Option<Box<Head>> {
        if self.is_open.get() { self.wants_now(request) } else { None }
    }

    #[inline(never)]
    fn wants_now(&self, request: &Request<'_, '_>) -> Option<Box<Head>> {
        let (open, mut rng) = (self.open.borrow(), self.rng.borrow_mut());
        let mut sampled = |tap: &Open| tap.filter.sample.is_none_or(|part| rng.unit() < part);
        let may_want = open.iter().filter(|tap| tap.filter.may_have(request) && sampled(tap));
        let ids: Vec<u64> = may_want.map(|tap| tap.id).collect();
        if ids.is_empty() {
            return None;
        }
        Some(Head::of(request, ids))
    }

    /// A request is over. `ids`: the taps that may want it. Never waits for a reader.
    pub fn tell(&self, ids: &[u64], request: &Arc<Watched>) {
        for tap in self.open.borrow().iter().filter(|tap| ids.contains(&tap.id) && tap.filter.has(request)) {
            // One whose reader is gone is about to be closed.
            if let Err(TrySendError::Full(_)) = tap.to.try_send(request.clone()) {
                tap.dropped.fetch_add(1, Relaxed);
                DROPPED.fetch_add(1, Relaxed);
            }
        }
    }
}

impl Head {
    /// That of a request which comes now. `ids`: the taps that may want it.
    #[cold]
    pub fn of(request: &Request<'_, '_>, ids: Vec<u64>) -> Box<Head> {
        Box::new(Head {
            ids,
            at_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
            method: kept(request.method.as_bytes()),
            host: kept(request.host),
            path: kept(request.target.as_bytes()),
        })
    }

    /// The taps that may want it.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }
}

fn kept(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::watched::Try;
    use super::*;
    use evenkeel_wire::head::Table;

    fn opened(taps: &Taps, filter: Filter, room: usize) -> (mpsc::Receiver<Arc<Watched>>, Arc<AtomicU64>) {
        let (to, records) = mpsc::channel(room);
        let dropped = Arc::<AtomicU64>::default();
        let id = taps.open.borrow().len() as u64;
        taps.open(Open { id, filter, to, dropped: dropped.clone() });
        (records, dropped)
    }

    fn ids(taps: &Taps, method: &str, target: &str) -> Vec<u64> {
        let mut table: Table = std::iter::empty().collect();
        let request = Request { method, target, host: b"Shop.test", fields: table.fields() };
        taps.wants(&request).map(|head| head.ids).unwrap_or_default()
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
            Arc::new(Watched { status, total_ns, tries: vec![one.clone()], pool: "shop".into(), ..Watched::default() })
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
        assert_eq!(records.try_recv().map(|one| one.status), Ok(503));
        assert_eq!((dropped.load(Relaxed), none.load(Relaxed)), (1, 0));
        drop(records);
        taps.tell(&[0], &request(500, 10));
        assert_eq!(dropped.load(Relaxed), 1, "a reader that is gone drops nothing");
        assert!(Statuses::Only(0).has(0) && !Statuses::Only(200).has(204));
    }
}
