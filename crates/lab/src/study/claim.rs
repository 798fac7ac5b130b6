//! Verdicts on published claims, by the interval of the measured figure, never by a single run.

use crate::stats::{Interval, RUNS_MIN};
use serde_json::{Value, json};

/// Statement of a publication, or of this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub text: &'static str,
    pub source: &'static str,
}

impl Claim {
    /// Returns a claim of this project.
    pub const fn ours(text: &'static str) -> Claim {
        Claim { text, source: "evenkeel" }
    }
}

/// Outcome of a claim, by its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is within the claim.
    Reproduced,
    /// No part of the interval is within the claim.
    NotReproduced,
    /// Part of the interval is within the claim: more runs or a quieter machine would decide.
    Inconclusive,
    /// The figure was not measured.
    NotShown,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::NotReproduced => "not reproduced",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotShown => "not shown",
        }
    }

    /// Returns the CSS class of the verdict.
    pub fn class(self) -> &'static str {
        match self {
            Verdict::Reproduced => "holds",
            Verdict::NotReproduced => "fails",
            Verdict::Inconclusive | Verdict::NotShown => "open",
        }
    }

    fn of(measured: Interval, low: f64, high: f64) -> Verdict {
        match measured {
            measured if measured.low >= low && measured.high <= high => Verdict::Reproduced,
            measured if measured.high < low || measured.low > high => Verdict::NotReproduced,
            _ => Verdict::Inconclusive,
        }
    }
}

/// Bound on a figure that a claim states.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    AtLeast(f64),
    AtMost(f64),
    /// Value with a relative tolerance.
    Near(f64, f64),
}

/// Claim with its verdict and the measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub claim: Claim,
    pub verdict: Verdict,
    /// Quantity that was measured, or the reason why none was.
    pub what: String,
    /// Interval of the figure, and the range in which the claim holds.
    pub measured: Option<(Interval, (f64, f64))>,
}

impl Finding {
    /// Judges the claim that a figure is `expected`, with the relative tolerance `within`.
    pub fn near(claim: Claim, what: &str, measured: Option<Interval>, expected: f64, within: f64) -> Finding {
        Finding::within(claim, what, measured, (expected * (1.0 - within), expected * (1.0 + within)))
    }

    /// Judges the claim that a figure is at least `least`.
    pub fn at_least(claim: Claim, what: &str, measured: Option<Interval>, least: f64) -> Finding {
        Finding::within(claim, what, measured, (least, f64::INFINITY))
    }

    /// Judges the claim that a figure is at most `most`.
    pub fn at_most(claim: Claim, what: &str, measured: Option<Interval>, most: f64) -> Finding {
        Finding::within(claim, what, measured, (f64::NEG_INFINITY, most))
    }

    /// Judges a claim on the ratio of runs of the same rounds. `missing`: reason to give if either of the two did not
    /// run.
    pub fn of_ratio(
        claim: Claim,
        what: &str,
        (of, over): (Option<Vec<f64>>, Option<Vec<f64>>),
        says: Says,
        missing: &str,
    ) -> Finding {
        let (Some(of), Some(over)) = (of, over) else { return Finding::not_shown(claim, missing.to_owned()) };
        let measured = Interval::of_ratios(&of, &over);
        match says {
            Says::AtLeast(least) => Finding::at_least(claim, what, measured, least),
            Says::AtMost(most) => Finding::at_most(claim, what, measured, most),
            Says::Near(expected, within) => Finding::near(claim, what, measured, expected, within),
        }
    }

    fn within(claim: Claim, what: &str, measured: Option<Interval>, needs: (f64, f64)) -> Finding {
        match measured {
            Some(interval) => Finding {
                claim,
                verdict: Verdict::of(interval, needs.0, needs.1),
                what: what.to_owned(),
                measured: Some((interval, needs)),
            },
            None => {
                let why = format!("{what}: fewer than {RUNS_MIN} rounds give no interval; use --repeat");
                Finding::not_shown(claim, why)
            }
        }
    }

    /// Returns a finding without a figure. `why`: the reason, as a sentence.
    pub fn not_shown(claim: Claim, why: String) -> Finding {
        Finding { claim, verdict: Verdict::NotShown, what: why, measured: None }
    }

    /// Figure with its interval, and the range that the claim needs, as text.
    pub fn figures(&self) -> Option<(String, String)> {
        let (Interval { median, low, high }, needs) = self.measured?;
        let needs = match needs {
            (low, f64::INFINITY) => format!("at least {low:.2}"),
            (f64::NEG_INFINITY, high) => format!("at most {high:.2}"),
            (low, high) => format!("{low:.2} to {high:.2}"),
        };
        Some((format!("{median:.3} ({low:.3} to {high:.3})"), needs))
    }

    pub fn told(&self) -> String {
        match self.figures() {
            Some((figure, needs)) => format!("{}: {figure}; the claim needs {needs}{}", self.what, self.doubt()),
            None => self.what.clone(),
        }
    }

    /// Reason why the claim is inconclusive, to be added to a sentence; empty for other verdicts.
    pub fn doubt(&self) -> &'static str {
        match self.verdict {
            Verdict::Inconclusive => "; inconclusive: rounds vary more than the effect",
            _ => "",
        }
    }

    pub fn json(&self) -> Value {
        let finite = |x: f64| x.is_finite().then_some(x);
        let figure = self.measured.map(|(of, needs)| {
            json!({ "median": of.median, "interval": [of.low, of.high], "needs": [finite(needs.0), finite(needs.1)] })
        });
        json!({
            "claim": self.claim.text, "source": self.claim.source, "verdict": self.verdict.name(), "measured": self.told(),
            "figure": figure,
        })
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
        assert_eq!(of(0.85, 0.95), Verdict::Inconclusive);
        assert_eq!(of(1.2, 1.3), Verdict::NotReproduced);
        let wide = Finding::at_most(claim, "it", Some(Interval { median: 1.0, low: 0.9, high: 1.1 }), 1.0);
        assert!(wide.told().ends_with("; inconclusive: rounds vary more than the effect"), "{}", wide.told());
        let none = Finding::at_least(claim, "it", None, 1.0);
        assert_eq!((none.verdict, none.verdict.class()), (Verdict::NotShown, "open"));
        let one = Interval { median: 1.0, low: 1.0, high: 1.0 };
        assert_eq!(Finding::at_least(claim, "it", Some(one), 1.0).verdict, Verdict::Reproduced);
        let both = |over: Option<Vec<f64>>| (Some(vec![2.0, 4.0, 6.0]), over);
        let near = Finding::of_ratio(claim, "it", both(Some(vec![1.0, 2.0, 3.0])), Says::Near(2.0, 0.1), "");
        assert_eq!(near.verdict, Verdict::Reproduced);
        let missing = Finding::of_ratio(claim, "it", both(None), Says::AtLeast(1.0), "it did not run");
        assert_eq!(missing.told(), "it did not run");
        let most = Finding::at_most(claim, "it", Some(one), 0.9);
        assert_eq!(most.verdict, Verdict::NotReproduced);
        assert_eq!(most.told(), "it: 1.000 (1.000 to 1.000); the claim needs at most 0.90");
        assert_eq!(most.json()["figure"]["needs"], json!([null, 0.9]));
    }
}
