//! The algorithm of a pool, and its parameters.

// Order: of_log, of_shadows, outcome
mod of_log;
mod of_shadows;
mod outcome;

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::trial::{self, Comparison, Scene, USUAL, Values};
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::Verdict;
use outcome::{KIND, Outcome};

/// Values of `balance` that are tried. None needs a key or probes.
const CANDIDATES: &[&str] =
    &["\"leastconn\"", "\"random\"", "{ random = { draws = 3 } }", "\"peak_ewma\"", "\"round_robin\""];

/// Difference of mean changes below which two algorithms are alike.
const ALIKE: f64 = 0.03;

pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Vec<Advice> {
    vec![of_pool(inputs, pool)]
}

/// Change of the algorithm that was tried.
struct Tried {
    value: &'static str,
    patched: Result<crate::diff::Patch, String>,
    label: String,
    comparison: Comparison,
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Advice {
    let subject = format!("pool \"{}\"", pool.name);
    let own = pool.balance.to_string();
    let leave = |why: String| Advice::new(KIND, subject.clone(), Verdict::Leave, why);
    if pool.balance.algorithm.needs.key {
        return leave(format!("leave {own}: it keeps keys at their endpoints, which is worth more than a lower p99"));
    }
    if pool.balance.algorithm.name == "first" {
        return leave(format!("leave {own}: its order of endpoints is wanted"));
    }
    let mut refusals = Vec::new();
    for judge in [of_log::advise, of_shadows::advise] {
        match judge(inputs, pool) {
            Some(Outcome::Answered(mut advice)) => {
                advice.evidence.extend(refusals);
                return *advice;
            }
            Some(Outcome::Refused(why)) => refusals.push(why),
            None => {}
        }
    }
    let before: Vec<Option<Values>> = USUAL.iter().map(|scene| p99(inputs, pool, *scene)).collect();
    let tried: Vec<Tried> = CANDIDATES.iter().filter_map(|value| attempt(inputs, pool, value, &before)).collect();
    if tried.is_empty() {
        return leave(format!("leave {own}: the simulator cannot run this pool, or no other algorithm passes check"));
    }
    let better: Vec<&Tried> = tried.iter().filter(|one| one.comparison.is_better()).collect();
    let least = better.iter().map(|one| one.comparison.overall.mean).fold(f64::INFINITY, f64::min);
    // The first of those that are alike: candidates are in the order of simplicity.
    let best = better.into_iter().find(|one| one.comparison.overall.mean <= least + ALIKE);
    let mut advice = match best {
        None => leave(format!("leave {own}: no other algorithm has a p99 that is lower by more than noise")),
        Some(best) => {
            let says = format!("set balance = {} instead of {own}", best.value);
            let effect = Some(best.comparison.effect());
            let patch = best.patched.clone().ok();
            Advice { effect, patch, ..Advice::new(KIND, subject.clone(), Verdict::Change, says) }
        }
    };
    advice.evidence.push(format!(
        "simulated with the settings of the pool on {} workers, {} runs of {} requests each; work of {:?} on a core per \
         weight is an assumption (--work)",
        inputs.workers(),
        inputs.effort.seeds,
        inputs.effort.requests,
        inputs.work()
    ));
    for one in best.iter().copied().chain(tried.iter().filter(|one| best.is_none_or(|best| best.value != one.value))) {
        let changes = USUAL.iter().zip(&one.comparison.changes).map(|(scene, change)| {
            format!(
                "{:+.0} % [{:+.0}, {:+.0}] at {}",
                change.mean * 100.0,
                change.low() * 100.0,
                change.high() * 100.0,
                scene.text()
            )
        });
        advice.evidence.push(format!("{}: p99 {}", one.label, changes.collect::<Vec<_>>().join("; ")));
    }
    advice.evidence.splice(0..0, refusals);
    advice.repeat = Some(inputs.repeat(KIND));
    advice
}

fn p99(inputs: &Inputs<'_>, pool: &Pool, scene: Scene) -> Option<Values> {
    trial::run(inputs, pool, inputs.balancers, scene, "p99")
}

/// Tries a value of `balance`. `None` if it is the pool's own, `check` refuses it, or it does not settle in a scene in
/// which the own algorithm does.
fn attempt(inputs: &Inputs<'_>, pool: &Pool, value: &'static str, before: &[Option<Values>]) -> Option<Tried> {
    let (patched, changed) = match inputs.patch(At::Named("pool", &pool.name), "balance", value) {
        Ok((patch, plan)) => (Ok(patch), plan.pool(&pool.name)?.clone()),
        Err(_) => return None,
    };
    if changed.balance == pool.balance {
        return None;
    }
    let after: Vec<Option<Values>> = USUAL.iter().map(|scene| p99(inputs, &changed, *scene)).collect();
    let comparison = Comparison::of(before, &after)?;
    Some(Tried { value, patched, label: changed.balance.to_string(), comparison })
}
