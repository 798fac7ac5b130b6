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

use crate::advice::Advice;
use crate::inputs::Inputs;

/// Question about a configuration, with its inputs.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// Facts that it needs besides the configuration; empty for none.
    pub reads: &'static str,
    /// Simulations or comparisons that it runs.
    pub runs: &'static str,
    pub advise: fn(&Inputs<'_>) -> Vec<Advice>,
}

/// All kinds, in the order of the guide.
pub static ALL: &[Kind] = &[
    Kind {
        name: "algorithm",
        reads: "",
        runs: "each algorithm with the pool's settings, under six loads and spreads of work",
        advise: algorithm::advise,
    },
    Kind {
        name: "plane",
        reads: "the rate of connections, from a log or a running instance",
        runs: "`check` with each plane; the measured costs of planes",
        advise: plane::advise,
    },
    Kind {
        name: "topology",
        reads: "the number of balancers",
        runs: "the pool behind that many balancers, with and without load reports",
        advise: topology::advise,
    },
    Kind {
        name: "health",
        reads: "",
        runs: "an endpoint that answers with errors, with and without checks and ejection",
        advise: health::advise,
    },
    Kind {
        name: "retries",
        reads: "",
        runs: "rules for settings that repeat work or overload endpoints",
        advise: retries::advise,
    },
    Kind {
        name: "slow-start",
        reads: "",
        runs: "an endpoint that starts cold, with and without `slow_start`",
        advise: slow_start::advise,
    },
    Kind {
        name: "limits",
        reads: "",
        runs: "the pool with and without its limit, near capacity",
        advise: limits::advise,
    },
    Kind {
        name: "cache",
        reads: "an access log",
        runs: "a count of requests that repeat a path within a minute",
        advise: cache::advise,
    },
    Kind {
        name: "compression",
        reads: "an access log",
        runs: "a count of the bytes of responses that are texts",
        advise: compression::advise,
    },
    Kind {
        name: "running",
        reads: "a running instance",
        runs: "rules for endpoints that differ from their pool",
        advise: running::advise,
    },
];

/// Returns the advice of some kinds, or of all if `only` is empty, in order of effect. `progress` gets each kind.
pub fn advise(inputs: &Inputs<'_>, only: &[String], progress: &dyn Fn(&str)) -> Vec<Advice> {
    let wanted = |kind: &&Kind| only.is_empty() || only.iter().any(|name| name == kind.name);
    let mut all = Vec::new();
    for kind in ALL.iter().filter(wanted) {
        progress(kind.name);
        all.extend((kind.advise)(inputs));
    }
    all.sort_by(Advice::before);
    all
}
