//! Cost of each fault to the clients of a balancer, and the time to steer away and back. Computed only from the
//! plan, the clients' records and the endpoints' records.

use super::schedule::Fault;
use super::traffic::{Outcome, Over, Record, Request};
use crate::clock;
use crate::endpoint::{Arrival, Ask};
use crate::stats::quantile;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Latency above which a request counts as hurt: five times the work of a healthy endpoint.
pub const HURT: Duration = Duration::from_millis(50);
/// Requests sent within this time before a fault count for it, as they may still be at the endpoint.
const AT_WORK: Duration = Duration::from_millis(200);
/// Fraction of a fair share at which an endpoint counts as back.
pub const BACK: f64 = 0.8;
/// Window over which shares are computed: an endpoint gets some 40 requests per second.
const SHARE_OVER: Duration = Duration::from_secs(1);
const SHARE_STEP: Duration = Duration::from_millis(100);

/// A fault as it happened, on the clock of `clock::now_ns`.
pub struct Struck {
    pub fault: &'static Fault,
    pub endpoint: usize,
    pub from_ns: u64,
    /// Time at which the endpoint had been revived.
    pub until_ns: u64,
    pub to_ns: u64,
}

/// Course of a run of a balancer, from plan and records.
pub struct Course<'a> {
    /// Start of the plan, on the clock of `clock::now_ns`.
    pub begin_ns: u64,
    pub plan: &'a [Request],
    /// Result of each request, by number.
    pub records: &'a [Record],
    /// Arrivals of this balancer's requests at each endpoint.
    pub arrivals: &'a [Vec<Arrival>],
}

/// Client-side results over a set of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Felt {
    pub requests: usize,
    /// Failed GETs whose answer had not begun: a balancer can retry them.
    pub gets: usize,
    /// Failed POSTs whose answer had not begun: a balancer must not retry them once sent.
    pub posts: usize,
    /// Failed gRPC calls whose answer had not begun: not to be retried either, unless the endpoint reports UNAVAILABLE.
    pub calls: usize,
    /// Failed requests whose answer had begun: no balancer can repair them.
    pub begun: usize,
    /// Failures by their name for the client.
    pub seen: BTreeMap<String, usize>,
    /// Median, 99th and 99.9th percentile, in ms, of the latency of successful requests since their planned time.
    /// `None` if all failed.
    pub quantiles_ms: Option<[f64; 3]>,
}

impl Felt {
    pub fn failed(&self) -> usize {
        self.gets + self.posts + self.calls + self.begun
    }
}

/// Effect of a fault on a balancer.
#[derive(Clone, Debug, PartialEq)]
pub struct Lived {
    /// Client-side results, from the fault to the end of the recovery.
    pub felt: Felt,
    /// Time from the fault to the last request that it hurt (failed, or took longer than `HURT`). Zero if none.
    pub away: Duration,
    /// True if the last request that it hurt was sent in the last tenth of the fault.
    pub to_the_end: bool,
    /// Time from the revival to the first successful request at the endpoint. `None` if there was none during the
    /// recovery.
    pub first_back: Option<Duration>,
    /// Time from the revival to the first second in which the endpoint got `BACK` of its fair share.
    pub share_back: Option<Duration>,
    /// Requests sent during the fault that reached the broken endpoint. `None` if it cannot record them.
    pub reached: Option<usize>,
}

/// Figures of a second of a run, for a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Second {
    /// Failed requests sent in this second: GETs, POSTs, gRPC calls.
    pub failed: [usize; 3],
    /// 99th percentile of the latency, in ms.
    pub p99_ms: Option<f64>,
    /// Requests sent in this second, by the endpoint that they reached.
    pub reached: Vec<usize>,
}

impl Course<'_> {
    fn sent_ns(&self, number: usize) -> u64 {
        self.begin_ns + clock::ns(self.plan[number].at)
    }

    /// Records of requests sent between two moments.
    fn sent_in(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| (from_ns..to_ns).contains(&self.sent_ns(record.id.number)))
    }

    /// Client-side results of the whole run.
    pub fn felt(&self) -> Felt {
        self.felt_of(self.records.iter())
    }

    /// Client-side results of the whole run, over a protocol.
    pub fn felt_over(&self, over: Over) -> Felt {
        self.felt_of(self.records.iter().filter(|record| self.plan[record.id.number].over == over))
    }

    fn felt_of<'r>(&self, records: impl Iterator<Item = &'r Record>) -> Felt {
        let mut felt = Felt::default();
        let mut good_ms = Vec::new();
        for record in records {
            felt.requests += 1;
            match record.outcome {
                Outcome::Good => good_ms.push(record.took_ns as f64 / 1e6),
                outcome => {
                    *felt.seen.entry(outcome.name()).or_default() += 1;
                    *match (outcome.begun(), self.plan[record.id.number].ask) {
                        (true, _) => &mut felt.begun,
                        (false, Ask::Get) => &mut felt.gets,
                        (false, Ask::Post) => &mut felt.posts,
                        (false, Ask::Call) => &mut felt.calls,
                    } += 1;
                }
            }
        }
        good_ms.sort_by(f64::total_cmp);
        let quantiles = [0.5, 0.99, 0.999].map(|share| quantile(&good_ms, share));
        if let [Some(p50), Some(p99), Some(p999)] = quantiles {
            felt.quantiles_ms = Some([p50, p99, p999]);
        }
        felt
    }

    /// Effect of a fault on the balancer.
    pub fn lived(&self, struck: &Struck) -> Lived {
        let (from_ns, until_ns) = (struck.from_ns.saturating_sub(clock::ns(AT_WORK)), struck.until_ns);
        let to_ns = struck.to_ns.saturating_sub(clock::ns(AT_WORK));
        let at_endpoint: HashSet<usize> = self.arrivals[struck.endpoint].iter().map(|a| a.id.number).collect();
        let blamed = |record: &&Record| !struck.fault.writes_down || at_endpoint.contains(&record.id.number);
        let hurt = |record: &&Record| record.outcome != Outcome::Good || record.took_ns > clock::ns(HURT);
        let hurt = self.sent_in(from_ns, until_ns).filter(hurt).filter(blamed);
        let away_ns =
            hurt.map(|record| self.sent_ns(record.id.number).saturating_sub(struck.from_ns)).max().unwrap_or(0);
        let reached = self.sent_in(struck.from_ns, until_ns).filter(|record| at_endpoint.contains(&record.id.number));
        Lived {
            felt: self.felt_of(self.sent_in(from_ns, to_ns)),
            away: Duration::from_nanos(away_ns),
            to_the_end: away_ns * 10 > (until_ns - struck.from_ns) * 9,
            first_back: self.first_back(struck),
            share_back: self.share_back(struck),
            reached: struck.fault.writes_down.then(|| reached.count()),
        }
    }

    /// Arrivals at a revived endpoint of requests that were sent after its revival: those in its buffers were sent
    /// before.
    fn after_revival(&self, struck: &Struck) -> impl Iterator<Item = &Arrival> {
        let wanted = |arrival: &&Arrival| (struck.until_ns..struck.to_ns).contains(&self.sent_ns(arrival.id.number));
        self.arrivals[struck.endpoint].iter().filter(wanted)
    }

    fn first_back(&self, struck: &Struck) -> Option<Duration> {
        let good: HashMap<usize, bool> =
            self.records.iter().map(|record| (record.id.number, record.outcome == Outcome::Good)).collect();
        let answered = self.after_revival(struck).filter(|arrival| good.get(&arrival.id.number) == Some(&true));
        answered.map(|arrival| Duration::from_nanos(arrival.at_ns.saturating_sub(struck.until_ns))).min()
    }

    fn share_back(&self, struck: &Struck) -> Option<Duration> {
        let (span, step) = (clock::ns(SHARE_OVER), clock::ns(SHARE_STEP));
        let mut from_ns = struck.until_ns;
        while from_ns + span <= struck.to_ns {
            let there =
                self.after_revival(struck).filter(|a| (from_ns..from_ns + span).contains(&self.sent_ns(a.id.number)));
            let fair = self.sent_in(from_ns, from_ns + span).count() as f64 / self.arrivals.len() as f64;
            if fair > 0.0 && there.count() as f64 >= BACK * fair {
                return Some(Duration::from_nanos(from_ns - struck.until_ns));
            }
            from_ns += step;
        }
        None
    }

    /// Number of POSTs that reached endpoints more than once: work done twice. gRPC calls may, as an unavailable
    /// endpoint did nothing.
    pub fn posts_done_twice(&self) -> usize {
        let mut times: HashMap<usize, usize> = HashMap::new();
        for arrival in self.arrivals.iter().flatten().filter(|arrival| self.plan[arrival.id.number].ask == Ask::Post) {
            *times.entry(arrival.id.number).or_default() += 1;
        }
        times.values().filter(|&&times| times > 1).count()
    }

    /// Figures of each second of the run.
    pub fn seconds(&self) -> Vec<Second> {
        let second = |number: usize| self.plan[number].at.as_secs() as usize;
        let length = self.plan.len().checked_sub(1).map_or(0, |last| second(last) + 1);
        let empty = Second { reached: vec![0; self.arrivals.len()], ..Second::default() };
        let mut seconds = vec![empty; length];
        let mut took_ms = vec![Vec::new(); length];
        for record in self.records {
            let at = second(record.id.number);
            if record.outcome == Outcome::Good {
                took_ms[at].push(record.took_ns as f64 / 1e6);
            } else {
                seconds[at].failed[self.plan[record.id.number].ask as usize] += 1;
            }
        }
        for (endpoint, arrivals) in self.arrivals.iter().enumerate() {
            arrivals.iter().for_each(|arrival| seconds[second(arrival.id.number)].reached[endpoint] += 1);
        }
        for (second, mut took_ms) in seconds.iter_mut().zip(took_ms) {
            took_ms.sort_by(f64::total_cmp);
            second.p99_ms = quantile(&took_ms, 0.99);
        }
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::FAULTS;
    use super::*;
    use crate::endpoint::Id;

    const MS: u64 = 1_000_000;
    const BEGIN: u64 = 1_000_000 * MS;

    /// Run with a request every 10 ms for 4 s, a fifth of them POSTs and a fifth calls, alternating between endpoints,
    /// all good after 10 ms; `change` then modifies record and endpoints by number.
    struct Made {
        plan: Vec<Request>,
        records: Vec<Record>,
        arrivals: Vec<Vec<Arrival>>,
    }

    impl Made {
        fn new(change: impl Fn(usize, &mut Record, &mut Vec<usize>)) -> Made {
            let mut made = Made { plan: Vec::new(), records: Vec::new(), arrivals: vec![Vec::new(); 2] };
            for number in 0..400 {
                let at = Duration::from_millis(10 * number as u64);
                let (ask, over) = match number % 5 {
                    3 => (Ask::Call, Over::Grpc),
                    4 => (Ask::Post, Over::Clear),
                    _ => (Ask::Get, Over::Clear),
                };
                made.plan.push(Request { at, ask, over, fresh: false });
                let id = Id { balancer: 0, number };
                let mut record = Record { id, outcome: Outcome::Good, took_ns: 10 * MS };
                let mut endpoints = vec![number % 2];
                change(number, &mut record, &mut endpoints);
                made.records.push(record);
                let at_ns = BEGIN + clock::ns(at) + MS;
                endpoints.iter().for_each(|&endpoint| made.arrivals[endpoint].push(Arrival { at_ns, id }));
            }
            made
        }

        fn course(&self) -> Course<'_> {
            Course { begin_ns: BEGIN, plan: &self.plan, records: &self.records, arrivals: &self.arrivals }
        }
    }

    /// Endpoint 1 breaks from 1 s to 2 s.
    fn struck(name: &str) -> Struck {
        let fault = FAULTS.iter().find(|fault| fault.name == name).expect("it is in the table");
        let [from_ns, until_ns, to_ns] = [1000, 2000, 4000].map(|at| BEGIN + at * MS);
        Struck { fault, endpoint: 1, from_ns, until_ns, to_ns }
    }

    #[test]
    fn failures_are_told_apart_by_whether_they_could_be_mended() {
        let made = Made::new(|number, record, _| {
            record.outcome = match number {
                100 => Outcome::Status(502),
                104 => Outcome::NoAnswer,
                110 => Outcome::Cut,
                112 => Outcome::Late { begun: false },
                113 => Outcome::Grpc(Some(14)),
                _ => return,
            }
        });
        let felt = made.course().felt();
        assert_eq!((felt.requests, felt.gets, felt.posts, felt.calls, felt.begun), (400, 2, 1, 1, 1));
        assert_eq!((felt.seen["502"], felt.seen["gRPC 14"]), (1, 1));
        let calls = made.course().felt_over(Over::Grpc);
        assert_eq!((calls.requests, calls.failed(), calls.calls), (80, 1, 1));
        assert_eq!(felt.quantiles_ms, Some([10.0, 10.0, 10.0]));
    }

    #[test]
    fn a_balancer_that_feels_nothing_steers_away_at_once_and_is_back_at_once() {
        let lived = Made::new(|_, _, _| ()).course().lived(&struck("hung"));
        assert_eq!((lived.away, lived.to_the_end), (Duration::ZERO, false));
        assert_eq!(lived.share_back, Some(Duration::ZERO));
        assert_eq!(lived.reached, Some(50), "every second request of the fault");
        // From 0.8 s to 3.8 s: requests in flight when it broke count for this fault, those from 3.8 s on for the next.
        assert_eq!(lived.felt.requests, 300);
    }

    #[test]
    fn the_last_hurt_request_that_reached_the_endpoint_ends_the_steering() {
        let made = Made::new(|number, record, _| {
            if [131, 151, 180].contains(&number) {
                record.took_ns = 60 * MS;
            }
        });
        // Request 180 was slow at the other endpoint.
        assert_eq!(made.course().lived(&struck("hung")).away, Duration::from_millis(510));
        // A dead endpoint records nothing, so every slow request meanwhile is attributed to it.
        assert_eq!(made.course().lived(&struck("killed")).away, Duration::from_millis(800));
        assert_eq!(made.course().lived(&struck("killed")).reached, None);
    }

    #[test]
    fn what_still_hurts_at_the_end_says_so() {
        let made = Made::new(|number, record, _| {
            if number == 199 {
                record.outcome = Outcome::Status(503);
            }
        });
        assert!(made.course().lived(&struck("503")).to_the_end);
    }

    #[test]
    fn the_way_back_counts_only_requests_sent_after_the_revival() {
        // Steered away until 2.5 s; a request that it finds in its buffers at its revival does not count, nor does a
        // failed request.
        let made = Made::new(|number, record, endpoints| {
            if (100..250).contains(&number) && number != 150 {
                *endpoints = vec![0];
            }
            if number == 251 {
                record.outcome = Outcome::Status(502);
            }
        });
        let lived = made.course().lived(&struck("hung"));
        assert_eq!(lived.first_back, Some(Duration::from_millis(531)));
        // Half of the requests are fair: 80 % of 50 are in the second from 2.3 s, of which 0.2 s are still empty.
        assert_eq!(lived.share_back, Some(Duration::from_millis(300)));
        let never = Made::new(|number, _, endpoints| {
            if number >= 100 {
                *endpoints = vec![0];
            }
        });
        let lived = never.course().lived(&struck("hung"));
        assert_eq!((lived.first_back, lived.share_back), (None, None));
    }

    #[test]
    fn a_post_at_two_endpoints_was_done_twice_and_a_get_may_be() {
        let made = Made::new(|number, _, endpoints| {
            if [4, 5].contains(&number) {
                *endpoints = vec![0, 1];
            }
        });
        assert_eq!(made.course().posts_done_twice(), 1);
    }

    #[test]
    fn seconds_hold_what_was_sent_in_them() {
        let made = Made::new(|number, record, _| match number {
            104 => record.outcome = Outcome::Cut,
            105 => record.took_ns = 200 * MS,
            _ => (),
        });
        let seconds = made.course().seconds();
        assert_eq!(seconds.len(), 4);
        assert_eq!((seconds[1].failed, seconds[1].reached.as_slice()), ([0, 1, 0], [50, 50].as_slice()));
        // The 99th of 99 is the second slowest: rank ceil(0.99 x 99) = 99.
        assert_eq!((seconds[0].p99_ms, seconds[1].p99_ms), (Some(10.0), Some(200.0)));
    }
}
