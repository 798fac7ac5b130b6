//! Compression of routes whose responses are texts.

use super::routes::{each, position};
use crate::advice::Advice;
use crate::inputs::Inputs;
use crate::traffic::OfRoute;
use evenkeel_view::advice::{Effect, Figure, Verdict};

const KIND: &str = "compression";

/// Part of the bytes of a text that compression saves, at least: scripts and JSON shrink to a third or less.
const SAVED: f64 = 0.6;

/// Share of bytes that compression has to save to be worth its processor time.
const WORTH: f64 = 0.1;

pub(super) fn advise(inputs: &Inputs<'_>) -> Vec<Advice> {
    each(inputs, |name, of| of_route(inputs, name, of))
}

fn of_route(inputs: &Inputs<'_>, name: &str, of: &OfRoute) -> Option<Advice> {
    let (at, route) = position(inputs, name)?;
    if route.filters.compress.is_some() {
        return None;
    }
    let subject = format!("route \"{}\"", route.name);
    let share = SAVED * of.text_bytes as f64 / of.bytes_out.max(1) as f64;
    let evidence = format!(
        "{} of {} bytes are responses of at least 1 KiB whose path ends like a text (.html, .js, .css, .json, ...)",
        of.text_bytes, of.bytes_out
    );
    if share < WORTH {
        let says = "leave it: too few bytes are texts, by the ends of paths";
        return Some(Advice { evidence: vec![evidence], ..Advice::new(KIND, subject, Verdict::Leave, says) });
    }
    let says = "set compress = true if the endpoints do not compress their responses";
    let mut advice = Advice::new(KIND, subject, Verdict::Depends, says);
    let at_least = format!("if texts shrink by {:.0} %", SAVED * 100.0);
    advice.effect = Some(Effect { figure: Figure::Bytes, change: [-share; 3], at: at_least });
    advice.evidence.push(evidence);
    advice.evidence.push("the log has neither content types nor codings, and compression takes processor time".into());
    match at
        .ok_or("the route is written elsewhere: add compress = true".to_string())
        .and_then(|at| inputs.patch(at, "compress", "true"))
    {
        Ok((patch, _)) => advice.patch = Some(patch),
        Err(why) => advice.evidence.push(why),
    }
    advice.repeat = Some(inputs.repeat(KIND));
    Some(advice)
}
