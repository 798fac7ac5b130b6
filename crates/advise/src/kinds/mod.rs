//! Kinds of advice: a file and a row for each.

// Order: algorithm, cache, compression, health, limits, plane, retries, running, slow_start, topology, routes
mod algorithm;
mod cache;
mod compression;
mod health;
mod limits;
mod plane;
mod retries;
mod routes;
mod running;
mod slow_start;
mod topology;

use crate::advice::{Advice, Found};
use crate::inputs::Inputs;
use evenkeel_config::plan::Pool;
use evenkeel_view::advice::Verdict;

/// Question about a configuration, with its inputs.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// Facts that it needs besides the configuration; empty for none.
    pub reads: &'static str,
    /// Simulations or comparisons that it runs.
    pub runs: &'static str,
    pub judges: Judges,
}

/// Subject of a kind, with the function that judges it.
#[derive(Debug)]
pub enum Judges {
    /// The whole configuration, by rules and counts that take no time.
    Whole(fn(&Inputs<'_>) -> Vec<Advice>),
    /// A pool of [`Inputs::pools`], by simulations.
    Pool(fn(&Inputs<'_>, &Pool) -> Vec<Advice>),
}

/// All kinds, in the order of the guide.
pub static ALL: &[Kind] = &[
    Kind {
        name: "algorithm",
        reads: "an access log, or the shadows of a running instance",
        runs: "each algorithm with the pool's settings, under six loads and spreads of work",
        judges: Judges::Pool(algorithm::advise),
    },
    Kind {
        name: "plane",
        reads: "the rate of connections, from a log or a running instance",
        runs: "`check` with each plane; the measured costs of planes",
        judges: Judges::Whole(plane::advise),
    },
    Kind {
        name: "topology",
        reads: "the number of balancers",
        runs: "the pool behind that many balancers, with and without load reports",
        judges: Judges::Pool(topology::advise),
    },
    Kind {
        name: "health",
        reads: "",
        runs: "an endpoint that answers with errors, with and without checks and ejection",
        judges: Judges::Pool(health::advise),
    },
    Kind {
        name: "retries",
        reads: "",
        runs: "rules for settings that repeat work or overload endpoints",
        judges: Judges::Whole(retries::advise),
    },
    Kind {
        name: "slow-start",
        reads: "",
        runs: "an endpoint that starts cold, with and without `slow_start`",
        judges: Judges::Pool(slow_start::advise),
    },
    Kind {
        name: "limits",
        reads: "",
        runs: "the pool with and without its limit, near capacity",
        judges: Judges::Pool(limits::advise),
    },
    Kind {
        name: "cache",
        reads: "an access log",
        runs: "a count of requests that repeat a path within a minute",
        judges: Judges::Whole(cache::advise),
    },
    Kind {
        name: "compression",
        reads: "an access log",
        runs: "a count of the bytes of responses that are texts",
        judges: Judges::Whole(compression::advise),
    },
    Kind {
        name: "running",
        reads: "a running instance",
        runs: "rules for endpoints that differ from their pool",
        judges: Judges::Whole(running::advise),
    },
];

/// Returns the advice of some kinds, or of all if `only` is empty, in order of effect. `progress` gets each kind.
pub fn advise(inputs: &Inputs<'_>, only: &[String], progress: &dyn Fn(&str)) -> Found {
    let wanted = |kind: &&Kind| only.is_empty() || only.iter().any(|name| name == kind.name);
    let mut found = Found::default();
    for kind in ALL.iter().filter(wanted) {
        if let Judges::Whole(judge) = kind.judges {
            progress(kind.name);
            found.advice.extend(judge(inputs));
        }
    }
    // Pool by pool, so that a pool has all its advice or is named as unfinished.
    for pool in inputs.pools() {
        let mut advice = Vec::new();
        for kind in ALL.iter().filter(wanted) {
            if let Judges::Pool(judge) = kind.judges
                && !inputs.is_late()
            {
                progress(kind.name);
                advice.extend(judge(inputs, pool));
            }
        }
        // Judgements of trials that were cut short are worth nothing.
        match inputs.is_late() {
            true => found.unfinished.push(pool.name.to_string()),
            false => found.advice.extend(advice),
        }
    }
    for advice in found.advice.iter_mut().filter(|advice| advice.verdict != Verdict::Leave) {
        advice.repeat.get_or_insert_with(|| inputs.repeat(advice.kind));
    }
    let row = |advice: &Advice| ALL.iter().position(|kind| kind.name == advice.kind);
    found.advice.sort_by(|a, b| a.before(b).then(row(a).cmp(&row(b))));
    found
}
