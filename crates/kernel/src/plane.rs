//! Plane of the runtime: prepares plans, and sends the thread of the drivers what it needs.

use crate::blueprint::Blueprint;
use crate::driver::Lack;
use crate::explain::{Explainer, Thread};
use crate::numbers::{Counted, EndpointStats, Metrics, Numbers};
use crate::prerequisites::Prerequisites;
use crate::worker::{self, Parts, Update};
use evenkeel_config::plan::Plane as Mechanism;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::ListenFd;
use evenkeel_net::workers::{Threads, Worker, Workers};
use evenkeel_runtime::ledger::{Members, PlaneCounts};
use evenkeel_runtime::{Change, Control, Diagnostic, Next, Plane, Pools, Prepared, Runtime, Sending};
use prometheus_client::collector::Collector;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;

/// Kernel planes: the control side of their thread, which exists once a plan has a listener that the kernel forwards
/// for.
pub struct Kernel {
    control: Control,
    workers: Workers<Update>,
    numbers: watch::Sender<Arc<Numbers>>,
    thread: Thread,
    /// Mechanisms that the thread has a driver for.
    driven: BTreeSet<Mechanism>,
    /// Counts sent to the thread, until it has applied them.
    sent: Option<Arc<Numbers>>,
    changed: Vec<(Arc<str>, Arc<Members<EndpointStats>>)>,
}

struct Ready {
    blueprints: Vec<Blueprint>,
    drivers: Vec<(Mechanism, Box<dyn crate::driver::Driver>)>,
    worker: Option<Worker<Update>>,
}

impl Kernel {
    /// Creates planes that forward nothing yet.
    pub fn new(runtime: &Runtime) -> Kernel {
        Kernel {
            control: Control::clone(runtime.control()),
            workers: Workers::default(),
            numbers: watch::channel(Arc::default()).0,
            thread: Thread::default(),
            driven: BTreeSet::new(),
            sent: None,
            changed: Vec::new(),
        }
    }

    /// Returns what asks for the state of listeners.
    pub fn explainer(&self) -> Explainer {
        Explainer::new(self.thread.clone())
    }

    /// Returns the numbers, which follow later plans.
    pub fn numbers(&self) -> watch::Receiver<Arc<Numbers>> {
        self.numbers.subscribe()
    }
}

impl Plane for Kernel {
    fn prepare(&self, next: &Next<'_>, _: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
        let plan = next.plan();
        let blueprints = Blueprint::all(plan);
        let Prerequisites { mut drivers, lacks } = Prerequisites::of(&blueprints, &plan.kernel);
        drivers.retain(|(mechanism, _)| !self.driven.contains(mechanism));
        let diagnostic = |(_, lack): (_, Lack)| Diagnostic::Machine { problem: lack.problem, help: Some(lack.help) };
        let mut wrong: Vec<Diagnostic> = lacks.into_iter().map(diagnostic).collect();
        let mut worker = None;
        if !blueprints.is_empty() && self.workers.is_empty() {
            let control = self.control.clone();
            match self.workers.spawn("kernel".into(), move |link| worker::run(control, link)) {
                Ok(spawned) => worker = Some(spawned),
                Err(error) => {
                    wrong.push(Diagnostic::machine(format!("cannot start the thread of the kernel: {error}")))
                }
            }
        }
        if wrong.is_empty() { Ok(Prepared::new(Ready { blueprints, drivers, worker })) } else { Err(wrong) }
    }

    fn install(&mut self, prepared: Prepared, _: &mut Pools, sending: &Sending<'_>) {
        let Ready { blueprints, drivers, worker } = prepared.into();
        if let Some(worker) = worker {
            self.workers.add(worker);
            self.workers.doors().into_iter().for_each(|door| _ = self.thread.set(door));
        }
        let services = blueprints.iter().map(|it| (it.plane, it.name().clone(), it.pool.clone())).collect();
        let numbers = Arc::new(Numbers::next(sending.generation, services, &self.numbers.borrow()));
        self.driven = blueprints.iter().map(|blueprint| blueprint.plane).collect();
        if !self.workers.is_empty() {
            let parts = Parts {
                blueprints,
                drivers,
                stats: numbers.drivers.clone(),
                pools: numbers.members().map(|(name, members)| (name.clone(), members)).collect(),
                on_exit: sending.generation.plan.kernel.on_exit,
            };
            self.workers.send(0, Update::Plan(Box::new(parts)), sending.applying);
        }
        self.sent = Some(numbers);
    }

    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>) {
        let numbers = self.numbers.borrow().clone();
        let members = |change: &Change<'_>| {
            Some((change.pool.name.clone(), numbers.members_for(&change.pool.name, change.endpoints)?))
        };
        self.changed = changes.iter().filter_map(members).collect();
        if !self.changed.is_empty() {
            self.workers.send(0, Update::Endpoints(self.changed.clone()), sending.applying);
        }
    }

    fn applied(&mut self) {
        for (pool, members) in self.changed.drain(..) {
            self.numbers.borrow().change(&pool, members);
        }
        if let Some(numbers) = self.sent.take() {
            self.numbers.send_replace(numbers);
        }
    }

    fn workers(&self) -> &Threads {
        self.workers.threads()
    }

    fn workers_mut(&mut self) -> &mut Threads {
        self.workers.threads_mut()
    }

    fn sockets(&self) -> Vec<(String, ListenFd)> {
        Vec::new()
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Metrics(self.numbers.subscribe()))
    }

    fn counts(&self) -> Box<dyn PlaneCounts> {
        Box::new(Counted(self.numbers.subscribe()))
    }

    fn open(&self) -> u64 {
        self.numbers.borrow().active()
    }

    fn join(self: Box<Self>) {
        self.workers.join();
    }
}
