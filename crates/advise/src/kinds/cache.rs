//! Caching of routes whose requests repeat.

use super::routes::{each, position};
use crate::advice::Advice;
use crate::inputs::Inputs;
use crate::traffic::{FRESH_S, OfRoute};
use evenkeel_view::advice::{Effect, Figure, Verdict};

const KIND: &str = "cache";

/// Share of requests that a cache has to answer to be worth its memory.
const WORTH: f64 = 0.1;

pub(super) fn advise(inputs: &Inputs<'_>) -> Vec<Advice> {
    each(inputs, |name, of| of_route(inputs, name, of))
}

fn of_route(inputs: &Inputs<'_>, name: &str, of: &OfRoute) -> Option<Advice> {
    let (at, route) = position(inputs, name)?;
    if route.filters.cache.is_some() {
        return None;
    }
    let subject = format!("route \"{}\"", route.name);
    let share = of.repeated as f64 / of.requests as f64;
    let evidence = format!(
        "{} of {} requests are a GET with a 200 whose path was requested within {FRESH_S} s before",
        of.repeated, of.requests
    );
    if share < WORTH {
        let says = "leave it: too few requests repeat";
        return Some(Advice { evidence: vec![evidence], ..Advice::new(KIND, subject, Verdict::Leave, says) });
    }
    // A log does not show Cache-Control, so whether responses may be stored is up to the application.
    let says = "set cache = true if responses state how long they are fresh (Cache-Control)";
    let mut advice = Advice::new(KIND, subject, Verdict::Depends, says);
    let at_most = format!("at most, if each response is fresh for {FRESH_S} s");
    advice.effect = Some(Effect { figure: Figure::Requests, change: [-share; 3], at: at_most });
    advice.evidence.push(evidence);
    advice.evidence.push(
        "a response is stored only if its Cache-Control or Expires allows it, which the log does not show".into(),
    );
    match at
        .ok_or("the route is written elsewhere: add cache = true".to_string())
        .and_then(|at| inputs.patch(at, KIND, "true"))
    {
        Ok((patch, _)) => advice.patch = Some(patch),
        Err(why) => advice.evidence.push(why),
    }
    advice.repeat = Some(inputs.repeat(KIND));
    Some(advice)
}
