//! All state of a run, and its main loop.

use super::arrivals::{self, Arrivals};
use super::calendar::{Calendar, Event};
use super::dispatcher::Dispatcher;
use super::jobs::Jobs;
use super::log::Log;
use super::server::Server;
use super::tally::{Recorder, Tally};
use crate::run::Run;
use crate::scenario::{Chooser, Deployment, Policy, Reference, Scenario, Step};
use crate::work::Work;
use evenkeel_balance::queue::Waiting;
use evenkeel_balance::rng::mix;
use evenkeel_balance::slab::Slab;
use evenkeel_balance::{LoadReport, Rng, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Time after which a run stops waiting for requests that no server will answer, in nanoseconds of virtual time.
const PATIENCE_NS: u64 = 3_600_000_000_000;

/// Stands for no dispatcher: the server does not call this service.
pub(super) const NOWHERE: u32 = u32::MAX;

pub(super) struct Group {
    /// Index of its first server among all, and their number.
    pub first: u32,
    pub count: u32,
    /// Dispatchers: any of them for every caller (central), or a dispatcher by index of the calling server, and the
    /// last for clients (sidecars, kernels).
    pub dispatchers: Vec<u32>,
    /// Yardstick that picks instead of an algorithm.
    pub reference: Option<Reference>,
    /// True if balancers send probes; true if they get load reports of any kind.
    pub probed: bool,
    pub heard: bool,
    /// By server, requests on their way or in flight, counted under yardsticks only; and a copy as of the latest board.
    pub assigned: Vec<u32>,
    pub board: Vec<u32>,
    /// Jobs in the central queue.
    pub central: VecDeque<u32>,
    pub rng: Rng,
    pub recorder: Recorder,
    pub requests: u64,
    pub probes: u64,
    pub retries: u64,
}

/// Probe on its way: to the server, or back with its load report.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    pub dispatcher: u32,
    pub worker: u32,
    pub server: u32,
    pub slot: Slot,
    pub said: Option<LoadReport>,
}

pub(super) struct World<'s> {
    pub scenario: &'s Scenario,
    pub now: u64,
    pub calendar: Calendar,
    pub jobs: Jobs,
    /// Servers of all services, then the processors of balancers on separate machines.
    pub servers: Vec<Server<'s>>,
    /// Number of servers of services.
    pub first_balancer: u32,
    /// Machine of each server, and the servers of each machine.
    pub machine_of: Vec<Option<usize>>,
    pub machines: Vec<Vec<u32>>,
    /// Generators for the capacity changes of each server.
    pub capacity: Vec<Rng>,
    pub groups: Vec<Group>,
    pub dispatchers: Vec<Dispatcher>,
    pub arrivals: Arrivals,
    /// Number of client requests so far.
    pub made: u64,
    pub requests_seed: u64,
    pub probes: Slab<Probe>,
    /// Jobs in the queues of pools, and those that were woken.
    pub waits: BTreeMap<u32, Waiting>,
    pub woken: Arc<Mutex<Vec<u32>>>,
    /// Scratch space for a yardstick's pick: the servers that are present.
    pub open: Vec<u32>,
    pub tally: Tally,
    /// Log of requests, if one is kept.
    pub log: Option<Box<Log>>,
    pub sample_ns: u64,
    pub events: u64,
}

impl<'s> World<'s> {
    pub fn new(scenario: &'s Scenario, policy: &'s Policy, seed: u64) -> World<'s> {
        let stream = |kind: u64| mix(mix(seed) ^ mix(kind));
        let mut world = World {
            scenario,
            now: 0,
            calendar: Calendar::default(),
            jobs: Jobs::default(),
            servers: Vec::new(),
            first_balancer: 0,
            machine_of: Vec::new(),
            machines: vec![Vec::new(); scenario.machines.len()],
            capacity: Vec::new(),
            groups: Vec::new(),
            dispatchers: Vec::new(),
            arrivals: Arrivals::new(&scenario.load, stream(1)),
            made: 0,
            requests_seed: stream(2),
            probes: Slab::new(),
            waits: BTreeMap::new(),
            woken: Arc::default(),
            open: Vec::new(),
            tally: Tally::new(),
            log: None,
            sample_ns: 1_000_000,
            events: 0,
        };
        for (index, service) in scenario.services.iter().enumerate() {
            let first = world.servers.len() as u32;
            for (i, server) in service.servers.iter().enumerate() {
                world.capacity.push(Rng::new(stream(3) ^ mix(world.servers.len() as u64)));
                if let Some(machine) = server.machine {
                    world.machines[machine].push(world.servers.len() as u32);
                }
                world.machine_of.push(server.machine);
                world.servers.push(Server::new(server, index as u16, i as u16, service.work));
            }
            let policy = service.balancing.policy.as_ref().unwrap_or(policy);
            let (reference, asks) = match policy.chooser {
                Chooser::Reference(reference) => (Some(reference), false),
                Chooser::Algorithm(algorithm, _) => (None, algorithm.asks),
            };
            let information = &service.balancing.information;
            let probed = information.probes && asks;
            let count = service.servers.len();
            world.groups.push(Group {
                first,
                count: count as u32,
                dispatchers: Vec::new(),
                reference,
                probed,
                heard: probed || information.with_answers || information.board_ns > 0,
                assigned: vec![0; count],
                board: vec![0; count],
                central: VecDeque::new(),
                rng: Rng::new(stream(5) ^ mix(index as u64)),
                recorder: Recorder::new(count, world.sample_ns),
                requests: 0,
                probes: 0,
                retries: 0,
            });
        }
        world.first_balancer = world.servers.len() as u32;
        for index in 0..scenario.services.len() {
            world.groups[index].dispatchers = world.dispatchers_of(index, policy, stream(4));
        }
        world.begin_upkeep();
        let mut first = Vec::new();
        world.arrivals.first(&mut first);
        first.into_iter().for_each(|at| world.calendar.at(at, Event::Arrive));
        world
    }

    /// Creates the balancers of a service. Returns them as [`Group::dispatchers`] has them.
    fn dispatchers_of(&mut self, index: usize, policy: &Policy, seed: u64) -> Vec<u32> {
        let service = &self.scenario.services[index];
        let policy = service.balancing.policy.as_ref().unwrap_or(policy);
        let add = |world: &mut World<'s>| {
            let number = world.dispatchers.len() as u32;
            let mut dispatcher = Dispatcher::new(number, index as u16, service, policy, seed);
            if let Some(hop) = &service.balancing.hop {
                dispatcher.processors = Some(world.servers.len() as u32);
                world.machine_of.push(None);
                world.servers.push(Server::new(&hop.processors, index as u16, 0, Work::Constant(0)));
            }
            world.dispatchers.push(dispatcher);
            number
        };
        if let Deployment::Central { balancers } = service.balancing.deployment {
            return (0..balancers).map(|_| add(self)).collect();
        }
        let in_kernel = service.balancing.deployment == Deployment::Kernel;
        let mut of_machine: Vec<Option<u32>> = vec![None; self.machines.len()];
        let callers = self.first_balancer as usize;
        let mut dispatchers = vec![NOWHERE; callers + 1];
        for (caller, dispatcher) in dispatchers.iter_mut().enumerate() {
            let calls = if caller < callers {
                let caller = usize::from(self.servers[caller].service);
                self.scenario.services[caller].steps.contains(&Step::Call(index))
            } else {
                index == 0
            };
            let machine = self.machine_of[..callers].get(caller).copied().flatten().filter(|_| in_kernel);
            *dispatcher = match machine {
                _ if !calls => NOWHERE,
                Some(machine) => *of_machine[machine].get_or_insert_with(|| add(self)),
                None => add(self),
            };
        }
        dispatchers
    }

    pub fn run(self) -> Run {
        self.run_telling(|_| ()).0
    }

    /// Runs to the end; also returns the value of `tell` on the final world.
    pub fn run_telling<T>(mut self, tell: impl FnOnce(&mut World<'_>) -> T) -> (Run, T) {
        let mut patience = u64::MAX;
        let requests = arrivals::requests(self.scenario);
        while let Some((at, event)) = self.calendar.next() {
            let all_made = self.made >= requests;
            if all_made && patience == u64::MAX {
                patience = self.now.saturating_add(PATIENCE_NS);
            }
            if at > self.scenario.until_ns || (all_made && (self.tally.in_system == 0 || at > patience)) {
                break;
            }
            self.now = at;
            self.events += 1;
            self.handle(event);
        }
        let told = tell(&mut self);
        (self.outcome(), told)
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::AtBalancer(job) => self.at_balancer(job),
            Event::AtServer(job) => self.at_server(job),
            Event::Done(job) => self.next_step(job),
            Event::Depart(server) => self.depart(server),
            Event::Answered(job) => self.answered(job),
            Event::TimedOut(job, attempt) => self.timed_out(job, attempt),
            Event::Returned(job) => self.returned(job),
            Event::Again(job) => self.balance(job),
            Event::WaitedLong(job, attempt) => self.waited_long(job, attempt),
            Event::Probe(probe) => self.on_probe(probe),
            Event::Capacity(server, process) => self.change_capacity(server, process),
            Event::Board(service) => self.post_board(service),
            Event::Poll(dispatcher) => self.poll(dispatcher),
            Event::Members(dispatcher) => self.learn_members(dispatcher),
            Event::Check(dispatcher) => self.check(dispatcher),
            Event::Checked(dispatcher, server) => self.checked(dispatcher, server),
            Event::Sample => self.sample(),
        }
    }
}
