//! Findings for machines; docs/guide/what-if.md shows the text.

use crate::answer::{Figures, Range, Time};
use crate::explored::{Beside, Estimate, Explored, PICKS_MIN, Shares};
use crate::findings::Findings;
use crate::warmth::Warmth;
use serde_json::{Map, Value, json};

/// JSON of findings. Times are in milliseconds, intervals hold 90 %: `[low, middle, high]`.
pub fn json(found: &Findings) -> Value {
    let doubt = |of: &crate::Doubt| json!({ "kind": of.kind, "text": of.text, "help": of.help });
    let logged = found.model.as_ref().map(|model| {
        let [p50, p90, p99] = model.measured.times_ns.map(ms);
        let shares = found.names.iter().zip(&model.measured.shares);
        let shares: Map<String, Value> = shares.map(|(name, share)| (name.clone(), json!(share))).collect();
        json!({ "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "shares": shares })
    });
    let validation = found.model.as_ref().map(|model| {
        let compared = model.compared.iter().map(|of| json!({ "figure": of.what, "logged": of.logged, "model": of.model }));
        let systems = model.systems.iter().map(|system| {
            let ways = system.ways.iter().zip(&found.names).map(|(way, name)| {
                let serving = format!("{:?}", way.serving);
                json!({ "endpoint": name, "serving": serving, "delay_ms": ms(way.delay_ns as f64), "capacity": way.capacity })
            });
            json!({ "off": system.off, "clients": format!("{:?}", system.clients), "endpoints": ways.collect::<Vec<_>>() })
        });
        json!({ "compared": compared.collect::<Vec<_>>(), "systems": systems.collect::<Vec<_>>(), "memory": [model.memory.within, model.memory.across, model.memory.error] })
    });
    let answers = found.answers.iter().map(|answer| {
        let mut value =
            json!({ "question": answer.label, "bound": answer.is_bound, "refused": answer.figures.as_ref().err() });
        if let (Ok(figures), Some(object)) = (&answer.figures, value.as_object_mut()) {
            object.extend(of_figures(figures));
        }
        value
    });
    let warm_up = found.warm_up.as_ref().map(|seen| {
        let step = |(until, factor): &(u64, f64)| json!([*until as f64 / 1e9, factor]);
        let one = |of: &Warmth| {
            let steps = of.cold.iter().map(step).collect::<Vec<_>>();
            json!({ "endpoint": of.name, "joined_s": of.joined.at as f64 / 1e9, "work_until_s": steps })
        };
        json!({ "seen": seen.iter().map(one).collect::<Vec<_>>() })
    });
    let plane = found.plane.map(|of| json!({ "name": of.name, "processor_us": of.apart_ns as f64 / 1e3 }));
    let verdict = found.verdict.as_ref().map(|of| json!({ "best": of.best, "alike": of.alike, "text": of.text }));
    json!({
        "pool": found.pool,
        "requests": found.requests,
        "span_s": found.span_ns as f64 / 1e9,
        "balance": found.model.as_ref().map(|model| &model.policy.label),
        "refused": found.doubts.iter().map(doubt).collect::<Vec<_>>(),
        "logged": logged,
        "validation": validation,
        "explored": found.explored.as_ref().map(explored),
        "answers": answers.collect::<Vec<_>>(),
        "plane": plane,
        "warm_up": warm_up,
        "verdict": verdict,
    })
}

/// Explored picks with their comparisons: of all, by endpoint, and as policies would share them.
fn explored(of: &Explored) -> Value {
    let (mut uniform, mut endpoints, mut policies) = (Value::Null, Map::new(), Map::new());
    for row in &of.rows {
        match &row.of {
            Shares::Uniform => uniform = of_explored(row),
            Shares::Endpoint(name) => drop(endpoints.insert(name.clone(), of_explored(row))),
            Shares::Policy(label) => drop(policies.insert(label.clone(), of_explored(row))),
        }
    }
    json!({ "picks": of.picks, "picks_min": PICKS_MIN, "uniform": uniform, "endpoints": endpoints, "policies": policies })
}

fn of_explored(of: &Beside) -> Value {
    let estimate = |of: &Estimate| {
        let Range { low, middle, high } = of.latency_ns;
        json!({ "mean_ms": [ms(low), ms(middle), ms(high)], "failed": [of.failed.low, of.failed.middle, of.failed.high] })
    };
    json!({ "agrees": of.agrees(), "log": estimate(&of.explored), "model": estimate(&of.model) })
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

fn of_figures(figures: &Figures) -> Map<String, Value> {
    let time = |of: Time| json!({ "value": ms(of.value), "change": [ms(of.change.low), ms(of.change.middle), ms(of.change.high)] });
    let range = |of: &Range| json!([of.low, of.middle, of.high]);
    let mut all = Map::new();
    for (name, of) in ["p50_ms", "p90_ms", "p99_ms"].into_iter().zip(figures.times) {
        all.insert(name.to_string(), time(of));
    }
    let shares = figures.shares.iter().map(|(name, share)| (name.clone(), range(share)));
    all.insert("shares".to_string(), Value::Object(shares.collect()));
    all.insert("failed".to_string(), range(&figures.failed));
    all.insert("extrapolated".to_string(), json!(figures.extrapolated));
    all
}
