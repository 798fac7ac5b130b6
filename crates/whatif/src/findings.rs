//! Analysis of the traffic of a pool: doubts, or answers.

use crate::answer::{Answer, answers};
use crate::doubt::Doubt;
use crate::doubts::doubts;
use crate::explored::Explored;
use crate::model::{Model, model, retries};
use crate::policy::{Candidate, usual};
use crate::question::{Conditions, Question};
use crate::record::Record;
use crate::traffic::{Member, Traffic};
use crate::verdict::{Verdict, verdict};
use crate::worlds::worlds;
use evenkeel_sim::planes::PlaneCost;
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
        verdict: None,
    };
    let traffic = match Traffic::of(record, asked.pool, asked.members.as_deref(), asked.workers) {
        Ok(traffic) => Traffic { answers_probes: asked.answers_probes, ..traffic },
        Err(doubts) => return Ok(none(record.pools[asked.pool].clone(), doubts)),
    };
    let found = Findings {
        names: traffic.names.clone(),
        requests: traffic.trace.arrivals.len(),
        span_ns: traffic.trace.span_ns,
        load: load(&traffic.trace),
        ..none(traffic.pool.clone(), doubts(record, &traffic))
    };
    if !found.doubts.is_empty() {
        return Ok(found);
    }
    let conditions = (asked.conditions)(&traffic)?;
    let in_force = asked.in_force.clone().map_or_else(usual, |policy| vec![policy]);
    let model = match model(&traffic, &in_force, asked.seed) {
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
    let question = |policy: Candidate| Question {
        label: policy.label.clone(),
        policy,
        conditions: conditions.clone(),
        bound: None,
    };
    // A bound has the endpoints and the load of the question, and nothing that balancers do.
    let bound = |bound: Bound| Question {
        label: bound.name().to_string(),
        policy: model.policy.clone(),
        conditions: Conditions { balancers: 1, queue: None, hedge: None, plane: None, ..conditions.clone() },
        bound: Some(bound),
    };
    let questions: Vec<Question> = policies.into_iter().map(question).chain(Bound::ALL.map(bound)).collect();
    let worlds = worlds(&model, &traffic, retries(&traffic), asked.worlds.max(model.systems.len()), asked.seed);
    let (mut answers, drawn) = answers(&model, &traffic, &worlds, &questions, asked.threads, progress);
    let mut explored = Explored::of(&traffic, &worlds, &drawn);
    if let Some(doubt) = explored.as_ref().and_then(Explored::doubt) {
        return Ok(Findings { doubts: vec![doubt], model: Some(model), explored, ..found });
    }
    if let Some(explored) = explored.as_mut().filter(|_| conditions.are_those_of_the_log()) {
        let policies = answers.iter_mut().zip(&questions).filter(|(answer, _)| !answer.is_bound);
        policies.for_each(|(answer, question)| explored.judge(answer, question, &traffic));
    }
    let verdict = verdict(&answers, &worlds, &model.policy.label);
    let plane = conditions.plane;
    Ok(Findings { model: Some(model), explored, answers, plane, verdict: Some(verdict), ..found })
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
