//! `retry`: retries and hedging. A set of rows serves `[defaults.retry]`, pools and routes. See [`Retry`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, RetryOn, percentile_text, status_text};
use crate::quantity::duration_text;
use crate::table::{Absent, Field, H, Key, Kind, Lines, MS, Section, Table, Value, list, quote, table};
use evenkeel_balance::hedge;
use evenkeel_balance::retry::{Conditions, Settings};
use evenkeel_wire::grpc::Status as GrpcStatus;
use std::time::Duration;

table! {
    /// Keys about sequential tries.
    static ONE_AFTER_ANOTHER = "[defaults.retry]", "";

    impl for Settings {
        attempts = Key {
            name: "attempts",
            kind: Kind::Int { min: 0, max: 10 },
            absent: Absent::Default("1"),
            help: "Retries of a request after its first try, each at another endpoint; 0 = none. If all of them fail, \
                one more try goes to the next tier or another zone, if that has healthy endpoints.",
            why: "One retry moves a request away from a dead endpoint. More retries would multiply the load when all \
                endpoints are slow.",
        };
        on = Key {
            name: "on",
            kind: Kind::List(&Kind::IntOrText { min: 400, max: 599, form: Form::RetryOn }),
            absent: Absent::Default("[\"connect\", \"reset\"]"),
            help: "Failures to retry. `connect`: the connection failed. `reset`: the endpoint closed before the first \
                byte of a response. `timeout`: no response within `try_timeout`. A status: `503`, `\"500..=504\"`, \
                `\"5xx\"`. The status of a gRPC call that ended without a message, such as `\"grpc:unavailable\"`; \
                such a call is retried although gRPC uses POST.",
            why: "In both cases, no byte of a response has arrived.",
        };
        non_idempotent = Key {
            name: "non_idempotent",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Retries requests with non-idempotent methods (POST, PATCH) even after part of the request was \
                sent. Before that, any request may be retried.",
            why: "The endpoint may already have processed the request, and a retry would process it twice.",
        };
        same_endpoint = Key {
            name: "same_endpoint",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Retries a request at an endpoint that was already tried, if the endpoint returned a status of `on` \
                and no other endpoint is left, as in a pool of one. After `connect`, `reset` and `timeout`, such \
                retries are always allowed.",
            why: "An endpoint that returns an error is likely to return it again, and retries would soon overload the \
                endpoint.",
        };
        budget = Key {
            name: "budget",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.2"),
            help: "Maximum retries, as a share of requests.",
            why: "Envoy's default: when everything fails, the load grows by a fifth instead of doubling.",
        };
        budget_floor = Key {
            name: "budget_floor",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            absent: Absent::Default("3"),
            help: "Retries per second that are always allowed, over all workers.",
            why: "Envoy's default: allows retries in a pool with few requests.",
        };
        backoff_ns, rows [Key {
            name: "backoff",
            kind: Kind::Text(Form::Backoff),
            absent: Absent::Default("\"25ms..250ms\""),
            help: "Pause before a retry, drawn at random between 0 and the first value. The range doubles with each \
                try, up to the second value. The first retry after a failed connect starts at once.",
            why: "Envoy's default: 25 ms, up to ten times that.",
        }], read |retry| backoff(retry).0, write write_backoff;
        backoff_max_ns, rows [], read |retry| backoff(retry).1, write |_, _, _| ();
        try_timeout_ns = Key {
            name: "try_timeout",
            kind: Kind::Duration { min: MS, max: H, off: true },
            absent: Absent::Default("\"off\""),
            help: "Time limit of one try, to the end of its response head. The request is then retried only if `on` \
                contains `timeout`.",
            why: "The right value depends on the endpoints.",
        };
    }
}

table! {
    /// Keys of `[defaults.retry]`, from which pools and routes start.
    pub(crate) static DEFAULT_RETRY = "[defaults.retry]",
        "Default retries and hedging of every pool and route.";

    /// `retry` of a pool or route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Retry {
        /// Conditions, number and pace of retries.
        settings: Settings, inline Settings;
        /// Hedging: a second copy of a slow request; `None` = off.
        hedge: Option<hedge::Settings>,
            rows [
                Key {
                    name: "hedge_after",
                    kind: Kind::Text(Form::Percentile),
                    absent: Absent::Default("\"off\""),
                    help: "Hedging: sends a second copy of a slow request to another endpoint and uses the first \
                        response. The copy is sent after this percentile of the pool's latencies (`\"p95\"`, \
                        `\"p99.5\"`). Only for idempotent methods, whatever `non_idempotent` is.",
                    why: "Hedging adds load. It pays off if the tail of the latencies is much longer than the median.",
                },
                Key {
                    name: "hedge_budget",
                    kind: Kind::Number { min: 0.0, max: 1.0 },
                    absent: Absent::Default("0.05"),
                    help: "Maximum second copies, as a share of requests.",
                    why: "The share of requests above the 95th percentile (Dean and Barroso, The Tail at Scale, 2013).",
                },
            ],
            read hedge,
            write write_hedge;
    }
}

/// Rows of sequential tries, without hedging.
pub static TRIES: &[Key] = ONE_AFTER_ANOTHER.keys;

pub(crate) static POOL_RETRY: Table = Table {
    path: "retry of [pool.NAME]",
    help: "Retries and hedging. Keys that are not set are inherited from `[defaults.retry]`.",
    inherits: true,
    keys: DEFAULT_RETRY.keys,
};

pub(crate) static ROUTE_RETRY: Table = Table {
    path: "retry of [[route]]",
    help: "Retries and hedging of this route's requests. Keys that are not set are inherited from the route's pool.",
    inherits: true,
    keys: DEFAULT_RETRY.keys,
};

impl Field for Conditions {
    fn read(value: Value) -> Conditions {
        let mut on = Conditions::default();
        let Value::List(list) = value else { return on };
        for located in list {
            match located.value {
                Value::Int(status) => on.statuses.extend(u16::try_from(status)),
                Value::Formed(Formed::RetryOn(RetryOn::Connect)) => on.connect = true,
                Value::Formed(Formed::RetryOn(RetryOn::Reset)) => on.reset = true,
                Value::Formed(Formed::RetryOn(RetryOn::Timeout)) => on.timeout = true,
                Value::Formed(Formed::RetryOn(RetryOn::Grpc(status))) => on.grpc |= 1 << status.code(),
                Value::Formed(Formed::RetryOn(RetryOn::Statuses(range))) => on.statuses.extend(range),
                _ => {}
            }
        }
        on.statuses.sort_unstable();
        on.statuses.dedup();
        on
    }

    fn write(&self, _: &Conditions, _: &Kind) -> String {
        let words = [(self.connect, "connect"), (self.reset, "reset"), (self.timeout, "timeout")];
        let words = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| quote(word));
        // Adjacent statuses become a single range.
        let runs = self.statuses.chunk_by(|a, b| a + 1 == *b);
        let statuses = runs.filter_map(|run| Some(status_text(&(*run.first()?..=*run.last()?))));
        let grpc = (0..).zip(GrpcStatus::NAMES).filter(|(code, _)| self.grpc & 1 << code != 0);
        let grpc = grpc.map(|(_, name)| quote(&format!("grpc:{name}")));
        list(words.chain(statuses).chain(grpc))
    }
}

/// First and longest pause, nanoseconds.
fn backoff(retry: &Section) -> (u64, u64) {
    match retry.formed("backoff") {
        Some(Formed::Backoff(first, longest)) => (first, longest),
        _ => (0, 0),
    }
}

fn write_backoff(set: &Settings, base: &Settings, lines: &mut Lines) {
    if (set.backoff_ns, set.backoff_max_ns) != (base.backoff_ns, base.backoff_max_ns) {
        let [first, longest] = [set.backoff_ns, set.backoff_max_ns].map(|ns| duration_text(Duration::from_nanos(ns)));
        lines.add("backoff", quote(&format!("{first}..{longest}")));
    }
}

fn hedge(retry: &Section) -> Option<hedge::Settings> {
    let Some(Formed::Percentile(Some(percentile))) = retry.formed("hedge_after") else { return None };
    Some(hedge::Settings { percentile, budget: retry.float("hedge_budget"), ..hedge::Settings::default() })
}

fn write_hedge(set: &Retry, base: &Retry, lines: &mut Lines) {
    let percentile = |retry: &Retry| retry.hedge.map(|hedge| hedge.percentile);
    if percentile(set) != percentile(base) {
        lines.add("hedge_after", quote(&percentile(set).map_or("off".to_string(), percentile_text)));
    }
    if let Some(hedge) = set.hedge.filter(|_| set.hedge != base.hedge) {
        lines.add("hedge_budget", format!("{:?}", hedge.budget));
    }
}

/// Reports a try that may take longer than the whole request, and a `try_timeout` that no retry follows.
/// Looks only at keys set in `own`, the `retry` of a pool or route; `timeouts` is of the same, and `request`
/// its effective timeout.
pub(crate) fn check(
    own: &Section,
    timeouts: &Section,
    retry: &Retry,
    request: Option<Duration>,
    findings: &mut Findings,
) {
    let set = own.set("try_timeout");
    let Some(try_timeout) = retry.settings.try_timeout_ns.map(Duration::from_nanos) else { return };
    if let Some(request) = request.filter(|request| try_timeout > *request)
        && let Some(span) = set.or(timeouts.set("request")).map(|located| located.span)
    {
        let (tried, whole) = (duration_text(try_timeout), duration_text(request));
        let message = format!("\"try_timeout\" is {tried}, longer than \"request\" ({whole}), so it never ends a try");
        let finding = findings.add(Code::TimeoutOrder, span, message);
        finding.help(format!("make \"try_timeout\" shorter: {whole} has to do for every try"));
        if let (Some(_), Some(request)) = (set, timeouts.set("request")) {
            finding.see("the whole request ends before", request.span);
        }
    }
    if let Some(set) = set.filter(|_| !retry.settings.on.timeout) {
        findings
            .add(Code::AtOdds, set.span, "\"try_timeout\" ends a try, but no other one follows")
            .help("add \"timeout\" to \"on\"; to end requests, set \"response\" of \"timeouts\" instead");
    }
}
