//! Retries and hedging: settings that repeat work or overload endpoints.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::Verdict;

const KIND: &str = "retries";

/// Share of requests that retries may add before they make an overload worse.
const BUDGET_MAX: f64 = 0.5;

pub(super) fn advise(inputs: &Inputs<'_>) -> Vec<Advice> {
    inputs.pools().filter_map(|pool| of_pool(inputs, pool)).collect()
}

fn of_pool(inputs: &Inputs<'_>, pool: &Pool) -> Option<Advice> {
    let subject = format!("pool \"{}\"", pool.name);
    let settings = &pool.retry.settings;
    if inputs.listeners(pool).iter().all(|listener| listener.plane.is_kernel()) {
        return None;
    }
    if let Some(danger) = danger(inputs, pool) {
        return Some(danger);
    }
    let is_off = settings.attempts == 0 && inputs.is_http(pool);
    if !is_off {
        return Some(Advice::new(KIND, subject, Verdict::Leave, "leave it: retries stay within their budget"));
    }
    let says = "set retry = { attempts = 1 }: a request that could not be connected is safe to send elsewhere";
    let patched = inputs.patch_inner(At::Named("pool", &pool.name), "retry", "attempts", "1");
    let mut advice = Advice::new(KIND, subject, Verdict::Change, says);
    advice
        .evidence
        .push("without retries, each request to an endpoint that has stopped fails until it is ejected".into());
    match patched {
        Ok((patch, _)) => advice.patch = Some(patch),
        Err(why) => advice.evidence.push(why),
    }
    Some(advice)
}

/// Setting that repeats work or feeds an overload.
fn danger(inputs: &Inputs<'_>, pool: &Pool) -> Option<Advice> {
    let settings = &pool.retry.settings;
    let (says, evidence, key, value) = match () {
        () if settings.attempts == 0 => return None,
        () if settings.non_idempotent && inputs.is_http(pool) => (
            "set non_idempotent = false in retry: a POST that an endpoint has executed may be executed twice",
            "non_idempotent = true retries POST and PATCH after part of them was sent".to_string(),
            "non_idempotent",
            "false",
        ),
        () if settings.budget > BUDGET_MAX => {
            let (budget, share) = (settings.budget, settings.budget * 100.0);
            (
                "set a budget of 0.2 in retry: when all endpoints fail, retries add that share to the load",
                format!("budget = {budget}: up to {share:.0} % more requests while the endpoints are overloaded"),
                "budget",
                "0.2",
            )
        }
        () => return None,
    };
    let mut advice = Advice::new(KIND, format!("pool \"{}\"", pool.name), Verdict::Danger, says);
    advice.evidence.push(evidence);
    match inputs.patch_inner(At::Named("pool", &pool.name), "retry", key, value) {
        Ok((patch, _)) => advice.patch = Some(patch),
        Err(why) => advice.evidence.push(why),
    }
    Some(advice)
}
