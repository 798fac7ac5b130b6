//! Slow start: the cost of an endpoint that starts cold.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::trial::{self, Event, Scene, Spread};
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::Verdict;

const KIND: &str = "slow-start";

const SCENE: Scene = Scene { load: 0.5, spread: Spread::Exponential, event: Event::ColdStart };

/// Longer than the assumed warm-up.
const WINDOW: &str = "\"30s\"";

pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Vec<Advice> {
    pool.slow_start.is_none().then(|| of_pool(inputs, pool)).flatten().into_iter().collect()
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Option<Advice> {
    let subject = format!("pool \"{}\"", pool.name);
    let (patch, plan) = inputs.patch(At::Named("pool", &pool.name), "slow_start", WINDOW).ok()?;
    let p99 = |pool: &Pool| trial::run(inputs, pool, inputs.balancers, SCENE, "p99");
    let (before, after) = (p99(pool)?, p99(plan.pool(&pool.name)?)?);
    let change = trial::change(&before, &after);
    let is_better = change.high() < 0.0 && change.mean <= -trial::WORTH;
    let mut advice = match is_better {
        true => {
            let says = format!("set slow_start = {WINDOW} if endpoints start cold, as with a JVM or an empty cache");
            let effect = Some(trial::effect(change, SCENE));
            Advice { effect, patch: Some(patch), ..Advice::new(KIND, subject, Verdict::Depends, says) }
        }
        false => {
            let says = "leave it: the algorithm itself sends fewer requests to an endpoint that starts cold";
            Advice::new(KIND, subject, Verdict::Leave, says)
        }
    };
    advice.evidence.push(format!(
        "p99 {:.1} ms without and {:.1} ms with slow start, while an endpoint needs 10 s from a tenth of its speed",
        trial::mean_ms(&before),
        trial::mean_ms(&after)
    ));
    advice.repeat = Some(inputs.repeat(KIND));
    Some(advice)
}
