//! Cases of `proxy-cost`: HTTP/1.1 requests.

use super::case::{Case, Count, USUAL, Work, best, both, caches, haproxy};
use crate::balancers::{Front, Keys};
use crate::study::grid::Bound;

const KEPT: Case = Case {
    name: "keep-alive",
    about: "1 kB, 64 clients that keep their connection (wrk), connections to endpoints reused",
    front: Front::Http1,
    work: Work::Kept(64),
    bounds: &[
        haproxy(1.0, "keep-alive, 1 kB: evenkeel's CPU time per request is at most HAProxy's"),
        best(1.0, "keep-alive, 1 kB: it is at most that of the best of the others"),
    ],
    ..USUAL
};

const CLOSED: Case = Case {
    name: "client-closes",
    about: "4 kB, 200 clients with a connection per request (ab), connections to endpoints reused",
    work: Work::Closed(200),
    path: "/4k",
    bounds: &[best(
        1.0,
        "A connection for each request, 4 kB: evenkeel's CPU time is at most that of the best of the others",
    )],
    ..KEPT
};

const TEN_MAPS: Case = Case {
    name: "ten-maps-exact",
    about: "as keyed, with ten maps of 10,000 texts, whose values the endpoint gets in fields",
    work: Work::Keyed(64),
    maps: Some(Keys::Exact),
    bounds: &[both(
        1.0,
        "ten maps of texts: evenkeel's CPU time per request is at most that of the best of the others",
    )],
    ..KEPT
};

/// Cases in the order in which they run.
pub static CASES: &[Case] = &[
    KEPT,
    CLOSED,
    Case {
        name: "both-close",
        about: "4 kB, 200 clients with a connection per request (ab), one to an endpoint per request too",
        closes: true,
        bounds: &[best(
            1.0,
            "A connection on both sides for each request, 4 kB: evenkeel's CPU time is at most that of the best of the others",
        )],
        ..CLOSED
    },
    Case {
        name: "64k",
        about: "64 kB, 32 clients that keep their connection (wrk)",
        work: Work::Kept(32),
        path: "/64k",
        bounds: &[best(1.0, "64 kB: evenkeel's CPU time per request is at most that of the best of the others")],
        ..KEPT
    },
    Case {
        name: "1m",
        about: "1 MB, 16 clients that keep their connection (wrk)",
        work: Work::Kept(16),
        path: "/1m",
        bounds: &[best(1.0, "1 MB: evenkeel's CPU time per request is at most that of the best of the others")],
        ..KEPT
    },
    Case {
        name: "keep-alive-logged",
        about: "as keep-alive, with a line in the access log for each request",
        logs: true,
        bounds: &[best(
            1.0,
            "keep-alive with access logs: evenkeel's CPU time per request is at most that of the best of the others",
        )],
        ..KEPT
    },
    Case {
        name: "ten-rules",
        about: "as keep-alive, through ten rules of access, limits, rewriting and fields",
        ruled: true,
        bounds: &[
            haproxy(0.8, "ten rules: evenkeel's CPU time per request is at most 0.8 of HAProxy's"),
            best(1.0, "ten rules: it is at most that of the best of the others"),
        ],
        ..KEPT
    },
    Case {
        name: "keyed",
        about: "as keep-alive, each request with one of 10,000 queries; what maps add is the difference to it",
        maps: None,
        bounds: &[haproxy(1.0, "1 kB, 10,000 queries: evenkeel's CPU time per request is at most HAProxy's")],
        ..TEN_MAPS
    },
    TEN_MAPS,
    Case {
        name: "ten-maps-prefix",
        about: "as ten-maps-exact, with 10,000 prefixes, which are expressions in NGINX",
        maps: Some(Keys::Prefix),
        bounds: &[both(
            1.0,
            "ten maps of prefixes: evenkeel's CPU time per request is at most that of the best of the others",
        )],
        ..TEN_MAPS
    },
    Case {
        name: "ten-maps-regex",
        about: "as ten-maps-exact, with 10,000 expressions in each map",
        maps: Some(Keys::Expression),
        bounds: &[both(
            1.0,
            "ten maps of expressions: evenkeel's CPU time per request is at most that of the best of the others",
        )],
        ..TEN_MAPS
    },
    Case {
        name: "distinct",
        about: "as keep-alive, each request with a query of its own",
        work: Work::Distinct(64),
        bounds: &[haproxy(1.0, "1 kB, distinct queries: evenkeel's CPU time per request is at most HAProxy's")],
        ..KEPT
    },
    Case {
        name: "cache-miss",
        about: "as distinct, through a cache: no response is stored yet, and each one is stored",
        work: Work::Distinct(64),
        cached: true,
        bounds: &[caches(
            1.0,
            "Stored on the way, 1 kB: evenkeel's CPU time is at most that of the better of NGINX and Varnish",
        )],
        ..KEPT
    },
    Case {
        name: "cached-1k",
        about: "as keep-alive, from the cache",
        cached: true,
        bounds: &[caches(
            0.7,
            "From the cache, 1 kB: evenkeel's CPU time is at most 0.7 of the better of NGINX and Varnish",
        )],
        ..KEPT
    },
    Case {
        name: "cached-64k",
        about: "64 kB from the cache, 32 clients that keep their connection (wrk)",
        work: Work::Kept(32),
        path: "/64k",
        cached: true,
        bounds: &[caches(
            0.7,
            "From the cache, 64 kB: evenkeel's CPU time is at most 0.7 of the better of NGINX and Varnish",
        )],
        ..KEPT
    },
    Case {
        name: "cached-1m",
        about: "1 MB from the cache, 16 clients that keep their connection (wrk)",
        work: Work::Kept(16),
        path: "/1m",
        cached: true,
        bounds: &[caches(
            0.7,
            "From the cache, 1 MB: evenkeel's CPU time is at most 0.7 of the better of NGINX and Varnish",
        )],
        ..KEPT
    },
    Case {
        name: "idle-memory",
        about: "10,000 clients that asked for 1 kB once and stay connected; resident memory beside that before the first",
        work: Work::Idle(10_000),
        bounds: &[
            haproxy(1.0, "An idle connection takes at most the memory that HAProxy's takes"),
            Bound::new("An idle connection takes at most the memory that NGINX's takes", &["nginx"], 1.0),
        ],
        ..KEPT
    },
    Case {
        name: "keep-alive-syscalls",
        about: "as keep-alive, under strace -c",
        count: Count::Syscalls,
        bounds: &[best(1.0, "keep-alive: evenkeel makes at most as many system calls as the best of the others")],
        ..KEPT
    },
    Case {
        name: "client-closes-syscalls",
        about: "as client-closes, under strace -c",
        count: Count::Syscalls,
        bounds: &[best(
            1.0,
            "A connection for each request: evenkeel makes at most as many system calls as the best of the others",
        )],
        ..CLOSED
    },
];
