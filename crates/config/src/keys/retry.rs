//! What is tried again, and what is sent twice? The same rows serve `[defaults.retry]`, pools and routes.

use super::{Absent, H, Key, Kind, MS, Table};
use crate::form::Form;

/// The defaults, from which pools and routes start.
pub(super) static DEFAULT_RETRY: Table = Table {
    path: "[defaults.retry]",
    help: "Where the retries of every pool and route start.",
    inherits: false,
    keys: KEYS,
};

pub(super) static POOL_RETRY: Table = Table {
    path: "retry of [pool.NAME]",
    help: "What is tried again. Left out: from `[defaults.retry]`.",
    inherits: true,
    keys: KEYS,
};

pub(super) static ROUTE_RETRY: Table = Table {
    path: "retry of [[route]]",
    help: "What is tried again for requests of this route. Left out: from the route's pool.",
    inherits: true,
    keys: KEYS,
};

/// The rows that are about one try after another, and not about two at once.
pub static TRIES: &[Key] = KEYS.split_at(7).0;

static KEYS: &[Key] = &[
    Key {
        name: "attempts",
        kind: Kind::Int { min: 0, max: 10 },
        absent: Absent::Default("1"),
        help: "Further tries that a request gets after its first, each at another endpoint; 0 = none.",
        why: "One moves a request away from a dead endpoint; more multiply the load when all are slow.",
    },
    Key {
        name: "on",
        kind: Kind::List(&Kind::IntOrText { min: 400, max: 599, form: Form::RetryOn }),
        absent: Absent::Default("[\"connect\", \"reset\"]"),
        help: "The failures that are tried again. `connect`: it could not be connected to. `reset`: it closed before the \
               first byte of a response. `timeout`: it did not answer within `try_timeout`. A status: `503`, \
               `\"500..=504\"`, `\"5xx\"`.",
        why: "What has surely not been answered.",
    },
    Key {
        name: "non_idempotent",
        kind: Kind::Bool,
        absent: Absent::Default("false"),
        help: "Whether requests whose method is not idempotent (POST, PATCH) are tried again too, once something of them \
               has left. Before that any may be.",
        why: "It may have been done already, and would be done twice.",
    },
    Key {
        name: "budget",
        kind: Kind::Number { min: 0.0, max: 1.0 },
        absent: Absent::Default("0.2"),
        help: "Retries as a share of requests.",
        why: "Envoy's: when all fail, the load grows by a fifth and not to twice as much.",
    },
    Key {
        name: "budget_floor",
        kind: Kind::Number { min: 0.0, max: 1e6 },
        absent: Absent::Default("3"),
        help: "Retries a second that are always allowed, all workers together.",
        why: "Envoy's number: so that a pool with few requests may retry at all.",
    },
    Key {
        name: "backoff",
        kind: Kind::Text(Form::Backoff),
        absent: Absent::Default("\"25ms..250ms\""),
        help: "The pause before a try is drawn from 0 to the first of the two; the range doubles with each try, up to the \
               second. After a connect that failed, the first further try goes at once.",
        why: "Envoy's: from 25 ms, up to ten times that.",
    },
    Key {
        name: "try_timeout",
        kind: Kind::Duration { min: MS, max: H, off: true },
        absent: Absent::Default("\"off\""),
        help: "How long one try may take to the head of its response. Needs `timeout` in `on` to be followed by another.",
        why: "How long an answer takes is known to whoever knows the endpoints.",
    },
    Key {
        name: "hedge_after",
        kind: Kind::Text(Form::Percentile),
        absent: Absent::Default("\"off\""),
        help: "Sends a second copy of a slow request to another endpoint, and takes the first answer: after this percentile \
               of the pool's latencies (`\"p95\"`, `\"p99.5\"`). Only requests whose method is idempotent, whatever \
               `non_idempotent` says.",
        why: "A second copy is more load; it pays where the tail is much longer than the middle.",
    },
    Key {
        name: "hedge_budget",
        kind: Kind::Number { min: 0.0, max: 1.0 },
        absent: Absent::Default("0.05"),
        help: "Second copies as a share of requests.",
        why: "What the 95th percentile leaves (Dean and Barroso, The Tail at Scale, 2013).",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hedges_come_last() {
        assert!(TRIES.iter().all(|key| !key.name.starts_with("hedge")));
        assert!(KEYS[TRIES.len()..].iter().all(|key| key.name.starts_with("hedge")));
    }
}
