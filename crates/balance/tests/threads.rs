//! Limits and counts between threads. Workers start and end requests on one pool while control code replaces its
//! endpoints, and a plain shared count beside each endpoint shows if a limit is exceeded. Not a proof, which the models
//! in loom.rs are closer to, but it runs the real atomics.

use crate::support::rows;
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, Instant, LoadReport, NoPick, Outcome, Pool, Request, Rng, Seat,
};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const ENDPOINTS: usize = 6;
const STARTS: u64 = 50_000;

/// Specs of two endpoints without a limit, then of limits 1, 2, 3, 4. Always the same for one endpoint.
fn spec(i: usize) -> EndpointSpec {
    EndpointSpec::new(&i.to_string()).in_flight_max(i.saturating_sub(1) as u32).weight(1 + i as u32 % 3)
}

/// Requests really in flight, counted apart from the pool.
type Real = [AtomicU32; ENDPOINTS];

/// Runs one worker. Everything it started has ended when it returns.
fn work(mut balancer: Balancer, real: &Real, seed: u64) {
    let ids: Vec<EndpointId> = (0..ENDPOINTS).map(|i| spec(i).id).collect();
    let mut rng = Rng::new(seed);
    let mut out = Vec::new();
    let end = |balancer: &mut Balancer, (ticket, i): (_, usize), now| {
        // This test's count first: the pool may give the place away as soon as it has the ticket back.
        real[i].fetch_sub(1, SeqCst);
        balancer.end(ticket, Outcome::Success, now);
    };
    for step in 0..STARTS {
        let now = Instant(step * 10_000);
        match balancer.start(&Request { key: Some(rng.next_u64()), tried: &[], beyond: false }, now) {
            Ok(ticket) => {
                let id = balancer.set().get(ticket.slot()).expect("picked from the set it shows").id;
                let i = ids.iter().position(|&known| known == id).expect("one of ours");
                let running = real[i].fetch_add(1, SeqCst) + 1;
                let max = spec(i).in_flight_max;
                assert!(max == 0 || running <= max, "endpoint {i} has {running} in flight, its limit is {max}");
                out.push((ticket, i));
            }
            Err(NoPick::AllTried) => panic!("nothing was tried"),
            Err(NoPick::AllFull | NoPick::Empty) => {}
            Err(NoPick::Unchecked) => panic!("there are no checks"),
        }
        while let Some(slot) = balancer.poll_probe(now) {
            let in_flight = balancer.loads().in_flight(slot);
            balancer.report(slot, &LoadReport::new(in_flight, 1_000_000), now).ok(); // it may have left
        }
        while out.len() > rng.below(8) as usize {
            let any = out.swap_remove(rng.below(out.len() as u32) as usize);
            end(&mut balancer, any, now);
        }
    }
    out.drain(..).for_each(|ticket| end(&mut balancer, ticket, Instant(STARTS * 10_000)));
}

/// Joins, leaves, reorders and drains endpoints for as long as any worker runs.
fn control(pool: &mut Pool, seed: u64, running: impl Fn() -> bool) {
    let mut rng = Rng::new(seed);
    while running() {
        let mut specs: Vec<_> = (0..ENDPOINTS).filter(|_| rng.below(4) > 0).map(spec).collect();
        if !specs.is_empty() {
            let by = rng.below(specs.len() as u32) as usize;
            specs.rotate_left(by);
            specs[0].drain = rng.coin();
        }
        pool.update(&specs, Instant(0));
        std::thread::yield_now();
    }
}

#[test]
fn no_limit_is_passed_and_no_count_is_lost_between_threads() {
    for row in rows::defaults() {
        for (seed, workers) in [(1, 2), (2, 4), (3, 10)] {
            let mut pool = Pool::new(workers);
            pool.update(&(0..ENDPOINTS).map(spec).collect::<Vec<_>>(), Instant(0));
            let real: Real = Default::default();
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..workers)
                    .map(|worker| {
                        let balancer = row.balancer(&pool, Seat { worker, workers }, seed);
                        let real = &real;
                        scope.spawn(move || work(balancer, real, seed ^ u64::from(worker)))
                    })
                    .collect();
                control(&mut pool, seed, || threads.iter().any(|t| !t.is_finished()));
            });
            pool.update(&(0..ENDPOINTS).map(spec).collect::<Vec<_>>(), Instant(0));
            let left: Vec<u32> =
                (0..ENDPOINTS).map(|i| pool.in_flight(pool.slot_of(spec(i).id).expect("just configured"))).collect();
            let what = format!("row {row}, seed {seed}, {workers} workers");
            assert_eq!(left, [0; ENDPOINTS], "{what}: counts are left");
            assert_eq!(pool.view().counts.in_flight_total(), 0, "{what}: the total is left");
            assert!(real.iter().all(|n| n.load(SeqCst) == 0), "{what}");
        }
    }
}
