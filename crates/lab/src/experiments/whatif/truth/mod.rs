//! True figures of a case: every policy is run on the arrivals of the log, over seeds that the log did not have.

// Order: joins
mod joins;

use super::case::{Case, named};
use evenkeel_sim::run::Run;
use evenkeel_sim::scenario::Load;
use evenkeel_sim::{Logged, simulate};

/// Quantiles that are judged.
pub const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Policies that are asked for.
pub const QUESTIONS: [&str; 4] = ["round_robin", "random", "leastconn", "peak_ewma"];

/// Mean over the seeds, with its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    pub value: f64,
    pub error: f64,
}

impl Mean {
    pub fn of(values: &[f64]) -> Mean {
        let count = values.len().max(1) as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|x| (x - value).powi(2)).sum();
        Mean { value, error: (squares / (count - 1.0).max(1.0) / count).sqrt() }
    }
}

/// True figures of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub policy: &'static str,
    /// Latencies in milliseconds, by quantile.
    pub latency_ms: [Mean; 3],
    /// Differences to the policy of the log, from runs with the same seed, in milliseconds.
    pub change_ms: [Mean; 3],
    /// Shares of the tries, by endpoint.
    pub shares: Vec<Mean>,
    /// p99 by seed.
    p99_ms: Vec<f64>,
}

/// Figures of every policy, by runs over the same seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    pub policies: Vec<Figures>,
    pub seeds: u64,
    /// p99 under the policy of the log, in milliseconds.
    pub own_p99_ms: f64,
    /// Standard errors by which intervals are widened before the truth is compared with them.
    pub errors: f64,
}

/// Quantile 0.95 of Student's t, by degrees of freedom from 1; of more than 8, the last.
const T_WITHIN_90: [f64; 8] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.833];

/// Fewest and most seeds. More than the fewest are run until the p99 is known to [`PRECISION`].
pub type Seeds = (u64, u64);

/// Largest standard error of a difference of p99, relative to the p99.
const PRECISION: f64 = 0.01;

/// Runs the truth of a case, whose log is given.
pub fn run(case: &Case, log: &[Logged], seeds: Seeds) -> Truth {
    if let Some(slow_start) = case.slow_start {
        return joins::run(case, log, slow_start, seeds);
    }
    let mut scenario = case.scenario.clone();
    // A closed loop has no arrivals of its own.
    if !matches!(scenario.load, Load::Closed { .. }) && case.service == 0 {
        let at_ns = log.iter().map(|logged| logged.arrived_ns).collect();
        scenario.load = Load::Trace { at_ns };
    }
    let mut names = QUESTIONS.to_vec();
    if !names.contains(&case.policy) {
        names.push(case.policy);
    }
    let policies: Vec<_> = names.iter().map(|name| named(name)).collect();
    let own = names.iter().position(|name| *name == case.policy).unwrap_or(0);
    let mut runs: Vec<Vec<Ran>> = names.iter().map(|_| Vec::new()).collect();
    let mut done = 0;
    loop {
        for (policy, runs) in policies.iter().zip(&mut runs) {
            runs.push(Ran::of(&simulate(&scenario, policy, 1_000 + done), case.service));
        }
        done += 1;
        if done < seeds.0 {
            continue;
        }
        let truth = Truth::of_runs(&names, &runs, &runs[own]);
        if done >= seeds.1 || truth.is_precise() {
            return truth;
        }
    }
}

impl Truth {
    /// Truth of runs by policy, over the seeds of runs under the policy of the log.
    fn of_runs(names: &[&'static str], runs: &[Vec<Ran>], own: &[Ran]) -> Truth {
        let figures = names.iter().zip(runs).map(|(name, ran)| Figures::of(name, ran, own));
        let own_p99_ms = Mean::of(&own.iter().map(|of| of.latency_ms[2]).collect::<Vec<_>>()).value;
        Truth { policies: figures.collect(), seeds: own.len() as u64, own_p99_ms, errors: 1.0 }
    }

    fn is_precise(&self) -> bool {
        let is_precise = |of: &Figures| of.change_ms[2].error <= PRECISION * of.latency_ms[2].value;
        self.policies.iter().all(is_precise)
    }

    /// Truth of a few live rounds, which has an interval of 90 % of its own: by Student's t.
    pub fn of_rounds(names: &[&'static str], runs: &[Vec<Ran>], own: &[Ran]) -> Truth {
        let freedom = own.len().saturating_sub(1).clamp(1, T_WITHIN_90.len());
        Truth { errors: T_WITHIN_90[freedom - 1], ..Truth::of_runs(names, runs, own) }
    }

    pub fn of(&self, policy: &str) -> Option<&Figures> {
        self.policies.iter().find(|of| of.policy == policy)
    }

    /// Difference between the highest and the lowest latency, by quantile, in milliseconds. Policies with more than five
    /// times the lowest latency do not count: an interval that shows an overload alone says little.
    pub fn spread_ms(&self) -> [Mean; 3] {
        std::array::from_fn(|at| {
            let by_value = |a: &Mean, b: &Mean| a.value.total_cmp(&b.value);
            let lowest = self.policies.iter().map(|of| of.latency_ms[at].value).fold(f64::INFINITY, f64::min);
            let sound = |of: &&Figures| of.latency_ms[at].value <= 5.0 * lowest;
            let of = || self.policies.iter().filter(sound).map(|of| of.change_ms[at]);
            let (low, high) = (of().min_by(by_value).unwrap_or_default(), of().max_by(by_value).unwrap_or_default());
            Mean { value: high.value - low.value, error: low.error.hypot(high.error) }
        })
    }

    /// Difference of the p99 of two policies, from runs with the same seed, in milliseconds.
    pub fn p99_over(&self, policy: &str, other: &str) -> Option<Mean> {
        let (of, over) = (self.of(policy)?, self.of(other)?);
        let differences = of.p99_ms.iter().zip(&over.p99_ms).map(|(of, over)| of - over);
        Some(Mean::of(&differences.collect::<Vec<_>>()))
    }

    /// Policy with the lowest p99.
    pub fn best(&self) -> Option<&Figures> {
        self.policies.iter().min_by(|a, b| a.latency_ms[2].value.total_cmp(&b.latency_ms[2].value))
    }
}

/// Figures of a policy with one seed.
#[derive(Clone, Debug)]
pub struct Ran {
    pub latency_ms: [f64; 3],
    /// Shares of the tries, by endpoint.
    pub shares: Vec<f64>,
}

impl Ran {
    fn of(run: &Run, service: u16) -> Ran {
        let servers = &run.services[usize::from(service)].servers;
        let all: u64 = servers.iter().map(|of| of.requests).sum();
        Ran {
            latency_ms: QUANTILES.map(|(_, part)| run.quantile(part) as f64 / 1e6),
            shares: servers.iter().map(|of| of.requests as f64 / all.max(1) as f64).collect(),
        }
    }
}

impl Figures {
    fn of(policy: &'static str, runs: &[Ran], own: &[Ran]) -> Figures {
        let by = |at: usize| runs.iter().map(move |of| of.latency_ms[at]);
        let change = |at: usize| by(at).zip(own).map(|(of, own)| of - own.latency_ms[at]).collect::<Vec<_>>();
        let share = |at: usize| Mean::of(&runs.iter().map(|of| of.shares[at]).collect::<Vec<_>>());
        Figures {
            policy,
            latency_ms: std::array::from_fn(|at| Mean::of(&by(at).collect::<Vec<_>>())),
            change_ms: std::array::from_fn(|at| Mean::of(&change(at))),
            shares: (0..runs.first().map_or(0, |of| of.shares.len())).map(share).collect(),
            p99_ms: by(2).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::whatif::cases;

    #[test]
    fn a_mean_has_the_standard_error_of_its_values() {
        let mean = Mean::of(&[1.0, 2.0, 3.0]);
        assert_eq!(mean.value, 2.0);
        assert!((mean.error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Mean::of(&[5.0]), Mean { value: 5.0, error: 0.0 });
    }

    #[test]
    fn live_rounds_widen_intervals_by_their_own() {
        let ran = |p99: f64| Ran { latency_ms: [1.0, 2.0, p99], shares: vec![1.0] };
        let (own, other) = (vec![ran(10.0), ran(12.0), ran(11.0)], vec![ran(9.0), ran(10.0), ran(11.0)]);
        let truth = Truth::of_rounds(&["random", "leastconn"], &[own.clone(), other], &own);
        assert_eq!((truth.seeds, truth.own_p99_ms, truth.errors), (3, 11.0, 2.920));
        assert_eq!(truth.of("leastconn").unwrap().change_ms[2].value, -1.0);
    }

    #[test]
    fn the_truth_of_a_case_ranks_the_policies() {
        let case = cases::ALL[0].case();
        let (_, log) = case.log();
        let truth = run(&case, &log, (3, 3));
        assert_eq!(truth.seeds, 3);
        let own = truth.of(case.policy).unwrap();
        assert_eq!(own.change_ms, [Mean::default(); 3]);
        // Equal endpoints at a high load: counting what is in flight is best, and turns are worse.
        let [turns, fewest] = ["round_robin", "leastconn"].map(|name| truth.of(name).unwrap().latency_ms[2].value);
        assert!(fewest < turns, "{fewest} {turns}");
        assert!(truth.spread_ms()[2].value >= turns - fewest - 1e-9);
        assert!(truth.p99_over("leastconn", "round_robin").unwrap().value < 0.0);
        let shares: f64 = own.shares.iter().map(|of| of.value).sum();
        assert!((shares - 1.0).abs() < 1e-9);
    }
}
