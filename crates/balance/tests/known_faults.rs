//! Faults that other balancers had. Each test first reproduces a fault in a few lines, written for this file after the
//! idea and not the code, and then shows that evenkeel's algorithms do not have it.

use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::decay::Fade;
use evenkeel_balance::latency::PeakEwma;
use evenkeel_balance::params::Value;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_balance::{EndpointId, EndpointSpec, Instant, Outcome, Pool, Request, Rng, Seat};

const PICKS: usize = 20_000;

/// Returns the shares of `n` indices over many picks, in percent.
fn percent(n: usize, mut pick: impl FnMut() -> usize) -> Vec<f64> {
    let mut seen = vec![0u32; n];
    (0..PICKS).for_each(|_| seen[pick()] += 1);
    seen.iter().map(|&c| f64::from(c) * 100.0 / PICKS as f64).collect()
}

/// Compares shares. Five standard deviations of a binomial share over `PICKS` are at most 1.8 points.
fn assert_percent(what: &str, got: &[f64], want: &[f64]) {
    let near = got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1.8);
    assert!(near, "{what}: {got:.1?} %, not {want:.1?} %");
}

fn draws(n: u64) -> Row {
    Row::named("random").with("draws", Value::Int(n)).expect("random has draws")
}

/// Returns the shares of requests that come one at a time, in percent, with `loads` held in flight at each endpoint.
fn shares_at_loads(row: &Row, weights: &[u32], loads: &[u32], gap_ns: u64) -> Vec<f64> {
    let mut w = World::new(row, 1, weighted(weights), 7, format!("loads {loads:?}, weights {weights:?}"));
    let ids: Vec<EndpointId> = w.specs.iter().map(|s| s.id).collect();
    for (&id, &load) in ids.iter().zip(loads) {
        (0..load).for_each(|_| w.start_at(0, id).expect("no limit is set"));
    }
    percent(weights.len(), || {
        w.advance(gap_ns);
        let id = w.start(0, None, &[]).unwrap_or_else(|e| w.fail(&e.to_string()));
        let last = w.running.len() - 1;
        w.end(last, Outcome::Success);
        ids.iter().position(|&i| i == id).expect("it is one of them")
    })
}

/// Caddy's random choice: of those sampled it gathers the least loaded, but keeps the earlier ones when it meets a less
/// loaded one, and then picks any of those gathered.
#[test]
fn a_lower_load_drops_the_ties_gathered_before_it() {
    let faulty = |loads: &[u32], rng: &mut Rng| {
        let (mut least, mut gathered) = (u32::MAX, Vec::new());
        for (i, &load) in loads.iter().enumerate() {
            if load <= least {
                least = load;
                gathered.push(i); // never cleared
            }
        }
        gathered[rng.below(gathered.len() as u32) as usize]
    };
    let mut rng = Rng::new(1);
    assert_percent("faulty", &percent(2, || faulty(&[100, 1], &mut rng)), &[50.0, 50.0]);
    assert_percent("faulty", &percent(2, || faulty(&[1, 100], &mut rng)), &[100.0, 0.0]);
    for row in [Row::named("random"), Row::named("leastconn"), Row::named("peak_ewma")] {
        for (loads, want) in [([100, 1], [0.0, 100.0]), ([1, 100], [100.0, 0.0])] {
            assert_eq!(shares_at_loads(&row, &[1, 1], &loads, 1), want, "row {row}, loads {loads:?}");
        }
    }
}

/// sozu's power of two: a fold that is meant to keep the two least loaded, but pushes out the wrong one.
#[test]
fn the_least_loaded_of_all_draws_wins() {
    let faulty = |loads: &[u32]| {
        let keep = |(a, b): (usize, usize), i: usize| if loads[i] > loads[b] { (i, a) } else { (a, b) };
        (2..loads.len()).fold((0, 1), keep).0
    };
    assert_eq!(faulty(&[1, 2, 3]), 2, "the most loaded of three");
    for loads in [[1, 2, 3], [3, 2, 1], [2, 1, 3], [2, 3, 1]] {
        let least = loads.iter().position(|&l| l == 1).expect("one has 1");
        let most = loads.iter().position(|&l| l == 3).expect("one has 3");
        for row in [draws(3), draws(16), Row::named("leastconn")] {
            let got = shares_at_loads(&row, &[1, 1, 1], &loads, 1);
            assert_eq!(got[least], 100.0, "row {row}, loads {loads:?}: {got:?} %");
        }
        // Of three endpoints, the least loaded is in two of the three pairs, and the most loaded wins none.
        let got = shares_at_loads(&draws(2), &[1, 1, 1], &loads, 1);
        assert_percent("least of two draws", &[got[least], got[most]], &[200.0 / 3.0, 0.0]);
    }
}

/// The kernel's IPVS "twos": tickets 0..=total, one more than there are, and the first endpoint holds the extra one.
#[test]
fn a_weighted_draw_has_no_extra_ticket() {
    let faulty = |weights: &[i64], rng: &mut Rng| {
        let total: i64 = weights.iter().sum();
        let mut ticket = i64::from(rng.below(total as u32 + 1));
        let hit = |weight: &i64| {
            ticket -= weight;
            ticket <= 0
        };
        weights.iter().position(hit).expect("the last ends at 0")
    };
    let mut rng = Rng::new(2);
    assert_percent("faulty", &percent(2, || faulty(&[1, 1], &mut rng)), &[200.0 / 3.0, 100.0 / 3.0]);
    assert_percent("faulty", &percent(4, || faulty(&[1; 4], &mut rng)), &[40.0, 20.0, 20.0, 20.0]);
    for (weights, want) in [(vec![1, 1], vec![50.0; 2]), (vec![1; 4], vec![25.0; 4]), (vec![3, 1], vec![75.0, 25.0])] {
        let blind = shares_at_loads(&draws(1), &weights, &vec![0; weights.len()], 1);
        assert_percent("one draw", &blind, &want);
        let row = draws(1);
        let w = World::new(&row, 1, weighted(&weights), 1, "a draw from the set");
        let view = w.pool.view();
        assert_percent("the set's draw", &percent(weights.len(), || view.set.draw(&mut rng)), &want);
    }
}

/// Draws with replacement, as in Envoy, gRPC and HAProxy: in 1 of n picks an endpoint is compared with itself, so the
/// worst of n gets 1/n^2 however bad it is.
#[test]
fn two_draws_are_never_the_same_endpoint() {
    let faulty = |loads: &[u32], rng: &mut Rng| {
        let [a, b] = [0, 0].map(|_| rng.below(loads.len() as u32) as usize);
        if loads[b] < loads[a] { b } else { a }
    };
    for n in [2usize, 4, 10] {
        let mut loads = vec![0; n];
        loads[0] = 1000;
        let mut rng = Rng::new(3);
        let worst = percent(n, || faulty(&loads, &mut rng))[0];
        assert_percent("faulty", &[worst], &[100.0 / (n * n) as f64]);
        for row in [draws(2), Row::named("peak_ewma")] {
            let got = shares_at_loads(&row, &vec![1; n], &loads, 1);
            assert_eq!(got[0], 0.0, "row {row}: the worst of {n} got {got:?} %");
        }
    }
}

/// Traefik's least time: an endpoint without samples has time 0, and so gets everything until its first answer.
#[test]
fn an_endpoint_that_was_never_measured_gets_no_flood() {
    let faulty = |mean_ms: &[f64], in_flight: &[u32]| {
        let score = |i: usize| mean_ms[i] * f64::from(in_flight[i] + 1);
        (0..mean_ms.len()).min_by(|&a, &b| score(a).total_cmp(&score(b))).expect("there are some")
    };
    let mut in_flight = [0; 10];
    for _ in 0..100 {
        in_flight[faulty(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 0.0], &in_flight)] += 1;
    }
    assert_eq!(in_flight[9], 100, "all of the first hundred");

    let row = Row::named("peak_ewma");
    let mut w = World::new(&row, 1, weighted(&[1; 9]), 4, "one joins nine that are measured");
    for _ in 0..500 {
        w.start(0, None, &[]).expect("no limit is set");
        w.advance(10_000_000);
        w.end(0, Outcome::Success);
    }
    w.reload(weighted(&[1; 10]));
    let new = EndpointId::of("e9");
    let got = (0..100).filter(|_| w.start(0, None, &[]) == Ok(new)).count();
    // The new endpoint is in a fifth of the pairs, and evens out with the others at a tenth: 10 of 100. Five standard
    // deviations of a draw are 15.
    assert!((1..=25).contains(&got), "seed {}: the newcomer got {got} of 100 before its first answer", w.seed);
}

/// Traefik's power of two and others lose the requests in flight when the configuration is read again.
#[test]
fn counts_and_latencies_survive_a_reload() {
    // Rows that compare loads: `first` follows its list, and turns need no counts.
    let by_load = |row: &Row| {
        let (needs, promises) = (row.algorithm.needs, row.algorithm.promises);
        needs.in_flight && (needs.ends || promises.shares_when_idle)
    };
    for row in rows::defaults().filter(by_load) {
        let mut w = World::new(&row, 1, weighted(&[1, 1]), 5, "a reload between");
        let [busy, free] = [w.specs[0].id, w.specs[1].id];
        (0..50).for_each(|_| w.start_at(0, busy).expect("no limit is set"));
        let mut specs = w.specs.clone();
        specs.reverse();
        specs.insert(0, EndpointSpec::new("new but drains").drain(true));
        w.reload(specs);
        for _ in 0..40 {
            assert_eq!(w.start(0, None, &[]), Ok(free), "row {row}: forgot the 50 in flight");
        }
    }
    let row = Row::named("peak_ewma");
    let mut w = World::new(&row, 1, weighted(&[1, 1]), 5, "a reload between");
    for (id, ns) in [(w.specs[0].id, 900_000_000), (w.specs[1].id, 1_000_000)] {
        w.start_at(0, id).expect("no limit is set");
        w.advance(ns);
        w.end(0, Outcome::Success);
    }
    w.reload(weighted(&[1, 1, 0]));
    let fast = w.specs[1].id;
    assert!((0..100).all(|_| w.start(0, None, &[]) == Ok(fast)), "forgot that the first is 900 times slower");
}

/// HAProxy's leastconn: an idle endpoint's key is 0 whatever its weight, so idle endpoints take turns as equals.
#[test]
fn weights_hold_when_all_endpoints_are_idle() {
    let weights = [10u32, 1, 1, 1];
    let mut last_picked = [0usize; 4];
    let mut clock = 0;
    let faulty = percent(4, || {
        // All keys are 0 at each pick, so the one that waited longest comes first.
        let i = (0..4).min_by_key(|&i| last_picked[i]).expect("there are four");
        clock += 1;
        last_picked[i] = clock;
        i
    });
    assert_percent("faulty", &faulty, &[25.0; 4]);
    let want = weights.map(|w| f64::from(w) * 100.0 / 13.0);
    for row in rows::defaults().filter(|row| row.algorithm.promises.shares_when_idle) {
        for gap_ns in [0, 1_000_000, SECOND_NS, 60 * SECOND_NS] {
            let got = shares_at_loads(&row, &weights, &[0; 4], gap_ns);
            assert_percent(&format!("{row}, a request every {gap_ns} ns"), &got, &want);
        }
    }
}

/// tower's Peak EWMA: a reading decays the estimate and moves its time stamp, so that the next sample weighs less the
/// more often the estimate was read.
#[test]
fn reading_an_estimate_does_not_change_it() {
    const TAU: f64 = 10.0;
    struct Faulty(f64, f64);
    impl Faulty {
        fn update(&mut self, sample: f64, now: f64) {
            let keep = if sample > self.0 { 0.0 } else { (-(now - self.1) / TAU).exp() };
            (self.0, self.1) = (self.0 * keep + sample * (1.0 - keep), now);
        }
    }
    let after_reads = |reads: u32| {
        let mut e = Faulty(100.0, 0.0);
        (1..=reads).for_each(|i| e.update(0.0, 10.0 * f64::from(i) / f64::from(reads.max(1))));
        e.update(20.0, 10.0);
        e.0
    };
    // 100 decays to 36.8 in one time constant. A sample of 20 then moves it to 49.4 if unread, and not at all if read.
    assert!((after_reads(0) - 49.4).abs() < 0.1 && (after_reads(1000) - 36.8).abs() < 0.1, "the fault has gone");

    let ours = |reads: u64| {
        let (fade, end) = (Fade::over(10 * SECOND_NS), Instant(10 * SECOND_NS));
        let mut e = PeakEwma::default();
        e.observe(100_000_000, Instant(0), fade);
        (0..reads).for_each(|i| assert!(e.latency_ns(Instant(i * 10_000_000), fade).is_some()));
        e.observe(20_000_000, end, fade);
        e.latency_ns(end, fade)
    };
    assert_eq!(ours(0), ours(1000));
}

/// HAProxy's random before its tie rule of 2026, and every two draws with a blind tie: in a large pool at low load
/// nearly all have 0 in flight, so two draws fall back to one, and the spread to that of chance.
#[test]
fn a_large_pool_at_low_load_is_spread_better_than_by_chance() {
    const SERVERS: usize = 400;
    let spread = |mut pick: Box<dyn FnMut() -> usize + '_>| {
        let mut seen = vec![0u32; SERVERS];
        (0..100 * SERVERS).for_each(|_| seen[pick()] += 1);
        (seen.iter().min().copied().unwrap_or(0), seen.iter().max().copied().unwrap_or(0))
    };
    let mut rng = Rng::new(8);
    let (least, most) = spread(Box::new(|| rng.below(SERVERS as u32) as usize));
    // Poisson with mean 100 and standard deviation 10: the extremes of 400 are about three standard deviations out.
    assert!(least < 80 && most > 120, "blind ties: {least} to {most}, the fault has gone");
    for row in rows::defaults().filter(|row| row.algorithm.promises.shares_when_idle) {
        let mut pool = Pool::new(1);
        pool.update(&weighted(&[1; SERVERS]), Instant(0));
        let mut balancer = row.balancer(&pool, Seat::default(), 8);
        let mut now = Instant(0);
        let (least, most) = spread(Box::new(|| {
            now = now.after(1_000_000);
            let ticket = balancer.start(&Request::default(), now).expect("no limit is set");
            let server = ticket.slot().index();
            balancer.end(ticket, Outcome::Success, now);
            server
        }));
        // Two choices by picks so far: the balls-in-bins bound of log log n, whatever the number of picks.
        assert!(least >= 93 && most <= 104, "{row}: {least} to {most} picks, mean 100");
    }
}
