//! The number of balancers, and load reports between them.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::trial::{self, Comparison, Scene, USUAL, Values};
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::Verdict;

const KIND: &str = "topology";

pub(super) fn advise(inputs: &Inputs<'_>, pool: &Pool) -> Vec<Advice> {
    let is_asked = inputs.balancers > 1 && pool.balance.algorithm.needs.in_flight;
    is_asked.then(|| of_pool(inputs, pool)).into_iter().collect()
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Advice {
    let (subject, many) = (format!("pool \"{}\"", pool.name), inputs.balancers);
    let leave = |says: String| Advice::new(KIND, subject.clone(), Verdict::Leave, says);
    let p99 = |pool: &Pool, balancers: u32, scene: Scene| trial::run(inputs, pool, balancers, scene, "p99");
    let before: Vec<Option<Values>> = USUAL.iter().map(|scene| p99(pool, many, *scene)).collect();
    let compare = |pool: &Pool, balancers: u32| {
        let after: Vec<Option<Values>> = USUAL.iter().map(|scene| p99(pool, balancers, *scene)).collect();
        Comparison::of(&before, &after)
    };
    let one = compare(pool, 1);
    let single = one.map(|one| {
        format!(
            "a single balancer for everything: p99 {:+.0} % on average over {} scenes",
            one.overall.mean * 100.0,
            USUAL.len()
        )
    });
    if pool.load_reports.is_some() {
        let says = format!("leave it: {many} balancers share the load of the endpoints by reports");
        return Advice { evidence: single.into_iter().collect(), ..leave(says) };
    }
    let (patch, plan) = match inputs.patch(At::Named("pool", &pool.name), "load_reports", "true") {
        Ok(patched) => patched,
        Err(why) => return leave(format!("leave it: load_reports = true does not pass check ({why})")),
    };
    let Some(changed) = plan.pool(&pool.name) else { return leave("leave it".to_string()) };
    let Some(comparison) = compare(changed, many) else {
        return leave("leave it: the simulator cannot run this pool behind several balancers".to_string());
    };
    let mut advice = match comparison.is_better() {
        true => Advice {
            effect: Some(comparison.effect()),
            patch: Some(patch),
            ..Advice::new(
                KIND,
                subject.clone(),
                Verdict::Depends,
                "set load_reports = true if the endpoints report their load, as each balancer sees only its own requests",
            )
        },
        false => leave(format!("leave it: with {many} balancers, load reports make no difference")),
    };
    advice.evidence.extend(single);
    advice.evidence.push("evenkeel beside an application reports its load: see the guide to shared load".to_string());
    advice.repeat = Some(inputs.repeat(KIND));
    advice
}
