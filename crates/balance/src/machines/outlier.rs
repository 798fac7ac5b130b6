//! Passive health: ejects endpoints that fail, or do worse than their pool, as seen by their requests.
//!
//! Source: Envoy's outlier detection, with a trial by a single request before an endpoint is back.

use crate::structures::tally::Tally;
use crate::structures::time::Instant;
use std::fmt;

/// Conditions and duration of ejections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Responses of 500 and above in a row, gateway errors included, that eject an endpoint; 0 = never.
    pub consecutive_5xx: u32,
    /// Gateway errors in a row that eject: 502, 503, 504, resets, timeouts and broken responses; 0 = never.
    pub consecutive_gateway: u32,
    /// Connections in a row that could not be opened; 0 = never.
    pub consecutive_connect: u32,
    /// Ejects endpoints whose share of successes in an interval is far below the pool's.
    pub success_rate: Option<SuccessRate>,
    /// Ejects endpoints whose mean latency in an interval is far above the pool's median.
    pub latency: Option<Latency>,
    /// Interval at which success rates and latencies are compared, nanoseconds.
    pub interval_ns: u64,
    /// Length of the first ejection, nanoseconds; each further ejection doubles it.
    pub eject_ns: u64,
    /// Longest ejection, nanoseconds.
    pub eject_max_ns: u64,
    /// Share of a tier that may be ejected at once, 0 to 1; a single endpoint of two or more always may. Failures in a
    /// row may eject all of a tier while another tier could serve.
    pub eject_at_most: f64,
}

impl Default for Settings {
    /// Envoy's counts and times, with two exceptions. A 500 is mostly about the request: a single client asking for a
    /// broken page could eject every endpoint. Failed connects mean a dead process and cost each request a try, so
    /// three are enough.
    fn default() -> Settings {
        Settings {
            consecutive_5xx: 0,
            consecutive_gateway: 5,
            consecutive_connect: 3,
            success_rate: None,
            latency: None,
            interval_ns: 10_000_000_000,
            eject_ns: 30_000_000_000,
            eject_max_ns: 300_000_000_000,
            eject_at_most: 0.3,
        }
    }
}

/// Ejection by success rate: below the pool's mean - `deviations` x its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessRate {
    /// Standard deviations below the mean.
    pub deviations: f64,
    /// Requests in the interval without which an endpoint is not judged.
    pub min_requests: u64,
    /// Endpoints with `min_requests` without which none is judged.
    pub min_endpoints: u32,
}

/// Ejection by latency: above `factor` x the pool's median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Multiple of the pool's median.
    pub factor: f64,
    /// Requests in the interval without which an endpoint is not judged.
    pub min_requests: u64,
}

/// Reason for which an endpoint was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Connections in a row could not be opened.
    Connect,
    /// Gateway errors in a row: 502, 503, 504 or no response.
    Gateway,
    /// Responses of 500 and above in a row.
    Server,
    /// Share of successes far below the pool's.
    SuccessRate,
    /// Latency far above the pool's median.
    Latency,
    /// An operator ejected the endpoint for a while.
    Operator,
}

impl Cause {
    /// True for failures in a row. Such an endpoint serves nothing, while an endpoint that compares badly with its pool
    /// still serves.
    pub fn is_streak(self) -> bool {
        matches!(self, Cause::Connect | Cause::Gateway | Cause::Server)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Connect => "consecutive connect failures",
            Cause::Gateway => "consecutive gateway errors",
            Cause::Server => "consecutive server errors",
            Cause::SuccessRate => "success rate far below the pool",
            Cause::Latency => "latency far above the pool",
            Cause::Operator => "by an operator",
        })
    }
}

/// Position of an endpoint between service and ejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In service: gets requests.
    In,
    /// Ejected: gets no requests.
    Out {
        /// Time at which its probation begins.
        until: Instant,
        /// Reason for which it was ejected.
        cause: Cause,
    },
    /// On probation: gets a single request at a time, and the first outcome decides.
    Trial {
        /// Reason for which it was ejected.
        cause: Cause,
    },
}

/// Ejection state of an endpoint: in service, out, or on trial.
#[derive(Clone, Copy, Debug)]
pub struct Ejection {
    phase: Phase,
    /// Doublings of the next ejection; 0 without a recent ejection.
    times: u32,
    /// Start of the current time in service.
    well_since: Instant,
    /// Number of the latest trial; 0 before the first.
    trial: u16,
}

impl Ejection {
    /// Returns the state of an endpoint that was never ejected. Trials are numbered from `trial` + 1, so that tickets
    /// of the slot's previous endpoint decide none.
    pub fn new(trial: u16, now: Instant) -> Ejection {
        Ejection { phase: Phase::In, times: 0, well_since: now, trial }
    }

    /// True if the endpoint is out or on trial because of its requests, and not by an operator.
    pub fn is_out_by_itself(&self) -> bool {
        matches!(self.phase, Phase::Out { cause, .. } | Phase::Trial { cause } if cause != Cause::Operator)
    }

    /// Returns the current phase of the endpoint.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Number of the latest trial; 0 before the first.
    pub fn trial(&self) -> u16 {
        self.trial
    }

    /// Ejects the endpoint. Each ejection lasts twice as long as the last, up to `eject_max_ns`; each `eject_ns` spent
    /// in service takes a doubling back.
    pub fn eject(&mut self, settings: &Settings, cause: Cause, now: Instant) {
        if self.phase == Phase::In {
            let well = now.since(self.well_since) / settings.eject_ns.max(1);
            self.times = self.times.saturating_sub(well.min(u64::from(u32::MAX)) as u32);
        }
        let out_ns = |times: u32| settings.eject_ns.saturating_mul(1 << times.min(62)).min(settings.eject_max_ns);
        let until = now.after(out_ns(self.times));
        // At the cap another doubling would only have to be taken back.
        self.times += u32::from(out_ns(self.times) < settings.eject_max_ns);
        self.phase = Phase::Out { until, cause };
    }

    /// Begins the probation if the ejection is over. Returns true if it begins.
    pub fn expire(&mut self, now: Instant) -> bool {
        matches!(self.phase, Phase::Out { until, .. } if until <= now) && self.begin_trial()
    }

    /// Handles a passed health check. An endpoint that was ejected for refusing connections accepts them again, so its
    /// probation begins, and this returns true. Other causes wait for the end of the ejection: a health page that works
    /// does not show that requests do.
    pub fn on_passed_check(&mut self) -> bool {
        matches!(self.phase, Phase::Out { cause: Cause::Connect, .. }) && self.begin_trial()
    }

    /// Brings the start of the probation forward to `at`, unless it is earlier already.
    pub fn hasten(&mut self, at: Instant) {
        if let Phase::Out { until, .. } = &mut self.phase {
            *until = at.min(*until);
        }
    }

    fn begin_trial(&mut self) -> bool {
        let Phase::Out { cause, .. } = self.phase else { return false };
        self.phase = Phase::Trial { cause };
        self.trial = self.trial.checked_add(1).unwrap_or(1); // 0 means no trial
        true
    }

    /// Applies the outcome of the trial.
    pub fn on_trial(&mut self, settings: &Settings, passed: bool, now: Instant) {
        match self.phase {
            Phase::Trial { .. } if passed => self.bring_back(now),
            Phase::Trial { cause } => self.eject(settings, cause, now),
            Phase::In | Phase::Out { .. } => {}
        }
    }

    /// Ends the ejection or the probation at once.
    pub fn bring_back(&mut self, now: Instant) {
        (self.phase, self.well_since) = (Phase::In, now);
    }
}

impl Settings {
    /// Returns how many of `endpoints` may be out at once: their share, but 1 of two or more, and never all.
    pub fn out_max(&self, endpoints: usize) -> usize {
        let share = (self.eject_at_most * endpoints as f64) as usize;
        share.max(1).min(endpoints.saturating_sub(1))
    }

    /// True if a rule compares endpoints, which needs sums over intervals.
    pub fn compares(&self) -> bool {
        self.success_rate.is_some() || self.latency.is_some()
    }
}

/// Finds the endpoints that did far worse than the pool in an interval. Returns their indices in `tallies`, for each
/// cause the worst first.
pub(crate) fn far_worse(settings: &Settings, tallies: &[Tally]) -> Vec<(usize, Cause)> {
    let mut found = Vec::new();
    if let Some(rule) = settings.success_rate {
        found.extend(failing(&rule, tallies).into_iter().map(|i| (i, Cause::SuccessRate)));
    }
    if let Some(rule) = settings.latency {
        found.extend(slow(&rule, tallies).into_iter().map(|i| (i, Cause::Latency)));
    }
    found
}

fn failing(rule: &SuccessRate, tallies: &[Tally]) -> Vec<usize> {
    let rate = |(i, t): (usize, &Tally)| {
        let requests = u64::from(t.answered) + u64::from(t.failed);
        (requests >= rule.min_requests.max(1)).then(|| (i, f64::from(t.answered) / requests as f64))
    };
    let mut rates: Vec<(usize, f64)> = tallies.iter().enumerate().filter_map(rate).collect();
    if rates.len() < (rule.min_endpoints as usize).max(1) {
        return Vec::new();
    }
    let mean_of = |of: &dyn Fn(f64) -> f64| rates.iter().map(|r| of(r.1)).sum::<f64>() / rates.len() as f64;
    let mean = mean_of(&|rate| rate);
    let deviation = mean_of(&|rate| (rate - mean) * (rate - mean)).sqrt();
    let lowest = mean - rule.deviations * deviation;
    rates.retain(|r| r.1 < lowest);
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    rates.into_iter().map(|r| r.0).collect()
}

fn slow(rule: &Latency, tallies: &[Tally]) -> Vec<usize> {
    let mean = |(i, t): (usize, &Tally)| {
        let enough = u64::from(t.timed) >= rule.min_requests.max(1);
        enough.then(|| (i, t.latency_ns as f64 / f64::from(t.timed)))
    };
    let mut means: Vec<(usize, f64)> = tallies.iter().enumerate().filter_map(mean).collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1));
    // With an even number, the faster of the middle two: of two endpoints, the slower is compared with the other.
    let Some(&(_, median)) = means.get(means.len() / 2) else { return Vec::new() };
    means.retain(|m| m.1 > rule.factor * median);
    means.into_iter().map(|m| m.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::time::SECOND_NS;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * SECOND_NS)
    }

    fn until(ejection: &Ejection) -> u64 {
        match ejection.phase() {
            Phase::Out { until, .. } => until.0 / SECOND_NS,
            other => panic!("it is {other:?}"),
        }
    }

    #[test]
    fn each_ejection_doubles_up_to_the_cap() {
        let settings = Settings::default();
        let (mut ejection, mut now) = (Ejection::new(0, at(0)), 0);
        for seconds in [30, 60, 120, 240, 300, 300] {
            ejection.eject(&settings, Cause::Server, at(now));
            assert_eq!(until(&ejection), now + seconds);
            now += seconds;
            assert!(!ejection.expire(Instant(at(now).0 - 1)) && ejection.expire(at(now)));
            ejection.on_trial(&settings, true, at(now));
            assert_eq!(ejection.phase(), Phase::In);
        }
    }

    #[test]
    fn a_failed_trial_doubles_and_time_well_spent_takes_doublings_back() {
        let settings = Settings::default();
        let mut ejection = Ejection::new(0, at(0));
        ejection.eject(&settings, Cause::Connect, at(0));
        ejection.expire(at(30));
        ejection.on_trial(&settings, false, at(30));
        assert_eq!(until(&ejection), 90);
        ejection.expire(at(90));
        ejection.on_trial(&settings, true, at(90));
        // Two doublings, and the second is taken back by 59 s in service.
        ejection.eject(&settings, Cause::Connect, at(149));
        assert_eq!(until(&ejection), 149 + 60);
        ejection.expire(at(209));
        ejection.on_trial(&settings, true, at(209));
        ejection.eject(&settings, Cause::Connect, at(9999));
        assert_eq!(until(&ejection), 9999 + 30, "all is forgiven");
    }

    #[test]
    fn a_passed_check_ends_early_only_what_connections_caused() {
        for (cause, ends) in [(Cause::Connect, true), (Cause::Gateway, false), (Cause::Latency, false)] {
            let mut ejection = Ejection::new(0, at(0));
            ejection.eject(&Settings::default(), cause, at(0));
            assert_eq!(ejection.on_passed_check(), ends, "{cause}");
            assert_eq!(matches!(ejection.phase(), Phase::Trial { .. }), ends, "{cause}");
        }
    }

    #[test]
    fn a_share_of_the_pool_may_be_out_but_one_of_two_and_never_the_only_one() {
        let out_max = |share| {
            let settings = Settings { eject_at_most: share, ..Settings::default() };
            [0, 1, 2, 3, 10, 100].map(|n| settings.out_max(n))
        };
        assert_eq!(out_max(0.3), [0, 0, 1, 1, 3, 30]);
        assert_eq!(out_max(0.0), [0, 0, 1, 1, 1, 1]);
        assert_eq!(out_max(1.0), [0, 0, 1, 2, 9, 99]);
    }

    fn tally(answered: u32, failed: u32, mean_ms: u64) -> Tally {
        Tally { answered, failed, latency_ns: u64::from(answered) * mean_ms * 1_000_000, timed: answered }
    }

    #[test]
    fn success_rates_are_held_against_mean_and_deviation() {
        let rule = SuccessRate { deviations: 1.9, min_requests: 100, min_endpoints: 5 };
        let settings = Settings { success_rate: Some(rule), ..Settings::default() };
        let mut tallies = vec![tally(990, 10, 1); 9];
        assert!(far_worse(&settings, &tallies).is_empty(), "all alike");
        tallies[4] = tally(900, 100, 1);
        // Mean 0.981, deviation 0.027: below 0.930 is ejected.
        assert_eq!(far_worse(&settings, &tallies), [(4, Cause::SuccessRate)]);
        tallies[4] = tally(9, 90, 1);
        assert!(far_worse(&settings, &tallies).is_empty(), "too few requests to say so");
        tallies.truncate(4);
        assert!(far_worse(&settings, &tallies).is_empty(), "too few endpoints");
    }

    #[test]
    fn latencies_are_held_against_the_median_worst_first() {
        let rule = Latency { factor: 3.0, min_requests: 100 };
        let settings = Settings { latency: Some(rule), ..Settings::default() };
        let tallies = [10, 31, 9, 10, 40].map(|ms| tally(100, 0, ms));
        assert_eq!(far_worse(&settings, &tallies), [(4, Cause::Latency), (1, Cause::Latency)]);
        assert_eq!(far_worse(&settings, &tallies[..2]), [(1, Cause::Latency)]);
        assert!(far_worse(&settings, &[10, 29].map(|ms| tally(100, 0, ms))).is_empty());
        assert!(far_worse(&settings, &[10, 99].map(|ms| tally(99, 0, ms))).is_empty());
    }
}
