//! Health checks and ejection: requests that an endpoint with errors costs.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::trial::{self, Event, Scene, Spread};
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::{Effect, Figure, Verdict};

const KIND: &str = "health";

const SCENE: Scene = Scene { load: 0.7, spread: Spread::Exponential, event: Event::Errors };

/// Share of requests below which failures are left alone.
const WORTH: f64 = 0.001;

pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Vec<Advice> {
    vec![of_pool(inputs, pool)]
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Advice {
    let subject = format!("pool \"{}\"", pool.name);
    let leave = |says: String| Advice::new(KIND, subject.clone(), Verdict::Leave, says);
    let failed = |pool: &Pool| trial::run(inputs, pool, inputs.balancers, SCENE, "failed");
    let Some(before) = failed(pool) else { return leave("leave it: the simulator cannot run this pool".to_string()) };
    let share = trial::mean_ms(&before) / 1e3;
    let mut changes: Vec<(&str, &str)> = Vec::new();
    if pool.outlier.is_none() {
        changes.push(("outlier", "{}"));
    }
    if pool.health.is_none() {
        // A check that every server passes while it runs: the path that an application serves is not known here.
        changes.push((
            "health",
            if inputs.is_http(pool) { "{ http = \"/\", interval = \"2s\" }" } else { "{ tcp = {} }" },
        ));
    }
    let mut best: Option<(Advice, f64)> = None;
    for (key, value) in changes {
        let Ok((patch, plan)) = inputs.patch(At::Named("pool", &pool.name), key, value) else { continue };
        let Some(after) = plan.pool(&pool.name).and_then(|pool| failed(pool)) else { continue };
        let difference = trial::difference(&before, &after);
        if difference.high() < 0.0
            && difference.mean <= -WORTH
            && best.as_ref().is_none_or(|(_, least)| difference.mean < *least)
        {
            let relative = |x: f64| x / share.max(f64::MIN_POSITIVE);
            let change = [difference.low(), difference.mean, difference.high()].map(relative);
            let effect = Effect { figure: Figure::Failures, change, at: SCENE.text() };
            let says = match key {
                "health" => format!("add health = {value}, with a path that shows that the application works"),
                _ => format!("add {key} = {value} instead of \"off\""),
            };
            let mut advice = Advice::new(KIND, subject.clone(), Verdict::Change, says);
            (advice.effect, advice.patch) = (Some(effect), Some(patch));
            best = Some((advice, difference.mean));
        }
    }
    let mut advice = match best {
        Some((advice, _)) => advice,
        None if pool.health.is_none() => {
            leave("leave it: ejection by outcomes already keeps requests away from a failing endpoint".to_string())
        }
        None => leave("leave it: checks and ejection keep requests away from a failing endpoint".to_string()),
    };
    advice.evidence.push(format!("{:.2} % of requests fail at {}", share * 100.0, SCENE.text()));
    advice.repeat = Some(inputs.repeat(KIND));
    advice
}
