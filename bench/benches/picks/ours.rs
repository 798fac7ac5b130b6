//! Our algorithms as they run in a worker: a `Balancer` per thread over one shared pool.

use crate::harness::{self, Case, Measured};
use crate::{IN_FLIGHT, Subject};
use evenkeel_balance::params::Value;
use evenkeel_balance::rng::mix;
use evenkeel_balance::{
    Algorithm, EndpointSpec, Instant, LoadReport, Outcome, Params, Pool, Request, Seat, Ticket, algorithms,
};
use std::collections::VecDeque;

/// A subject per row of the registry, and leastconn by the number of sibling counts that a worker reads for
/// each pick.
pub fn subjects() -> Vec<Subject> {
    let subject = |name: String, algorithm: &'static Algorithm, params: Params| Subject {
        name,
        operation: "start and end",
        weighs: true,
        shares: true,
        run: Box::new(move |case| run(algorithm, &params, case)),
    };
    let row = |a: &&'static Algorithm| subject(format!("evenkeel {}", a.name), a, Params::defaults(a.params));
    let leastconn = algorithms::find("leastconn").expect("it is in the registry");
    let reads = |reads: u64| {
        let mut params = Params::defaults(leastconn.params);
        params.set("sibling_reads", Value::Int(reads)).expect("it is in range");
        subject(format!("evenkeel leastconn, {reads} reads"), leastconn, params)
    };
    algorithms::ALL.iter().map(row).chain([0, 1, 2, 4, 8].map(reads)).collect()
}

fn run(algorithm: &'static Algorithm, params: &Params, case: Case) -> Measured {
    let mut pool = Pool::new(case.threads as u32);
    let spec = |endpoint| EndpointSpec::new(&Case::address(endpoint)).weight(case.weight(endpoint));
    pool.update(&(0..case.endpoints).map(spec).collect::<Vec<_>>(), Instant(0));
    let pool = &pool;
    harness::measure(case, |thread| {
        let seat = Seat { worker: thread as u32, workers: case.threads as u32 };
        let mut balancer = pool.balancer(algorithm, params, seat, 1).expect("they are valid");
        let mut flying: VecDeque<Ticket> = VecDeque::with_capacity(IN_FLIGHT);
        move |number| {
            // A microsecond passes between starts, so that latencies are 64 us and estimates decay.
            let now = Instant(number * 1_000);
            if flying.len() == IN_FLIGHT {
                let ticket = flying.pop_front().expect("it is full");
                balancer.end(ticket, Outcome::Success, now);
            }
            let key = algorithm.needs.key.then(|| mix(number));
            let ticket =
                balancer.start(&Request { key, tried: &[], beyond: false }, now).expect("no endpoint is full or tried");
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
