//! Why did it go there? What is kept of a request that is explained, with names: API, command line and dashboard show the
//! same.

use evenkeel_balance::explain::{Explanation, LoadParts};
use evenkeel_balance::{NoPick, Slot};
use evenkeel_config::plan;
use std::sync::Arc;

/// One request.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// As the access log writes it.
    pub request_id: String,
    /// The trace that it belongs to, in digits, if that is known.
    pub trace_id: Option<String>,
    /// When its head was there, milliseconds since 1970.
    pub at_ms: u64,
    /// Why it is explained: `sample`, `token` or `next`.
    pub asked: &'static str,
    /// The worker that served it.
    pub worker: usize,
    /// The listener it came in at.
    pub listener: Arc<str>,
    /// The route that took it.
    pub route: Arc<str>,
    /// The route's pool.
    pub pool: Arc<str>,
    /// As sent.
    pub method: String,
    /// As the client wrote it.
    pub host: String,
    /// Without the query.
    pub path: String,
    /// In order; the last one's endpoint answered, or failed last.
    pub tries: Vec<Try>,
    /// How long it waited for a place, nanoseconds.
    pub queue_ns: u64,
    /// What its client got; 0 for nothing.
    pub status: u16,
    /// Who ended it.
    pub end: &'static str,
    /// Where it was then.
    pub phase: &'static str,
    /// From its head to its end, nanoseconds.
    pub total_ns: u64,
}

/// One try.
#[derive(Clone, Debug, Default)]
pub struct Try {
    /// From the request's head on, nanoseconds.
    pub at_ns: u64,
    /// `picked` by the algorithm, `waited` and then picked, the endpoint of its `session`, or a `hedge`.
    pub how: &'static str,
    /// Where it went.
    pub endpoint: Option<Arc<str>>,
    /// Why, unless a session decided.
    pub pick: Option<Pick>,
    /// Why that was not the last.
    pub failed: Option<String>,
}

/// One pick.
#[derive(Clone, Debug, Default)]
pub struct Pick {
    /// What decided, in words.
    pub rule: &'static str,
    /// The same as a program follows it.
    pub by: &'static str,
    /// That in words, with the rule of ties.
    pub decides: String,
    /// Who was picked.
    pub picked: Option<Arc<str>>,
    /// Why none was.
    pub refused: Option<String>,
    /// What was compared.
    pub candidates: Vec<Candidate>,
    /// Candidates behind these.
    pub unlisted: usize,
    /// What could not be picked.
    pub excluded: Vec<Excluded>,
    /// More of them.
    pub excluded_more: usize,
    /// 0: of the first tier and zone; else those that it overflows into.
    pub level: usize,
    /// The hash of the request's key, hexadecimal.
    pub key: Option<String>,
    /// Requests in flight in the pool before.
    pub in_flight: u32,
    /// Whether health was ignored as too few are healthy.
    pub in_panic: bool,
}

/// An endpoint that was compared.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    /// Its name.
    pub endpoint: Arc<str>,
    /// Requests in flight there before the pick.
    pub in_flight: u32,
    /// Its weight in the set: while endpoints ramp or zones spill, all are scaled by a common factor.
    pub weight: u32,
    /// What was compared, lower is better, if that is not the requests in flight per weight.
    pub score: Option<f64>,
    /// How far its picks are ahead of its share, in rounds of turns: of equal ones the lower is due.
    pub ahead: f64,
    /// The load that the algorithm went by.
    pub load: Option<f64>,
    /// The load by who counted it, if several did.
    pub parts: Option<LoadParts>,
    /// The latency that it reported, nanoseconds.
    pub latency_ns: Option<u64>,
    /// Its place among those of its class of weight.
    pub place: Option<u32>,
    /// As the plan has it, if that still has it.
    pub tier: Option<u8>,
    /// As its tier.
    pub zone: Option<Arc<str>>,
}

/// An endpoint that could not be picked.
#[derive(Clone, Debug, Default)]
pub struct Excluded {
    /// Its name.
    pub endpoint: Arc<str>,
    /// Why.
    pub reason: String,
    /// Since when it is in its present state, milliseconds since 1970, if that is known.
    pub since_ms: Option<u64>,
}

impl Pick {
    /// With names for slots.
    pub fn new(why: &Explanation, refused: Option<NoPick>, name: impl Fn(Slot) -> Arc<str>) -> Pick {
        let candidate = |c: &evenkeel_balance::explain::Candidate| Candidate {
            endpoint: name(c.slot),
            in_flight: c.in_flight,
            weight: c.weight,
            score: c.score,
            ahead: c.ahead,
            load: c.load,
            parts: c.parts,
            latency_ns: (c.latency_ns > 0).then_some(c.latency_ns),
            place: c.place.map(|(_, place)| place),
            tier: None,
            zone: None,
        };
        let excluded = |(slot, _, reason): &(Slot, _, evenkeel_balance::Exclusion)| Excluded {
            endpoint: name(*slot),
            reason: reason.to_string(),
            since_ms: None,
        };
        Pick {
            rule: why.rule,
            by: why.by.name(),
            decides: why.by.to_string(),
            picked: why.picked.map(&name),
            refused: refused.map(|why| why.to_string()),
            candidates: why.candidates.iter().map(candidate).collect(),
            unlisted: why.unlisted,
            excluded: why.excluded.iter().map(excluded).collect(),
            excluded_more: why.excluded_more,
            level: why.level,
            key: why.key.map(|key| format!("{key:016x}")),
            in_flight: why.in_flight_total,
            in_panic: why.in_panic,
        }
    }

    /// Adds what is known elsewhere: tiers and zones by the plan, and since when endpoints are as they are.
    pub fn fill(&mut self, plan: &plan::Pool, since_ms: impl Fn(&str) -> Option<u64>) {
        for candidate in &mut self.candidates {
            if let Some(endpoint) = plan.endpoints.iter().find(|endpoint| endpoint.name == candidate.endpoint) {
                (candidate.tier, candidate.zone) = (Some(endpoint.priority), endpoint.zone.clone());
            }
        }
        for excluded in &mut self.excluded {
            excluded.since_ms = since_ms(&excluded.endpoint);
        }
    }

    fn size(&self) -> usize {
        size_of::<Pick>()
            + self.candidates.len() * size_of::<Candidate>()
            + self.excluded.len() * (size_of::<Excluded>() + 32)
    }
}

impl Explained {
    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let text = self.request_id.len() + self.method.len() + self.host.len() + self.path.len();
        let tries = self.tries.iter().map(|one| size_of::<Try>() + one.pick.as_ref().map_or(0, Pick::size));
        size_of::<Explained>() + text + tries.sum::<usize>()
    }

    /// Adds what is known elsewhere, for each of its picks.
    pub fn fill(&mut self, plan: &plan::Plan, since_ms: impl Fn(&str, &str) -> Option<u64>) {
        let Some(pool) = plan.pools.iter().find(|pool| pool.name == self.pool) else { return };
        let picks = self.tries.iter_mut().filter_map(|one| one.pick.as_mut());
        picks.for_each(|pick| pick.fill(pool, |endpoint| since_ms(&pool.name, endpoint)));
    }
}
