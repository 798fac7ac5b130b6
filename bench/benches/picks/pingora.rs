//! Selections of pingora-load-balancing. It does not count requests in flight, so an operation is a selection
//! alone.

use crate::Subject;
use crate::harness::{self, Case, Measured};
use futures_util::FutureExt;
use pingora_load_balancing::selection::{BackendIter, BackendSelection, Consistent, Random, RoundRobin};
use pingora_load_balancing::{Backend, Backends, LoadBalancer, discovery};
use std::collections::BTreeSet;
use std::hint::black_box;

/// Its round robin, random and ketama selections.
pub fn subjects() -> Vec<Subject> {
    let subject = |name: &str, run: fn(Case) -> Measured| Subject {
        name: format!("pingora {name}"),
        operation: "selection only",
        weighs: true,
        shares: true,
        run: Box::new(run),
    };
    vec![
        subject("round robin", run::<RoundRobin>),
        subject("random", run::<Random>),
        subject("ketama", run::<Consistent>),
    ]
}

fn run<S>(case: Case) -> Measured
where
    S: BackendSelection + Send + Sync + 'static,
    S::Iter: BackendIter,
{
    let backend = |endpoint| {
        let weight = case.weight(endpoint) as usize;
        Backend::new_with_weight(&Case::address(endpoint), weight).expect("an address with a port")
    };
    let backends: BTreeSet<Backend> = (0..case.endpoints).map(backend).collect();
    let balancer = LoadBalancer::<S>::from_backends(Backends::new(discovery::Static::new(backends)));
    balancer.update().now_or_never().expect("a static list is there at once").expect("and has no errors");
    let balancer = &balancer;
    harness::measure(case, |thread| {
        move |number: u64| {
            let key = (number << 1 | thread as u64).to_le_bytes();
            black_box(balancer.select(&key, 4).expect("every backend is healthy"));
        }
    })
}
