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
    help: "Sends copies of requests to another pool, and drops the responses. An array of at most 8 tables copies to \
        several pools.",
    why: "",
};

table! {
    static MIRROR_TABLE = "mirror of [[route]]",
        "Sends copies of requests to another pool, as the endpoint gets them, with `X-Evenkeel-Mirror: 1`. The \
        responses are read and dropped, and no client waits for them. Copies have the same side effects as the \
        requests. Requests that switch protocols, such as WebSocket, and copies that come back are not copied.";

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
        /// Share of the requests that are copied, 0 to 1; drawn for each mirror separately.
        share: f64 = Key {
            name: "share",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("1.0"),
            help: "Share of requests to copy, drawn at random for each request; 0 = none.",
            why: "",
        };
        /// Maximum bytes of the body of a request to copy.
        body_max: u64 = Key {
            name: "body_max",
            kind: Kind::Size { min: 0, max: 1 << 20, off: false },
            absent: Absent::Default("\"64KB\""),
            help: "Maximum body size of a request to copy. Requests with longer bodies are not copied.",
            why: "A copy is held in memory until its pool has responded.",
        };
        /// Maximum copies in progress on each worker.
        in_flight_max: u64 = Key {
            name: "in_flight_max",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Maximum copies in progress on each worker, from the start of the body to the end of the response. \
                At the limit, other requests are not copied.",
            why: "Together with `body_max`, it limits the memory for a pool that responds slowly or not at all.",
        };
        /// Longest time until the response to a copy has arrived.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: 10 * MS, max: 300 * S, off: false },
            absent: Absent::Default("\"10s\""),
            help: "Longest time until the whole response to a copy has arrived.",
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
