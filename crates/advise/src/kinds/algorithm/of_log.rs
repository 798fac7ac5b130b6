//! The algorithm of a pool by its log: the replay of `evenkeel whatif`, with its refusals.

use super::outcome::{KIND, Outcome};
use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use evenkeel_config::plan::{Endpoint, Pool, Probe};
use evenkeel_sim::scenario::Policy;
use evenkeel_view::advice::{Effect, Figure, Verdict};
use evenkeel_whatif::answer::Figures;
use evenkeel_whatif::policy::Candidate;
use evenkeel_whatif::question::Conditions;
use evenkeel_whatif::record::Record;
use evenkeel_whatif::traffic::Member;
use evenkeel_whatif::{Asked, Findings, find};

/// Worlds of a replay: the default of `evenkeel whatif`.
const WORLDS: usize = 24;

/// Replays the log of a pool. `None` without a log, or if the log has no requests of the pool.
pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Option<Outcome> {
    let record = inputs.record?;
    let at = position(inputs, record, pool)?;
    let asked = Asked {
        pool: at,
        members: Some(pool.endpoints.iter().filter(|e| e.weight > 0 && !e.drain).map(|e| member(pool, e)).collect()),
        workers: inputs.workers(),
        answers_probes: pool.load_reports.as_ref().is_some_and(|reports| reports.probe != Probe::Off),
        in_force: Candidate::of(&Policy::algorithm(pool.balance.clone())),
        policies: Vec::new(),
        conditions: &|_| Ok(Conditions::default()),
        worlds: WORLDS,
        seed: 1,
        threads: inputs.effort.threads,
    };
    let found = match find(record, &asked, &|_, _| {}) {
        Ok(found) => found,
        Err(why) => return Some(Outcome::Refused(format!("the log cannot answer: {why}"))),
    };
    if let Some(doubt) = found.doubts.first() {
        let more = match found.doubts.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} other doubts"),
        };
        return Some(Outcome::Refused(format!("the log cannot answer: {}{more}; by assumptions instead", doubt.text)));
    }
    answered(inputs, pool, &found)
}

fn answered(inputs: &Inputs<'_>, pool: &Pool, found: &Findings) -> Option<Outcome> {
    let verdict = found.verdict.as_ref()?;
    let best = verdict.best.as_ref()?;
    let answer = found.answers.iter().find(|answer| answer.label == *best)?;
    let subject = format!("pool \"{}\"", pool.name);
    let mut advice = match (&answer.figures, answer.is_of_the_log) {
        (Ok(figures), false) => {
            let value = format!("\"{best}\"");
            let says = format!("set balance = {value} instead of {}", pool.balance);
            let mut advice = Advice::new(KIND, subject, Verdict::Change, says);
            advice.effect = Some(effect(figures));
            match inputs.patch(At::Named("pool", &pool.name), "balance", &value) {
                Ok((patch, _)) => advice.patch = Some(patch),
                Err(why) => advice.evidence.push(why),
            }
            advice
        }
        _ => Advice::new(KIND, subject, Verdict::Leave, verdict.text.clone()),
    };
    let seconds = found.span_ns as f64 / 1e9;
    advice.evidence.insert(0, format!("by {} requests of the log in {seconds:.1} s: {}", found.requests, verdict.text));
    if let Ok(figures) = &answer.figures {
        let percent = figures.extrapolated * 100.0;
        advice.evidence.push(format!("{percent:.1} % of its picks find more in flight than the log ever shows"));
    }
    let logs = inputs.traffic.map(|traffic| traffic.names.join(" ")).unwrap_or_default();
    advice.repeat = Some(format!("evenkeel whatif {logs} --from {} --pool {}", inputs.file, pool.name));
    Some(Outcome::Answered(Box::new(advice)))
}

/// Effect on p99, relative to that of the log.
fn effect(figures: &Figures) -> Effect {
    let [_, _, p99] = figures.times;
    let logged = (p99.value - p99.change.middle).max(1.0);
    let change = [p99.change.low, p99.change.middle, p99.change.high].map(|change| change / logged);
    Effect { figure: Figure::Latency, change, at: "the traffic of the log".to_string() }
}

/// Position of a pool in the record. A log without pools is of the only pool.
fn position(inputs: &Inputs<'_>, record: &Record, pool: &Pool) -> Option<usize> {
    let is_used = |at: &usize| record.counts.get(*at).is_some_and(|count| *count > 0);
    let named = |at: &usize| *record.pools[*at] == *pool.name;
    let only = |at: &usize| record.pools[*at].is_empty() && inputs.plan.pools.len() == 1;
    (0..record.pools.len()).filter(is_used).find(|at| named(at) || only(at))
}

fn member(pool: &Pool, endpoint: &Endpoint) -> Member {
    let (name, address) = (endpoint.name.to_string(), endpoint.addr.to_string());
    let names = if name == address { vec![name] } else { vec![name, address] };
    Member { names, weight: endpoint.weight.into(), in_flight_max: pool.limits.requests_per_endpoint }
}
