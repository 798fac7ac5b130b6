//! Events other than requests: capacity changes, servers joining and leaving, health checks, boards and samples.

use super::calendar::Event;
use super::world::World;
use crate::scenario::{Capacity, Mode};
use crate::work::exponential;
use evenkeel_balance::{EndpointId, Instant};

/// Process number that stands for the warm-up of a server; others index its `capacity`.
const WARM_UP: u16 = u16::MAX;

/// Steps in which the speed rises during warm-up.
const WARM_UP_STEPS: u64 = 50;

impl World<'_> {
    pub fn begin_upkeep(&mut self) {
        let scenario = self.scenario;
        let all = scenario.services.iter().flat_map(|s| &s.servers);
        for (at, server) in all.enumerate() {
            for (process, capacity) in server.capacity.iter().enumerate() {
                self.begin_capacity(at, process, capacity);
            }
            if server.cold.is_some() {
                self.calendar.at(server.joins_ns, Event::Capacity(at as u32, WARM_UP));
            }
        }
        for (index, service) in scenario.services.iter().enumerate() {
            if service.balancing.information.board_ns > 0 {
                self.calendar.at(0, Event::Board(index as u16));
            }
        }
        for at in 0..self.dispatchers.len() as u32 {
            let (dispatcher, service) = (
                &self.dispatchers[at as usize],
                &scenario.services[usize::from(self.dispatchers[at as usize].service)],
            );
            let changes = service.servers.iter().flat_map(|s| [s.joins_ns, s.leaves_ns]);
            for change in changes.filter(|&change| change > 0 && change != u64::MAX) {
                self.calendar.at(change + dispatcher.lag_ns, Event::Members(at));
            }
            if service.balancing.check_every_ns > 0 {
                // A random first time, so that balancers do not check in step.
                let first = self.dispatchers[at as usize].rng.below_u64(service.balancing.check_every_ns);
                self.calendar.at(first, Event::Check(at));
            }
            self.poll(at);
        }
        self.calendar.at(self.sample_ns, Event::Sample);
    }

    fn begin_capacity(&mut self, at: usize, process: usize, capacity: &Capacity) {
        let rng = &mut self.capacity[at];
        let first = match capacity {
            Capacity::Antagonist { .. } => 0,
            // It works already for its share of the time.
            Capacity::Neighbour { busy_ns, idle_ns, .. } => {
                let waits = rng.unit() * (busy_ns + idle_ns) as f64 >= *busy_ns as f64;
                if waits { exponential(*idle_ns as f64, rng) as u64 } else { 0 }
            }
            // A random time within the first interval, or all servers would stall together.
            Capacity::Stalls { every, .. } => {
                let length = every.draw(rng);
                rng.below_u64(length)
            }
        };
        self.calendar.at(first, Event::Capacity(at as u32, process as u16));
    }

    pub fn change_capacity(&mut self, at: u32, process: u16) {
        let (server, rng, now) = (&mut self.servers[at as usize], &mut self.capacity[at as usize], self.now);
        let (spec, service) = (server.spec, server.service);
        let next = if let (WARM_UP, Some(cold)) = (process, spec.cold) {
            let since = now.saturating_sub(spec.joins_ns);
            let warmth = cold.speed + (1.0 - cold.speed) * since as f64 / cold.window_ns.max(1) as f64;
            server.on_capacity(now, |s| s.warmth = warmth.min(1.0));
            (since < cold.window_ns).then(|| now + (cold.window_ns / WARM_UP_STEPS).max(1))
        } else {
            let process = usize::from(process);
            match &spec.capacity[process] {
                Capacity::Antagonist { states, mean_ns } => {
                    let mut u = rng.unit();
                    let state = states.iter().find(|(_, p)| {
                        u -= p;
                        u < 0.0
                    });
                    let factor = state.or(states.last()).map_or(1.0, |s| s.0);
                    server.on_capacity(now, |s| s.factors[process].0 = factor);
                    Some(now + exponential(*mean_ns as f64, rng) as u64 + 1)
                }
                Capacity::Neighbour { threads, busy_ns, idle_ns } => {
                    let (running, lasts) = match server.neighbours[process] {
                        0 => (*threads, *busy_ns),
                        _ => (0, *idle_ns),
                    };
                    server.on_capacity(now, |s| s.neighbours[process] = running);
                    Some(now + exponential(lasts as f64, rng) as u64 + 1)
                }
                Capacity::Stalls { every, length, speed } => {
                    let stalls = server.factors[process].1 == 1.0;
                    let (factor, lasts) = if stalls { (*speed, length) } else { (1.0, every) };
                    server.on_capacity(now, |s| s.factors[process].1 = factor);
                    Some(now + lasts.draw(rng) + 1)
                }
            }
        };
        if let Some(next) = next {
            self.calendar.at(
                next,
                Event::Capacity(at, if spec.cold.is_some() && process == WARM_UP { WARM_UP } else { process }),
            );
        }
        self.look_again(at);
        self.serve_central(usize::from(service));
    }

    /// Gives every balancer of a service load reports of all its servers.
    pub fn post_board(&mut self, index: u16) {
        let service = usize::from(index);
        let group = &mut self.groups[service];
        group.board.copy_from_slice(&group.assigned);
        let (first, dispatchers) = (group.first, self.groups[service].dispatchers.clone());
        let servers = &self.scenario.services[service].servers;
        for (i, server) in servers.iter().enumerate() {
            let report = self.load_of(first + i as u32);
            for &at in dispatchers.iter().filter(|&&at| at != super::world::NOWHERE) {
                let dispatcher = &mut self.dispatchers[at as usize];
                let Some(slot) = dispatcher.pool.slot_of(EndpointId::of(&server.name)) else { continue };
                for balancer in &mut dispatcher.balancers {
                    // Rejected reports are dropped, as in production.
                    let _ = balancer.report(slot, &report, Instant(self.now));
                }
            }
        }
        let board_ns = self.scenario.services[service].balancing.information.board_ns;
        self.calendar.at(self.now + board_ns, Event::Board(index));
    }

    /// Polls a pool, and schedules its next poll.
    pub fn poll(&mut self, at: u32) {
        let next = self.dispatchers[at as usize].pool.poll(Instant(self.now));
        self.poll_later(at, next.map(|at| at.0));
        self.wake();
    }

    fn poll_later(&mut self, at: u32, next: Option<u64>) {
        let dispatcher = &mut self.dispatchers[at as usize];
        let Some(next) = next.map(|next| next.max(self.now + 1)) else { return };
        if next < dispatcher.poll_at || dispatcher.poll_at <= self.now {
            dispatcher.poll_at = next;
            self.calendar.at(next, Event::Poll(at));
        }
    }

    /// Updates a pool to the servers present before its lag.
    pub fn learn_members(&mut self, at: u32) {
        let (now, scenario) = (self.now, self.scenario);
        let dispatcher = &mut self.dispatchers[at as usize];
        let next = dispatcher.learn(&scenario.services[usize::from(dispatcher.service)], now - dispatcher.lag_ns);
        self.poll_later(at, next);
        self.wake();
    }

    /// Schedules the results of a health check of each server, and the next round.
    pub fn check(&mut self, at: u32) {
        let service = usize::from(self.dispatchers[at as usize].service);
        let (way, balancing) = (2 * self.scenario.link_ns, &self.scenario.services[service].balancing);
        for i in 0..self.groups[service].count {
            self.calendar.at(self.now + way, Event::Checked(at, i as u16));
        }
        self.calendar.at(self.now + balancing.check_every_ns, Event::Check(at));
    }

    /// Handles the result of a health check; only a black hole fails it.
    pub fn checked(&mut self, at: u32, i: u16) {
        let service = usize::from(self.dispatchers[at as usize].service);
        let server = self.groups[service].first + u32::from(i);
        let passed = !matches!(self.fault(server), Some(Mode::BlackHole));
        let id = EndpointId::of(&self.scenario.services[service].servers[usize::from(i)].name);
        let next = self.dispatchers[at as usize].pool.on_check(id, passed, Instant(self.now));
        self.poll_later(at, next.map(|at| at.0));
        self.wake();
    }

    /// Records a sample of the time series.
    pub fn sample(&mut self) {
        self.tally.samples.push(self.tally.in_system);
        let mut coarser = false;
        for group in &mut self.groups {
            let servers = &self.servers[group.first as usize..(group.first + group.count) as usize];
            group.recorder.sample(servers.iter().map(|s| s.in_flight));
            coarser |= group.recorder.coarsen();
        }
        if coarser {
            self.sample_ns *= 2;
            self.tally.samples = self.tally.samples.chunks(2).map(|pair| pair.iter().sum::<u64>() / 2).collect();
        }
        self.calendar.at(self.now + self.sample_ns, Event::Sample);
    }
}
