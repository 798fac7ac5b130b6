//! `panic` of a pool: behaviour when few endpoints are healthy.

use crate::table::{Absent, Key, Kind, table, words};
use evenkeel_balance::eligible::{Panic, PanicMode};

table! {
    pub static PANIC = "panic of [pool.NAME]",
        "Behaviour when few endpoints of a pool are healthy.";

    impl for Panic {
        healthy_below = Key {
            name: "healthy_below",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.5"),
            help: "Share of healthy endpoints below which the pool panics; 0 = never.",
            why: "Envoy's default.",
        };
        mode = Key {
            name: "mode",
            kind: Kind::Choice(MODES),
            absent: Absent::Default("\"use-all\""),
            help: "`use-all`: all endpoints get requests, healthy or not. `refuse`: requests get a 503.",
            why: "A few healthy endpoints would collapse under the whole load, and checks that fail everywhere are \
                often wrong.",
        };
    }
}

words! {
    const MODES for PanicMode {
        UseAll = "use-all",
        Refuse = "refuse",
    }
}
