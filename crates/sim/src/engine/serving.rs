//! Work of servers: accepting requests, working, calling other services, answering, reporting load.

use super::calendar::Event;
use super::jobs::Answer;
use super::server::NO_REQUEST;
use super::world::{Probe, World};
use crate::run::Failure;
use crate::scenario::{Mode, Step};
use evenkeel_balance::rng::mix;
use evenkeel_balance::{Instant, LoadReport, Rng};

impl World<'_> {
    /// Returns the fault of a server that is active now.
    pub fn fault(&self, server: u32) -> Option<Mode> {
        let now = self.now;
        self.servers[server as usize].spec.faults.iter().find(|f| f.from_ns <= now && now < f.until_ns).map(|f| f.mode)
    }

    /// Handles the arrival of a request at its server.
    pub fn at_server(&mut self, index: u32) {
        let (now, at) = (self.now, self.jobs.get(index).server);
        let fault = self.fault(at);
        let server = &mut self.servers[at as usize];
        let (threads, backlog) = (server.spec.threads, server.spec.backlog);
        let job = self.jobs.get(index);
        (job.arrived, job.found) = (now, server.in_flight);
        server.requests += 1;
        match fault {
            Some(Mode::FailFast { after_ns }) => {
                job.answer = Answer::Bad(Failure::Failed);
                return self.answer_at(index, now + after_ns);
            }
            Some(Mode::BlackHole) => return,
            None => {}
        }
        if threads > 0 && server.threads_used >= threads {
            if server.backlog.len() >= backlog as usize {
                job.answer = Answer::Bad(Failure::Refused);
                return self.answer_at(index, now);
            }
            server.backlog.push_back(index);
            server.in_flight += 1;
            server.in_flight_max = server.in_flight_max.max(server.in_flight);
            return;
        }
        server.threads_used += 1;
        server.in_flight += 1;
        server.in_flight_max = server.in_flight_max.max(server.in_flight);
        self.take_step(index);
    }

    /// Advances a job to its next step.
    pub fn next_step(&mut self, index: u32) {
        self.jobs.get(index).step += 1;
        self.take_step(index);
    }

    /// Starts the current step, or answers after the last step or a failure.
    fn take_step(&mut self, index: u32) {
        let job = self.jobs.get(index);
        let (service, seed, began, measured) =
            (&self.scenario.services[usize::from(job.service)], job.seed, self.now, job.measured);
        let step = service.steps.get(usize::from(job.step)).filter(|_| job.answer == Answer::Well);
        let (at, own) = (job.server, mix(seed ^ mix(u64::from(job.step) + 8)));
        match step {
            Some(Step::Work) => {
                let server = &mut self.servers[at as usize];
                let work_ns = server.work.draw(&mut Rng::new(own));
                if let Some(log) = &mut self.log {
                    log.worked(index, work_ns);
                }
                if server.is_unlimited() {
                    self.calendar.at(self.now + work_ns, Event::Done(index));
                } else {
                    server.add(index, work_ns as f64, self.now);
                    self.look_again(at);
                }
            }
            Some(&Step::Call(other)) => {
                let call = self.jobs.add(index, other as u16, own, began, measured);
                self.call(call);
            }
            None => self.finish(index),
        }
    }

    /// Reschedules a server, and those that share its machine, after its requests or capacity changed.
    pub fn look_again(&mut self, at: u32) {
        if let Some(machine) = self.machine_of[at as usize] {
            return self.share_machine(machine);
        }
        self.look_at(at);
    }

    fn look_at(&mut self, at: u32) {
        let server = &mut self.servers[at as usize];
        // An entry that turns out too early stays and causes another look: cheaper than removing it.
        if let Some(done_at) = server.done_at().filter(|&done_at| done_at < server.next_at) {
            server.next_at = done_at;
            self.calendar.at(done_at, Event::Depart(at));
        }
    }

    /// Distributes the cores of a machine anew among its servers.
    fn share_machine(&mut self, machine: usize) {
        let cores = self.scenario.machines[machine];
        let wanted: f64 = self.machines[machine].iter().map(|&at| self.servers[at as usize].wants()).sum();
        let given = if wanted > cores { cores / wanted } else { 1.0 };
        for i in 0..self.machines[machine].len() {
            let at = self.machines[machine][i];
            let server = &mut self.servers[at as usize];
            if server.given != given {
                server.on_capacity(self.now, |s| s.given = given);
            }
            self.look_at(at);
        }
    }

    /// Completes the work that is done at a server or a balancer by now.
    pub fn depart(&mut self, at: u32) {
        if self.servers[at as usize].next_at != self.now {
            return; // superseded by an earlier entry
        }
        self.servers[at as usize].next_at = u64::MAX;
        let is_balancer = at >= self.first_balancer;
        while let Some(index) = self.servers[at as usize].take_done(self.now) {
            match index {
                NO_REQUEST => {}
                _ if is_balancer => self.pick(index),
                _ => self.next_step(index),
            }
        }
        self.look_again(at);
    }

    /// Ends an execution after its last step or a failure: sends the answer, and gives its thread to the next in the
    /// backlog.
    fn finish(&mut self, index: u32) {
        let now = self.now;
        let job = self.jobs.get(index);
        let (at, found, arrived, well) = (job.server, job.found, job.arrived, job.answer == Answer::Well);
        let server = &mut self.servers[at as usize];
        let (service, bandwidth) = (usize::from(server.service), server.spec.bandwidth);
        let mut leaves_at = now;
        if bandwidth > 0.0 {
            let bytes = self.scenario.services[service].response_bytes;
            leaves_at = server.link_free_at.max(now) + (bytes as f64 / bandwidth * 1e9) as u64;
            server.link_free_at = leaves_at;
        }
        server.in_flight -= 1;
        server.threads_used -= 1;
        if well && self.groups[service].heard {
            server.estimate.ended(found, leaves_at - arrived, Instant(now));
        }
        let next = server.backlog.pop_front();
        if self.scenario.services[service].balancing.information.with_answers {
            let report = self.load_of(at);
            self.jobs.get(index).rest().report = Some(report);
        }
        self.answer_at(index, leaves_at);
        if let Some(next) = next {
            self.servers[at as usize].threads_used += 1;
            self.take_step(next);
        }
        self.serve_central(service);
    }

    /// Sends an answer that leaves the server at `at`.
    fn answer_at(&mut self, index: u32, at: u64) {
        let link_ns = self.scenario.link_ns;
        if at > self.now {
            self.calendar.at(at + link_ns, Event::Answered(index));
        } else if link_ns > 0 {
            self.calendar.send(at + link_ns, Event::Answered(index));
        } else {
            self.answered(index);
        }
    }

    /// Returns the load report of a server.
    pub fn load_of(&mut self, at: u32) -> LoadReport {
        let (now, server) = (Instant(self.now), &mut self.servers[at as usize]);
        let latency_ns = server.estimate.latency_ns(server.in_flight, now);
        // No stamp: each report is sent once, so none is taken for a repetition.
        LoadReport { in_flight: server.in_flight, latency_ns, stamp: 0 }
    }

    /// Sends the probes that the algorithm wants. Returns their number.
    pub fn send_probes(&mut self, at: u32, worker: u32, service: usize) -> u32 {
        let mut sent = 0;
        if !self.groups[service].probed {
            return sent;
        }
        let information = &self.scenario.services[service].balancing.information;
        let dispatcher = &mut self.dispatchers[at as usize];
        while let Some(slot) = dispatcher.balancers[worker as usize].poll_probe(Instant(self.now)) {
            self.groups[service].probes += 1;
            sent += 1;
            if information.probe_loss > 0.0 && dispatcher.losses.unit() < information.probe_loss {
                continue;
            }
            let server = self.groups[service].first + dispatcher.server_at[slot.index()];
            let probe = Probe { dispatcher: at, worker, server, slot, said: None };
            let number = self.probes.insert(probe);
            self.calendar.send(self.now + self.scenario.link_ns, Event::Probe(number));
        }
        sent
    }

    /// Handles a probe that reached its server, or whose answer reached the balancer.
    pub fn on_probe(&mut self, number: u32) {
        let Some(&Probe { dispatcher, worker, server, slot, said }) = self.probes.get(number) else { return };
        let at = &self.servers[server as usize];
        let service = usize::from(at.service);
        if let Some(report) = said {
            self.probes.remove(number);
            let dispatcher = &mut self.dispatchers[dispatcher as usize];
            // The slot may belong to another server by now.
            if dispatcher.server_at[slot.index()] == u32::from(at.number) {
                // Rejected reports are dropped, as in production.
                let _ = dispatcher.balancers[worker as usize].report(slot, &report, Instant(self.now));
            }
            return;
        }
        if self.fault(server) == Some(Mode::BlackHole) {
            self.probes.remove(number);
            return;
        }
        let work_ns = self.scenario.services[service].balancing.information.probe_work_ns;
        if work_ns > 0 && !self.servers[server as usize].is_unlimited() {
            self.servers[server as usize].add(NO_REQUEST, work_ns as f64, self.now);
            self.look_again(server);
        }
        let said = self.load_of(server);
        if let Some(probe) = self.probes.get_mut(number) {
            probe.said = Some(said);
        }
        self.calendar.send(self.now + self.scenario.link_ns, Event::Probe(number));
    }
}
