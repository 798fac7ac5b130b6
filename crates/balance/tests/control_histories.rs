//! Invariants of the control side in random sequences of requests, outcomes, checks, reloads and time, checked at every
//! step. A failure prints its seed.

use crate::support::rows::{self, Row};
use evenkeel_balance::control::Settings;
use evenkeel_balance::eligible::{Panic, PanicMode};
use evenkeel_balance::health::{self, Initial};
use evenkeel_balance::state::State;
use evenkeel_balance::time::{MILLISECOND_NS, SECOND_NS};
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, FailureKind, Instant, Outcome, Pool, Request, Rng, Seat, Ticket, concurrency,
    outlier, slow_start,
};
use std::collections::BTreeMap;

const WORKERS: u32 = 3;

/// A worker, its ticket, and the trial that the request belongs to, as the endpoint and the number of the trial.
type Running = (usize, Ticket, Option<(EndpointId, u16)>);

struct World {
    pool: Pool,
    balancers: Vec<Balancer>,
    specs: Vec<EndpointSpec>,
    outlier: outlier::Settings,
    /// Share of a tier that has to be fit for it to serve alone.
    healthy_below: f64,
    /// Times that more of a tier were out than the cap alone allows.
    beyond_cap: u32,
    now: Instant,
    due: Option<Instant>,
    running: Vec<Running>,
    /// Each endpoint's part of its weight, while it ramps.
    ramps: BTreeMap<EndpointId, u16>,
    rng: Rng,
}

fn settings(rng: &mut Rng) -> (Settings, outlier::Settings) {
    let outlier = outlier::Settings {
        consecutive_5xx: 1 + rng.below(4),
        consecutive_gateway: rng.below(4),
        consecutive_connect: rng.below(4),
        success_rate: rng.coin().then_some(outlier::SuccessRate { deviations: 0.5, min_requests: 5, min_endpoints: 2 }),
        latency: rng.coin().then_some(outlier::Latency { factor: 1.5, min_requests: 5 }),
        interval_ns: SECOND_NS,
        eject_ns: 2 * SECOND_NS,
        eject_max_ns: 20 * SECOND_NS,
        eject_at_most: rng.unit(),
    };
    let [with_health, with_slow_start, with_limits] = [(); 3].map(|()| rng.coin());
    let initial = [Initial::CheckFirst, Initial::Healthy, Initial::Unhealthy][rng.below(3) as usize];
    let slow_start = slow_start::Settings { window_ns: 5 * SECOND_NS, aggression: 1.5, min_weight: 0.05 };
    let settings = Settings {
        health: with_health.then_some(health::Settings { fall: 2, rise: 2, initial }),
        outlier: Some(outlier),
        slow_start: with_slow_start.then_some(slow_start),
        panic: Panic { healthy_below: rng.unit(), mode: [PanicMode::UseAll, PanicMode::Refuse][rng.below(2) as usize] },
        locality: None,
        concurrency: with_limits.then_some(concurrency::Settings { start: 4, ..concurrency::Settings::default() }),
        subset: None,
    };
    (settings, outlier)
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let (settings, outlier) = settings(&mut rng);
        let (healthy_below, beyond_cap) = (settings.panic.healthy_below, 0);
        let specs: Vec<_> = (0..1 + rng.below(8)).map(|i| EndpointSpec::new(&i.to_string())).collect();
        let mut pool = Pool::new(WORKERS);
        pool.configure(settings, Instant(0));
        let due = pool.update(&specs, Instant(0));
        let rows: Vec<Row> = rows::defaults().collect();
        let row = &rows[seed as usize % rows.len()];
        let seat = |worker| Seat { worker, workers: WORKERS };
        let balancers = (0..WORKERS).map(|worker| row.balancer(&pool, seat(worker), seed)).collect();
        let (running, ramps, now) = (Vec::new(), BTreeMap::new(), Instant(0));
        World { pool, balancers, specs, outlier, healthy_below, beyond_cap, now, due, running, ramps, rng }
    }

    fn step(&mut self) {
        let worker = self.rng.below(WORKERS) as usize;
        match self.rng.below(20) {
            0..8 => {
                let Ok(ticket) = self.balancers[worker].start(&Request::default(), self.now) else { return };
                let set = self.balancers[worker].set();
                // In panic nothing is held back, not even trials.
                let member = set.get(ticket.slot()).filter(|m| m.trial != 0 && !set.in_panic());
                let trial = member.map(|m| (m.id, m.trial));
                self.running.push((worker, ticket, trial));
            }
            8..15 if !self.running.is_empty() => {
                let any = self.rng.below(self.running.len() as u32) as usize;
                let outcome = self.outcome();
                self.end(any, outcome);
            }
            15 => {
                let id = self.specs[self.rng.below(self.specs.len() as u32) as usize].id;
                let passed = self.rng.below(3) > 0;
                self.due = self.pool.on_check(id, passed, self.now);
            }
            16 if self.rng.below(10) == 0 => self.reload(),
            17 => self.now = self.now.after(u64::from(self.rng.below(1000)) * MILLISECOND_NS),
            _ => self.now = self.now.after(u64::from(self.rng.below(20)) * MILLISECOND_NS),
        }
        // As a shell would: at the time that was returned, though maybe late.
        while let Some(due) = self.due.filter(|&due| due <= self.now) {
            self.due = self.pool.poll(self.now);
            assert!(self.due.is_none_or(|next| next > self.now), "due at {due:?}, and again at once");
        }
    }

    fn outcome(&mut self) -> Outcome {
        match self.rng.below(10) {
            0..3 => Outcome::Success,
            3 => Outcome::Cancelled,
            4 => Outcome::failed(FailureKind::Busy),
            5 => Outcome::failed(FailureKind::Connect),
            6 | 7 => Outcome::failed(FailureKind::Gateway),
            _ => Outcome::failed(FailureKind::Server),
        }
    }

    fn end(&mut self, any: usize, outcome: Outcome) {
        let (worker, ticket, _) = self.running.swap_remove(any);
        if self.balancers[worker].end(ticket, outcome, self.now) {
            self.due = self.pool.poll(self.now);
        }
    }

    fn reload(&mut self) {
        let any = self.rng.below(self.specs.len() as u32) as usize;
        match self.rng.below(5) {
            0 if self.specs.len() > 1 => drop(self.specs.remove(any)),
            1 => self.specs[any].drain = !self.specs[any].drain,
            2 => self.specs[any].weight = self.rng.below(3),
            3 => self.specs[any].priority = self.rng.below(2) as u8,
            _ => {
                let name = self.rng.below(12).to_string();
                if self.specs.iter().all(|s| s.id != EndpointId::of(&name)) {
                    self.specs.push(EndpointSpec::new(&name));
                }
            }
        }
        self.due = self.pool.update(&self.specs, self.now);
    }

    fn check(&mut self, seed: u64, step: u32) {
        let states: BTreeMap<EndpointId, State> = self.pool.states().collect();
        let out = |s: &State| matches!(s, State::Ejected(_) | State::Probation);
        let what = format!("seed {seed}, step {step}, at {:?}: {states:?}", self.now);
        let of = |tier: u8, is: &dyn Fn(&State) -> bool| {
            let wanted = self.specs.iter().filter(|s| s.weight > 0 && !s.drain && s.priority == tier);
            wanted.filter(|s| is(&states[&s.id])).count()
        };
        for tier in [0, 1] {
            let fit = of(1 - tier, &|state| matches!(state, State::Up | State::Ramping));
            let other_serves = fit > 0 && fit as f64 >= self.healthy_below * of(1 - tier, &|_| true) as f64;
            let (ejected, wanted) = (of(tier, &out), of(tier, &|_| true));
            let is_capped = ejected <= self.outlier.out_max(wanted);
            assert!(other_serves || is_capped, "{ejected} of {wanted} in tier {tier} are out; {what}");
            self.beyond_cap += u32::from(!is_capped);
        }
        // Each trial has at most one request in flight.
        let mut trials: Vec<_> = self.running.iter().filter_map(|r| r.2).collect();
        let all = trials.len();
        trials.sort_unstable();
        trials.dedup();
        assert_eq!(trials.len(), all, "two requests of one trial; {what}");
        let view = self.pool.view();
        for member in view.set.members() {
            let state = states[&member.id];
            let serves = matches!(state, State::Up | State::Ramping | State::Probation);
            assert!(serves || view.set.in_panic(), "{member:?} is in the set; {what}");
            if view.set.in_panic() {
                continue; // each gets its whole weight
            }
            let before = self.ramps.insert(member.id, member.ramp).unwrap_or(0);
            assert!(state != State::Ramping || member.ramp >= before, "fell from {before} to {member:?}; {what}");
        }
        let ramping = |id: &EndpointId| states.get(id) == Some(&State::Ramping);
        self.ramps.retain(|id, _| ramping(id));
    }
}

#[test]
fn no_history_breaks_a_promise() {
    let (mut ejections, mut trials, mut panics, mut beyond_cap) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut w = World::new(seed);
        for step in 0..1500 {
            w.step();
            w.check(seed, step);
            panics += u32::from(w.pool.view().set.in_panic());
        }
        beyond_cap += w.beyond_cap;
        let changes = w.pool.take_changes();
        ejections += changes.iter().filter(|c| matches!(c.to, State::Ejected(_))).count();
        trials += changes.iter().filter(|c| c.to == State::Probation).count();
        // Left alone, all that are out reach their trial: no endpoint is ejected forever.
        for _ in 0..100 {
            w.now = w.due.filter(|&due| due > w.now).unwrap_or(w.now.after(SECOND_NS));
            w.due = w.pool.poll(w.now);
        }
        let still = w.pool.states().find(|(_, s)| matches!(s, State::Ejected(_)));
        assert_eq!(still, None, "seed {seed}: ejected for ever, it is {:?} now", w.now);
        while !w.running.is_empty() {
            w.end(0, Outcome::Success);
        }
        assert_eq!(w.pool.view().counts.in_flight_total(), 0, "seed {seed}");
    }
    // The histories are only worth something if they reach every case.
    let reached = [ejections > 1000, trials > 1000, panics > 1000, beyond_cap > 1000];
    assert_eq!(
        reached, [true; 4],
        "{ejections} ejections, {trials} trials, {panics} panics, {beyond_cap} beyond the cap"
    );
}
