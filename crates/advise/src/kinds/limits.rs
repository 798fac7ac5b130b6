//! Limits of endpoints: a limit that requests reach in normal operation.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::trial::{self, Event, Scene, Spread};
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::{Effect, Figure, Verdict};

const KIND: &str = "limits";

const SCENE: Scene = Scene { load: 0.9, spread: Spread::Exponential, event: Event::None };

/// Share of requests below which failures are left alone.
const WORTH: f64 = 0.001;

pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Vec<Advice> {
    let is_limited = pool.limits.requests_per_endpoint > 0;
    is_limited.then(|| of_pool(inputs, pool)).flatten().into_iter().collect()
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Option<Advice> {
    let subject = format!("pool \"{}\"", pool.name);
    let limit = pool.limits.requests_per_endpoint;
    let without = |limits: u32| {
        let mut pool = pool.clone();
        pool.limits.requests_per_endpoint = limits;
        pool
    };
    let run = |pool: &Pool, figure: &str| trial::run(inputs, pool, inputs.balancers, SCENE, figure);
    let free = without(0);
    let (failed, failed_free) = (run(pool, "failed")?, run(&free, "failed")?);
    let failures = trial::difference(&failed, &failed_free);
    let (before, after) = (run(pool, "p99")?, run(&free, "p99")?);
    let change = trial::change(&before, &after);
    let evidence = format!(
        "at {}: {:.2} % of requests fail and p99 is {:.1} ms with a limit of {limit}, {:.2} % and {:.1} ms without",
        SCENE.text(),
        trial::mean_ms(&failed) / 10.0,
        trial::mean_ms(&before),
        trial::mean_ms(&failed_free) / 10.0,
        trial::mean_ms(&after)
    );
    let fails_less = failures.high() < 0.0 && failures.mean <= -WORTH;
    let is_faster = change.high() < 0.0 && change.mean <= -trial::WORTH;
    let mut advice = match (fails_less, is_faster) {
        (false, false) => Advice::new(
            KIND,
            subject,
            Verdict::Leave,
            format!("leave the limit of {limit}: it costs nothing at high load"),
        ),
        _ => {
            let higher = limit.saturating_mul(4);
            let says = format!(
                "raise limits.requests_per_endpoint from {limit} to {higher}: requests reach it before the endpoints do"
            );
            let mut advice = Advice::new(KIND, subject, Verdict::Change, says);
            let relative = |x: f64| x / (trial::mean_ms(&failed) / 1e3).max(f64::MIN_POSITIVE);
            advice.effect = Some(match fails_less {
                true => {
                    let change = [failures.low(), failures.mean, failures.high()].map(relative);
                    Effect { figure: Figure::Failures, change, at: SCENE.text() }
                }
                false => trial::effect(change, SCENE),
            });
            let at = At::Named("pool", &pool.name);
            match inputs.patch_inner(at, "limits", "requests_per_endpoint", &higher.to_string()) {
                Ok((patch, _)) => advice.patch = Some(patch),
                Err(why) => advice.evidence.push(why),
            }
            advice
        }
    };
    advice.evidence.insert(0, evidence);
    advice.repeat = Some(inputs.repeat(KIND));
    Some(advice)
}
