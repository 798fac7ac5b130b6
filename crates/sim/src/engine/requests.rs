//! Course of a request: from a client or server through a balancer to a server and back, with retries.

use super::calendar::Event;
use super::jobs::{Answer, CLIENT};
use super::server::NO_REQUEST;
use super::world::World;
use super::yardstick;
use crate::run::Failure;
use crate::scenario::{Balancing, Deployment, Load, Reference};
use evenkeel_balance::retry::{Decision, Failed};
use evenkeel_balance::rng::mix;
use evenkeel_balance::{Instant, Outcome, Request};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Waker of a request in the queue of a pool: notes the job for [`World::wake`].
struct Bell {
    woken: Arc<Mutex<Vec<u32>>>,
    job: u32,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.job);
    }
}

/// Number in `0..n`, uniform over seeds.
fn among(seed: u64, n: usize) -> usize {
    ((u128::from(mix(seed)) * n as u128) >> 64) as usize
}

impl World<'_> {
    /// Creates the next request of a client.
    pub fn arrive(&mut self) {
        if self.made >= self.scenario.requests {
            return;
        }
        if let Some(at) = self.arrivals.next() {
            self.calendar.at(at, Event::Arrive);
        }
        let seed = mix(self.requests_seed ^ self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let measured = self.made >= self.scenario.warm_up;
        self.made += 1;
        self.tally.began(self.now, measured);
        let job = self.jobs.add(CLIENT, 0, seed, self.now, measured);
        if let (Some(log), Load::Closed { .. }) = (&mut self.log, &self.scenario.load) {
            log.sends(seed, self.now);
        }
        self.call(job);
    }

    /// Hands a job to a balancer of its service.
    pub fn call(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (service, seed, parent) = (usize::from(job.service), job.seed, job.parent);
        let balancing = &self.scenario.services[service].balancing;
        let dispatchers = self.groups[service].dispatchers.len();
        let at = match balancing.deployment {
            Deployment::Central { .. } => among(seed ^ 1, dispatchers),
            Deployment::Sidecar | Deployment::Kernel if parent == CLIENT => dispatchers - 1,
            Deployment::Sidecar | Deployment::Kernel => self.jobs.get(parent).server as usize,
        };
        let dispatcher = self.groups[service].dispatchers[at];
        let job = self.jobs.get(index);
        job.dispatcher = dispatcher;
        job.worker = if balancing.workers == 1 { 0 } else { among(seed ^ 2, balancing.workers as usize) as u32 };
        match balancing.hop {
            Some(_) if self.scenario.link_ns > 0 => {
                self.calendar.send(self.now + self.scenario.link_ns, Event::AtBalancer(index));
            }
            _ => self.at_balancer(index),
        }
    }

    /// Handles the arrival of a request at its balancer.
    pub fn at_balancer(&mut self, index: u32) {
        let at = self.jobs.get(index).dispatcher;
        if let Some(log) = &mut self.log {
            log.arrived(index, self.jobs.get(index), self.now);
        }
        if let Some(budget) = &mut self.dispatchers[at as usize].budget {
            budget.earn(Instant(self.now));
        }
        self.balance(index);
    }

    /// Has the processors of a balancer work on an attempt, which it picks a server for afterwards.
    pub fn balance(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let hop = &self.scenario.services[usize::from(job.service)].balancing.hop;
        match (self.dispatchers[job.dispatcher as usize].processors, hop) {
            (Some(processors), Some(hop)) => {
                self.servers[processors as usize].add(index, hop.work_ns as f64, self.now);
                self.look_again(processors);
            }
            _ => self.pick(index),
        }
    }

    /// Picks a server for an attempt and sends the request there, or queues or fails it.
    pub fn pick(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let service = usize::from(job.service);
        if let Some(reference) = self.groups[service].reference {
            return self.pick_by_truth(index, service, reference);
        }
        let (at, worker, key, parent) = (job.dispatcher, job.worker, Some(job.seed), job.parent);
        let dispatcher = &mut self.dispatchers[at as usize];
        let balancer = &mut dispatcher.balancers[worker as usize];
        match balancer.start(&Request { key, tried: job.tried(), beyond: job.is_beyond() }, Instant(self.now)) {
            Ok(ticket) => {
                let (slot, drawn_from) = (ticket.slot(), balancer.drawn_from());
                job.ticket = Some(ticket);
                let server = self.groups[service].first + dispatcher.server_at[slot.index()];
                self.go(index, server);
                if let Some(log) = self.log.as_mut().filter(|_| drawn_from > 0) {
                    log.drawn(index, drawn_from);
                }
                let probes = self.send_probes(at, worker, service);
                self.work_of_balancer(parent, service, probes);
            }
            Err(why) if why.may_wait() && self.scenario.services[service].balancing.queue.0 > 0 => self.wait(index),
            Err(_) => self.ended(index, Answer::Bad(Failure::NoPick)),
        }
    }

    /// Charges the work of a balancer beside its caller for an attempt, and for the probes that followed it, to the
    /// caller's server.
    fn work_of_balancer(&mut self, parent: u32, service: usize, probes: u32) {
        let Balancing { deployment, information, .. } = &self.scenario.services[service].balancing;
        let work_ns = information.balancer_work_ns + information.balancer_probe_work_ns * u64::from(probes);
        if work_ns == 0 || parent == CLIENT || matches!(deployment, Deployment::Central { .. }) {
            return;
        }
        let caller = self.jobs.get(parent).server;
        if !self.servers[caller as usize].is_unlimited() {
            self.servers[caller as usize].add(NO_REQUEST, work_ns as f64, self.now);
            self.look_again(caller);
        }
    }

    fn pick_by_truth(&mut self, index: u32, service: usize, reference: Reference) {
        let spec = &self.scenario.services[service];
        let group = &mut self.groups[service];
        self.open.clear();
        let is_open = |s: &crate::scenario::Server| s.joins_ns <= self.now && self.now < s.leaves_ns;
        self.open.extend((0..group.count).filter(|&i| is_open(&spec.servers[i as usize])));
        if reference == Reference::CentralQueue {
            let servers = &self.servers[group.first as usize..];
            let assigned = &group.assigned;
            self.open.retain(|&i| servers[i as usize].has_idle_core(assigned[i as usize]));
            if self.open.is_empty() {
                return group.central.push_back(index);
            }
        }
        let board = spec.balancing.information.board_ns > 0;
        let loads = if board { &group.board } else { &group.assigned };
        let chosen = yardstick::choose(reference, &mut self.open, |i| loads[i as usize], &mut group.rng);
        match chosen {
            Some(i) => {
                group.assigned[i as usize] += 1;
                let server = group.first + i;
                self.go(index, server);
            }
            None => self.ended(index, Answer::Bad(Failure::NoPick)),
        }
    }

    /// Sends an attempt to its server.
    fn go(&mut self, index: u32, server: u32) {
        let job = self.jobs.get(index);
        job.server = server;
        let (service, attempt) = (usize::from(job.service), job.attempt);
        let group = &mut self.groups[service];
        group.requests += 1;
        group.recorder.request((server - group.first) as usize);
        if let Some(log) = &mut self.log {
            log.picked(index, server - group.first, self.now);
        }
        let timeout_ns = self.scenario.services[service].balancing.timeout_ns;
        if timeout_ns != u64::MAX {
            self.calendar.at(self.now + timeout_ns, Event::TimedOut(index, attempt));
        }
        if self.scenario.link_ns == 0 {
            self.at_server(index);
        } else {
            self.calendar.send(self.now + self.scenario.link_ns, Event::AtServer(index));
        }
    }

    /// Handles the arrival of an answer at its caller.
    pub fn answered(&mut self, index: u32) {
        let job = self.jobs.get(index);
        if job.orphan {
            return self.jobs.free(index);
        }
        let answer = job.answer;
        self.end_try(index, answer);
    }

    /// Handles the timeout of an attempt: the request continues as a new job, and the old job remains as an orphan
    /// until its server is done with it.
    pub fn timed_out(&mut self, index: u32, attempt: u16) {
        let job = self.jobs.get(index);
        if job.attempt != attempt || job.orphan || job.ticket.is_none() {
            return;
        }
        let (parent, service, seed, began, measured) = (job.parent, job.service, job.seed, job.began, job.measured);
        let (dispatcher, worker, server) = (job.dispatcher, job.worker, job.server);
        let (ticket, mut rest) = (job.ticket.take(), job.rest.take());
        rest.iter_mut().for_each(|rest| rest.report = None); // a report after a timeout is too late
        job.orphan = true;
        let other = self.jobs.add(parent, service, seed, began, measured);
        let job = self.jobs.get(other);
        (job.dispatcher, job.worker, job.server) = (dispatcher, worker, server);
        (job.ticket, job.rest) = (ticket, rest);
        if let Some(log) = &mut self.log {
            log.moved(index, other);
        }
        self.end_try(other, Answer::Bad(Failure::TimedOut));
    }

    /// Ends an attempt: reports the outcome to the balancer, and schedules a retry or ends the request.
    fn end_try(&mut self, index: u32, answer: Answer) {
        let now = Instant(self.now);
        if let Some(log) = &mut self.log {
            log.try_ended(index, answer, self.now);
        }
        let job = self.jobs.get(index);
        let (service, at, report) = (usize::from(job.service), job.dispatcher as usize, job.take_report());
        let failure = answer.as_failure();
        let Some(ticket) = job.ticket.take() else {
            let group = &mut self.groups[service];
            group.assigned[(job.server - group.first) as usize] -= 1;
            return self.ended(index, answer);
        };
        let slot = ticket.slot();
        let outcome = failure.map_or(Outcome::Success, |(kind, _)| Outcome::failed(kind));
        let dispatcher = &mut self.dispatchers[at];
        let balancer = &mut dispatcher.balancers[job.worker as usize];
        if balancer.end(ticket, outcome, now) {
            self.poll(at as u32);
        }
        if let Some(report) = report {
            let dispatcher = &mut self.dispatchers[at];
            // Rejected reports are dropped, as in production.
            let _ = dispatcher.balancers[self.jobs.get(index).worker as usize].report(slot, &report, now);
        }
        self.wake();
        let job = self.jobs.get(index);
        let dispatcher = &mut self.dispatchers[at];
        let settings = self.scenario.services[service].balancing.retry.as_ref();
        if let (Some((_, failure)), Some(settings), Some(budget)) = (failure, settings, &mut dispatcher.budget) {
            let worker = job.worker as usize;
            let rest = job.rest();
            rest.tried.push(slot);
            let beyond = dispatcher.balancers[worker].has_beyond(&rest.tried, now);
            let failed = Failed { failure, idempotent: true, replayable: true, left_ns: None, beyond };
            if let Decision::Again { after_ns, leaves, .. } =
                rest.retry.decide(settings, &failed, budget, &mut dispatcher.rng, now)
            {
                rest.beyond = leaves;
                job.attempt = job.attempt.wrapping_add(1);
                (job.step, job.answer) = (0, Answer::Well);
                self.groups[service].retries += 1;
                return self.calendar.at(self.now + after_ns, Event::Again(index));
            }
        }
        self.ended(index, answer);
    }

    /// Ends a request at its balancer, successful or not: sends the answer to the caller.
    fn ended(&mut self, index: u32, answer: Answer) {
        if let Some(log) = &mut self.log {
            log.ended(index, answer, self.now);
        }
        let job = self.jobs.get(index);
        job.answer = answer;
        let hop = &self.scenario.services[usize::from(job.service)].balancing.hop;
        if hop.is_some() && self.scenario.link_ns > 0 {
            return self.calendar.send(self.now + self.scenario.link_ns, Event::Returned(index));
        }
        self.returned(index);
    }

    /// Ends a request at its caller: records it for a client, or continues the job that called.
    pub fn returned(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (parent, began, measured, answer, seed) = (job.parent, job.began, job.measured, job.answer, job.seed);
        self.jobs.free(index);
        if parent == CLIENT {
            let failure = if let Answer::Bad(failure) = answer { Some(failure) } else { None };
            self.tally.ended(began, self.now, measured, failure);
            if let Some(at) = self.arrivals.after_answer(self.now) {
                self.calendar.at(at, Event::Arrive);
                if let Some(log) = &mut self.log {
                    log.thinks(seed, at);
                }
            }
            return;
        }
        if let Answer::Bad(_) = answer {
            self.jobs.get(parent).answer = answer;
        }
        self.next_step(parent);
    }

    /// Puts a request into the queue of its pool; fails it if that is full.
    fn wait(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (at, attempt, service) = (job.dispatcher as usize, job.attempt, usize::from(job.service));
        let waker = Waker::from(Arc::new(Bell { woken: self.woken.clone(), job: index }));
        match self.dispatchers[at].pool.queue().enter(waker) {
            Ok(waiting) => {
                self.waits.insert(index, waiting);
                let timeout_ns = self.scenario.services[service].balancing.queue.1;
                self.calendar.at(self.now.saturating_add(timeout_ns), Event::WaitedLong(index, attempt));
                self.try_waited(index);
                self.wake();
            }
            Err(_) => self.ended(index, Answer::Bad(Failure::NoPick)),
        }
    }

    fn try_waited(&mut self, index: u32) {
        let Some(mut waiting) = self.waits.remove(&index) else { return };
        let job = self.jobs.get(index);
        let (at, worker, service, parent) = (job.dispatcher, job.worker, usize::from(job.service), job.parent);
        let dispatcher = &mut self.dispatchers[at as usize];
        let request = Request { key: Some(job.seed), tried: job.tried(), beyond: job.is_beyond() };
        match dispatcher.balancers[worker as usize].start_waited(&request, &mut waiting, Instant(self.now)) {
            Ok(ticket) => {
                let server = self.groups[service].first + dispatcher.server_at[ticket.slot().index()];
                job.ticket = Some(ticket);
                job.attempt = job.attempt.wrapping_add(1);
                self.go(index, server);
                let probes = self.send_probes(at, worker, service);
                self.work_of_balancer(parent, service, probes);
            }
            Err(_) => {
                self.waits.insert(index, waiting);
            }
        }
    }

    /// Lets woken requests try to start.
    pub fn wake(&mut self) {
        while !self.waits.is_empty() {
            let Some(index) = self.woken.lock().unwrap_or_else(PoisonError::into_inner).pop() else { return };
            self.try_waited(index);
        }
    }

    /// Fails a request that has waited too long in the queue.
    pub fn waited_long(&mut self, index: u32, attempt: u16) {
        if self.jobs.get(index).attempt == attempt && self.waits.remove(&index).is_some() {
            self.ended(index, Answer::Bad(Failure::NoPick));
            self.wake();
        }
    }

    /// Starts requests from the central queue while there are idle cores.
    pub fn serve_central(&mut self, service: usize) {
        while self.groups[service].reference == Some(Reference::CentralQueue) {
            let Some(index) = self.groups[service].central.pop_front() else { return };
            let before = self.groups[service].central.len();
            self.pick_by_truth(index, service, Reference::CentralQueue);
            if self.groups[service].central.len() > before {
                // No core is idle: back to the head of the queue.
                self.groups[service].central.rotate_right(1);
                return;
            }
        }
    }
}
