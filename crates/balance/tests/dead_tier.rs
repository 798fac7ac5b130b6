//! Cost of the death of a whole tier while another tier is healthy. Closed loops of clients in virtual time, with every
//! algorithm, default retries and the control side: no more requests may fail than were in flight at the moment of
//! death.

use crate::support::rows::{self, Row};
use evenkeel_balance::budget::Budget;
use evenkeel_balance::control::Settings;
use evenkeel_balance::retry::{self, Conditions, Decision, Failed, Failure, Retry};
use evenkeel_balance::state::State;
use evenkeel_balance::time::{MILLISECOND_NS, SECOND_NS};
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, FailureKind, Instant, LoadReport, Outcome, Pool, Request, Rng, Seat, Slot,
    Ticket, outlier,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Way in which a dead endpoint fails a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Refuses,
    Resets,
    Answers503,
    SwallowsSyn,
}

const DEATHS: [Death; 4] = [Death::Refuses, Death::Resets, Death::Answers503, Death::SwallowsSyn];

/// Times at which the first tier dies, and the run ends.
const DIES: u64 = 2 * SECOND_NS;
const END: u64 = 100 * SECOND_NS;

/// Delay until the control thread looks at what workers report.
const CONTROL_NS: u64 = MILLISECOND_NS;

enum Event {
    /// A client begins a request, or its next try.
    Try(usize),
    /// The try of a client has ended.
    Ended(usize, Option<Death>),
    Poll,
}

struct Client {
    retry: Retry,
    tried: Vec<Slot>,
    beyond: bool,
    ticket: Option<Ticket>,
    begun: u64,
}

struct World {
    pool: Pool,
    balancer: Balancer,
    budget: Budget,
    rng: Rng,
    deaths: Vec<Death>,
    clients: Vec<Client>,
    calendar: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Option<Event>>,
    /// Requests that failed, and how many of them were not in flight when the tier died.
    failed: usize,
    failed_later: usize,
    in_flight_at_death: usize,
}

fn settings() -> retry::Settings {
    let on = Conditions { connect: true, reset: true, timeout: true, statuses: vec![503], grpc: 0 };
    retry::Settings { on, ..retry::Settings::default() }
}

impl World {
    fn new(row: &Row, first: u32, second: u32, clients: usize, seed: u64) -> World {
        let mut pool = Pool::new(1);
        let outlier = Some(outlier::Settings::default());
        pool.configure(Settings { outlier, ..Settings::default() }, Instant(0));
        let spec = |i: u32| EndpointSpec::new(&format!("e{i}")).priority(u8::from(i >= first));
        pool.update(&(0..first + second).map(spec).collect::<Vec<_>>(), Instant(0));
        let balancer = row.balancer(&pool, Seat { worker: 0, workers: 1 }, seed);
        let mut rng = Rng::new(seed ^ 0xdead);
        let budget = Budget::new(settings().budget, settings().budget_floor, 2, Instant(0));
        let deaths = (0..first).map(|_| DEATHS[rng.below(4) as usize]).collect();
        let client = |_| Client { retry: Retry::default(), tried: Vec::new(), beyond: false, ticket: None, begun: 0 };
        let clients: Vec<Client> = (0..clients).map(client).collect();
        let (calendar, events) = (BinaryHeap::new(), Vec::new());
        let (failed, failed_later, in_flight_at_death) = (0, 0, 0);
        World {
            pool,
            balancer,
            budget,
            rng,
            deaths,
            clients,
            calendar,
            events,
            failed,
            failed_later,
            in_flight_at_death,
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.events.push(Some(event));
        self.calendar.push(Reverse((at, self.events.len() - 1)));
    }

    fn run(mut self) -> World {
        for client in 0..self.clients.len() {
            let at = self.rng.below_u64(10 * MILLISECOND_NS);
            self.at(at, Event::Try(client));
        }
        let mut alive = true;
        while let Some(Reverse((now, event))) = self.calendar.pop() {
            if now >= END {
                break;
            }
            if alive && now >= DIES {
                alive = false;
                self.in_flight_at_death = self.clients.iter().filter(|client| client.ticket.is_some()).count();
            }
            match self.events[event].take().expect("each happens once") {
                Event::Try(client) => self.begin_try(client, now),
                Event::Ended(client, death) => self.ended(client, death, now),
                Event::Poll => {
                    if let Some(next) = self.pool.poll(Instant(now)) {
                        self.at(next.0, Event::Poll);
                    }
                }
            }
        }
        self
    }

    fn begin_try(&mut self, at: usize, now: u64) {
        let client = &mut self.clients[at];
        if client.tried.is_empty() {
            client.begun = now;
            self.budget.earn(Instant(now));
        }
        let request = Request { key: Some(self.rng.next_u64()), tried: &client.tried, beyond: client.beyond };
        match self.balancer.start(&request, Instant(now)) {
            Ok(ticket) => {
                let slot = ticket.slot().index();
                client.ticket = Some(ticket);
                let is_dead = now >= DIES && slot < self.deaths.len();
                let (took, death) = match is_dead.then(|| self.deaths[slot]) {
                    Some(Death::SwallowsSyn) => (SECOND_NS, Some(Death::SwallowsSyn)),
                    Some(death) => (MILLISECOND_NS / 2, Some(death)),
                    None => (5 * MILLISECOND_NS + self.rng.below_u64(10 * MILLISECOND_NS), None),
                };
                self.at(now + took, Event::Ended(at, death));
            }
            Err(_) => self.done(at, false, now),
        }
        while let Some(slot) = self.balancer.poll_probe(Instant(now)) {
            let is_dead = now >= DIES && slot.index() < self.deaths.len();
            if !is_dead {
                let report = LoadReport::new(self.pool.in_flight(slot), 10 * MILLISECOND_NS);
                let _ = self.balancer.report(slot, &report, Instant(now));
            }
        }
    }

    fn ended(&mut self, at: usize, death: Option<Death>, now: u64) {
        let ticket = self.clients[at].ticket.take().expect("it has begun");
        let slot = ticket.slot();
        // Requests on their way to a server that died are reset.
        let reset = now >= DIES && ticket.began().0 < DIES && slot.index() < self.deaths.len();
        let death = if reset { Some(Death::Resets) } else { death };
        let (outcome, failure) = match death {
            None => (Outcome::Success, None),
            Some(Death::Refuses | Death::SwallowsSyn) => {
                (Outcome::failed(FailureKind::Connect), Some(Failure::Connect))
            }
            Some(Death::Resets) => (Outcome::failed(FailureKind::Gateway), Some(Failure::Reset)),
            Some(Death::Answers503) => (Outcome::failed(FailureKind::Gateway), Some(Failure::Status(503))),
        };
        if self.balancer.end(ticket, outcome, Instant(now)) {
            self.at(now + CONTROL_NS, Event::Poll);
        }
        let Some(failure) = failure else { return self.done(at, true, now) };
        let client = &mut self.clients[at];
        client.tried.push(slot);
        let beyond = self.balancer.has_beyond(&client.tried, Instant(now));
        let failed = Failed { failure, idempotent: true, replayable: true, left_ns: None, beyond };
        match client.retry.decide(&settings(), &failed, &mut self.budget, &mut self.rng, Instant(now)) {
            Decision::Again { after_ns, leaves, .. } => {
                client.beyond = leaves;
                self.at(now + after_ns, Event::Try(at));
            }
            Decision::Stop(_) => self.done(at, false, now),
        }
    }

    fn done(&mut self, at: usize, passed: bool, now: u64) {
        let client = &mut self.clients[at];
        self.failed += usize::from(!passed);
        self.failed_later += usize::from(!passed && client.begun >= DIES);
        (client.retry, client.beyond) = (Retry::default(), false);
        client.tried.clear();
        let think = 10 * MILLISECOND_NS + self.rng.below_u64(30 * MILLISECOND_NS);
        self.at(now + think, Event::Try(at));
    }
}

#[test]
fn no_more_requests_fail_than_were_in_flight_when_the_first_tier_died() {
    for row in rows::defaults() {
        for (first, second) in [(2, 1), (3, 3), (4, 4), (1, 1), (10, 2)] {
            for (clients, seeds) in [(1, 6), (20, 4)] {
                for seed in 0..seeds {
                    let world = World::new(&row, first, second, clients, seed).run();
                    let deaths = &world.deaths;
                    assert!(
                        world.failed <= world.in_flight_at_death,
                        "row {row}, {first}+{second}, {clients} clients, seed {seed}, {deaths:?}: {} failed ({} of them \
                         begun later), {} in flight",
                        world.failed,
                        world.failed_later,
                        world.in_flight_at_death
                    );
                }
            }
        }
    }
}

#[test]
fn the_cap_keeps_the_only_tier_and_the_last_one_that_is_left() {
    for (specs, stay) in [([0, 0, 0, 0], 3), ([0, 0, 0, 1], 1), ([0, 0, 1, 1], 1), ([0, 1, 1, 1], 2)] {
        let mut pool = Pool::new(1);
        pool.configure(Settings { outlier: Some(outlier::Settings::default()), ..Settings::default() }, Instant(0));
        let spec = |(i, &tier): (usize, &u8)| EndpointSpec::new(&format!("e{i}")).priority(tier);
        pool.update(&specs.iter().enumerate().map(spec).collect::<Vec<_>>(), Instant(0));
        let mut balancer = Row::named("random").balancer(&pool, Seat::default(), 1);
        for name in 0..specs.len() {
            for _ in 0..3 {
                let slot = pool.slot_of(EndpointId::of(&format!("e{name}"))).expect("it is configured");
                let Ok(ticket) = balancer.start_at(slot, Instant(0)) else { continue };
                balancer.end(ticket, Outcome::failed(FailureKind::Connect), Instant(0));
            }
            pool.poll(Instant(0));
        }
        let out = pool.states().filter(|(_, state)| matches!(state, State::Ejected(_))).count();
        assert_eq!(specs.len() - out, stay, "{specs:?}");
    }
}

#[test]
fn endpoints_of_a_dead_tier_are_tried_soon_once_the_next_tier_fails_too() {
    let mut pool = Pool::new(1);
    pool.configure(Settings { outlier: Some(outlier::Settings::default()), ..Settings::default() }, Instant(0));
    pool.update(&[EndpointSpec::new("a"), EndpointSpec::new("b").priority(1)], Instant(0));
    let mut balancer = Row::named("random").balancer(&pool, Seat::default(), 1);
    let mut fails = |pool: &mut Pool, name: &str, now: Instant| {
        let slot = pool.slot_of(EndpointId::of(name)).expect("it is configured");
        for _ in 0..3 {
            let ticket = balancer.start_at(slot, now).expect("it is in use");
            balancer.end(ticket, Outcome::failed(FailureKind::Connect), now);
        }
        pool.poll(now)
    };
    let second = |n: u64| Instant(n * SECOND_NS);
    assert_eq!(fails(&mut pool, "a", second(0)), Some(second(30)));
    assert_eq!(fails(&mut pool, "b", second(1)), Some(second(2)), "b cannot be spared, so a is tried soon");
    pool.poll(second(2));
    let state = |pool: &Pool, name| pool.states().find(|(id, _)| *id == EndpointId::of(name)).expect("configured").1;
    assert_eq!([state(&pool, "a"), state(&pool, "b")], [State::Probation, State::Up]);
}
