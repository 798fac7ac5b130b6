//! `mirror` of a route: copies of its requests for another pool. See [`Mirror`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, MS, S, Section, table};
use std::sync::Arc;
use std::time::Duration;

/// Bound for the state that a request keeps of them.
pub const MIRRORS_MAX: usize = 8;

/// The key `mirror` of routes.
pub(in crate::sections) const MIRROR: Key = Key {
    name: "mirror",
    kind: Kind::TableOrTables(&MIRROR_TABLE),
    absent: Absent::Means("no copies are sent"),
    help: "Sends copies of requests to another pool, whose answers are dropped; an array of at most 8 tables, to several \
        pools.",
    why: "",
};

table! {
    static MIRROR_TABLE = "mirror of [[route]]",
        "Sends copies of requests to another pool, as the endpoint gets them, with `X-Evenkeel-Mirror: 1`. Its answers are \
        read and dropped, and no client waits for them. Copies have the side effects of their requests. Requests that \
        switch protocols, such as WebSocket, and copies that come back are not copied.";

    /// `mirror` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Mirror {
        /// Name of an existing pool, which gets the copies.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required("\"shadow\""),
            help: "Pool that gets the copies.",
            why: "",
        };
        /// Share of the requests that are copied, 0 to 1; drawn for each mirror on its own.
        share: f64 = Key {
            name: "share",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("1.0"),
            help: "Share of the requests that are copied, drawn for each; 0 = none.",
            why: "",
        };
        /// Most bytes of the body of a request that is copied.
        body_max: u64 = Key {
            name: "body_max",
            kind: Kind::Size { min: 0, max: 1 << 20, off: false },
            absent: Absent::Default("\"64KB\""),
            help: "Most bytes of the body of a request that is copied. Requests with longer bodies are not.",
            why: "A copy is held in memory until its pool has answered.",
        };
        /// Most copies at once, on each worker.
        in_flight_max: u64 = Key {
            name: "in_flight_max",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Most copies at once on each worker: those whose bodies are still coming, and those whose answers are. \
                Other requests are not copied meanwhile.",
            why: "With `body_max`, it bounds the memory for a pool that answers slowly or not at all.",
        };
        /// Longest time until the answer to a copy has come.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: 10 * MS, max: 300 * S, off: false },
            absent: Absent::Default("\"10s\""),
            help: "Longest time until the whole answer to a copy has come.",
            why: "",
        };
    }
}

/// Reports too many mirrors, and copies that go to the pool of the requests themselves.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let mirrors = route.sections("mirror");
    if mirrors.len() > MIRRORS_MAX {
        let message = format!("\"mirror\" has {} entries; a route has at most {MIRRORS_MAX}", mirrors.len());
        findings.add(Code::OutOfRange, route.span_of("mirror"), message).help("leave some out");
    }
    for mirror in mirrors {
        if let (Some(pool), Some(to)) = (route.text("pool"), mirror.text("pool"))
            && pool == to
        {
            findings
                .add(Code::AtOdds, mirror.span_of("pool"), format!("pool \"{to}\" gets each request and its copy"))
                .see("it is the pool of the route", route.span_of("pool"))
                .help("set the pool of the version that is to be tried");
        }
    }
}
