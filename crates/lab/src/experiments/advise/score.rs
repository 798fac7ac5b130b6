//! Verdicts on advice: whether a change helps, and whether its claimed effect holds.

use super::advice::{Advice, Effect};
use super::setting::Run;
use crate::stats::{Interval, Spread};

/// Relative change of p99 and of CPU time that rounds of this length cannot tell from noise, whatever their interval.
const NOISE: f64 = 0.05;

/// Width that a claim gets on each side, for the sample of a short run.
const ALLOWED: f64 = 0.02;

/// Smallest share of failed requests that counts.
const FAILED_MIN: f64 = 0.002;

/// Comparison of a figure before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Same,
    Worse,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Same => "same",
            Verdict::Worse => "worse",
        }
    }

    /// Verdict on a relative change of a figure of which less is better.
    fn of(change: Interval) -> Verdict {
        match change {
            change if change.low > 0.0 && change.median > NOISE => Verdict::Worse,
            change if change.high < 0.0 && change.median < -NOISE => Verdict::Better,
            _ => Verdict::Same,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// The measured interval and the claimed interval overlap.
    Holds,
    Fails,
    /// Reason why the claim cannot be compared.
    NotShown(String),
}

impl Claimed {
    pub fn name(&self) -> &'static str {
        match self {
            Claimed::Holds => "holds",
            Claimed::Fails => "fails",
            Claimed::NotShown(_) => "not shown",
        }
    }
}

/// Relative changes of all figures, and the verdicts.
#[derive(Clone, Debug)]
pub struct Score {
    pub p50: Interval,
    pub p99: Interval,
    pub cpu: Interval,
    /// Change of the claimed figure, if there is one.
    pub claimed: Option<Interval>,
    /// Shares of failed requests before and after.
    pub failed: [f64; 2],
    pub of_p99: Verdict,
    pub of_cpu: Verdict,
    pub verdict: Verdict,
    pub claim: Claimed,
}

impl Score {
    /// Compares the runs of the same rounds. `None` without runs.
    pub fn of(advice: &Advice, before: &[Run], after: &[Run]) -> Option<Score> {
        let change = |figure: fn(&Run) -> f64| changes(before, after, figure);
        let (p50, p99) = (change(|run| run.clients.p50_ms)?, change(|run| run.clients.p99_ms)?);
        let cpu = change(|run| run.cpu_us)?;
        let mean = |runs: &[Run]| runs.iter().map(Run::failed).sum::<f64>() / runs.len().max(1) as f64;
        let failed = [mean(before), mean(after)];
        let of_failed = match failed[1] - failed[0] {
            more if more > FAILED_MIN => Verdict::Worse,
            less if less < -FAILED_MIN => Verdict::Better,
            _ => Verdict::Same,
        };
        let (of_p99, of_cpu) = (Verdict::of(p99), Verdict::of(cpu));
        let mut of_all = vec![Verdict::of(p50), of_p99, of_cpu, of_failed];
        let claimed = advice.effect.as_ref().and_then(|effect| match &*effect.figure {
            "p99" => Some(p99),
            "cpu" => Some(cpu),
            "requests" => change(|run| run.reached),
            "bytes" => change(|run| run.bytes),
            // A round has few failures, or none.
            "failed" if failed[0] >= FAILED_MIN => Some(point(failed[1] / failed[0] - 1.0)),
            _ => None,
        });
        of_all.extend(claimed.map(Verdict::of));
        let has = |verdict| of_all.contains(&verdict);
        let verdict = match (has(Verdict::Worse), has(Verdict::Better)) {
            (true, _) => Verdict::Worse,
            (false, true) => Verdict::Better,
            (false, false) => Verdict::Same,
        };
        let claim = claim(advice, claimed);
        Some(Score { p50, p99, cpu, claimed, failed, of_p99, of_cpu, verdict, claim })
    }
}

fn claim(advice: &Advice, measured: Option<Interval>) -> Claimed {
    let Some(effect) = &advice.effect else { return Claimed::NotShown("it claims no figure".into()) };
    // No case has an endpoint that starts cold.
    if advice.kind == "slow-start" {
        return Claimed::NotShown("no endpoint of the case starts cold".into());
    }
    match measured {
        None => Claimed::NotShown("no request failed without it".into()),
        Some(measured) if overlap(effect, measured) => Claimed::Holds,
        Some(_) => Claimed::Fails,
    }
}

fn overlap(effect: &Effect, measured: Interval) -> bool {
    measured.high >= effect.low - ALLOWED && measured.low <= effect.high + ALLOWED
}

/// Relative change, paired by round. Of fewer rounds than an interval needs, the range.
fn changes(before: &[Run], after: &[Run], figure: fn(&Run) -> f64) -> Option<Interval> {
    let pairs = before.iter().zip(after).map(|(before, after)| (figure(before), figure(after)));
    let all: Vec<f64> = pairs.map(|(before, after)| after / before.max(f64::MIN_POSITIVE) - 1.0).collect();
    let range = |of: Spread| Interval { median: of.median, low: of.min, high: of.max };
    Interval::of(&all).or_else(|| Spread::of(&all).map(range))
}

fn point(value: f64) -> Interval {
    Interval { median: value, low: value, high: value }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Figures;
    use super::*;

    fn runs(p99_ms: [f64; 3], cpu_us: f64, failed: u64) -> Vec<Run> {
        let clients = |p99_ms| Figures { answered: 1000 - failed, failed, p50_ms: 5.0, p99_ms, bytes: 0 };
        p99_ms.map(|p99_ms| Run { clients: clients(p99_ms), cpu_us, reached: 1.0, bytes: 100.0 }).to_vec()
    }

    fn advice(figure: &str, low: f64, high: f64) -> Advice {
        let effect = Effect { figure: figure.into(), low, middle: (low + high) / 2.0, high, at: String::new() };
        Advice {
            kind: "algorithm".into(),
            subject: String::new(),
            verdict: "change".into(),
            says: String::new(),
            effect: Some(effect),
            evidence: String::new(),
            patch: String::new(),
        }
    }

    #[test]
    fn a_change_is_better_or_worse_only_beyond_noise() {
        let before = runs([100.0, 110.0, 90.0], 50.0, 0);
        let of = |after: &[Run]| Score::of(&advice("p99", -0.4, -0.2), &before, after).expect("there are runs");
        let better = of(&runs([70.0, 75.0, 66.0], 50.0, 0));
        assert_eq!((better.verdict, better.claim), (Verdict::Better, Claimed::Holds));
        let same = of(&runs([103.0, 108.0, 91.0], 51.0, 0));
        assert_eq!((same.verdict, same.claim), (Verdict::Same, Claimed::Fails));
        let costly = of(&runs([70.0, 75.0, 66.0], 60.0, 0));
        assert_eq!((costly.verdict, costly.of_cpu, costly.of_p99), (Verdict::Worse, Verdict::Worse, Verdict::Better));
        assert_eq!(of(&runs([70.0, 75.0, 66.0], 50.0, 10)).verdict, Verdict::Worse, "requests fail");
    }

    #[test]
    fn a_claim_without_its_condition_is_not_shown() {
        let before = runs([100.0; 3], 50.0, 0);
        let none = Score::of(&advice("failed", -1.0, -0.9), &before, &before).expect("there are runs");
        assert!(matches!(none.claim, Claimed::NotShown(_)));
        let (failing, less) = (runs([100.0; 3], 50.0, 400), runs([100.0; 3], 50.0, 20));
        let held = Score::of(&advice("failed", -1.0, -0.9), &failing, &less).expect("there are runs");
        assert_eq!((held.claim, held.verdict), (Claimed::Holds, Verdict::Better));
    }
}
