//! Explanation of a request: its head, its picks and the ends of its tries.

use crate::observe::explanations::Trigger;
use crate::observe::tries::How;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Tries;
use evenkeel_balance::{self as balance, Clock, Instant, NoPick, Request as Asked, Slot};
use evenkeel_net::clock::CachedClock;
use evenkeel_view::picks::{Explained, ExplainedTry, FilterStep, Pick};
use evenkeel_wire::head::Request;
use std::borrow::Cow;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum length of method, host and path in bytes; the rest is cut off.
const TEXT_MAX: usize = 256;

/// Maximum number of tries in an explanation.
const TRIES_MAX: usize = 16;

/// Explanation of a request, while it runs.
pub struct Explanation {
    explained: Explained,
    began: Instant,
    tries: RefCell<Vec<(Option<Slot>, ExplainedTry)>>,
    /// Explanation of the latest pick.
    pick: RefCell<balance::Explanation>,
}

impl Explanation {
    /// Begins the explanation of a request that was just routed.
    #[cold]
    pub fn begin(trigger: Trigger, request: &Request<'_, '_>, now: Instant) -> Box<Explanation> {
        let explained = Explained {
            asked: trigger.name().into(),
            at_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64),
            method: kept(request.method.as_bytes()),
            host: kept(request.host),
            path: kept(request.path().as_bytes()),
            ..Explained::default()
        };
        Box::new(Explanation { explained, began: now, tries: RefCell::default(), pick: RefCell::default() })
    }

    /// Like [`pick::place`](crate::upstream::pick::place), with an explanation of the pick.
    ///
    /// # Errors
    /// No endpoint can be picked.
    #[cold]
    pub fn place<'r>(&self, tries: &Tries<'r>) -> Result<InFlight<'r>, NoPick> {
        let (clock, pool, key, beyond) = (tries.clock, tries.pool, tries.key, tries.is_beyond());
        let mut placed = self.start(How::Picked, clock, pool, &Asked { key, tried: &tries.tried.borrow(), beyond });
        if matches!(placed, Err(NoPick::AllTried)) && tries.same_will_do() {
            placed = self.start(How::Picked, clock, pool, &Asked { key, ..Asked::default() });
        }
        placed
    }

    /// Like [`InFlight::start`], with an explanation of the pick. A failed pick is noted here, a successful
    /// pick when its try begins.
    ///
    /// # Errors
    /// No endpoint can be picked.
    #[cold]
    pub fn start<'r>(
        &self,
        how: How,
        clock: &'r CachedClock,
        pool: &'r WorkerPool,
        asked: &Asked<'_>,
    ) -> Result<InFlight<'r>, NoPick> {
        let placed = InFlight::start_explained(clock, pool, asked, &mut self.pick.borrow_mut());
        if let Err(none) = placed {
            self.note(how, clock.now(), None, pool, Some(self.pick_in(pool, Some(none))));
        }
        placed
    }

    /// Cell for the explanation of a pick that is made in the pool's queue.
    pub fn pick(&self) -> &RefCell<balance::Explanation> {
        &self.pick
    }

    /// Notes the effects of the filters of a route, before another route answers.
    #[cold]
    pub fn passed(&mut self, steps: impl Iterator<Item = (&'static str, Cow<'static, str>)>) {
        self.explained.filters.extend(steps.map(|(name, did)| FilterStep { name: name.into(), did }));
    }

    /// Notes the start of a try. A sticky session needs no pick, so it has none to explain.
    #[cold]
    pub fn try_began(&self, pool: &WorkerPool, ticket: &InFlight<'_>, how: How) {
        let pick = (how != How::Session).then(|| self.pick_in(pool, None));
        self.note(how, ticket.began(), Some(ticket.slot()), pool, pick);
    }

    fn pick_in(&self, pool: &WorkerPool, refused: Option<NoPick>) -> Pick {
        Pick::new(&self.pick.borrow(), refused, |slot| pool.endpoints.name_of(slot))
    }

    fn note(&self, how: How, now: Instant, slot: Option<Slot>, pool: &WorkerPool, pick: Option<Pick>) {
        let mut tries = self.tries.borrow_mut();
        if tries.len() < TRIES_MAX {
            let endpoint = slot.map(|slot| pool.endpoints.name_of(slot));
            let at_ns = now.since(self.began);
            tries.push((slot, ExplainedTry { at_ns, how: how.name().into(), endpoint, pick, failed: None }));
        }
    }

    /// Notes the reason why the latest try at this endpoint failed.
    #[cold]
    pub fn try_failed(&self, slot: Slot, text: &str) {
        if let Some((_, one)) = self.tries.borrow_mut().iter_mut().rev().find(|(at, _)| *at == Some(slot)) {
            one.failed = Some(kept(text.as_bytes()));
        }
    }

    /// The head, the tries and their picks, and the filters of routes before the last; the rest is known at the end.
    pub fn into_explained(self) -> Explained {
        Explained { tries: self.tries.into_inner().into_iter().map(|(_, one)| one).collect(), ..self.explained }
    }
}

fn kept(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned()
}
