//! Cases of `l4-cost`: TCP sessions.

use super::case::{Case, Count, USUAL, Work, best, haproxy};
use crate::balancers::Front;
use crate::study::grid::Bound;

const EXCHANGE: Case = Case {
    name: "exchange",
    about: "1 kB, 64 clients that keep their session (wrk)",
    front: Front::Tcp,
    work: Work::Kept(64),
    bounds: &[
        best(1.0, "Kept sessions, 1 kB: evenkeel's CPU time per exchange is at most that of the best of the others"),
        Bound::new(
            "Kept sessions, 1 kB: it is at most 1.1 of that of a relay that only makes the calls",
            &["bare"],
            1.1,
        ),
    ],
    ..USUAL
};

const SESSION_EACH: Case = Case {
    name: "connect-exchange-close",
    about: "1 kB, 200 clients with a session per exchange (ab)",
    work: Work::Closed(200),
    bounds: &[haproxy(0.85, "A session for each exchange: evenkeel's CPU time is at most 0.85 of HAProxy's")],
    ..EXCHANGE
};

/// Cases in the order in which they run.
pub static CASES: &[Case] = &[
    EXCHANGE,
    SESSION_EACH,
    Case {
        name: "bulk",
        about: "1 MB, 16 clients that keep their session (wrk)",
        work: Work::Kept(16),
        path: "/1m",
        bounds: &[best(
            0.75,
            "Kept sessions, 1 MB: evenkeel's CPU time per exchange is at most 0.75 of the best of the others",
        )],
        ..EXCHANGE
    },
    Case {
        name: "idle-sessions",
        about: "10,000 clients that asked for 1 kB once and stay connected; resident memory beside that before the first",
        work: Work::Idle(10_000),
        bounds: &[best(1.0, "An idle session takes at most the memory that the least of the others takes")],
        ..EXCHANGE
    },
    Case {
        name: "exchange-syscalls",
        about: "as exchange, under strace -c",
        count: Count::Syscalls,
        bounds: &[best(1.0, "Kept sessions: evenkeel makes at most as many system calls as the best of the others")],
        ..EXCHANGE
    },
    Case {
        name: "connect-exchange-close-syscalls",
        about: "as connect-exchange-close, under strace -c",
        count: Count::Syscalls,
        bounds: &[best(
            1.0,
            "A session for each exchange: evenkeel makes at most as many system calls as the best of the others",
        )],
        ..SESSION_EACH
    },
];
