//! Does a published claim hold here? A verdict by the interval of what was measured, never by one run.

use crate::stats::{Interval, RUNS_MIN};
use serde_json::{Value, json};

/// What a publication says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// In a sentence.
    pub text: &'static str,
    /// Where it stands.
    pub source: &'static str,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is where the claim says.
    Reproduced,
    /// None of it is.
    NotReproduced,
    /// Part of it is: more runs, or a quieter machine, would tell.
    NotDistinguishable,
    /// It was not measured.
    NotShown,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotDistinguishable => "not distinguishable",
            Verdict::NotShown => "not shown",
        }
    }

    /// How a page shows it.
    pub fn class(self) -> &'static str {
        match self {
            Verdict::Reproduced => "holds",
            Verdict::NotReproduced => "fails",
            Verdict::NotDistinguishable | Verdict::NotShown => "open",
        }
    }

    fn of(measured: Interval, low: f64, high: f64) -> Verdict {
        match measured {
            measured if measured.low >= low && measured.high <= high => Verdict::Reproduced,
            measured if measured.high < low || measured.low > high => Verdict::NotReproduced,
            _ => Verdict::NotDistinguishable,
        }
    }
}

/// A claim, and what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The claim.
    pub claim: Claim,
    /// What became of it.
    pub verdict: Verdict,
    /// What was measured, or why nothing was.
    pub measured: String,
}

impl Finding {
    /// The claim is that a figure is `expected`, give or take this part of it.
    pub fn near(claim: Claim, what: &str, measured: Option<Interval>, expected: f64, within: f64) -> Finding {
        let says = format!("{expected:.2} give or take {:.0} %", within * 100.0);
        Finding::within(claim, what, measured, (expected * (1.0 - within), expected * (1.0 + within)), &says)
    }

    /// The claim is that a figure is so large at least.
    pub fn at_least(claim: Claim, what: &str, measured: Option<Interval>, least: f64) -> Finding {
        Finding::within(claim, what, measured, (least, f64::INFINITY), &format!("at least {least:.2}"))
    }

    /// The claim is that a figure is at most so large.
    pub fn at_most(claim: Claim, what: &str, measured: Option<Interval>, most: f64) -> Finding {
        Finding::within(claim, what, measured, (f64::NEG_INFINITY, most), &format!("at most {most:.2}"))
    }

    fn within(claim: Claim, what: &str, measured: Option<Interval>, (low, high): (f64, f64), says: &str) -> Finding {
        let Some(interval) = measured else {
            let why = format!("{what}: fewer than {RUNS_MIN} rounds say nothing about chance; give --repeat");
            return Finding::not_shown(claim, why);
        };
        let Interval { median, low: from, high: to } = interval;
        let measured = format!("{what} is {median:.3}, 90 % interval {from:.3} to {to:.3}; the claim needs {says}");
        Finding { claim, verdict: Verdict::of(interval, low, high), measured }
    }

    /// It cannot be shown here. `why`: in a sentence.
    pub fn not_shown(claim: Claim, why: String) -> Finding {
        Finding { claim, verdict: Verdict::NotShown, measured: why }
    }

    /// For machines.
    pub fn json(&self) -> Value {
        json!({ "claim": self.claim.text, "source": self.claim.source, "verdict": self.verdict.name(), "measured": self.measured })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let claim = Claim { text: "a third", source: "x" };
        let of = |low, high| {
            let measured = Interval { median: (low + high) / 2.0, low, high };
            Finding::near(claim, "it", Some(measured), 1.0, 0.1).verdict
        };
        assert_eq!(of(0.95, 1.05), Verdict::Reproduced);
        assert_eq!(of(0.85, 0.95), Verdict::NotDistinguishable);
        assert_eq!(of(1.2, 1.3), Verdict::NotReproduced);
        let none = Finding::at_least(claim, "it", None, 1.0);
        assert_eq!((none.verdict, none.verdict.class()), (Verdict::NotShown, "open"));
        let one = Interval { median: 1.0, low: 1.0, high: 1.0 };
        assert_eq!(Finding::at_least(claim, "it", Some(one), 1.0).verdict, Verdict::Reproduced);
        assert_eq!(Finding::at_most(claim, "it", Some(one), 0.9).verdict, Verdict::NotReproduced);
    }
}
