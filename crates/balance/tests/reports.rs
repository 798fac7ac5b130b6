//! Reports that are believed or refused, and the workers that learn of them.

use crate::support::rows::Row;
use evenkeel_balance::time::MILLISECOND_NS as MS;
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, FailureKind, Instant, LoadReport, Outcome, Pool, Refused, Seat, Slot,
};

fn specs(names: &[&str]) -> Vec<EndpointSpec> {
    names.iter().map(|name| EndpointSpec::new(name)).collect()
}

fn slot(pool: &Pool, name: &str) -> Slot {
    pool.slot_of(EndpointId::of(name)).expect("it is configured")
}

/// Returns a pool of these endpoints, and its workers.
fn pool<const WORKERS: usize>(names: &[&str]) -> (Pool, [Balancer; WORKERS]) {
    let workers = WORKERS as u32;
    let mut pool = Pool::new(workers);
    pool.update(&specs(names), Instant(0));
    let balancer = |worker| Row::named("random").balancer(&pool, Seat { worker: worker as u32, workers }, 1);
    let balancers = std::array::from_fn(balancer);
    (pool, balancers)
}

fn report(in_flight: u32, stamp: u64) -> LoadReport {
    LoadReport { stamp, ..LoadReport::new(in_flight, 0) }
}

fn run(balancer: &mut Balancer, slot: Slot, outcome: Outcome) {
    let ticket = balancer.start_at(slot, Instant(0)).expect("it is in the set");
    balancer.end(ticket, outcome, Instant(0));
}

#[test]
fn what_one_worker_learns_its_siblings_know() {
    let (pool, mut workers) = pool::<2>(&["a", "b"]);
    let (a, b) = (slot(&pool, "a"), slot(&pool, "b"));
    let tickets = workers.each_mut().map(|worker| worker.start_at(a, Instant(0)).expect("it is in the set"));
    let at = Instant(5 * MS);
    workers[0].report(a, &LoadReport::new(9, 0), at).unwrap();
    for worker in &workers {
        let others = worker.loads().others(a, at).expect("it was just heard of");
        assert_eq!((others.in_flight, others.age_ns), (7, 0), "two of nine are this process's");
        assert_eq!(worker.loads().others(b, at), None);
        assert_eq!(worker.loads().heard_ns_ago(at.after(3 * MS)), Some(3 * MS));
    }
    for (worker, ticket) in workers.iter_mut().zip(tickets) {
        worker.end(ticket, Outcome::Success, at);
    }
}

#[test]
fn each_report_that_is_not_believed_has_its_reason() {
    let (pool, [mut worker]) = pool::<1>(&["a", "b"]);
    let (a, b, now) = (slot(&pool, "a"), slot(&pool, "b"), Instant(0));
    assert_eq!(worker.report(a, &report(u32::MAX, 1), now), Err(Refused::Implausible));
    assert_eq!(worker.report(a, &report(3, 5), now), Ok(()));
    assert_eq!(worker.report(a, &report(3, 5), now), Err(Refused::Replayed));
    run(&mut worker, b, Outcome::failed(FailureKind::Gateway));
    assert_eq!(worker.report(b, &report(0, 1), now), Err(Refused::Failing));
    run(&mut worker, b, Outcome::Cancelled);
    assert_eq!(
        worker.report(b, &report(0, 1), now),
        Err(Refused::Failing),
        "how the request would have ended is not known"
    );
    run(&mut worker, b, Outcome::Success);
    assert_eq!(worker.report(b, &report(0, 1), now), Ok(()));
}

#[test]
fn no_report_of_an_endpoint_that_left_is_taken_or_inherited() {
    let (mut pool, [mut worker]) = pool::<1>(&["a"]);
    let (old, now) = (slot(&pool, "a"), Instant(0));
    worker.report(old, &report(3, 100), now).unwrap();
    pool.update(&specs(&["b"]), now);
    assert_eq!(worker.report(old, &report(3, 101), now), Err(Refused::Gone));
    pool.update(&specs(&["b", "c"]), now);
    assert_eq!(slot(&pool, "c"), old);
    worker.refresh(now);
    assert_eq!(worker.loads().others(old, now), None);
    assert_eq!(worker.report(old, &report(3, 1), now), Ok(()), "its clock is another");
}
