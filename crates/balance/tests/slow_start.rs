//! Share of an endpoint during its ramp: it joins five busy ones, in virtual time, and its share of the requests is
//! compared with the ramp for each second. `cargo test --test all slow_start:: -- --nocapture` draws it.

use crate::support::rows::{self, Row};
use evenkeel_balance::control::Settings;
use evenkeel_balance::slow_start::{self, FULL};
use evenkeel_balance::time::{MILLISECOND_NS as MS, SECOND_NS};
use evenkeel_balance::{Balancer, EndpointId, EndpointSpec, Instant, Outcome, Pool, Request, Rng, Seat, Slot, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const OLD: u32 = 5;
const RAMP: slow_start::Settings = slow_start::Settings { window_ns: 20 * SECOND_NS, aggression: 1.0, min_weight: 0.1 };
const GAP_NS: u64 = MS / 10;
const BEFORE: u64 = 2;
const SECONDS: usize = 24;

/// The chooser of endpoints: the pool under test, or a naive rule to compare with.
trait Chooser {
    fn join(&mut self, now: Instant);
    fn start(&mut self, request: u64, now: Instant) -> usize;
    fn end(&mut self, request: u64, server: usize, now: Instant);
}

/// Course of a test, from the moment the newcomer joined.
struct Course {
    /// Newcomer's share of the requests, for each second.
    shares: Vec<f64>,
    /// Newcomer's requests in flight as a part of the mean of the others, for each second.
    loads: Vec<f64>,
    /// Number of the first hundred requests that the newcomer got.
    first: u32,
}

/// Runs requests at fixed intervals that take 8 to 12 ms each, with 100 in flight on average.
fn course(chooser: &mut impl Chooser) -> Course {
    let (mut works, mut ends) = (Rng::new(1), BinaryHeap::new());
    let mut in_flight = [0u32; OLD as usize + 1];
    let mut seen = Course { shares: vec![0.0; SECONDS], loads: vec![0.0; SECONDS], first: 0 };
    let per_second = SECOND_NS / GAP_NS;
    for request in 0..(BEFORE + SECONDS as u64) * per_second {
        let now = Instant(request * GAP_NS);
        if request == BEFORE * per_second {
            chooser.join(now);
        }
        while ends.peek().is_some_and(|Reverse((at, _, _))| *at <= now.0) {
            let Reverse((at, ended, server)) = ends.pop().expect("there is one");
            in_flight[server] -= 1;
            chooser.end(ended, server, Instant(at));
        }
        let server = chooser.start(request, now);
        in_flight[server] += 1;
        ends.push(Reverse((now.0 + 8 * MS + works.below_u64(4 * MS), request, server)));
        let Some(since) = request.checked_sub(BEFORE * per_second) else { continue };
        let (second, newcomer) = ((since / per_second) as usize, OLD as usize);
        seen.first += u32::from(server == newcomer && since < 100);
        seen.shares[second] += f64::from(server == newcomer) / per_second as f64;
        let others = f64::from(in_flight[..newcomer].iter().sum::<u32>()) / f64::from(OLD);
        seen.loads[second] += f64::from(in_flight[newcomer]) / others.max(1.0) / per_second as f64;
    }
    seen
}

struct Ours {
    pool: Pool,
    balancer: Balancer,
    due: Option<Instant>,
    tickets: BTreeMap<u64, Ticket>,
}

fn specs(endpoints: u32) -> Vec<EndpointSpec> {
    (0..endpoints).map(|i| EndpointSpec::new(&i.to_string())).collect()
}

impl Ours {
    fn new(name: &str) -> Ours {
        let mut pool = Pool::new(1);
        pool.configure(Settings { slow_start: Some(RAMP), ..Settings::default() }, Instant(0));
        assert_eq!(pool.update(&specs(OLD), Instant(0)), None, "at the start nothing ramps");
        let balancer = Row::named(name).balancer(&pool, Seat::default(), 1);
        Ours { pool, balancer, due: None, tickets: BTreeMap::new() }
    }
}

impl Chooser for Ours {
    fn join(&mut self, now: Instant) {
        self.due = self.pool.update(&specs(OLD + 1), now);
    }

    fn start(&mut self, request: u64, now: Instant) -> usize {
        if self.due.is_some_and(|at| at <= now) {
            self.due = self.pool.poll(now);
        }
        let ticket = self.balancer.start(&Request::default(), now).expect("no limit is set");
        let server = ticket.slot().index();
        self.tickets.insert(request, ticket);
        server
    }

    fn end(&mut self, request: u64, _server: usize, now: Instant) {
        let ticket = self.tickets.remove(&request).expect("it is in flight");
        self.balancer.end(ticket, Outcome::Success, now);
    }
}

/// Chooses the fewest requests in flight, and considers nothing else.
struct NaiveLeastConn(Vec<u32>);

impl Chooser for NaiveLeastConn {
    fn join(&mut self, _now: Instant) {
        self.0.push(0);
    }

    fn start(&mut self, _request: u64, _now: Instant) -> usize {
        let least = (0..self.0.len()).min_by_key(|&i| self.0[i]).expect("there are some");
        self.0[least] += 1;
        least
    }

    fn end(&mut self, _request: u64, server: usize, _now: Instant) {
        self.0[server] -= 1;
    }
}

/// Value of the ramp in each second since its start, as it steps once per second.
fn ramp(second: usize) -> f64 {
    f64::from(RAMP.ramp(second as u64 * SECOND_NS)) / f64::from(FULL)
}

fn draw(name: &str, course: &Course) {
    println!("{name}: share of the newcomer, of the first 100 requests {}", course.first);
    for (second, share) in course.shares.iter().enumerate() {
        let want = ramp(second) / (f64::from(OLD) + ramp(second));
        let mut bar: Vec<char> = "#".repeat((share * 300.0) as usize).chars().collect();
        bar.resize(60, ' ');
        bar[((want * 300.0) as usize).min(59)] = '|';
        let (bar, load) = (bar.iter().collect::<String>(), course.loads[second]);
        println!("{second:>3} s {:>5.1} % (ramp {:>5.1} %) {bar} in flight x{load:.2}", share * 100.0, want * 100.0);
    }
}

#[test]
fn the_share_of_a_newcomer_follows_its_ramp() {
    // Tolerance of a share, relative to it. peak_ewma gives any endpoint a share of its own, by latency; the newcomer's
    // part of that follows the ramp.
    for (name, slack) in [("random", 0.05), ("round_robin", 0.0), ("leastconn", 0.05), ("peak_ewma", 0.1)] {
        let course = course(&mut Ours::new(name));
        draw(name, &course);
        for (second, &share) in course.shares.iter().enumerate() {
            let want = ramp(second) / (f64::from(OLD) + ramp(second));
            // Five standard deviations of a draw; a rule that takes turns needs no more.
            let sd = (want * (1.0 - want) / (SECOND_NS / GAP_NS) as f64).sqrt();
            let bound = 5.0 * sd + slack * want;
            assert!((share - want).abs() <= bound, "{name}, second {second}: {share:.4}, not {want:.4} +- {bound:.4}");
        }
        assert!(course.first <= 10, "{name}: {} of the first 100", course.first);
    }
}

#[test]
fn least_connections_holds_back_what_is_in_flight_too_where_a_naive_one_swamps() {
    let naive = course(&mut NaiveLeastConn(vec![0; OLD as usize]));
    draw("naive least connections", &naive);
    assert!(naive.first >= 20 && naive.shares[0] > 0.15, "the fault has gone: {} of the first 100", naive.first);
    let ours = course(&mut Ours::new("leastconn"));
    for (second, &load) in ours.loads.iter().enumerate() {
        // In flight by weight, except that requests are whole: half a request of about 18.
        let want = ramp(second);
        assert!((load - want).abs() <= 0.05 * want + 0.03, "second {second}: x{load:.3} in flight, not x{want:.3}");
    }
}

#[test]
fn with_two_endpoints_the_ramp_holds_at_any_load() {
    let by_weight = rows::defaults().filter(|row| row.algorithm.promises.shares_when_idle);
    for row in by_weight.chain([Row::named("peak_ewma")]) {
        let name = row.algorithm.name;
        let mut pool = Pool::new(1);
        pool.configure(Settings { slow_start: Some(RAMP), ..Settings::default() }, Instant(0));
        pool.update(&specs(1), Instant(0));
        let mut balancer = row.balancer(&pool, Seat::default(), 3);
        let begin = Instant(SECOND_NS);
        let mut due = pool.update(&specs(2), begin);
        let newcomer: Slot = pool.slot_of(EndpointId::of("1")).expect("it has joined");
        for second in 0..20 {
            let got = (0..1000).filter(|i| {
                let now = begin.after(second * SECOND_NS + i * MS);
                if due.is_some_and(|at| at <= now) {
                    due = pool.poll(now);
                }
                let ticket = balancer.start(&Request::default(), now).expect("no limit is set");
                let hit = ticket.slot() == newcomer;
                balancer.end(ticket, Outcome::Success, now.after(MS / 2));
                hit
            });
            let (share, ramp) = (got.count() as f64 / 1000.0, ramp(second as usize));
            // Of two endpoints with the same cost each gets half of the pairs, and the newcomer keeps its ramp's part
            // of them.
            let want = if name == "peak_ewma" { ramp / 2.0 } else { ramp / (1.0 + ramp) };
            let bound = 5.0 * (want * (1.0 - want) / 1000.0).sqrt() + 0.05;
            assert!((share - want).abs() <= bound, "{name}, second {second}: {share:.3}, not {want:.3} +- {bound:.3}");
        }
    }
}

#[test]
fn sets_are_few_and_equal_weights_are_equal_again_after_the_ramp() {
    let mut pool = Pool::new(1);
    pool.configure(Settings { slow_start: Some(RAMP), ..Settings::default() }, Instant(0));
    pool.update(&specs(OLD), Instant(0));
    let (mut due, mut moments) = (pool.update(&specs(OLD + 1), Instant(7 * MS)), Vec::new());
    let mut last = 0;
    while let Some(at) = due {
        moments.push(at.0);
        due = pool.poll(at);
        let ramp = pool.view().set.members().iter().map(|m| m.ramp).min().expect("it has members");
        assert!(ramp >= last, "fell from {last} to {ramp} at {at:?}");
        last = ramp;
    }
    assert!(moments.len() <= 21 && moments.windows(2).all(|w| w[1] - w[0] >= SECOND_NS), "{moments:?}");
    let set = &pool.view().set;
    assert!(set.weights_equal() && !set.ramps() && set.members().iter().all(|m| m.weight == 1), "{set:?}");
}
