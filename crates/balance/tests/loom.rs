//! Models of the counts, the limits, the slots and the queue for loom, a model checker that tries every order that the
//! memory model allows. Each is small enough to be searched. `make loom` runs them.
//!
//! A lost wake-up shows as a deadlock: no thread is left that could wake the one that waits.
#![cfg(loom)]

use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, Instant, LoadReport, NoPick, Outcome, Params, Pool, Request, Seat, Slot,
    Ticket, algorithms,
};
use loom::future::block_on;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::mpsc;
use loom::thread;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

const NOW: Instant = Instant(0);

fn spec(name: &str, in_flight_max: u32) -> EndpointSpec {
    EndpointSpec::new(name).in_flight_max(in_flight_max)
}

/// Returns a pool with a queue, and its workers, all of which have seen the first endpoints.
fn pool<const WORKERS: usize>(specs: &[EndpointSpec]) -> (Pool, [Balancer; WORKERS]) {
    let mut pool = Pool::new(WORKERS as u32);
    pool.queue().set_max(4);
    pool.update(specs, Instant(0));
    let algorithm = algorithms::find("first").expect("in the registry");
    let params = Params::defaults(algorithm.params);
    let workers = std::array::from_fn(|worker| {
        let seat = Seat { worker: worker as u32, workers: WORKERS as u32 };
        pool.balancer(algorithm, &params, seat, 1).expect("defaults are allowed")
    });
    (pool, workers)
}

/// Searches all orders with at most `preemptions` preemptions: two find most faults, and the third costs ten times as
/// much.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

fn start(balancer: &mut Balancer) -> Ticket {
    balancer.start(&Request::default(), NOW).expect("there is a place")
}

fn end(balancer: &mut Balancer, ticket: Ticket) {
    balancer.end(ticket, Outcome::Success, NOW);
}

/// Starts a request as a shell would: waits if it has to.
fn start_or_wait(balancer: &mut Balancer) -> Ticket {
    match balancer.start(&Request::default(), NOW) {
        Ok(ticket) => return ticket,
        Err(e) => assert_eq!(e, NoPick::AllFull),
    }
    let mut waiting = balancer.queue().clone().enter(Waker::noop().clone()).expect("there is room");
    block_on(poll_fn(move |cx| {
        waiting.set_waker(cx.waker());
        match balancer.start_waited(&Request::default(), &mut waiting, NOW) {
            Ok(ticket) => Poll::Ready(ticket),
            Err(_) => Poll::Pending,
        }
    }))
}

fn ensure_empty(pool: &Pool) {
    assert_eq!((pool.queue().depth(), pool.view().counts.in_flight_total()), (0, 0));
}

#[test]
fn entering_and_freeing_never_miss_each_other() {
    model(3, || {
        let (pool, [mut a, mut b]) = pool(&[spec("a", 1)]);
        let held = start(&mut a);
        let freeing = thread::spawn(move || end(&mut a, held));
        let got = start_or_wait(&mut b);
        end(&mut b, got);
        freeing.join().unwrap();
        ensure_empty(&pool);
    });
}

#[test]
fn two_threads_that_free_places_serve_one_waiter() {
    model(2, || {
        let (pool, [mut a, mut b, mut c]) = pool(&[spec("a", 2)]);
        let held = [start(&mut a), start(&mut b)];
        let [first, second] = held;
        let freeing = [thread::spawn(move || end(&mut a, first)), thread::spawn(move || end(&mut b, second))];
        let got = start_or_wait(&mut c);
        end(&mut c, got);
        freeing.into_iter().for_each(|t| t.join().unwrap());
        ensure_empty(&pool);
    });
}

#[test]
fn a_waiter_that_leaves_while_it_gets_a_grant_passes_it_on() {
    model(2, || {
        let (pool, [mut a, mut b, mut c]) = pool(&[spec("a", 1)]);
        let held = start(&mut a);
        let mut leaving = c.queue().enter(Waker::noop().clone()).expect("there is room");
        assert!(c.start_waited(&Request::default(), &mut leaving, NOW).is_err());
        let freeing = thread::spawn(move || end(&mut a, held));
        let left = thread::spawn(move || drop(leaving));
        let got = start_or_wait(&mut b);
        end(&mut b, got);
        freeing.join().unwrap();
        left.join().unwrap();
        ensure_empty(&pool);
    });
}

#[test]
fn a_raised_limit_reaches_a_waiter() {
    model(2, || {
        let (mut pool, [mut a, mut b]) = pool(&[spec("a", 1)]);
        let held = start(&mut a);
        let control = thread::spawn(move || {
            pool.update(&[spec("a", 2)], Instant(0));
            pool
        });
        let got = start_or_wait(&mut b);
        end(&mut b, got);
        end(&mut a, held);
        ensure_empty(&control.join().unwrap());
    });
}

#[test]
fn a_limit_is_never_passed() {
    model(3, || {
        let (pool, workers) = pool::<2>(&[spec("a", 1)]);
        let running = Arc::new(AtomicU32::new(0));
        let threads = workers.map(|mut balancer| {
            let running = running.clone();
            thread::spawn(move || {
                let ticket = start_or_wait(&mut balancer);
                assert_eq!(running.fetch_add(1, Relaxed), 0, "two hold the only place");
                running.fetch_sub(1, Relaxed);
                end(&mut balancer, ticket);
            })
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        ensure_empty(&pool);
    });
}

#[test]
fn a_report_is_known_as_a_whole_or_not_at_all() {
    model(3, || {
        let (pool, workers) = pool::<3>(&[spec("a", 0)]);
        let slot = pool.slot_of(EndpointId::of("a")).expect("configured");
        let [a, b, reader] = workers;
        // The same report at two workers, one of which gets it later.
        let threads = [(a, Instant(0)), (b, Instant(1_000_000))].map(|(mut balancer, at)| {
            let report = LoadReport { in_flight: 7, latency_ns: 0, stamp: 5 };
            thread::spawn(move || balancer.report(slot, &report, at))
        });
        let now = Instant(1_000_000);
        let seen = reader.loads().others(slot, now);
        assert!(seen.is_none_or(|others| others.in_flight == 7 && others.age_ns <= 1_000_000), "{seen:?}");
        let taken = threads.map(|t| t.join().unwrap());
        // Both may accept it, if neither saw the other do so: the result is the same.
        assert!(taken.contains(&Ok(())) && reader.loads().others(slot, now).is_some());
    });
}

#[test]
fn a_slot_is_reused_only_after_its_last_ticket_ended() {
    model(3, || {
        let (mut pool, [mut worker]) = pool(&[spec("a", 0)]);
        let (a, old) = (EndpointId::of("a"), pool.slot_of(EndpointId::of("a")).expect("configured"));
        // Number of tickets of "a" that are out, plus 100 once another endpoint has its slot: from then on there must
        // be none.
        let out = Arc::new(AtomicU32::new(0));
        let seen = out.clone();
        let thread = thread::spawn(move || {
            let first = start(&mut worker);
            let is_old = worker.set().get(first.slot()).is_some_and(|member| member.id == a);
            if is_old {
                assert_eq!(out.fetch_add(1, Relaxed), 0, "another endpoint has the slot of a ticket");
            }
            let second = start(&mut worker); // may be the first that the new endpoint gets
            if is_old {
                assert_eq!(out.fetch_sub(1, Relaxed), 1, "another endpoint has the slot of a ticket");
            }
            end(&mut worker, first);
            end(&mut worker, second);
        });
        for name in ["b", "c"] {
            pool.update(&[spec(name, 0)], Instant(0));
            if pool.slot_of(EndpointId::of(name)) == Some(old) {
                assert_eq!(seen.fetch_add(100, Relaxed), 0, "a ticket of the old endpoint is out");
            }
        }
        thread.join().unwrap();
    });
}

/// The order in which a runtime informs its planes: slots are reserved, then every worker learns of them, and only then
/// the set is published.
#[test]
fn a_worker_finds_in_a_slot_what_its_set_says_is_there() {
    model(2, || {
        let (mut pool, workers) = pool::<2>(&[spec("a", 0)]);
        let (a, first) = (EndpointId::of("a"), pool.slot_of(EndpointId::of("a")).expect("configured"));
        let (acknowledge, acknowledged) = mpsc::channel();
        let planes = workers.map(|mut worker| {
            let (tell, told) = mpsc::channel::<(Slot, EndpointId)>();
            let acknowledge = acknowledge.clone();
            let thread = thread::spawn(move || {
                // By slot. Endpoints that have left stay until their slot is needed.
                let mut known = [None; 3];
                known[first.index()] = Some(a);
                for changes in (0..=2).rev() {
                    let ticket = start(&mut worker);
                    let meant = worker.set().get(ticket.slot()).map(|member| member.id);
                    assert_eq!(known[ticket.slot().index()], meant, "another endpoint would get the request");
                    if changes > 0 {
                        let (slot, id) = told.recv().unwrap();
                        assert!(slot != ticket.slot() || meant == Some(id), "the slot of a request that runs");
                        known[slot.index()] = Some(id);
                        acknowledge.send(()).unwrap();
                    }
                    end(&mut worker, ticket);
                }
            });
            (tell, thread)
        });
        for name in ["b", "c"] {
            let (id, specs) = (EndpointId::of(name), [spec(name, 0)]);
            pool.reserve(&specs);
            let slot = pool.slot_of(id).expect("reserved");
            planes.iter().for_each(|(tell, _)| tell.send((slot, id)).unwrap());
            planes.iter().for_each(|_| acknowledged.recv().unwrap());
            pool.update(&specs, NOW);
        }
        planes.into_iter().for_each(|(_, thread)| thread.join().unwrap());
    });
}
