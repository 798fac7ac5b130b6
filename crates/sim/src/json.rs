//! Results as a JSON value, also by seed. Identical for the same file, seeds and program version.

use crate::experiment::{Experiment, Point};
use crate::metric;
use crate::results::{Results, Row};
use crate::{text, verdict};
use serde_json::{Map, Value, json};

/// Quantiles to report, over the latencies of all seeds.
const PERCENTILES: [f64; 8] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];

/// All results. Times are in seconds, shares from 0 to 1; figures that need a steady state are null without it.
pub fn json(experiment: &Experiment, results: &Results) -> Value {
    let points = experiment.points.iter().zip(&results.points).map(|(point, rows)| one(experiment, point, rows));
    let published = experiment.published.iter().map(|published| {
        let row = experiment.row(results, &published.at, &published.policy).map(|(_, row)| row);
        let cells = published.cells.iter().map(|cell| {
            json!({
                "metric": cell.metric.name, "published": cell.value, "allowed": [cell.allowed.0, cell.allowed.1],
                "ours": row.and_then(|row| row.interval(cell.metric)).map(|i| i.mean),
                "verdict": verdict::cell(cell, row).as_str(), "note": cell.note,
            })
        });
        json!({ "at": published.at, "algorithm": published.policy, "title": published.title, "cells": cells.collect::<Value>() })
    });
    let claims = experiment.claims.iter().map(|claim| {
        let judged = verdict::claim(claim, experiment, results);
        let interval = judged.interval;
        json!({
            "says": claim.says, "verdict": judged.verdict.as_str(), "compared": interval.map(|i| i.mean),
            "interval": interval.filter(|i| i.half.is_finite()).map(|i| [i.low(), i.high()]),
        })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "scenario": experiment.name,
        "summary": experiment.summary,
        "seeds": results.seeds,
        "points": points.collect::<Value>(),
        "published": published.collect::<Value>(),
        "claims": claims.collect::<Value>(),
        "verdict": text::sentences(experiment, results),
    })
}

fn one(experiment: &Experiment, point: &Point, rows: &[Row]) -> Value {
    let policies = point.policies.iter().zip(rows).enumerate().map(|(at, (policy, row))| {
        let mut figures = Map::new();
        for metric in metric::ALL {
            let value = row.interval(metric).map(|interval| {
                let ends = interval.half.is_finite().then(|| [interval.low(), interval.high()]);
                json!({ "mean": interval.mean, "interval": ends, "seeds": row.values(metric) })
            });
            figures.insert(metric.name.to_string(), json!(value));
        }
        let percentile =
            |q: &f64| (q.to_string(), json!(row.steady.then(|| row.latency.value_at_quantile(*q) as f64 / 1e9)));
        let shares = point.groups.iter().zip(&row.shares).map(|((name, _), shares)| (name.clone(), json!(shares)));
        let regret = |yardstick: &str| {
            verdict::regret(point, rows, at, yardstick).map(|[mean, p99]| json!({ "mean": mean, "p99": p99 }))
        };
        json!({
            "algorithm": policy.label,
            "reference": policy.is_reference(),
            "steady": row.steady,
            "offered": row.offered,
            "events": row.events,
            "figures": figures,
            "latency": PERCENTILES.iter().map(percentile).collect::<Map<_, _>>(),
            "shares": shares.collect::<Map<_, _>>(),
            "peaks": row.peaks,
            "regret": { "central-queue": regret("central-queue"), "jsq": regret("jsq") },
        })
    });
    json!({ "point": point.label, "verdict": verdict::best(experiment, point, rows), "algorithms": policies.collect::<Value>() })
}
