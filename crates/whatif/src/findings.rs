//! Analysis of the traffic of a pool: doubts, or answers.

use crate::answer::{Answer, answers};
use crate::doubt::Doubt;
use crate::doubts::doubts;
use crate::explored::Explored;
use crate::model::{Model, model, retries};
use crate::policy::{Candidate, usual};
use crate::question::{Conditions, Join, Question};
use crate::record::Record;
use crate::traffic::{Member, Traffic};
use crate::verdict::{Verdict, verdict};
use crate::warmth::{self, Warmth};
use crate::worlds::worlds;
use evenkeel_sim::planes::PlaneCost;
use evenkeel_sim::replay::play::REQUESTS_JOINING_MAX;
use evenkeel_sim::replay::{Bound, Trace};

/// Input of an analysis, beside the record.
pub struct Asked<'a> {
    /// Index of the pool in the record.
    pub pool: usize,
    /// Endpoints of the pool in the configuration that was in force; `None` takes the endpoints of the log.
    pub members: Option<Vec<Member>>,
    /// Workers that pick, each for a random part of the requests.
    pub workers: u32,
    /// True if endpoints answer probes of their load, in the log and in the answers.
    pub answers_probes: bool,
    /// Policy in force; `None` finds it.
    pub in_force: Option<Candidate>,
    /// Policies to try; empty for the usual.
    pub policies: Vec<Candidate>,
    /// Conditions to try them in, with the names of endpoints resolved by the traffic.
    pub conditions: &'a dyn Fn(&Traffic) -> Result<Conditions, String>,
    /// Worlds that answers are over; at least one per system.
    pub worlds: usize,
    pub seed: u64,
    pub threads: usize,
}

/// Load of an interval of the log.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Middle of the interval, in seconds from the first request.
    pub at_s: f64,
    pub per_second: f64,
    /// Mean requests in flight at all endpoints, as requests found them.
    pub in_flight: f64,
}

/// Doubts, or answers with the model behind them.
#[derive(Clone, Debug)]
pub struct Findings {
    pub pool: String,
    /// Names of the endpoints, by member.
    pub names: Vec<String>,
    /// Tries that were analysed, and the time from the first to the last in nanoseconds.
    pub requests: usize,
    pub span_ns: u64,
    /// Load over time, in equal intervals.
    pub load: Vec<Load>,
    /// Doubts that refuse answers; empty if there are answers.
    pub doubts: Vec<Doubt>,
    pub model: Option<Model>,
    /// Explored picks beside the model; `None` if the log has none.
    pub explored: Option<Explored>,
    pub answers: Vec<Answer>,
    /// Plane of the questions; `None` for the same as in the log.
    pub plane: Option<&'static PlaneCost>,
    /// Warm-up of endpoints that joined; empty if none did, and `None` if it does not matter.
    pub warm_up: Option<Vec<Warmth>>,
    pub verdict: Option<Verdict>,
}

/// Analyses the traffic of a pool.
///
/// # Errors
/// A message if the conditions cannot be applied.
pub fn find(record: &Record, asked: &Asked<'_>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Findings, String> {
    let none = |pool: String, doubts: Vec<Doubt>| Findings {
        pool,
        names: Vec::new(),
        requests: 0,
        span_ns: 0,
        load: Vec::new(),
        doubts,
        model: None,
        explored: None,
        answers: Vec::new(),
        plane: None,
        warm_up: None,
        verdict: None,
    };
    let of = |record: &Record| {
        let traffic = Traffic::of(record, asked.pool, asked.members.as_deref(), asked.workers);
        traffic.map(|traffic| Traffic { answers_probes: asked.answers_probes, ..traffic })
    };
    let whole = match of(record) {
        Ok(traffic) => traffic,
        Err(doubts) => return Ok(none(record.pools[asked.pool].clone(), doubts)),
    };
    let conditions = (asked.conditions)(&whole)?;
    // A log in which endpoints joined shows how they warmed up. Answers are from the part after that.
    let joined = conditions.join.map_or_else(Vec::new, |_| warmth::joined(&whole.trace));
    let later = warmth::since(record, &whole, &joined);
    let later_traffic = match later.as_ref().map(of).transpose() {
        Ok(traffic) => traffic,
        Err(doubts) => return Ok(none(whole.pool, doubts)),
    };
    let (record, traffic) = (later.as_ref().unwrap_or(record), later_traffic.as_ref().unwrap_or(&whole));
    let found = Findings {
        names: traffic.names.clone(),
        requests: traffic.trace.arrivals.len(),
        span_ns: traffic.trace.span_ns,
        load: load(&traffic.trace),
        ..none(traffic.pool.clone(), doubts(record, traffic))
    };
    if !found.doubts.is_empty() {
        return Ok(found);
    }
    if let Some(join) = conditions.join {
        has_room(&traffic.trace, conditions.load, join)?;
    }
    let in_force = asked.in_force.clone().map_or_else(usual, |policy| vec![policy]);
    let model = match model(traffic, &in_force, asked.seed) {
        Ok(model) => model,
        Err(doubts) => return Ok(Findings { doubts, ..found }),
    };
    let mut policies = if asked.policies.is_empty() { usual() } else { asked.policies.clone() };
    if !policies.iter().any(|policy| policy.is_same(&model.policy)) {
        policies.insert(0, model.policy.clone());
    }
    if conditions.hedge.is_some() && !has_fast_ends(&traffic.trace) {
        return Err("--hedge: responses take long after their first byte, which a copy would not hasten".to_string());
    }
    let questions = questions(policies, &conditions, &model);
    let mut worlds = worlds(&model, traffic, retries(traffic), asked.worlds.max(model.systems.len()), asked.seed);
    let warmth = |system: usize| -> Vec<Warmth> {
        let ways = &model.systems[system].ways;
        joined.iter().map(|one| warmth::warmth(&whole, *one, &ways[one.member])).collect()
    };
    for world in &mut worlds {
        // The latest endpoint that joined shows how the next will.
        world.cold = warmth(world.system).pop().map_or_else(Vec::new, |of| of.cold);
    }
    let warm_up = conditions.join.map(|_| warmth(0));
    let (mut answers, drawn) = answers(&model, traffic, &worlds, &questions, asked.threads, progress);
    let mut explored = Explored::of(traffic, &worlds, &drawn);
    if let Some(doubt) = explored.as_ref().and_then(Explored::doubt) {
        return Ok(Findings { doubts: vec![doubt], model: Some(model), explored, ..found });
    }
    if let Some(explored) = explored.as_mut().filter(|_| conditions.are_those_of_the_log()) {
        let policies = answers.iter_mut().zip(&questions).filter(|(answer, _)| !answer.is_bound);
        policies.for_each(|(answer, question)| explored.judge(answer, question, traffic));
    }
    let verdict = verdict(&answers, &worlds, &model.policy.label);
    let plane = conditions.plane;
    Ok(Findings { model: Some(model), explored, answers, plane, warm_up, verdict: Some(verdict), ..found })
}

/// Questions about policies under conditions, and their bounds.
fn questions(policies: Vec<Candidate>, conditions: &Conditions, model: &Model) -> Vec<Question> {
    let question = |policy: &Candidate, join: Option<Join>| {
        let slow = if join.is_some_and(|join| join.is_slow) { ", slow start" } else { "" };
        Question {
            label: format!("{}{slow}", policy.label),
            policy: policy.clone(),
            conditions: Conditions { join, ..conditions.clone() },
            bound: None,
        }
    };
    if let Some(join) = conditions.join {
        // Each policy with slow start and without. The time after a join has no bound.
        let both = [false, true].map(|is_slow| Some(Join { is_slow, ..join }));
        return policies.iter().flat_map(|policy| both.map(|join| question(policy, join))).collect();
    }
    // A bound has the endpoints and the load of the question, and nothing that balancers do.
    let bound = |bound: Bound| Question {
        label: bound.name().to_string(),
        policy: model.policy.clone(),
        conditions: Conditions { balancers: 1, queue: None, hedge: None, plane: None, ..conditions.clone() },
        bound: Some(bound),
    };
    policies.iter().map(|policy| question(policy, None)).chain(Bound::ALL.map(bound)).collect()
}

/// Checks that the time of a join can be replayed at this multiple of the load.
fn has_room(trace: &Trace, load: f64, join: Join) -> Result<(), String> {
    let per_ns = load * trace.requests().count() as f64 / trace.span_ns.max(1) as f64;
    let requests = 1.25 * per_ns * join.ramp.window_ns as f64;
    let most = 0.8 * REQUESTS_JOINING_MAX as f64;
    if requests > most {
        return Err(format!("--slow-start: that time has {requests:.0} requests; at most {most:.0} can be replayed"));
    }
    Ok(())
}

/// True if most of the time of requests passes before the first byte of their responses.
fn has_fast_ends(trace: &Trace) -> bool {
    let (before, all) = trace
        .requests()
        .fold((0.0, 0.0), |(before, all), a| (before + a.latency_ns as f64, all + a.held_ns.max(a.latency_ns) as f64));
    before >= 0.9 * all
}

/// Load of a trace over time, in at most 200 intervals.
fn load(trace: &Trace) -> Vec<Load> {
    const INTERVALS: u64 = 200;
    let step = (trace.span_ns / INTERVALS).max(1);
    let mut sums = vec![(0u64, 0u64); INTERVALS as usize];
    for a in &trace.arrivals {
        let (count, found) = &mut sums[((a.at / step) as usize).min(INTERVALS as usize - 1)];
        (*count, *found) = (*count + 1, *found + u64::from(a.found_in_all));
    }
    let of = |(at, (count, found)): (usize, (u64, u64))| Load {
        at_s: (at as f64 + 0.5) * step as f64 / 1e9,
        per_second: count as f64 * 1e9 / step as f64,
        in_flight: found as f64 / count.max(1) as f64,
    };
    sums.into_iter().enumerate().map(of).collect()
}
