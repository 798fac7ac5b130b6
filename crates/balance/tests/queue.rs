//! Order and completeness of the queue, which must not lose a waiter: random histories of one thread, in which every
//! step is checked against what a waiter could do, and real threads that share a few places.

use crate::support::rows::{self, Row};
use evenkeel_balance::queue::Waiting;
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, Instant, NoPick, Outcome, Pool, Request, Rng, Seat, Slot, Ticket,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::thread::Thread;

const NOW: Instant = Instant(0);

/// Records that it was woken.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<WakeFlag>) {
        self.0.store(true, SeqCst);
    }
}

/// A request in the queue, with its waker.
struct Waiter {
    waiting: Waiting,
    flag: Arc<WakeFlag>,
    worker: usize,
    tried: Vec<Slot>,
}

/// A pool with a queue, and everything in flight and waiting there.
struct World {
    row: String,
    seed: u64,
    rng: Rng,
    pool: Pool,
    max: u32,
    balancers: Vec<Balancer>,
    running: Vec<(Ticket, usize)>,
    waiters: Vec<Waiter>,
    /// True if a woken waiter tries before anything else happens.
    prompt: bool,
}

impl World {
    fn new(row: &Row, seed: u64) -> World {
        let workers = 1 + (seed % 4) as u32;
        let mut pool = Pool::new(workers);
        let max = 1 + (seed % 9) as u32;
        pool.queue().set_max(max);
        pool.update(&[spec(0, 1)], Instant(0));
        let balancers = (0..workers).map(|worker| row.balancer(&pool, Seat { worker, workers }, seed)).collect();
        let (rng, prompt) = (Rng::new(seed), seed.is_multiple_of(2));
        let (running, waiters) = (Vec::new(), Vec::new());
        World { row: row.to_string(), seed, rng, pool, max, balancers, running, waiters, prompt }
    }

    fn any(&mut self, n: usize) -> usize {
        self.rng.below(n as u32) as usize
    }

    fn ensure(&self, holds: bool, what: &str) {
        assert!(holds, "row {}, seed {}: {what}", self.row, self.seed);
    }

    /// True if an endpoint that was not tried has room.
    fn could_start(&self, tried: &[Slot]) -> bool {
        let view = self.pool.view();
        let room = |slot, max| max == 0 || self.pool.in_flight(slot) < max;
        view.set.members().iter().any(|m| !tried.contains(&m.slot) && room(m.slot, m.in_flight_max))
    }

    fn arrive(&mut self) {
        let worker = self.any(self.balancers.len());
        let view = self.pool.view();
        let tried: Vec<Slot> = view.set.members().iter().map(|m| m.slot).filter(|_| self.rng.below(4) == 0).collect();
        let key = Some(self.rng.next_u64());
        match self.balancers[worker].start(&Request { key, tried: &tried, beyond: false }, NOW) {
            Ok(ticket) => self.running.push((ticket, worker)),
            Err(NoPick::AllFull) => {
                let flag = Arc::new(WakeFlag::default());
                let Ok(waiting) = self.pool.queue().enter(Waker::from(flag.clone())) else {
                    return self.ensure(self.waiters.len() == self.max as usize, "refused though there was room");
                };
                self.waiters.push(Waiter { waiting, flag, worker, tried });
                self.ensure(self.waiters.len() <= self.max as usize, "more wait than may");
                self.attempt(self.waiters.len() - 1);
            }
            Err(_) => {}
        }
    }

    /// Lets a waiter try, which must be the first of those that could start.
    fn attempt(&mut self, index: usize) {
        let key = Some(self.rng.next_u64());
        let waiter = &mut self.waiters[index];
        waiter.flag.0.store(false, SeqCst);
        let request = Request { key, tried: &waiter.tried, beyond: false };
        let Ok(ticket) = self.balancers[waiter.worker].start_waited(&request, &mut waiter.waiting, NOW) else { return };
        let could = |w: &Waiter| !w.flag.0.load(SeqCst) && !w.tried.contains(&ticket.slot());
        let passed = self.prompt && self.waiters[..index].iter().any(could);
        self.running.push((ticket, self.waiters[index].worker));
        drop(self.waiters.remove(index));
        self.ensure(!passed, "got a place before one that waited longer and could have used it");
    }

    /// Lets every woken waiter try, until none is woken.
    fn settle(&mut self) {
        while let Some(index) = self.waiters.iter().position(|w| w.flag.0.load(SeqCst)) {
            self.attempt(index);
        }
        for waiter in &self.waiters {
            self.ensure(!self.could_start(&waiter.tried), "a waiter was not woken for a place it could use");
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..9 => self.arrive(),
            9..15 if !self.running.is_empty() => {
                let index = self.any(self.running.len());
                let (ticket, worker) = self.running.swap_remove(index);
                self.balancers[worker].end(ticket, Outcome::Success, NOW);
            }
            15 if !self.waiters.is_empty() => {
                let index = self.any(self.waiters.len());
                drop(self.waiters.remove(index));
            }
            16 => {
                let endpoints = 1 + self.rng.below(3);
                let specs: Vec<_> = (0..endpoints).map(|i| spec(i, self.rng.below(5).max(1) % 4)).collect();
                self.pool.update(&specs, Instant(0));
            }
            17 if !self.waiters.is_empty() => {
                let index = self.any(self.waiters.len());
                let flag = Arc::new(WakeFlag(AtomicBool::new(true)));
                self.waiters[index].waiting.set_waker(&Waker::from(flag.clone()));
                self.waiters[index].flag = flag;
            }
            _ => self.settle(),
        }
        if self.prompt {
            self.settle();
        }
        self.ensure(self.pool.queue().depth() as usize == self.waiters.len(), "the depth is wrong");
    }
}

fn spec(i: u32, in_flight_max: u32) -> EndpointSpec {
    EndpointSpec::new(&i.to_string()).in_flight_max(in_flight_max)
}

#[test]
fn every_waiter_that_could_start_is_woken_and_the_longest_first() {
    let mut waited = 0;
    for row in rows::defaults().filter(|row| row.algorithm.table.is_none()) {
        for seed in 0..60 {
            let mut world = World::new(&row, seed);
            for _ in 0..300 {
                world.step();
                waited += world.waiters.len();
            }
            world.settle();
            world.waiters.clear();
            world.running.drain(..).for_each(|(ticket, worker)| {
                world.balancers[worker].end(ticket, Outcome::Cancelled, NOW);
            });
            assert_eq!(world.pool.queue().depth(), 0);
            assert_eq!(world.pool.view().counts.in_flight_total(), 0);
        }
    }
    assert!(waited > 10_000, "only {waited} waits: the histories are too easy");
}

#[test]
fn no_request_waits_where_no_queue_is_configured() {
    let pool = Pool::new(1);
    assert!(pool.queue().enter(Waker::noop().clone()).is_err());
    assert_eq!(pool.queue().depth(), 0);
}

#[test]
fn a_newcomer_does_not_overtake_even_by_session() {
    let row = Row::named("first");
    let mut pool = Pool::new(1);
    pool.queue().set_max(1);
    pool.update(&[spec(0, 1)], Instant(0));
    let mut balancer = row.balancer(&pool, Seat::default(), 1);
    let request = Request::default();
    let ticket = balancer.start(&request, NOW).expect("the place is free");
    let slot = ticket.slot();
    let flag = Arc::new(WakeFlag::default());
    let mut waiting = pool.queue().enter(Waker::from(flag.clone())).expect("no other request waits");
    assert_eq!(balancer.start_waited(&request, &mut waiting, NOW).err(), Some(NoPick::AllFull));
    balancer.end(ticket, Outcome::Success, NOW);
    assert!(flag.0.load(SeqCst), "the place is free");
    assert_eq!(balancer.start(&request, NOW).err(), Some(NoPick::AllFull));
    assert_eq!(balancer.start_at(slot, NOW).err(), Some(NoPick::AllFull));
    let ticket = balancer.start_waited(&request, &mut waiting, NOW).expect("its turn");
    assert_eq!(pool.queue().depth(), 0, "with a ticket it has left");
    balancer.end(ticket, Outcome::Success, NOW);
}

#[test]
fn a_request_from_before_the_limit_wakes_when_it_ends() {
    // The request holds no place, but fills the endpoint; and its worker starts nothing after the limit was set.
    let row = Row::named("first");
    let mut pool = Pool::new(2);
    pool.queue().set_max(1);
    pool.update(&[spec(0, 0)], Instant(0));
    let mut workers = [0, 1].map(|worker| row.balancer(&pool, Seat { worker, workers: 2 }, 1));
    let before = workers[0].start(&Request::default(), NOW).expect("no limit yet");
    pool.update(&[spec(0, 1)], Instant(0));
    assert_eq!(workers[1].start(&Request::default(), NOW).err(), Some(NoPick::AllFull));
    let flag = Arc::new(WakeFlag::default());
    let mut waiting = pool.queue().enter(Waker::from(flag.clone())).expect("no other request waits");
    assert!(workers[1].start_waited(&Request::default(), &mut waiting, NOW).is_err());
    workers[0].end(before, Outcome::Success, NOW);
    assert!(flag.0.load(SeqCst));
    let ticket = workers[1].start_waited(&Request::default(), &mut waiting, NOW).expect("its turn");
    workers[1].end(ticket, Outcome::Success, NOW);
}

#[test]
fn what_was_offered_to_all_is_not_lost_with_the_last_waiter_that_leaves() {
    let row = Row::named("first");
    let mut pool = Pool::new(1);
    pool.queue().set_max(2);
    pool.update(&[spec(0, 1), spec(1, 1)], Instant(0));
    let mut balancer = row.balancer(&pool, Seat::default(), 1);
    let [a, b] = [0, 1].map(|_| balancer.start(&Request::default(), NOW).expect("one place each"));
    let tried = [a.slot()];
    let front = Request { key: None, tried: &tried, beyond: false };
    let flags = [0, 1].map(|_| Arc::new(WakeFlag::default()));
    let [mut first, mut second] = flags.clone().map(|flag| pool.queue().enter(Waker::from(flag)).expect("room"));
    assert!(balancer.start_waited(&front, &mut first, NOW).is_err());
    assert!(balancer.start_waited(&Request::default(), &mut second, NOW).is_err());
    // The place at "a" is offered to the first, which has tried it, and passes to the second, which leaves. In the
    // meantime "b" gets one more.
    balancer.end(a, Outcome::Success, NOW);
    assert!(balancer.start_waited(&front, &mut first, NOW).is_err());
    assert!(flags[1].0.load(SeqCst));
    pool.update(&[spec(0, 1), spec(1, 2)], Instant(0));
    flags[0].0.store(false, SeqCst);
    drop(second);
    assert!(flags[0].0.load(SeqCst));
    let ticket = balancer.start_waited(&front, &mut first, NOW).expect("its turn");
    [ticket, b].into_iter().for_each(|ticket| {
        balancer.end(ticket, Outcome::Success, NOW);
    });
}

/// Unparks the thread of a worker.
struct Unpark(Thread, AtomicBool);

impl Unpark {
    /// Returns a waker of this thread, which has something to try already.
    fn here() -> Arc<Unpark> {
        Arc::new(Unpark(std::thread::current(), AtomicBool::new(true)))
    }

    fn woken(&self) -> bool {
        self.1.swap(false, SeqCst)
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.1.store(true, SeqCst);
        self.0.unpark();
    }
}

const THREADS: u32 = 4;
const ROUNDS: u64 = 100;

/// Returns a pool with a queue and one endpoint with this limit, and the balancers of its workers.
fn shared(limit: u32, max: u32, seed: u64) -> (Pool, Vec<Balancer>) {
    let mut pool = Pool::new(THREADS);
    pool.queue().set_max(max);
    pool.update(&[spec(0, limit)], Instant(0));
    let row = Row::named("leastconn");
    let workers = (0..THREADS).map(|worker| row.balancer(&pool, Seat { worker, workers: THREADS }, seed)).collect();
    (pool, workers)
}

fn ensure_nothing_is_left(pool: &Pool, round: u64) {
    let slot = pool.slot_of(EndpointId::of("0")).expect("configured");
    let left = (pool.queue().depth(), pool.in_flight(slot), pool.view().counts.in_flight_total());
    assert_eq!(left, (0, 0, 0), "round {round}");
}

/// Requests that each thread has in the queue.
const EACH: u64 = 5;

#[test]
fn the_place_goes_round_the_threads_in_the_order_in_which_they_came() {
    for round in 0..ROUNDS {
        let (pool, mut workers) = shared(1, THREADS * EACH as u32, round);
        // Given back once all are in the queue.
        let mut place = workers[0].start(&Request::default(), NOW).ok();
        let (entered, served) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for (me, mut balancer) in (0u64..).zip(workers) {
                let (entered, served, place) = (&entered, &served, place.take());
                scope.spawn(move || {
                    let mut waiters = Vec::new();
                    for turn in 0..EACH {
                        while entered.load(SeqCst) != turn * u64::from(THREADS) + me {
                            std::thread::yield_now();
                        }
                        let wake = Unpark::here();
                        let mut waiting = balancer.queue().clone().enter(Waker::from(wake.clone())).expect("room");
                        assert!(balancer.start_waited(&Request::default(), &mut waiting, NOW).is_err());
                        wake.woken();
                        waiters.push((waiting, wake));
                        entered.fetch_add(1, SeqCst);
                    }
                    if let Some(ticket) = place {
                        while entered.load(SeqCst) != EACH * u64::from(THREADS) {
                            std::thread::yield_now();
                        }
                        balancer.end(ticket, Outcome::Success, NOW);
                    }
                    while !waiters.is_empty() {
                        let Some(woken) = waiters.iter().position(|(_, wake)| wake.woken()) else {
                            std::thread::park();
                            continue;
                        };
                        let (mut waiting, _) = waiters.remove(woken);
                        let ticket = balancer.start_waited(&Request::default(), &mut waiting, NOW);
                        let turn = served.fetch_add(1, SeqCst);
                        // Ends the ticket first, so that no thread parks forever because another failed.
                        balancer.end(ticket.expect("no other may take it"), Outcome::Success, NOW);
                        assert_eq!(waiting.number(), turn, "round {round}");
                    }
                });
            }
        });
        ensure_nothing_is_left(&pool, round);
    }
}

const REQUESTS: u32 = 200;

/// Starts and ends requests, and gives up some that wait. Requests in flight are counted apart from the pool.
fn work(mut balancer: Balancer, limit: u32, in_flight: &AtomicU32, most: &AtomicU32, seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..REQUESTS {
        let ticket = match balancer.start(&Request::default(), NOW) {
            Ok(ticket) => ticket,
            Err(NoPick::AllFull) => match wait(&mut balancer, &mut rng) {
                Some(ticket) => ticket,
                None => continue,
            },
            Err(e) => panic!("seed {seed}: {e}"),
        };
        most.fetch_max(in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
        if rng.coin() {
            std::thread::yield_now();
        }
        in_flight.fetch_sub(1, SeqCst);
        balancer.end(ticket, Outcome::Success, NOW);
    }
    assert!(most.load(SeqCst) <= limit, "seed {seed}: {most:?} in flight, the limit is {limit}");
}

fn wait(balancer: &mut Balancer, rng: &mut Rng) -> Option<Ticket> {
    let wake = Unpark::here();
    let mut waiting = balancer.queue().clone().enter(Waker::from(wake.clone())).expect("room for every thread");
    loop {
        if !wake.woken() {
            std::thread::park();
        } else if rng.below(8) == 0 {
            return None; // often with a grant
        } else if let Ok(ticket) = balancer.start_waited(&Request::default(), &mut waiting, NOW) {
            return Some(ticket);
        }
    }
}

#[test]
fn threads_that_share_a_few_places_all_get_one_or_give_up() {
    for round in 0..ROUNDS {
        let limit = 1 + (round % 3) as u32;
        let (pool, workers) = shared(limit, THREADS, round);
        let (in_flight, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for (me, balancer) in (0u64..).zip(workers) {
                let (in_flight, most) = (&in_flight, &most);
                scope.spawn(move || work(balancer, limit, in_flight, most, round * 31 + me));
            }
        });
        ensure_nothing_is_left(&pool, round);
    }
}
