//! Compression of routes whose responses are texts.

use super::routes::{each, patch, position};
use crate::advice::Advice;
use crate::inputs::Inputs;
use crate::traffic::OfRoute;
use evenkeel_view::advice::{Effect, Figure, Verdict};

const KIND: &str = "compression";

/// Part of the bytes of a text that compression saves, at least: scripts and JSON shrink to a third or less.
const SAVED: f64 = 0.6;

/// Part that it saves at most: lists of records in JSON shrink to a tenth or less.
const SAVED_MOST: f64 = 0.95;

/// Processor time of compressing a byte of text with `gzip` at its default level, in nanoseconds: 7 to 15, measured
/// (docs/measurements/2026-11-26-compression.md).
const COST_NS: f64 = 11.0;

/// Share of bytes that compression has to save to be worth its processor time.
const WORTH: f64 = 0.1;

pub(super) fn advise(inputs: &Inputs<'_>) -> Vec<Advice> {
    each(inputs, |name, of| of_route(inputs, name, of))
}

fn of_route(inputs: &Inputs<'_>, name: &str, of: &OfRoute) -> Option<Advice> {
    let (place, route) = position(inputs, name)?;
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
    let says =
        "set compress = true if the endpoints do not compress their responses, and bytes cost more than processor time";
    let mut advice = Advice::new(KIND, subject, Verdict::Depends, says);
    let at = format!("of the route, if texts shrink by {:.0} to {:.0} %", SAVED * 100.0, SAVED_MOST * 100.0);
    let most = share / SAVED * SAVED_MOST;
    let change = [-most, -(share + most) / 2.0, -share];
    advice.effect = Some(Effect { figure: Figure::Bytes, change, at });
    advice.evidence.push(evidence);
    advice.evidence.push("the log has neither content types nor codings".into());
    let each_us = COST_NS * of.text_bytes as f64 / of.requests.max(1) as f64 / 1e3;
    advice.evidence.push(format!(
        "compression takes about {each_us:.0} us of processor time for each request, if all clients accept gzip"
    ));
    match patch(inputs, &place, route, "compress", "true") {
        Ok(patch) => advice.patch = Some(patch),
        Err(why) => advice.evidence.push(why),
    }
    advice.repeat = Some(inputs.repeat(KIND));
    Some(advice)
}
