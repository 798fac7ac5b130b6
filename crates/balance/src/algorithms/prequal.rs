//! Prequal: asks a few endpoints for their load ahead of need, and prefers the fastest that is not busy.
//!
//! Source: Wydrowski et al., Load is not what you should balance: Introducing Prequal (NSDI 2024). Use it if many
//! balancers share endpoints that can answer probes. Without probes, use `random`.

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::latency::RETRY_AFTER_MAX_NS;
use crate::measurement::loads::Loads;
use crate::measurement::report::LoadReport;
use crate::measurement::request::{End, Outcome};
use crate::parts::draw;
use crate::parts::probe_budget::{PROBE_RATE_MAX, ProbeBudget};
use crate::parts::probe_pool::{Entry, ProbePool};
use crate::seam::explain::By;
use crate::seam::params::{Kind, Param, Params, Value};
use crate::seam::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises};
use crate::structures::time::{Instant, MILLISECOND_NS, SECOND_NS};

/// Row of the registry for `prequal`.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "prequal",
    aliases: &[],
    summary: "probes a few endpoints per request, and picks the fastest endpoint that is not busy for later requests",
    docs: include_str!("docs/prequal.md"),
    source: "Wydrowski et al., Load is not what you should balance: Introducing Prequal (NSDI 2024)",
    needs: Needs { key: false, in_flight: true, ends: true, latency: false, probes: true },
    asks: true,
    promises: Promises::NONE,
    params: PARAMS,
    table: None,
    prepare: None,
    new: |params, _| Ok(Box::new(Prequal::new(params))),
};

static PARAMS: &[Param] = &[
    Param {
        name: "probes",
        kind: Kind::Float { min: 0.0, max: 8.0 },
        default: Value::Float(3.0),
        help: "Probes sent per request, on average; the answers serve later requests.",
        why: "3 in the paper, which found little gain above 3 and loss only below 1. Simulated with 100 balancers at \
              90 % load: p99 116 ms with 1, 98 with 2, 84 with 3, 80 with 4, 78 with 6.",
    },
    PROBE_RATE_MAX,
    Param {
        name: "pool",
        kind: Kind::Int { min: 2, max: 64 },
        default: Value::Int(16),
        help: "Maximum answers to keep; at most one for every two endpoints, and at least two.",
        why: "16 in the paper. With more than half of the endpoints in the pool, most answers would only replace others, \
              and the rule for reuse has no solution.",
    },
    Param {
        name: "age_max",
        kind: Kind::Duration { min: MILLISECOND_NS, max: 60 * SECOND_NS },
        default: Value::Duration(SECOND_NS),
        help: "Maximum age of answers. Older answers are dropped.",
        why: "1 s in the paper: loads change within a second, and at less than one request per second any endpoint \
              will do.",
    },
    Param {
        name: "hot_quantile",
        kind: Kind::Float { min: 0.0, max: 1.0 },
        default: Value::Float(0.5),
        help: "An endpoint is hot if it has more requests in flight than this share of recent answers; 0 compares only \
               requests in flight.",
        why: "The paper runs at 0.84 and finds 0.6 to 0.9 good. Simulated with 100 balancers at 90 % load and \
              capacities that change: p99 112 ms at 0, 98 at 0.25, 84 at 0.5, 83 at 0.6, 89 at 0.84. The less accurate \
              the reported times are, the more do higher values herd onto endpoints that look fast.",
    },
    Param {
        name: "remove",
        kind: Kind::Float { min: 0.0, max: 4.0 },
        default: Value::Float(1.0),
        help: "Answers to remove per request, alternately the oldest and the worst.",
        why: "1 in the paper: without removal the probe pool fills up with endpoints too bad to be picked.",
    },
    Param {
        name: "reuse",
        kind: Kind::Float { min: 0.0, max: 10.0 },
        default: Value::Float(1.0),
        help: "Extra uses that answers allow, as a share of the uses that requests need.",
        why: "1 in the paper (its delta): the pool then stays filled when answers are late.",
    },
    Param {
        name: "latency_noise",
        kind: Kind::Float { min: 1.0, max: 10.0 },
        default: Value::Float(1.5),
        help: "Latencies within this factor of the best count as equal. Then fewer requests in flight decide.",
        why: "An answer is the median of some 16 recent requests; with exponential service times its relative sd is 36 \
              %, so a latency that is half higher is not evidence of a slower endpoint.",
    },
    Param {
        name: "aversion",
        kind: Kind::Duration { min: 0, max: 60 * SECOND_NS },
        default: Value::Duration(SECOND_NS),
        help: "Time for which to avoid an endpoint after a gateway error (502, 503, 504) or no response. A Retry-After \
               extends it, up to 300 s.",
        why: "An endpoint that fails at once looks idle and would draw all traffic. The default equals `age_max`; \
              longer ejection is for outlier detection.",
    },
];

/// Most uses of an answer. Each use changes the load that it reported, so after more of them it means little.
const USES_MAX: f64 = 16.0;

/// Requests over which the number of answers is averaged.
const ANSWERS_WINDOW: f64 = 64.0;

struct Prequal {
    probes: f64,
    pool_most: usize,
    age_max_ns: u64,
    hot_quantile: f64,
    remove: f64,
    reuse: f64,
    latency_noise: f64,
    aversion_ns: u64,

    pool: ProbePool,
    /// State of each endpoint, by slot.
    known: Vec<Known>,
    endpoints: usize,
    /// True if an endpoint has a limit.
    limited: bool,
    budget: ProbeBudget,
    /// Answers since the latest start, and the average per recent request.
    answered: f64,
    answers: f64,
    /// Average requests of other balancers, per weight, at endpoints with a recent report.
    others: f64,
    /// Fractions of removals and of uses that are carried over.
    remove_owed: f64,
    uses_owed: f64,
}

#[derive(Clone, Copy)]
struct Known {
    id: EndpointId,
    /// Weight of the endpoint; 0 if it is not in the set.
    weight: u32,
    avoid_until: Instant,
    /// Latest report of the endpoint.
    told: LoadReport,
}

impl Prequal {
    fn new(params: &Params) -> Prequal {
        let probes = params.float("probes");
        Prequal {
            probes,
            pool_most: params.int("pool") as usize,
            age_max_ns: params.duration_ns("age_max"),
            hot_quantile: params.float("hot_quantile"),
            remove: params.float("remove"),
            reuse: params.float("reuse"),
            latency_noise: params.float("latency_noise"),
            aversion_ns: params.duration_ns("aversion"),
            pool: ProbePool::default(),
            known: Vec::new(),
            endpoints: 0,
            limited: false,
            budget: ProbeBudget::new(probes, params.int("probe_rate_max")),
            answered: 0.0,
            answers: probes,
            others: 0.0,
            remove_owed: 0.0,
            uses_owed: 0.0,
        }
    }

    /// Most answers to keep: an answer for every two endpoints, or most would only replace others.
    fn pool_max(&self) -> usize {
        self.pool_most.min(self.endpoints / 2).max(2)
    }

    /// Removals per request, fewer if fewer answers come in.
    fn removals(&self) -> f64 {
        if self.probes > 0.0 { self.remove * (self.answers / self.probes).min(1.0) } else { 0.0 }
    }

    /// Number of requests that may use the next answer. The paper's b = (1 + reuse) / ((1 - pool / n) x probes -
    /// remove): the new answers, less those removed, must serve all requests. The paper rounds at random; carrying the
    /// fraction over has the same mean with less spread.
    fn uses(&mut self) -> u32 {
        let renewed = 1.0 - self.pool_max() as f64 / self.endpoints.max(1) as f64;
        let net = renewed * self.answers - self.removals();
        let uses = if net > 0.0 { ((1.0 + self.reuse) / net).clamp(1.0, USES_MAX) } else { USES_MAX };
        self.uses_owed += uses;
        let whole = self.uses_owed as u32;
        self.uses_owed -= f64::from(whole);
        whole
    }

    /// Adds an answer: the endpoint had `in_flight` requests at the time `at`.
    fn answer(&mut self, slot: Slot, in_flight: u32, at: Instant, now: Instant) {
        let Some(known) = self.known.get(slot.index()).filter(|k| k.weight > 0 && now >= k.avoid_until) else { return };
        let one = 1.0 / known.weight as f32;
        let scale = (f64::from(in_flight) + 1.0) / (f64::from(known.told.in_flight) + 1.0);
        let latency_ns = (known.told.latency_ns as f64 * scale) as u64;
        self.answered += 1.0;
        let entry = Entry { slot, in_flight: in_flight as f32 * one, one, latency_ns, at, uses: self.uses() };
        let most = self.pool_max();
        self.pool.add(entry, most);
    }

    /// Makes an answer from the requests of others in the latest report to any worker and the requests of this process
    /// now. An endpoint without a recent report counts as the average of the others, or it would get nothing where
    /// probes are few.
    fn recall(&mut self, slot: Slot, cx: &PickContext<'_>) {
        let Some(known) = self.known.get(slot.index()).filter(|k| k.weight > 0) else { return };
        let weight = f64::from(known.weight);
        let (others, age_ns) = match cx.loads.others(slot, cx.now).filter(|others| others.age_ns <= self.age_max_ns) {
            Some(others) => {
                self.others += (f64::from(others.in_flight) / weight - self.others) / ANSWERS_WINDOW;
                (others.in_flight, others.age_ns)
            }
            None => ((self.others * weight) as u32, 0),
        };
        let in_flight = others.saturating_add(cx.loads.in_flight(slot));
        self.answer(slot, in_flight, Instant(cx.now.0.saturating_sub(age_ns)), cx.now);
    }

    fn avoids(&self, slot: Slot, now: Instant) -> bool {
        self.known.get(slot.index()).is_some_and(|k| now < k.avoid_until)
    }

    /// Returns the best of the answers that may be picked, and the rule. `None` if there are fewer than two: a single
    /// a single answer has no comparison, and all requests until the next answer would go there.
    fn best(&self, cx: &PickContext<'_>) -> Option<(Entry, &'static str)> {
        let hot_above = self.pool.quantile(self.hot_quantile);
        // Endpoints that are avoided or have left have no answer here. The rest is checked only where it can matter:
        // for each of many answers, the check would take most of a pick's time.
        let all = !self.limited && cx.tried.is_empty();
        let usable = |e: &&Entry| all || cx.set.get(e.slot).is_some_and(|m| cx.admits(m));
        let (mut count, mut coolest, mut fastest) = (0, None::<&Entry>, None::<&Entry>);
        for e in self.pool.entries().iter().filter(usable) {
            count += 1;
            if coolest.is_none_or(|c| e.in_flight < c.in_flight) {
                coolest = Some(e);
            }
            let timed = e.in_flight <= hot_above && e.latency_ns > 0;
            if timed && fastest.is_none_or(|f| e.latency_ns < f.latency_ns) {
                fastest = Some(e);
            }
        }
        if count < 2 {
            return None;
        }
        // Among those whose latencies differ only by noise. If all do, or none is known, requests in flight alone
        // decide.
        let equal_below = fastest.map_or(0.0, |f| f.latency_ns as f64 * self.latency_noise);
        let equal = |e: &&Entry| usable(e) && e.in_flight <= hot_above && e.latency_ns as f64 <= equal_below;
        let mut best = fastest;
        for e in self.pool.entries().iter().filter(equal) {
            if best.is_none_or(|best| e.in_flight < best.in_flight) {
                best = Some(e);
            }
        }
        let rule = match (best, fastest) {
            (None, _) => "fewest in flight: all are hot",
            (Some(best), Some(fastest)) if best.slot == fastest.slot => "the fastest that is not hot",
            _ => "fewest in flight of the fastest",
        };
        best.or(coolest).map(|&e| (e, rule))
    }

    /// Picks without enough answers: of two draws the endpoint with fewer in flight here. The paper draws a single
    /// endpoint at random; this worker's own count costs nothing and is never worse.
    #[cold]
    fn fall_back(&self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        // More than any count per weight: an endpoint that failed recently is taken only if both drawn endpoints did.
        let avoided = |slot, now| if self.avoids(slot, now) { 1e12 } else { 0.0 };
        draw::lowest(cx, "too few answers to probes: fewer in flight per weight", |cx, m| {
            cx.loads.in_flight(m.slot) as f32 / m.weight as f32 + avoided(m.slot, cx.now)
        })
    }
}

impl Picker for Prequal {
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        let (now, age_max_ns) = (cx.now, self.age_max_ns);
        self.pool.retain(|e| now.since(e.at) <= age_max_ns);
        let Some((best, rule)) = self.best(cx) else { return self.fall_back(cx) };
        if cx.trace.is_some() {
            let usable = |e: &&Entry| cx.set.get(e.slot).is_some_and(|m| cx.admits(m));
            let entries: Vec<_> = self.pool.entries().iter().filter(usable).collect();
            if let Some(trace) = cx.trace.as_deref_mut() {
                let hot_above = self.pool.quantile(self.hot_quantile);
                let by_latency = best.in_flight <= hot_above;
                trace.by = By::Answers { hot_above: f64::from(hot_above), noise: self.latency_noise };
                for (e, m) in entries.into_iter().filter_map(|e| Some((e, cx.set.get(e.slot)?))) {
                    let score = if by_latency { e.latency_ns as f64 } else { f64::from(e.in_flight) };
                    trace.candidate(m, cx.loads, Some(score));
                    trace.told(f64::from(e.in_flight), e.latency_ns);
                }
                trace.rule = rule;
            }
        }
        Ok(best.slot)
    }

    fn on_set(&mut self, set: &EndpointSet, _loads: &Loads, _now: Instant) {
        let (avoid_until, told) = (Instant(0), LoadReport::default());
        let blank = Known { id: EndpointId(0), weight: 0, avoid_until, told };
        let old = std::mem::replace(&mut self.known, vec![blank; set.slots()]);
        self.endpoints = set.len();
        self.limited = set.members().iter().any(|m| m.in_flight_max != 0);
        for &Member { slot, id, weight, .. } in set.members() {
            let before = old.get(slot.index()).filter(|k| k.id == id).unwrap_or(&blank);
            self.known[slot.index()] = Known { id, weight, ..*before };
        }
        let known = &self.known;
        let same = |slot: Slot| {
            let (a, b) = (known.get(slot.index()), old.get(slot.index()));
            a.zip(b).is_some_and(|(a, b)| a.weight > 0 && (a.id, a.weight) == (b.id, b.weight))
        };
        self.pool.retain(|e| same(e.slot));
    }

    fn on_start(&mut self, slot: Slot, _loads: &Loads, _now: Instant) {
        self.pool.sent(slot);
        self.answers += (std::mem::take(&mut self.answered) - self.answers) / ANSWERS_WINDOW;
        self.budget.on_start();
        self.remove_owed += self.removals();
        while self.remove_owed >= 1.0 {
            self.remove_owed -= 1.0;
            // The last two answers are worth more than a fallback.
            if self.pool.entries().len() > 2 {
                let hot_above = self.pool.quantile(self.hot_quantile);
                self.pool.remove_one(hot_above);
            }
        }
    }

    fn on_end(&mut self, slot: Slot, end: &End, _loads: &Loads) {
        self.pool.ended(slot);
        let Some(known) = self.known.get_mut(slot.index()) else { return };
        match end.outcome {
            Outcome::Success => known.avoid_until = Instant(0),
            Outcome::Failure { retry_after_ns, .. } if end.outcome.is_failure() => {
                let asked = retry_after_ns.unwrap_or(0).min(RETRY_AFTER_MAX_NS);
                known.avoid_until = end.now.after(self.aversion_ns.max(asked));
                self.pool.remove(slot);
            }
            // These may be the fault of the request.
            Outcome::Cancelled | Outcome::Failure { .. } => {}
        }
    }

    fn on_report(&mut self, slot: Slot, report: &LoadReport, now: Instant) {
        if let Some(known) = self.known.get_mut(slot.index()) {
            known.told = *report;
            self.answer(slot, report.in_flight, now, now);
        }
    }

    fn poll_probe(&mut self, cx: &mut PickContext<'_>) -> Option<Slot> {
        while self.budget.is_due(cx) {
            let slot = self.budget.ask_any(cx)?;
            if self.budget.may_send(cx.now) {
                return Some(slot);
            }
            self.recall(slot, cx);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::request::FailureKind;
    use crate::seam::picker::Seat;
    use crate::{Balancer, EndpointSpec, Explanation, Pool, Request};

    fn pool(n: usize) -> Pool {
        let mut pool = Pool::new(1);
        pool.update(&(0..n).map(|i| EndpointSpec::new(&i.to_string())).collect::<Vec<_>>(), Instant(0));
        pool
    }

    fn balancer(pool: &Pool, set: &[(&str, Value)]) -> Balancer {
        let mut params = Params::defaults(PARAMS);
        set.iter().for_each(|&(name, value)| params.set(name, value).unwrap());
        pool.balancer(&ALGORITHM, &params, Seat::default(), 1).unwrap()
    }

    /// Reports (in flight, latency in ms) for each slot. Reports of an endpoint that fails are refused.
    fn answer(b: &mut Balancer, answers: &[(u32, u64)], now: Instant) {
        for (slot, &(in_flight, ms)) in answers.iter().enumerate() {
            b.report(Slot(slot as u32), &LoadReport::new(in_flight, ms * MILLISECOND_NS), now).ok();
        }
    }

    /// Slot of the next request after these answers, and the rule.
    fn pick(answers: &[(u32, u64)], set: &[(&str, Value)]) -> (usize, &'static str) {
        let pool = pool(2 * answers.len());
        let mut b = balancer(&pool, set);
        let _none_yet = b.start(&Request::default(), Instant(0)).map(|t| b.end(t, Outcome::Cancelled, Instant(0)));
        answer(&mut b, answers, Instant(0));
        let mut why = Explanation::default();
        let t = b.start_explained(&Request::default(), Instant(1), &mut why).unwrap();
        let slot = t.slot().index();
        b.end(t, Outcome::Success, Instant(2));
        (slot, why.rule)
    }

    #[test]
    fn the_fastest_that_is_not_hot_gets_the_request() {
        // The median of 1, 2, 3, 9, 9 is 3: of the first three, the second is the fastest.
        let answers = [(1, 50), (2, 10), (3, 40), (9, 1), (9, 1)];
        assert_eq!(pick(&answers, &[]), (1, "the fastest that is not hot"));
        // At quantile 0 only requests in flight count.
        assert_eq!(pick(&answers, &[("hot_quantile", Value::Float(0.0))]).0, 0);
    }

    #[test]
    fn in_flight_decides_where_latencies_differ_by_noise() {
        let answers = [(3, 10), (1, 14), (2, 11), (9, 10), (9, 10)];
        assert_eq!(pick(&answers, &[]), (1, "fewest in flight of the fastest"));
        assert_eq!(pick(&answers, &[("latency_noise", Value::Float(1.0))]).0, 0);
    }

    #[test]
    fn each_request_asks_three_distinct_endpoints_on_average() {
        for (per_request, n, want) in [(3.0, 10, 3000), (0.5, 10, 500), (8.0, 3, 3000), (3.0, 1, 0)] {
            let pool = pool(n);
            let mut b = balancer(&pool, &[("probes", Value::Float(per_request))]);
            let mut sent = 0;
            for i in 0..1000u64 {
                let now = Instant(i * 10 * MILLISECOND_NS);
                let t = b.start(&Request::default(), now).unwrap();
                let mut asked = Vec::new();
                while let Some(slot) = b.poll_probe(now) {
                    assert!(!asked.contains(&slot));
                    asked.push(slot);
                }
                sent += asked.len();
                b.end(t, Outcome::Success, now);
            }
            assert!(sent.abs_diff(want) <= 1, "{per_request} of {n}: {sent} probes");
        }
    }

    #[test]
    fn the_rate_of_probes_is_bounded() {
        let pool = pool(100);
        let mut b = balancer(&pool, &[("probe_rate_max", Value::Int(2000))]);
        let mut sent = 0;
        for i in 0..100_000u64 {
            let now = Instant(i * 10_000);
            let t = b.start(&Request::default(), now).unwrap();
            while let Some(slot) = b.poll_probe(now) {
                sent += 1;
                b.report(slot, &LoadReport::new(1, 1), now).unwrap();
            }
            b.end(t, Outcome::Success, now);
        }
        assert!((1990..=2021).contains(&sent), "{sent} in a second: 2000, and 20 at once at first");
    }

    #[test]
    fn an_endpoint_that_failed_is_avoided_for_a_while() {
        let pool = pool(8);
        let mut b = balancer(&pool, &[]);
        let failed = b.start_at(Slot(0), Instant(0)).unwrap();
        b.end(failed, Outcome::failed(FailureKind::Gateway), Instant(1));
        let share = |b: &mut Balancer, from: u64| {
            let mut hits = 0;
            for i in 0..200 {
                let now = Instant(from + i);
                // Probes show it as the idlest and fastest.
                answer(b, &[(0, 1), (5, 20), (5, 20), (5, 20)], now);
                let t = b.start(&Request::default(), now).unwrap();
                hits += usize::from(t.slot() == Slot(0));
                b.end(t, Outcome::Success, now);
            }
            hits
        };
        assert_eq!(share(&mut b, 10), 0);
        assert!(share(&mut b, SECOND_NS + 10) > 100);
    }

    #[test]
    fn old_answers_are_dropped_and_own_counts_decide() {
        let pool = pool(2);
        let mut b = balancer(&pool, &[]);
        let held = b.start_at(Slot(0), Instant(0)).unwrap();
        answer(&mut b, &[(0, 1), (9, 90)], Instant(0));
        let mut why = Explanation::default();
        for (now, slot) in [(1, 0), (2 * SECOND_NS, 1)] {
            let t = b.start_explained(&Request::default(), Instant(now), &mut why).unwrap();
            assert_eq!(t.slot(), Slot(slot), "{}", why.rule);
            b.end(t, Outcome::Success, Instant(now));
        }
        b.end(held, Outcome::Success, Instant(2 * SECOND_NS));
    }
}
