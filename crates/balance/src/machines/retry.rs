//! Retries: which failed tries are repeated, under which conditions, within a budget and after a backoff with jitter.
//!
//! The balancer decides where a retry goes: the endpoints that a request has tried are excluded from its picks.

use crate::machines::budget::Budget;
use crate::structures::rng::Rng;
use crate::structures::time::Instant;
use std::fmt;

/// Conditions, number and pace of the retries of a pool's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Tries that a request may have after its first; 0 = none.
    pub attempts: u32,
    /// Failures that are tried again.
    pub on: Conditions,
    /// True if requests whose method is not idempotent are retried too, even after part of them was sent.
    pub non_idempotent: bool,
    /// True if an endpoint that has answered with a status may be asked again when no other is left.
    pub same_endpoint: bool,
    /// Retries as a share of requests, 0 to 1.
    pub budget: f64,
    /// Retries per second that are always allowed, all workers of the process together.
    pub budget_floor: f64,
    /// Upper bound of the first pause, nanoseconds, which is drawn uniformly from 0. Each further pause doubles the
    /// bound.
    pub backoff_ns: u64,
    /// Longest pause, nanoseconds.
    pub backoff_max_ns: u64,
    /// Longest time from the start of a try to the head of its response, nanoseconds; `None` = as long as the request
    /// has.
    pub try_timeout_ns: Option<u64>,
}

/// Failures after which a request is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The connection to the endpoint failed, so nothing of the request was sent.
    pub connect: bool,
    /// The endpoint closed or reset the connection before the first byte of a response.
    pub reset: bool,
    /// The endpoint did not answer within the time for a try.
    pub timeout: bool,
    /// Statuses of responses that are tried again: ascending, 400 to 599.
    pub statuses: Vec<u16>,
    /// Statuses of gRPC calls that ended without a message: a bit per code, 1 to 16.
    pub grpc: u32,
}

impl Default for Settings {
    /// A single retry, at another endpoint, of requests that were certainly not served. The budget is Envoy's.
    fn default() -> Settings {
        Settings {
            attempts: 1,
            on: Conditions { connect: true, reset: true, timeout: false, ..Conditions::default() },
            non_idempotent: false,
            same_endpoint: false,
            budget: 0.2,
            budget_floor: 3.0,
            backoff_ns: 25_000_000,
            backoff_max_ns: 250_000_000,
            try_timeout_ns: None,
        }
    }
}

impl Settings {
    /// Returns the pause before a retry that follows `pauses` earlier retries, in nanoseconds: uniform from 0 to a
    /// bound that doubles each time, so that clients that failed together do not return together. Source: Brooker,
    /// "Exponential Backoff And Jitter", AWS 2015 (full jitter).
    pub fn pause_ns(&self, pauses: u32, rng: &mut Rng) -> u64 {
        let longest = self.backoff_ns.saturating_mul(1u64.checked_shl(pauses).unwrap_or(u64::MAX));
        rng.below_u64(longest.min(self.backoff_max_ns).saturating_add(1))
    }
}

/// The way in which a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection to the endpoint failed, so nothing of the request was sent in this try.
    Connect,
    /// The endpoint closed or reset the connection before the first byte of a response.
    Reset,
    /// The endpoint did not answer within the time for a try.
    Timeout,
    /// The response had this status.
    Status(u16),
    /// A gRPC call ended with this status code, before any message.
    Grpc(u8),
}

impl Conditions {
    /// True if a request is tried again after this failure.
    pub fn admit(&self, failure: Failure) -> bool {
        match failure {
            Failure::Connect => self.connect,
            Failure::Reset => self.reset,
            Failure::Timeout => self.timeout,
            Failure::Status(status) => self.statuses.binary_search(&status).is_ok(),
            Failure::Grpc(code) => code < 32 && self.grpc & 1 << code != 0,
        }
    }
}

/// A failed try, and the state of its request, as the shell knows them.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// The way in which the try failed.
    pub failure: Failure,
    /// True if the method is idempotent (RFC 9110, section 9.2.2).
    pub idempotent: bool,
    /// True if everything that was sent is still buffered and can be sent again, or nothing was sent.
    pub replayable: bool,
    /// Nanoseconds to the deadline of the whole request; `None` without a deadline.
    pub left_ns: Option<u64>,
    /// True if endpoints beyond those that requests go to first could serve the request: endpoints of another zone, or
    /// of a lower tier ([`Balancer::has_beyond`](crate::Balancer::has_beyond)).
    pub beyond: bool,
}

/// Consequence of a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is tried again.
    Again {
        /// Pause before the try, nanoseconds.
        after_ns: u64,
        /// True if an endpoint that was tried may be asked again when no other is left. False if it answered, as it
        /// refused, unless [`Settings::same_endpoint`]; and for a try without a pause, as nothing can have changed.
        same: bool,
        /// True if the try has to go beyond the endpoints that requests go to first.
        leaves: bool,
    },
    /// The failure is the result of the request.
    Stop(Stop),
}

/// Reason why a request is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// [`Settings::on`] does not include the failure.
    Condition,
    /// Part of the request was sent, and serving it twice might differ from serving it once.
    NotIdempotent,
    /// The part that was sent is no longer buffered.
    BodyGone,
    /// The request has used up its tries.
    Attempts,
    /// The pause would end at or after the request's deadline.
    Deadline,
    /// The budget is spent: too many requests need a retry.
    Budget,
}

impl Stop {
    /// All reasons, ordered by discriminant: `stop as usize` is an index for counters.
    pub const ALL: [Stop; 6] =
        [Stop::Condition, Stop::NotIdempotent, Stop::BodyGone, Stop::Attempts, Stop::Deadline, Stop::Budget];

    /// Name of the reason in metrics and logs, a single word.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Condition => "condition",
            Stop::NotIdempotent => "not_idempotent",
            Stop::BodyGone => "body_gone",
            Stop::Attempts => "attempts",
            Stop::Deadline => "deadline",
            Stop::Budget => "budget",
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// State of the retries of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    retries: u32,
    pauses: u32,
    /// True once a try had to leave the first endpoints.
    left: bool,
}

impl Retry {
    /// Returns the number of retries so far.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Decides after a failed try. `Again` counts the retry and pays for it. The budget is asked last, so that a retry
    /// refused for another reason costs nothing.
    ///
    /// A request that has used up its tries, or finds the budget spent, gets another try if that goes beyond the
    /// endpoints that were tried: a whole tier may be dead while the next tier is well. The budget does not pay for it,
    /// as it adds no load to the tier that fails.
    pub fn decide(
        &mut self,
        settings: &Settings,
        failed: &Failed,
        budget: &mut Budget,
        rng: &mut Rng,
        now: Instant,
    ) -> Decision {
        let connect = failed.failure == Failure::Connect;
        if !settings.on.admit(failed.failure) {
            return Decision::Stop(Stop::Condition);
        }
        // After a failed connect the endpoint has seen nothing, but an earlier try may have sent something, which is
        // then sent twice. Every gRPC method is POST, so configuring a gRPC status as retryable allows that.
        let is_allowed = settings.non_idempotent || matches!(failed.failure, Failure::Grpc(_));
        if !(connect || failed.idempotent || is_allowed) {
            return Decision::Stop(Stop::NotIdempotent);
        }
        if !failed.replayable {
            return Decision::Stop(Stop::BodyGone);
        }
        let has_tries = self.retries < settings.attempts;
        let may_leave = settings.attempts > 0 && failed.beyond && !self.left;
        if !has_tries && !may_leave {
            return Decision::Stop(Stop::Attempts);
        }
        // After the first failed connect, another endpoint is asked at once, as that puts no load on the endpoint that
        // failed. The same holds when a tier is left.
        let at_once = connect && (self.retries == 0 || !has_tries);
        let after_ns = if at_once { 0 } else { settings.pause_ns(self.pauses, rng) };
        if failed.left_ns.is_some_and(|left| left <= after_ns) {
            return Decision::Stop(Stop::Deadline);
        }
        let leaves = !(has_tries && budget.spend(now));
        if leaves && !may_leave {
            return Decision::Stop(Stop::Budget);
        }
        self.left |= leaves;
        self.retries += 1;
        self.pauses += u32::from(!at_once);
        let has_answered = matches!(failed.failure, Failure::Status(_) | Failure::Grpc(_));
        let same = !at_once && (settings.same_endpoint || !has_answered);
        Decision::Again { after_ns, same, leaves }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);

    fn plenty() -> Budget {
        Budget::new(1.0, 1e6, 1, NOW)
    }

    fn all(attempts: u32) -> Settings {
        let on = Conditions { connect: true, reset: true, timeout: true, statuses: vec![429, 503], grpc: 1 << 14 };
        Settings { attempts, on, ..Settings::default() }
    }

    fn failed(failure: Failure) -> Failed {
        Failed { failure, idempotent: true, replayable: true, left_ns: None, beyond: false }
    }

    fn decide(settings: &Settings, failed: &Failed) -> Decision {
        Retry::default().decide(settings, failed, &mut plenty(), &mut Rng::new(1), NOW)
    }

    const KINDS: [Failure; 5] =
        [Failure::Connect, Failure::Reset, Failure::Timeout, Failure::Status(429), Failure::Status(503)];

    #[test]
    fn only_what_is_configured_is_tried_again() {
        let none = Settings { on: Conditions::default(), ..all(1) };
        for failure in KINDS {
            assert_eq!(decide(&none, &failed(failure)), Decision::Stop(Stop::Condition), "{failure:?}");
            assert!(matches!(decide(&all(1), &failed(failure)), Decision::Again { .. }), "{failure:?}");
        }
        assert_eq!(decide(&all(1), &failed(Failure::Status(500))), Decision::Stop(Stop::Condition));
        assert_eq!(decide(&all(0), &failed(Failure::Connect)), Decision::Stop(Stop::Attempts));
    }

    #[test]
    fn a_grpc_status_that_is_named_is_tried_again_although_its_method_is_post() {
        let call = |code| Failed { idempotent: false, ..failed(Failure::Grpc(code)) };
        assert!(matches!(decide(&all(1), &call(14)), Decision::Again { same: false, .. }));
        for code in [0, 13, 16, 40] {
            assert_eq!(decide(&all(1), &call(code)), Decision::Stop(Stop::Condition), "{code}");
        }
    }

    #[test]
    fn an_endpoint_that_has_answered_is_asked_again_only_if_that_is_allowed() {
        for same_endpoint in [false, true] {
            let settings = Settings { same_endpoint, ..all(1) };
            for failure in [Failure::Status(503), Failure::Grpc(14)] {
                let Decision::Again { same, .. } = decide(&settings, &failed(failure)) else { panic!("{failure:?}") };
                assert_eq!(same, same_endpoint, "{failure:?}");
            }
        }
    }

    #[test]
    fn what_is_not_idempotent_is_sent_again_only_if_nothing_left_or_if_allowed() {
        let allowed = Settings { non_idempotent: true, ..all(1) };
        for failure in KINDS {
            let post = Failed { idempotent: false, ..failed(failure) };
            let again = matches!(decide(&all(1), &post), Decision::Again { .. });
            assert_eq!(again, failure == Failure::Connect, "{failure:?}");
            assert!(matches!(decide(&allowed, &post), Decision::Again { .. }), "{failure:?}");
            let gone = Failed { replayable: false, ..post };
            assert_eq!(decide(&allowed, &gone), Decision::Stop(Stop::BodyGone), "{failure:?}");
        }
        let post = Failed { idempotent: false, ..failed(Failure::Reset) };
        assert_eq!(decide(&all(1), &post), Decision::Stop(Stop::NotIdempotent));
    }

    #[test]
    fn a_failed_connect_goes_elsewhere_at_once_but_only_the_first_time() {
        let (mut retry, mut budget, mut rng) = (Retry::default(), plenty(), Rng::new(1));
        let settings = Settings { backoff_ns: 1 << 40, backoff_max_ns: 1 << 40, ..all(2) };
        let mut next = || retry.decide(&settings, &failed(Failure::Connect), &mut budget, &mut rng, NOW);
        assert_eq!(next(), Decision::Again { after_ns: 0, same: false, leaves: false });
        assert!(matches!(next(), Decision::Again { after_ns: 1.., same: true, .. }), "a pause of 0 has odds of 2^-40");
        assert_eq!(next(), Decision::Stop(Stop::Attempts));
    }

    #[test]
    fn a_request_leaves_a_tier_that_used_up_its_tries_or_the_budget_once() {
        let mut rng = Rng::new(1);
        let beyond = Failed { beyond: true, ..failed(Failure::Connect) };
        let leaves = |decision| match decision {
            Decision::Again { leaves, .. } => Ok(leaves),
            Decision::Stop(why) => Err(why),
        };
        let (mut retry, mut budget) = (Retry::default(), plenty());
        let mut next = || leaves(retry.decide(&all(2), &beyond, &mut budget, &mut rng, NOW));
        assert_eq!([next(), next(), next(), next()], [Ok(false), Ok(false), Ok(true), Err(Stop::Attempts)]);
        let (mut retry, mut budget) = (Retry::default(), Budget::new(0.0, 0.0, 1, NOW));
        let mut next = |failed| leaves(retry.decide(&all(9), &failed, &mut budget, &mut rng, NOW));
        assert_eq!([next(failed(Failure::Connect)), next(beyond)], [Err(Stop::Budget), Ok(true)]);
        assert_eq!(next(beyond), Err(Stop::Budget), "only once");
        assert_eq!(decide(&all(0), &beyond), Decision::Stop(Stop::Attempts), "retries are off");
    }

    #[test]
    fn an_endpoint_that_answered_is_not_asked_again() {
        let may_repeat = |failure| match decide(&all(1), &failed(failure)) {
            Decision::Again { same, .. } => same,
            Decision::Stop(stop) => panic!("{stop}"),
        };
        assert_eq!(KINDS.map(may_repeat), [false, true, true, false, false]);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_use_their_whole_range() {
        let settings = Settings { backoff_ns: 1000, backoff_max_ns: 6000, ..all(9) };
        let mut rng = Rng::new(3);
        for (pauses, most) in [(0, 1000), (1, 2000), (2, 4000), (3, 6000), (63, 6000), (64, 6000), (u32::MAX, 6000)] {
            let drawn: Vec<u64> = (0..20_000).map(|_| settings.pause_ns(pauses, &mut rng)).collect();
            let mean = drawn.iter().sum::<u64>() as f64 / 20_000.0;
            // The mean of 20,000 uniform draws has a standard deviation of most / sqrt(12 * 20,000). Five of them are
            // allowed.
            assert!((mean - most as f64 / 2.0).abs() < 5.0 * most as f64 / 489.9, "{pauses}: {mean}");
            assert!(*drawn.iter().max().unwrap() <= most && *drawn.iter().min().unwrap() < most / 100, "{pauses}");
        }
        let none = Settings { backoff_ns: 0, backoff_max_ns: u64::MAX, ..all(1) };
        assert_eq!(none.pause_ns(7, &mut rng), 0);
    }

    #[test]
    fn no_history_has_more_tries_than_allowed_or_one_past_its_deadline() {
        let mut stops = [0; Stop::ALL.len()];
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let settings = Settings { non_idempotent: rng.coin(), ..all(rng.below(4)) };
            let mut budget = Budget::new(0.2, 0.5, 1, NOW);
            let (mut retries, mut requests, mut now) = (0, 0, NOW);
            for _ in 0..200 {
                let mut retry = Retry::default();
                budget.earn(now);
                requests += 1;
                loop {
                    let failure = [KINDS[rng.below(5) as usize], Failure::Status(404)][usize::from(rng.below(9) == 0)];
                    let left_ns = rng.coin().then(|| u64::from(rng.below(60)) * 1_000_000);
                    let (idempotent, replayable) = (rng.coin(), rng.below(4) > 0);
                    let failed = Failed { failure, idempotent, replayable, left_ns, beyond: rng.coin() };
                    let before = retry;
                    match retry.decide(&settings, &failed, &mut budget, &mut rng, now) {
                        Decision::Again { after_ns, leaves, .. } => {
                            retries += u32::from(!leaves);
                            assert!(!leaves || (failed.beyond && !before.left && settings.attempts > 0), "seed {seed}");
                            assert!(left_ns.is_none_or(|left| after_ns < left), "seed {seed}");
                            assert!(retry.retries() <= settings.attempts + u32::from(retry.left), "seed {seed}");
                            now = now.after(after_ns);
                        }
                        Decision::Stop(stop) => {
                            assert_eq!(retry, before, "seed {seed}: nothing was taken");
                            stops[stop as usize] += 1;
                            break;
                        }
                    }
                }
            }
            let most = 0.2 * f64::from(requests) + 0.5 * (now.0 as f64 / 1e9 + 10.0) + 1.0;
            assert!(f64::from(retries) <= most, "seed {seed}: {retries} retries, {most} allowed");
        }
        assert!(stops.iter().all(|&n| n > 50), "some reasons hardly came up: {stops:?} of {:?}", Stop::ALL);
    }
}
