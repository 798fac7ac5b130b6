//! Endpoints of a running instance that differ from their pool.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use evenkeel_view::advice::Verdict;
use evenkeel_view::{Endpoint, Pool};

const KIND: &str = "running";

/// Fewest tries of an endpoint that say something about it.
const TRIES_MIN: u64 = 100;

/// Share of failed tries that makes an endpoint conspicuous.
const FAILED: f64 = 0.02;

/// Ratio to the median of the pool from which an endpoint is slow.
const SLOW: f64 = 3.0;

pub(super) fn advise(inputs: &Inputs<'_>) -> Vec<Advice> {
    inputs.status.map_or(Vec::new(), |status| status.pools.iter().flat_map(|pool| of_pool(inputs, pool)).collect())
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Vec<Advice> {
    let subject = format!("pool \"{}\"", pool.name);
    let mut all = Vec::new();
    if pool.in_panic {
        let says = "look at the endpoints: so few are healthy that health is ignored";
        all.push(Advice::new(KIND, subject.clone(), Verdict::Danger, says));
    }
    if pool.waiting > 0 {
        let says = "raise limits of the endpoints, or add endpoints: requests wait for a place";
        let evidence = vec![format!("{} requests wait now", pool.waiting)];
        all.push(Advice { evidence, ..Advice::new(KIND, subject.clone(), Verdict::Change, says) });
    }
    for endpoint in &pool.endpoints {
        let rate = endpoint.failed as f64 / endpoint.requests.max(1) as f64;
        if endpoint.requests >= TRIES_MIN && rate >= FAILED {
            all.push(failing(inputs, pool, endpoint, rate));
        }
    }
    all.extend(slow(inputs, pool));
    if all.is_empty() {
        all.push(Advice::new(KIND, subject, Verdict::Leave, "leave it: no endpoint differs from its pool"));
    }
    all
}

fn failing(inputs: &Inputs<'_>, pool: &Pool, endpoint: &Endpoint, rate: f64) -> Advice {
    let subject = format!("pool \"{}\"", pool.name);
    let says = format!("look at {}: it fails {:.1} % of its tries", endpoint.name, rate * 100.0);
    let mut advice = Advice::new(KIND, subject, Verdict::Change, says);
    advice.evidence.push(format!("{} of {} tries since the start", endpoint.failed, endpoint.requests));
    let is_off = inputs.plan.pool(&pool.name).is_some_and(|pool| pool.outlier.is_none());
    if is_off && let Ok((patch, _)) = inputs.patch(At::Named("pool", &pool.name), "outlier", "{}") {
        advice.evidence.push("outlier = \"off\" keeps requests there".to_string());
        advice.patch = Some(patch);
    }
    advice
}

/// Endpoints whose median is far above that of the pool.
fn slow(inputs: &Inputs<'_>, pool: &Pool) -> Option<Advice> {
    let timed = |endpoint: &&Endpoint| endpoint.latency.as_ref().is_some_and(|latency| latency.responses >= TRIES_MIN);
    let median = |endpoint: &Endpoint| endpoint.latency.as_ref().map_or(0.0, |latency| latency.p50_ms);
    let mut all: Vec<&Endpoint> = pool.endpoints.iter().filter(timed).collect();
    all.sort_by(|a, b| median(a).total_cmp(&median(b)));
    // The middle of the others, so that one of two endpoints can be slow.
    let (last, others) = all.split_last()?;
    let usual = median(others.get(others.len() / 2)?);
    if median(last) < SLOW * usual || usual <= 0.0 {
        return None;
    }
    let subject = format!("pool \"{}\"", pool.name);
    let evidence = format!("{} has a median of {:.1} ms, the others of {usual:.1} ms", last.name, median(last));
    let planned = inputs.plan.pool(&pool.name)?;
    let looks = planned.balance.algorithm.needs.in_flight || planned.balance.algorithm.needs.key;
    let mut advice = match looks {
        true => {
            let says = format!("look at {}: it is slow, though {} sends it fewer requests", last.name, planned.balance);
            Advice::new(KIND, subject, Verdict::Depends, says)
        }
        false => {
            let says = format!(
                "set balance = \"leastconn\": {} sends {} as many requests as the others",
                planned.balance, last.name
            );
            let patched = inputs.patch(At::Named("pool", &pool.name), "balance", "\"leastconn\"");
            let patch = patched.ok().map(|(patch, _)| patch);
            Advice { patch, ..Advice::new(KIND, subject, Verdict::Change, says) }
        }
    };
    advice.evidence.push(evidence);
    Some(advice)
}
