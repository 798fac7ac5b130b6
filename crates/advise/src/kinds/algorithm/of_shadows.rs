//! The algorithm of a pool by the shadows of a running instance: predictions for its latest requests.

use super::outcome::{KIND, Outcome};
use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::trial::WORTH;
use evenkeel_config::plan::{Balance, Pool};
use evenkeel_view::advice::{Effect, Figure, Verdict};
use evenkeel_view::shadows::{PoolShadows, Shadow};

/// Largest relative error of a predicted p99, by the test of all pairs of algorithms (docs/guide/explaining.md).
const ERROR: f64 = 0.3;

/// Fewest requests whose p99 says something.
const REQUESTS_MIN: u64 = 1_000;

/// Judges the algorithms that a pool shadows. `None` without a running instance.
pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Option<Outcome> {
    inputs.status?;
    let refused = |why: String| Some(Outcome::Refused(format!("{why}; by assumptions instead")));
    let Some(shown) = inputs.shadows.iter().find(|shown| shown.pool == *pool.name) else {
        return refused("the pool has no shadows: the key shadow names algorithms to judge by its own requests".into());
    };
    if shown.balance != pool.balance.to_string() {
        return refused(format!("the running pool is balanced by {}", shown.balance));
    }
    if let Some(nothing) = &shown.nothing {
        return refused(format!("the shadows know nothing yet: {nothing}"));
    }
    let (Some(now_ns), true) = (shown.p99_ns.filter(|ns| *ns > 0.0), shown.requests >= REQUESTS_MIN) else {
        return refused(format!("the shadows know {} requests, and a p99 takes {REQUESTS_MIN}", shown.requests));
    };
    let others = || shown.shadows.iter().filter(|shadow| shadow.algorithm != shown.balance);
    let known: Vec<(&Shadow, f64)> = others().filter_map(|shadow| Some((shadow, shadow.p99_ns?))).collect();
    let Some((best, best_ns)) = known.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        let why = others().find_map(|shadow| Some((&shadow.algorithm, shadow.withheld.first()?)));
        return refused(match why {
            Some((algorithm, why)) => format!("the shadows cannot answer: {algorithm}: {why}"),
            None => "the shadows predict no p99".to_string(),
        });
    };
    let change = [best_ns / (1.0 + ERROR), *best_ns, best_ns * (1.0 + ERROR)].map(|ns| ns / now_ns - 1.0);
    let mut advice = match change[2] < 0.0 && change[1] <= -WORTH {
        true => better(inputs, pool, &best.algorithm, change, shown.requests),
        false => {
            let names: Vec<&str> = known.iter().map(|(shadow, _)| &*shadow.algorithm).collect();
            let says = format!(
                "leave {}: no p99 of its shadows ({}) is lower by more than the error of predictions",
                pool.balance,
                names.join(", ")
            );
            Advice::new(KIND, format!("pool \"{}\"", pool.name), Verdict::Leave, says)
        }
    };
    advice.evidence.extend(evidence(shown, now_ns));
    advice.repeat = Some(inputs.repeat(KIND));
    Some(Outcome::Answered(Box::new(advice)))
}

fn better(inputs: &Inputs<'_>, pool: &Pool, algorithm: &str, change: [f64; 3], requests: u64) -> Advice {
    let value = pool.shadow.iter().find(|shadow| shadow.to_string() == algorithm).map(Balance::to_toml);
    let value = value.unwrap_or_else(|| format!("\"{algorithm}\""));
    let says = format!("set balance = {value} instead of {}", pool.balance);
    let mut advice = Advice::new(KIND, format!("pool \"{}\"", pool.name), Verdict::Change, says);
    let at = format!("to the first byte, for its latest {requests} requests");
    advice.effect = Some(Effect { figure: Figure::Latency, change, at });
    match inputs.patch(At::Named("pool", &pool.name), "balance", &value) {
        Ok((patch, _)) => advice.patch = Some(patch),
        Err(why) => advice.evidence.push(why),
    }
    advice
}

/// Facts about the requests, and the prediction of each shadow.
fn evidence(shown: &PoolShadows, now_ns: f64) -> Vec<String> {
    let first = format!(
        "by the shadows, from {} requests in {:.1} s: p99 {:.1} ms now; predictions are within {:.0} %",
        shown.requests,
        shown.span_ns as f64 / 1e9,
        now_ns / 1e6,
        ERROR * 100.0
    );
    let of = |shadow: &Shadow| match (shadow.p99_ns, shadow.withheld.first()) {
        (Some(ns), _) => format!("{}: p99 {:.1} ms predicted", shadow.algorithm, ns / 1e6),
        (None, Some(why)) => format!("{}: p99 unknown, as {why}", shadow.algorithm),
        (None, None) => format!("{}: p99 unknown", shadow.algorithm),
    };
    let others = shown.shadows.iter().filter(|shadow| shadow.algorithm != shown.balance).map(of);
    [first].into_iter().chain(others).collect()
}
