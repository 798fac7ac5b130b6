//! Findings for a terminal, in at most 200 columns.

use crate::explored::{PICKS_MIN, Shares};
use crate::findings::Findings;
use crate::warmth::Warmth;
use evenkeel_sim::planes::{self, PlaneCost};
use std::fmt::Write;

/// Formats findings: doubts with remedies, or validation, a table of changes and the verdict.
pub fn text(found: &Findings) -> String {
    let mut out = String::new();
    let pool = if found.pool.is_empty() { String::new() } else { format!("pool {}: ", found.pool) };
    let _ = writeln!(out, "{pool}{} tries over {:.1} s", found.requests, found.span_ns as f64 / 1e9);
    if !found.doubts.is_empty() {
        let _ = writeln!(out, "\nThis log cannot answer:");
        for doubt in &found.doubts {
            let _ = writeln!(out, "- {}.\n  Help: {}", doubt.text, doubt.help.replace('\n', "\n    "));
        }
        return out;
    }
    let Some(model) = &found.model else { return out };
    let _ = writeln!(out, "policy in force: {}", model.policy.label);
    let _ = writeln!(out, "\nThe last part of the log, and the model that was fitted to the first:");
    for of in &model.compared {
        let _ = writeln!(out, "  {:28} {:>10.3} {:>10.3}", of.what, of.logged, of.model);
    }
    let _ = writeln!(out, "\nChange from {} with 90 % intervals, in ms:", model.policy.label);
    let _ = writeln!(out, "  {:24} {:>30} {:>30} {:>30}", "", "p50", "p90", "p99");
    let (bounds, policies): (Vec<_>, Vec<_>) = found.answers.iter().partition(|answer| answer.is_bound);
    for answer in policies.into_iter().chain(bounds) {
        match &answer.figures {
            Err(why) => {
                let _ = writeln!(out, "  {:24} not known: {why}", answer.label);
            }
            Ok(figures) => {
                let _ = write!(out, "  {:24}", answer.label);
                for time in figures.times {
                    let ms = |ns: f64| ns / 1e6;
                    let (low, middle, high) = (ms(time.change.low), ms(time.change.middle), ms(time.change.high));
                    let _ = write!(out, " {:>30}", format!("{middle:+.3} [{low:+.3}, {high:+.3}]"));
                }
                let note = answer.note();
                if !note.is_empty() {
                    let _ = write!(out, "  {note}");
                }
                let _ = writeln!(out);
            }
        }
    }
    if let Some(plane) = found.plane {
        let _ = writeln!(out, "\n{}", costs(plane));
    }
    out.push_str(&explored(found));
    if let Some(text) = warm_up(found) {
        let _ = writeln!(out, "\n{text}");
    }
    if let Some(verdict) = &found.verdict {
        let _ = writeln!(out, "\nVerdict: {}", verdict.text);
    }
    out
}

/// Measured processor times of a plane and a proxy.
pub(crate) fn costs(plane: &PlaneCost) -> String {
    let us = |plane: &PlaneCost| plane.apart_ns as f64 / 1e3;
    let own = format!("plane {}: {} us of processor time a request and connection, as measured", plane.name, us(plane));
    match planes::find("http").filter(|http| http.name != plane.name) {
        Some(http) => format!("{own}; {}: {} us", http.name, us(http)),
        None => own,
    }
}

/// Observed or assumed warm-up of added endpoints, without a full stop; `None` if it does not matter.
pub(crate) fn warm_up(found: &Findings) -> Option<String> {
    let seen: Vec<String> = found.warm_up.as_ref()?.iter().map(Warmth::text).collect();
    Some(match &seen[..] {
        [] => "no endpoint joins in the log, so added endpoints are assumed to be warm at once: slow start can gain nothing then, and \
               figures show what it costs"
            .to_string(),
        seen => format!("{}; added endpoints do as the last of them", seen.join("; ")),
    })
}

/// Lines about the explored requests; empty if the log has none.
fn explored(found: &Findings) -> String {
    let Some(explored) = &found.explored else { return String::new() };
    let Some(uniform) = explored.rows.first() else {
        return format!("\n{} explored picks are too few to check the model by ({PICKS_MIN})\n", explored.picks);
    };
    let mut out = format!("\n{} explored picks agree: {}\n", explored.picks, uniform.figures());
    for of in &explored.rows {
        if let Shares::Policy(label) = &of.of {
            let agree = if of.agrees() { "" } else { ", not known" };
            let _ = writeln!(out, "  a request at a time by {label}: {}{agree}", of.figures());
        }
    }
    out
}
