//! Verdicts on published figures and claims, and the best algorithm of a point, as far as the seeds can distinguish
//! them.

use crate::experiment::{Bound, Cell, Claim, Experiment, Point, Side};
use crate::interval::Interval;
use crate::metric::{Metric, Unit};
use crate::results::{CONFIDENCE, Results, Row};
use evenkeel_draw::number::{digits, scale_of_seconds};

/// Verdict on a claim or published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Reproduced: the whole interval is within the bound.
    Holds,
    /// Not reproduced: no part of the interval is within the bound.
    Fails,
    /// Inconclusive: part of the interval is within the bound.
    Open,
    /// Not judged; there is a note instead.
    Noted,
    NotRun,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "does not hold",
            Verdict::Open => "not distinguishable",
            Verdict::Noted => "not judged",
            Verdict::NotRun => "not run",
        }
    }
}

/// Result of judging a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    pub verdict: Verdict,
    /// Interval of the ratio or difference; `None` if it was not run or not steady.
    pub interval: Option<Interval>,
}

/// Judges a published figure by the mean over seeds; never [`Verdict::Open`].
pub fn cell(cell: &Cell, row: Option<&Row>) -> Verdict {
    let Some(row) = row else { return Verdict::NotRun };
    if cell.note.is_some() {
        return Verdict::Noted;
    }
    let (low, high) = cell.allowed;
    match row.interval(cell.metric) {
        Some(ours) if (low..=high).contains(&ours.mean) => Verdict::Holds,
        _ => Verdict::Fails,
    }
}

/// Judges a claim by the results over all seeds.
pub fn claim(claim: &Claim, experiment: &Experiment, results: &Results) -> Judged {
    let values = |side: &Side| match side {
        Side::Constant(x) => Some(Some(vec![*x; results.seeds.len()])),
        Side::Measured { at, policy } => {
            let (point, row) = experiment.row(results, at, policy)?;
            Some(row.figure(point, &claim.figure).map(<[f64]>::to_vec))
        }
    };
    let (Some(of), Some(to)) = (values(&claim.of), values(&claim.to)) else {
        return Judged { verdict: Verdict::NotRun, interval: None };
    };
    // Without a steady state no claim holds.
    let (Some(of), Some(to)) = (of, to) else { return Judged { verdict: Verdict::Fails, interval: None } };
    let confidence = if matches!(claim.bound, Bound::Within(_)) { 0.9 } else { CONFIDENCE };
    // Paired by seed, as both sides had the same load.
    let compared: Vec<f64> =
        of.iter().zip(&to).map(|(of, to)| if claim.difference { of - to } else { of / to }).collect();
    let interval = Interval::of(&compared, confidence);
    let (low, high) = (interval.low(), interval.high());
    let told = |holds: bool, fails: bool| match (holds, fails) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::Fails,
        (false, false) => Verdict::Open,
    };
    let verdict = match claim.bound {
        Bound::AtMost(bound) => told(high <= bound, low > bound),
        Bound::AtLeast(bound) => told(low >= bound, high < bound),
        Bound::NotAbove(bound) => told(low <= bound, low > bound),
        Bound::NotBelow(bound) => told(high >= bound, high < bound),
        Bound::Within(off) => told(low >= 1.0 - off && high <= 1.0 + off, low > 1.0 + off || high < 1.0 - off),
    };
    Judged { verdict, interval: Some(interval) }
}

/// True if no judged claim or figure fails.
pub fn all_well(experiment: &Experiment, results: &Results) -> bool {
    let cells = experiment.published.iter().flat_map(|published| {
        let row = experiment.row(results, &published.at, &published.policy).map(|(_, row)| row);
        published.cells.iter().map(move |c| cell(c, row))
    });
    let claims = experiment.claims.iter().map(|c| claim(c, experiment, results).verdict);
    cells.chain(claims).all(|verdict| verdict != Verdict::Fails)
}

/// Sentence that names the best algorithm at a point.
pub fn best(experiment: &Experiment, point: &Point, rows: &[Row]) -> String {
    let metric = experiment.rank;
    let mut ranked: Vec<(&str, &[f64], Interval)> = Vec::new();
    for (policy, row) in point.policies.iter().zip(rows).filter(|(policy, _)| !policy.is_reference()) {
        if let (Some(values), Some(interval)) = (row.values(metric), row.interval(metric)) {
            ranked.push((&policy.label, values, interval));
        }
    }
    let order = |a: &f64, b: &f64| if metric.less_is_better { a.total_cmp(b) } else { b.total_cmp(a) };
    ranked.sort_by(|a, b| order(&a.2.mean, &b.2.mean));
    let Some(((name, values, interval), others)) = ranked.split_first() else {
        return match point.policies.iter().all(crate::scenario::Policy::is_reference) {
            true => "only yardsticks were tried".to_string(),
            false => "no steady state: no algorithm settles at this load".to_string(),
        };
    };
    let shown = format!("{} at {}: {}", name, metric.name, with_interval(*interval, metric));
    if others.is_empty() {
        return shown;
    }
    // Paired by seed: the load is the same, only the algorithm differs.
    let close = others.iter().filter(|(_, theirs, _)| {
        let differences: Vec<f64> = theirs.iter().zip(*values).map(|(a, b)| a - b).collect();
        let difference = Interval::of(&differences, CONFIDENCE);
        difference.low() <= 0.0 && difference.high() >= 0.0
    });
    let close: Vec<&str> = close.map(|(name, ..)| *name).collect();
    match close.len() {
        0 => format!("best is {shown}"),
        1 => format!("best is {shown}; {} is not distinguishable from it", close[0]),
        _ => format!("best is {shown}; {} are not distinguishable from it", close.join(", ")),
    }
}

/// Relative regret against a yardstick at the same point: of the mean and of the 99th percentile.
pub fn regret(point: &Point, rows: &[Row], policy: usize, yardstick: &str) -> Option<[f64; 2]> {
    let other = &rows[point.policies.iter().position(|p| p.label == yardstick)?];
    let over = |name: &str| {
        let metric = crate::metric::find(name)?;
        Some(rows[policy].interval(metric)?.mean / other.interval(metric)?.mean - 1.0)
    };
    Some([over("mean")?, over("p99")?])
}

/// Comparison of two sides as text: `0.25 [0.22, 0.28]`, or for a ratio near 1 a margin in per cent, to two digits of
/// the half width: `+0.31 % [+0.22, +0.40]`.
pub fn compared(interval: Interval, is_difference: bool) -> String {
    let (low, mean, high) = (interval.low(), interval.mean, interval.high());
    if is_difference || low < 0.9 || high > 1.1 {
        return format!("{} [{}, {}]", digits(mean), digits(low), digits(high));
    }
    let percent = |x: f64| (x - 1.0) * 100.0;
    let half = interval.half * 100.0;
    let places = if half > 0.0 { (1.0 - half.log10().floor()).clamp(0.0, 6.0) as usize } else { 2 };
    format!("{:+.places$} % [{:+.places$}, {:+.places$}]", percent(mean), percent(low), percent(high))
}

/// Mean with its interval as text: `106 ms [101, 111]`.
pub fn with_interval(interval: Interval, metric: &Metric) -> String {
    let mean = shown(interval.mean, metric.unit);
    if !interval.half.is_finite() {
        return format!("{mean} (one seed)");
    }
    // Both ends in the unit of the mean.
    let (scale, _) = scale(interval.mean, metric.unit);
    format!("{mean} [{}, {}]", digits(interval.low() * scale), digits(interval.high() * scale))
}

/// Value with its unit, to three digits.
pub fn shown(value: f64, unit: Unit) -> String {
    let (scale, name) = scale(value, unit);
    format!("{}{name}", digits(value * scale))
}

fn scale(value: f64, unit: Unit) -> (f64, &'static str) {
    match (unit, value.abs()) {
        (Unit::Time, _) => scale_of_seconds(value),
        (Unit::Rate, x) if x >= 1e6 => (1e-6, " M/s"),
        (Unit::Rate, x) if x >= 1e4 => (1e-3, " k/s"),
        (Unit::Rate, _) => (1.0, " /s"),
        (Unit::Share, _) => (100.0, " %"),
        (Unit::Number, _) => (1.0, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Figure;
    use crate::file;
    use crate::metric;

    #[test]
    fn a_ratio_near_one_is_a_margin_with_the_digits_that_decide() {
        let interval = |mean, half| Interval { mean, half };
        assert_eq!(compared(interval(1.0031, 0.0009), false), "+0.310 % [+0.220, +0.400]");
        assert_eq!(compared(interval(0.98, 0.03), false), "-2.0 % [-5.0, +1.0]");
        assert_eq!(compared(interval(0.25, 0.03), false), "0.25 [0.22, 0.28]");
        assert_eq!(compared(interval(1.0, 0.01), true), "1.00 [0.99, 1.01]");
    }

    /// Experiment of two algorithms with these mean latencies by seed.
    fn measured(first: &[f64], second: &[f64]) -> (Experiment, Results) {
        let text = "summary = 'x'\nalgorithms = ['random', 'leastconn']\nrequests = 10\nrank = 'mean'\nload.users = 1\n\
                    service.web.server = [{}]\n";
        let experiment = file::read("x.toml", text).experiment.expect("it is clean");
        let seeds: Vec<u64> = (1..=first.len() as u64).collect();
        let mut results = experiment.run(&seeds, 1, &|_, _| {}).expect("nothing contradicts itself");
        let mean = metric::index(metric::find("mean").expect("a row"));
        results.points[0][0].figures[mean] = first.to_vec();
        results.points[0][1].figures[mean] = second.to_vec();
        (experiment, results)
    }

    fn verdict_of((experiment, results): &(Experiment, Results), bound: Bound) -> Verdict {
        let side = |policy: &str| Side::Measured { at: String::new(), policy: policy.to_string() };
        let figure = Figure::Metric(metric::find("mean").expect("a row"));
        let (of, to) = (side("random"), side("leastconn"));
        let one = Claim { says: String::new(), figure, of, to, difference: false, bound };
        claim(&one, experiment, results).verdict
    }

    #[test]
    fn claims_are_judged_by_the_whole_interval() {
        // Ratios 2.0, 2.1 and 1.9: a mean of 2 with 0.25 to either side at 95 %, 0.17 at 90 %.
        let apart = measured(&[2.0, 4.2, 3.8], &[1.0, 2.0, 2.0]);
        for (bound, verdict) in [
            (Bound::AtMost(2.3), Verdict::Holds),
            (Bound::AtMost(2.0), Verdict::Open),
            (Bound::AtMost(1.7), Verdict::Fails),
            (Bound::AtLeast(1.7), Verdict::Holds),
            (Bound::AtLeast(2.3), Verdict::Fails),
            (Bound::NotAbove(1.8), Verdict::Holds),
            (Bound::NotAbove(1.7), Verdict::Fails),
            (Bound::NotBelow(2.2), Verdict::Holds),
            (Bound::Within(0.5), Verdict::Fails),
        ] {
            assert_eq!(verdict_of(&apart, bound), verdict, "{bound:?}");
        }
        let alike = measured(&[1.0, 2.02, 1.98], &[1.0, 2.0, 2.0]);
        assert_eq!(verdict_of(&alike, Bound::Within(0.03)), Verdict::Holds);
        assert_eq!(verdict_of(&alike, Bound::Within(0.005)), Verdict::Open);
    }

    #[test]
    fn one_seed_tells_nothing_apart() {
        assert_eq!(verdict_of(&measured(&[2.0], &[1.0]), Bound::AtLeast(1.0)), Verdict::Open);
    }

    #[test]
    fn the_best_is_named_with_those_it_cannot_be_told_from() {
        let sentence =
            |(experiment, results): (Experiment, Results)| best(&experiment, &experiment.points[0], &results.points[0]);
        let apart = sentence(measured(&[0.2, 0.21, 0.19], &[0.1, 0.11, 0.09]));
        assert_eq!(apart, "best is leastconn at mean: 100 ms [75.2, 125]");
        let alike = sentence(measured(&[0.1, 0.12, 0.09], &[0.1, 0.11, 0.09]));
        assert!(alike.ends_with("random is not distinguishable from it"), "{alike}");
    }

    #[test]
    fn values_have_three_digits_and_a_unit() {
        for (value, unit, text) in [
            (0.0123, Unit::Time, "12.3 ms"),
            (1.234, Unit::Time, "1.23 s"),
            (0.000_002, Unit::Time, "2.00 us"),
            (0.1234, Unit::Share, "12.3 %"),
            (13_000.0, Unit::Rate, "13.0 k/s"),
            (0.0012, Unit::Number, "0.0012"),
        ] {
            assert_eq!(shown(value, unit), text);
        }
    }
}
