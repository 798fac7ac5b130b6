//! `limits` of a route: rates of requests, and requests in flight, by key. See [`Limit`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, LimitKey, RequestRate};
use crate::table::{Absent, Declared, Field, Key, Kind, Lines, Named, Section, Table, Value, quote, table};
use std::sync::Arc;

/// Maximum limits of a route. A request in flight keeps a place in a table for each.
pub const LIMITS_MAX: usize = 8;

/// The key `limits` of routes.
pub(in crate::sections) const LIMITS_KEY: Key = Key {
    name: "limits",
    kind: Kind::List(&ENTRY),
    absent: Absent::Means("no limits"),
    help: "Limits on request rates and requests in flight, by client or another key. At most 8. The name of a \
        `[limit.NAME]` stands for that limit.",
    why: "",
};

static ENTRY: Kind = Kind::TableOr { table: &LIMIT, key: "use" };

table! {
    static LIMIT = "limits of [[route]]",
        "Limits requests of a route that have the same key, over all workers and listeners. Each entry has either \
        `requests` or `in_flight`, or names a limit that routes share. Requests over a limit get a 429. Limits apply in the order of the file, but limits \
        by claim come last. A request that a limit refuses has already counted for the limits before it.";

    /// A limit on requests of a route that have the same key.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Limit {
        /// Name of the `[limit.NAME]` whose counts it uses; `None` = counts of the route alone. Its other fields are those
        /// of that limit.
        shared: Option<Arc<str>>, rows [SHARED], read shared, write write_shared;
        /// Rate of the requests, or their number in flight.
        most: Most,
            rows [
                Key {
                    name: "requests",
                    kind: Kind::Text(Form::Rate),
                    absent: Absent::Means("any rate"),
                    help: "Rate of requests: a number per second (`\"100/s\"`), minute (`\"20/m\"`) or hour \
                        (`\"1000/h\"`).",
                    why: "",
                },
                Key {
                    name: "burst",
                    kind: Kind::Int { min: 1, max: 1_000_000 },
                    absent: Absent::Means("the number in `requests`"),
                    help: "Requests that may arrive at once before the rate applies.",
                    why: "",
                },
                Key {
                    name: "in_flight",
                    kind: Kind::Int { min: 1, max: 1_000_000 },
                    absent: Absent::Means("any number"),
                    help: "Maximum requests in flight, each from its head to the last byte of the response.",
                    why: "",
                },
            ],
            read most,
            write write_most;
        /// Requests that share the limit.
        key: LimitKey = Key {
            name: "key",
            kind: Kind::Text(Form::LimitKey),
            absent: Absent::Default("\"client\""),
            help: "Key of the requests that share the limit: the same `client` (IPv6: the same /64), client network \
                (`client/24` for IPv4, or `client/56` for IPv6), header field (`header:NAME`), cookie (`cookie:NAME`) \
                or claim of the token that `jwt` verified (`claim:NAME`), the same value of a map (`map:NAME`), or all \
                requests of the route (`route`). Requests without the field, cookie, claim or value are not limited.",
            why: "A client that sends too much must not use up the share of others.",
        }, write write_key;
        /// Maximum keys to remember.
        keys: usize = Key {
            name: "keys",
            kind: Kind::Int { min: 1_000, max: 10_000_000 },
            absent: Absent::Default("100_000"),
            help: "Maximum keys to remember, at 16 bytes each. Beyond that, keys that have used least of their limit \
                are forgotten first.",
            why: "An attacker with many keys can use at most 1.6 MB.",
        }, write write_keys;
    }
}

/// The key `use` of a limit.
const SHARED: Key = Key {
    name: "use",
    kind: Kind::Text(Form::Name),
    absent: Absent::Means("a limit of the route alone"),
    help: "Name of a `[limit.NAME]`, which counts the requests of all routes that name it. Instead of the other keys.",
    why: "",
};

/// A limit that several routes share, by a name that they use.
pub(crate) static SHARED_LIMIT: Table = Table {
    path: "[limit.NAME]",
    help: "Limit that several routes share, by naming it in `limits`: requests with the same key count together, \
        whatever their route and listener. A key of `route` counts all of them. The keys mean the same as in `limits` \
        of `[[route]]`.",
    inherits: false,
    keys: LIMIT.keys.split_at(1).1,
};

/// Bound of the requests with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Most {
    /// Requests in a unit of time, on average.
    Requests {
        rate: RequestRate,
        /// Requests that may arrive at once, at least 1.
        burst: u32,
    },
    /// Requests in flight, at least 1.
    InFlight(u32),
}

fn shared(limit: &Section) -> Option<Arc<str>> {
    limit.knows("use").then(|| limit.text("use")).flatten().map(Into::into)
}

fn write_shared(set: &Limit, _: &Limit, lines: &mut Lines) {
    if let Some(name) = &set.shared {
        lines.add("use", quote(name));
    }
}

fn write_key(set: &Limit, base: &Limit, lines: &mut Lines) {
    if set.shared.is_none() && set.key != base.key {
        lines.add("key", quote(&set.key.to_string()));
    }
}

fn write_keys(set: &Limit, base: &Limit, lines: &mut Lines) {
    if set.shared.is_none() && set.keys != base.keys {
        lines.add("keys", set.keys.to_string());
    }
}

fn most(limit: &Section) -> Most {
    if !limit.has_read("requests") && limit.has_read("in_flight") {
        return Most::InFlight(limit.number("in_flight"));
    }
    let rate = RequestRate::read(if limit.has_read("requests") { limit.value("requests") } else { Value::Broken });
    let burst = if limit.has_read("burst") { limit.number("burst") } else { rate.requests };
    Most::Requests { rate, burst }
}

fn write_most(set: &Limit, _: &Limit, lines: &mut Lines) {
    match set.most {
        _ if set.shared.is_some() => {}
        Most::Requests { rate, burst } => {
            lines.add("requests", rate.write(&rate, &Kind::Text(Form::Rate)));
            if burst != rate.requests {
                lines.add("burst", burst.to_string());
            }
        }
        Most::InFlight(most) => lines.add("in_flight", most.to_string()),
    }
}

/// Reports a claim as the key where no token is verified.
fn check_key(route: &Section, limit: &Section, findings: &mut Findings) {
    if let Some(Formed::LimitKey(LimitKey::Claim(name))) = limit.formed("key")
        && !route.has("jwt")
    {
        let message = format!("\"claim:{name}\" is of a token, and the route verifies none");
        findings.add(Code::Missing, limit.span_of("key"), message).help("set \"jwt\" of the route, or another key");
    }
}

/// Reports too many limits, and entries without a bound or with two.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let limits = route.sections("limits");
    if limits.len() > LIMITS_MAX {
        let message = format!("\"limits\" has {} entries; a route has at most {LIMITS_MAX}", limits.len());
        findings.add(Code::OutOfRange, route.span_of("limits"), message).help("leave some out");
    }
    for limit in limits {
        if let Some(shared) = limit.set("use") {
            if let Some((key, set)) = limit.set_beside(&["use"]).next() {
                let message = format!("\"use\" names a limit, which has \"{key}\"");
                limit
                    .contradiction(set.span, message, "use", findings)
                    .help(format!("set \"{key}\" in [limit.NAME], or write the limit without \"use\""));
            }
            let same = |other: &&&Section| other.set("use").is_some_and(|set| set.text() == shared.text());
            if route.sections("limits").iter().filter(same).count() > 1 {
                findings
                    .add(Code::Contradiction, shared.span, "the route uses the same limit twice")
                    .help("name it once");
            }
            continue;
        }
        check_key(route, limit, findings);
        check_bound(limit, findings);
    }
}

/// Reports limits that routes share and that have no bound or two. Returns all of them.
pub(crate) fn shared_limits(root: &Section, findings: &mut Findings) -> Vec<(Arc<str>, Limit)> {
    let one = |named: &Named| {
        check_bound(&named.section, findings);
        (named.name.as_str().into(), Limit::of(&named.section))
    };
    root.named("limit").iter().map(one).collect()
}

/// Reports a limit without a bound or with two.
fn check_bound(limit: &Section, findings: &mut Findings) {
    {
        match (limit.set("requests"), limit.set("in_flight")) {
            (Some(_), Some(in_flight)) => {
                let message = "\"requests\" and \"in_flight\" exclude each other";
                limit
                    .contradiction(in_flight.span, message, "requests", findings)
                    .help("write an entry for each: limits = [{ requests = \"100/s\" }, { in_flight = 20 }]");
            }
            (None, None) => {
                findings
                    .add(Code::Missing, limit.span, "the limit has neither \"requests\" nor \"in_flight\"")
                    .help("write a rate, as requests = \"100/s\", or a number, as in_flight = 20");
            }
            (None, Some(_)) => {
                if let Some(burst) = limit.set("burst") {
                    limit
                        .contradiction(burst.span, "\"burst\" belongs to a rate", "in_flight", findings)
                        .help("leave it out, or set \"requests\" instead of \"in_flight\"");
                }
            }
            (Some(_), None) => {}
        }
    }
}
