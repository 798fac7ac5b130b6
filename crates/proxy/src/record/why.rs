//! Why did a request go where it went? Noted try by try for those that are explained; all others pay a branch.

use crate::observe::explaining::Asked;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Tries;
use evenkeel_balance::{Clock, Explanation, Instant, NoPick, Request as Tried, Slot};
use evenkeel_net::clock::CachedClock;
use evenkeel_view::picks::{Explained, ExplainedTry, Pick};
use evenkeel_wire::head::Request;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most bytes of host and path that are kept.
const TEXT_MAX: usize = 256;

/// Most tries that are kept.
const TRIES_MAX: usize = 16;

/// A request that is explained.
pub struct Why {
    asked: Asked,
    began: Instant,
    at_ms: u64,
    method: String,
    host: String,
    path: String,
    tries: RefCell<Vec<(Option<Slot>, ExplainedTry)>>,
    /// Of the pick that is waited for.
    waiting: RefCell<Explanation>,
}

impl Why {
    /// Of a request that is routed now.
    #[cold]
    pub fn begin(asked: Asked, request: &Request<'_, '_>, now: Instant) -> Box<Why> {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        Box::new(Why {
            asked,
            began: now,
            at_ms,
            method: kept(request.method.as_bytes()),
            host: kept(request.host),
            path: kept(request.path().as_bytes()),
            tries: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// A place where the algorithm says, as [`pick::place`](crate::upstream::pick::place) gives it.
    ///
    /// # Errors
    /// Why there is none.
    #[cold]
    pub fn place<'r>(
        &self,
        clock: &'r CachedClock,
        pool: &'r WorkerPool,
        tries: &Tries<'_>,
    ) -> Result<InFlight<'r>, NoPick> {
        let (key, beyond) = (tries.key, tries.is_beyond());
        let mut placed = self.pick("picked", clock, pool, &Tried { key, tried: &tries.tried.borrow(), beyond });
        if matches!(placed, Err(NoPick::AllTried)) && tries.same_will_do() {
            placed = self.pick("picked", clock, pool, &Tried { key, ..Tried::default() });
        }
        placed
    }

    /// A second endpoint for a request whose first is late.
    ///
    /// # Errors
    /// Why there is none.
    #[cold]
    pub fn second<'r>(
        &self,
        clock: &'r CachedClock,
        pool: &'r WorkerPool,
        request: &Tried<'_>,
    ) -> Result<InFlight<'r>, NoPick> {
        self.pick("hedge", clock, pool, request)
    }

    fn pick<'r>(
        &self,
        how: &'static str,
        clock: &'r CachedClock,
        pool: &'r WorkerPool,
        request: &Tried<'_>,
    ) -> Result<InFlight<'r>, NoPick> {
        let mut why = Explanation::default();
        let placed = InFlight::start_explained(clock, pool, request, &mut why);
        let pick = Pick::new(&why, placed.as_ref().err().copied(), |slot| pool.endpoints.name_of(slot));
        self.note(how, clock.now(), why.picked, pool, Some(pick));
        placed
    }

    /// What the pick of a request that waits is explained by.
    pub fn waiting(&self) -> &RefCell<Explanation> {
        &self.waiting
    }

    /// It waited, and got a place.
    #[cold]
    pub fn waited(&self, pool: &WorkerPool, ticket: &InFlight<'_>) {
        let pick = Pick::new(&self.waiting.borrow(), None, |slot| pool.endpoints.name_of(slot));
        self.note("waited", ticket.began(), Some(ticket.slot()), pool, Some(pick));
    }

    /// It went where its session was.
    #[cold]
    pub fn session(&self, pool: &WorkerPool, ticket: &InFlight<'_>) {
        self.note("session", ticket.began(), Some(ticket.slot()), pool, None);
    }

    fn note(&self, how: &'static str, now: Instant, slot: Option<Slot>, pool: &WorkerPool, pick: Option<Pick>) {
        let mut tries = self.tries.borrow_mut();
        if tries.len() < TRIES_MAX {
            let endpoint = slot.map(|slot| pool.endpoints.name_of(slot));
            let at_ns = now.since(self.began);
            tries.push((slot, ExplainedTry { at_ns, how: how.into(), endpoint, pick, failed: None }));
        }
    }

    /// The try at this endpoint failed. `text`: why.
    #[cold]
    pub fn failed(&self, slot: Slot, text: &str) {
        if let Some((_, one)) = self.tries.borrow_mut().iter_mut().rev().find(|(at, _)| *at == Some(slot)) {
            one.failed = Some(kept(text.as_bytes()));
        }
    }

    /// The request is over: adds what is known of it here.
    #[cold]
    pub fn fill(self: Box<Why>, explained: &mut Explained) {
        let Why { asked, at_ms, method, host, path, tries, .. } = *self;
        (explained.asked, explained.at_ms) = (asked.name().into(), at_ms);
        (explained.method, explained.host, explained.path) = (method, host, path);
        explained.tries = tries.into_inner().into_iter().map(|(_, one)| one).collect();
    }
}

fn kept(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned()
}
