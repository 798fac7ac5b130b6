//! `slow_start` of a pool: the ramp of an endpoint's weight after it appears or recovers.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::table::{Absent, H, Key, Kind, MS, Section, table};
use evenkeel_balance::picker::Algorithm;
use evenkeel_balance::slow_start;

table! {
    pub static SLOW_START = "slow_start of [pool.NAME]",
        "Ramp for an endpoint that is new or healthy again. Its weight is multiplied by max(`min_weight`, (age / \
        `window`)^(1 / `aggression`)).";

    impl for slow_start::Settings {
        window_ns = Key {
            name: "window",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Required("\"30s\""),
            help: "Duration of the ramp.",
            why: "",
        };
        aggression = Key {
            name: "aggression",
            kind: Kind::Number { min: 0.1, max: 10.0 },
            absent: Absent::Default("1"),
            help: "Shape of the ramp: 1 is linear; larger values rise faster at first.",
            why: "Envoy's default.",
        };
        min_weight = Key {
            name: "min_weight",
            kind: Kind::Number { min: 0.001, max: 1.0 },
            absent: Absent::Default("0.1"),
            help: "Share of its weight at which an endpoint starts.",
            why: "Envoy's default: an endpoint needs some requests to warm up.",
        };
    }
}

/// Reports an algorithm that ignores the ramp.
pub(super) fn check(pool: &Section, algorithm: &Algorithm, findings: &mut Findings) {
    let Some(set) = pool.set("slow_start") else { return };
    let name = algorithm.name;
    let mut at_odds = |message: String, help: &str| {
        let balance = pool.span_of("balance");
        findings.add(Code::AtOdds, set.span, message).see("the algorithm is here", balance).help(help);
    };
    if algorithm.promises.affinity {
        at_odds(
            format!("\"{name}\" keeps keys where they are, but each step of \"slow_start\" moves some"),
            "leave one of the two out: with it, keys move many times instead of once when an endpoint comes back",
        );
    } else if !algorithm.follows_weights() {
        at_odds(
            format!("\"{name}\" does not look at weights, so \"slow_start\" does nothing"),
            "leave it out, or choose another algorithm, as \"leastconn\"",
        );
    }
}
