//! Explanations of a worker: a sampler of requests to explain, and a ring of the latest explanations. Owned by the
//! worker: other threads ask it for them.

use evenkeel_balance::Rng;
use evenkeel_config::plan::Explain;
use evenkeel_view::picks::Explained;
use evenkeel_wire::head::Request;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Request field that requests an explanation; its value is the secret.
pub const FIELD: &str = "evenkeel-explain";

/// Bytes of a worker's explanations; beyond, the oldest are dropped.
const BYTES_MAX: usize = 1 << 20;

/// Requests to [`arm`](Explanations::arm) that may wait at once; more are ignored.
const ARMED_MAX: usize = 64;

/// Least bytes of the secret; a shorter secret could be guessed.
const TOKEN_MIN: usize = 16;

/// Requests that a plan wants explained.
#[derive(Clone, Debug)]
pub struct Wanted {
    sample: f64,
    /// Number of explanations that each worker keeps.
    keep: usize,
    token: Option<Arc<[u8]>>,
}

impl Wanted {
    /// Reads the rules of a plan. The number of kept explanations is the share of a worker among `workers`.
    ///
    /// # Errors
    /// The file with the secret cannot be read, or the secret is too short.
    pub fn read(plan: &Explain, workers: usize) -> Result<Wanted, (PathBuf, io::Error)> {
        let read = |path: &PathBuf| {
            let token = std::fs::read(path)?.trim_ascii().to_vec();
            if token.len() < TOKEN_MIN {
                return Err(io::Error::other(format!(
                    "the secret has {} bytes; at least {TOKEN_MIN} are required",
                    token.len()
                )));
            }
            Ok(token.into())
        };
        let token = plan.token_file.as_ref().map(|path| read(path).map_err(|error| (path.clone(), error)));
        Ok(Wanted { sample: plan.sample, keep: plan.keep.div_ceil(workers.max(1)), token: token.transpose()? })
    }
}

/// Reason to explain a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Sample,
    Token,
    Next,
}

impl Trigger {
    /// Word for the admin API and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Sample => "sample",
            Trigger::Token => "token",
            Trigger::Next => "next",
        }
    }
}

/// Explanations of a worker.
pub struct Explanations {
    /// True if any request may need an explanation.
    on: Cell<bool>,
    wanted: RefCell<Option<Wanted>>,
    /// Requests until the next sample.
    left: Cell<u64>,
    rng: RefCell<Rng>,
    /// Pools whose next request is to be explained, each with a flag that is set once any worker had it.
    armed: RefCell<Vec<(Arc<str>, Arc<AtomicBool>)>>,
    kept: RefCell<VecDeque<(Arc<Explained>, usize)>>,
    bytes: Cell<usize>,
}

impl Explanations {
    /// Creates the explanations of worker `index`.
    pub fn new(index: usize) -> Explanations {
        Explanations {
            on: Cell::new(false),
            wanted: RefCell::default(),
            left: Cell::new(0),
            rng: RefCell::new(Rng::new(0xe1a1 ^ (index as u64) << 32)),
            armed: RefCell::default(),
            kept: RefCell::default(),
            bytes: Cell::new(0),
        }
    }

    pub fn follow(&self, wanted: Wanted) {
        self.wanted.replace(Some(wanted));
        self.left.set(self.gap());
        self.look();
    }

    /// Asks for an explanation of the pool's next request. `had` is shared by the workers: the first request at any of
    /// them sets it.
    pub fn arm(&self, pool: Arc<str>, had: Arc<AtomicBool>) {
        let mut armed = self.armed.borrow_mut();
        armed.retain(|(_, had)| !had.load(Relaxed));
        if armed.len() < ARMED_MAX {
            armed.push((pool, had));
        }
        drop(armed);
        self.look();
    }

    fn look(&self) {
        let wanted = self.wanted.borrow();
        let planned = wanted.as_ref().is_some_and(|wanted| wanted.sample > 0.0 || wanted.token.is_some());
        self.on.set(planned || !self.armed.borrow().is_empty());
    }

    /// Number of requests between two samples. Random, so that periodic traffic is sampled evenly.
    fn gap(&self) -> u64 {
        let sample = self.wanted.borrow().as_ref().map_or(0.0, |wanted| wanted.sample);
        if sample <= 0.0 {
            return u64::MAX;
        }
        // Uniform from 1 to 2 * mean - 1.
        let mean = (1.0 / sample).round().max(1.0) as u64;
        1 + self.rng.borrow_mut().below_u64(2 * mean - 1)
    }

    /// Returns the reason to explain a request for this pool, if any. If the plan has a secret, the field is not
    /// forwarded, even with a wrong value.
    #[inline]
    pub fn trigger(&self, request: &mut Request<'_, '_>, pool: &Arc<str>) -> Option<Trigger> {
        if self.on.get() { self.trigger_now(request, pool) } else { None }
    }

    #[inline(never)]
    fn trigger_now(&self, request: &mut Request<'_, '_>, pool: &Arc<str>) -> Option<Trigger> {
        let left = self.left.get().saturating_sub(1);
        self.left.set(if left == 0 { self.gap() } else { left });
        let by_token = self.has_token(request);
        if self.is_next(pool) {
            return Some(Trigger::Next);
        }
        if by_token { Some(Trigger::Token) } else { (left == 0).then_some(Trigger::Sample) }
    }

    fn has_token(&self, request: &mut Request<'_, '_>) -> bool {
        let wanted = self.wanted.borrow();
        let Some(token) = wanted.as_ref().and_then(|wanted| wanted.token.as_ref()) else { return false };
        let Some(given) = request.field(FIELD) else { return false };
        // Constant time for secrets of the right length: no early exit at the first difference.
        let same = given.len() == token.len() && given.iter().zip(&**token).fold(0, |or, (a, b)| or | (a ^ b)) == 0;
        request.fields.leave_out(FIELD);
        same
    }

    fn is_next(&self, pool: &Arc<str>) -> bool {
        if self.armed.borrow().is_empty() {
            return false;
        }
        let mut is_next = false;
        self.armed.borrow_mut().retain(|(of, had)| {
            // This request serves all that wait for the pool's next request.
            let claimed = *of == *pool && !had.swap(true, Relaxed);
            is_next |= claimed;
            !claimed && !had.load(Relaxed)
        });
        self.look();
        is_next
    }

    /// Keeps an explanation, and drops the oldest over the limits. The newest is always kept.
    pub fn keep(&self, explained: Explained) {
        let keep = self.wanted.borrow().as_ref().map_or(1, |wanted| wanted.keep);
        let mut kept = self.kept.borrow_mut();
        let size = explained.size();
        kept.push_back((Arc::new(explained), size));
        let mut bytes = self.bytes.get() + size;
        while kept.len() > keep || (bytes > BYTES_MAX && kept.len() > 1) {
            bytes -= kept.pop_front().map_or(0, |(_, size)| size);
        }
        self.bytes.set(bytes);
    }

    /// Explanations that are kept, oldest first.
    pub fn kept(&self) -> Vec<Arc<Explained>> {
        self.kept.borrow().iter().map(|(explained, _)| explained.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn explanations(sample: f64, keep: usize, token: Option<&str>) -> Explanations {
        let explanations = Explanations::new(0);
        explanations.follow(Wanted { sample, keep, token: token.map(|token| token.as_bytes().into()) });
        explanations
    }

    fn asks(explanations: &Explanations, field: Option<&str>) -> (Option<Trigger>, bool) {
        let mut table = Table::default();
        field.into_iter().for_each(|value| table.push(b"Evenkeel-Explain", value.as_bytes()));
        let mut request = Request { method: "GET", target: "/", host: b"a", fields: table.fields() };
        let asked = explanations.trigger(&mut request, &"p".into());
        (asked, request.fields.kept().next().is_some())
    }

    #[test]
    fn as_many_are_sampled_as_the_plan_says() {
        for (sample, requests) in [(1.0, 100), (0.01, 200_000), (0.3, 30_000)] {
            let explanations = explanations(sample, 1, None);
            let sampled = (0..requests).filter(|_| asks(&explanations, None).0 == Some(Trigger::Sample)).count();
            // 0.3 is rounded to a third. Gaps are uniform: their sd is below 0.58 of the mean, so 5 sd of n samples are
            // 2.9 sqrt(n).
            let want = f64::from(requests) / (1.0f64 / sample).round();
            let off = (sampled as f64 - want).abs();
            assert!(off <= if sample < 1.0 { 2.9 * want.sqrt() } else { 0.0 }, "{sample}: {sampled} of {requests}");
        }
        assert!((0..1000).all(|_| asks(&explanations(0.0, 1, None), None).0.is_none()));
    }

    #[test]
    fn the_secret_asks_and_does_not_go_on() {
        let token = "a secret of enough bytes";
        let explanations = explanations(0.0, 1, Some(token));
        assert_eq!(asks(&explanations, Some(token)), (Some(Trigger::Token), false));
        assert_eq!(
            asks(&explanations, Some("a secret of enough byteS")),
            (None, false),
            "a wrong one does not go on either"
        );
        assert_eq!(asks(&explanations, None), (None, false));
        let without = self::explanations(0.0, 1, None);
        assert_eq!(asks(&without, Some(token)), (None, true), "the field means nothing here");
    }

    #[test]
    fn the_next_request_is_taken_by_one_worker() {
        let workers = [explanations(0.0, 1, None), explanations(0.0, 1, None)];
        let had = Arc::<AtomicBool>::default();
        workers.iter().for_each(|worker| worker.arm("p".into(), had.clone()));
        workers[0].arm("other".into(), Arc::default());
        let asked: Vec<_> = [0, 1, 0, 1].iter().map(|&worker| asks(&workers[worker], None).0).collect();
        assert_eq!(asked, [Some(Trigger::Next), None, None, None]);
        assert!(workers[0].on.get() && !workers[1].on.get(), "one still waits for another pool");
    }

    #[test]
    fn the_latest_are_kept() {
        let explanations = explanations(1.0, 3, None);
        for id in 0..10 {
            explanations.keep(Explained { request_id: id.to_string(), ..Explained::default() });
        }
        let ids: Vec<_> = explanations.kept().iter().map(|kept| kept.request_id.clone()).collect();
        assert_eq!(ids, ["7", "8", "9"]);
        explanations.keep(Explained { path: "x".repeat(2 * BYTES_MAX), ..Explained::default() });
        assert_eq!(explanations.kept().len(), 1, "no more bytes than there is room for, and always the latest");
    }
}
