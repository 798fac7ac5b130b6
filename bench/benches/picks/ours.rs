//! Our algorithms, each as it runs in a worker: a `Balancer` per thread over one shared pool.

use crate::harness::{self, Case, Measured};
use crate::{IN_FLIGHT, Subject};
use evenkeel_balance::rng::mix;
use evenkeel_balance::{
    Algorithm, EndpointSpec, Instant, LoadReport, Outcome, Params, Pool, Request, Seat, Ticket, algorithms,
};
use std::collections::VecDeque;

/// A row of the registry each.
pub fn subjects() -> Vec<Subject> {
    let subject = |algorithm: &&'static Algorithm| {
        let algorithm = *algorithm;
        Subject {
            name: format!("evenkeel {}", algorithm.name),
            operation: "start and end",
            weighs: true,
            shares: true,
            run: Box::new(move |case| run(algorithm, case)),
        }
    };
    algorithms::ALL.iter().map(subject).collect()
}

fn run(algorithm: &'static Algorithm, case: Case) -> Measured {
    let mut pool = Pool::new(case.threads as u32);
    let spec = |endpoint| EndpointSpec::new(&Case::address(endpoint)).weight(case.weight(endpoint));
    pool.update(&(0..case.endpoints).map(spec).collect::<Vec<_>>(), Instant(0));
    let pool = &pool;
    harness::measure(case, |thread| {
        let seat = Seat { worker: thread as u32, workers: case.threads as u32 };
        let params = Params::defaults(algorithm.params);
        let mut balancer = pool.balancer(algorithm, &params, seat, 1).expect("defaults are valid");
        let mut flying: VecDeque<Ticket> = VecDeque::with_capacity(IN_FLIGHT);
        move |number| {
            // A microsecond passes between starts, so that latencies are 64 us and estimates decay.
            let now = Instant(number * 1_000);
            if flying.len() == IN_FLIGHT {
                let ticket = flying.pop_front().expect("it is full");
                balancer.end(ticket, Outcome::Success, now);
            }
            let key = algorithm.needs.key.then(|| mix(number));
            let ticket = balancer.start(&Request { key, tried: &[] }, now).expect("nobody is full or tried");
            if algorithm.needs.probes {
                while let Some(slot) = balancer.poll_probe(now) {
                    let in_flight = balancer.loads().in_flight(slot);
                    balancer.report(slot, &LoadReport::new(in_flight, 64_000), now).ok(); // drops are its matter
                }
            }
            flying.push_back(ticket);
        }
    })
}
