//! Plane of the runtime: prepares plans, and passes them to the thread of the drivers.

use crate::blueprint::Blueprint;
use crate::claim::Claim;
use crate::driver::Lack;
use crate::explain::{Explainer, Thread};
use crate::numbers::{EndpointStats, Metrics, Numbers};
use crate::prerequisites::Prerequisites;
use crate::shown::Shown;
use crate::worker::{self, Parts, Update};
use evenkeel_config::plan::Plane as Mechanism;
use evenkeel_config::{Plan, Subject};
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::ListenFd;
use evenkeel_net::workers::{Threads, Worker, Workers};
use evenkeel_runtime::ledger::Members;
use evenkeel_runtime::{Change, Control, Diagnostic, Next, Plane, Pools, Prepared, Runtime, Sending, View};
use prometheus_client::collector::Collector;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;

/// Kernel planes: the control side of their thread, which exists once a plan has a listener that the kernel forwards
/// for.
pub struct Kernel {
    control: Control,
    workers: Workers<Update>,
    numbers: watch::Sender<Arc<Numbers>>,
    thread: Thread,
    /// Claim to the name, from the first listener of the kernel to the end of the process.
    claim: Option<Claim>,
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
    claim: Option<Claim>,
}

impl Kernel {
    /// Creates planes that forward nothing yet.
    pub fn new(runtime: &Runtime) -> Kernel {
        Kernel {
            control: Control::clone(runtime.control()),
            workers: Workers::default(),
            numbers: watch::channel(Arc::default()).0,
            thread: Thread::default(),
            claim: None,
            driven: BTreeSet::new(),
            sent: None,
            changed: Vec::new(),
        }
    }
}

impl Plane for Kernel {
    fn prepare(&self, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
        let plan = next.plan();
        let blueprints = Blueprint::all(plan);
        let Prerequisites { mut drivers, lacks } = Prerequisites::of(&blueprints, &plan.kernel);
        drivers.retain(|(mechanism, _)| !self.driven.contains(mechanism));
        let mut wrong = Vec::new();
        for (plane, Lack { problem, help, is_warning }) in lacks {
            match is_warning {
                true => tracing::warn!(plane = plane.name(), help, "{problem}"),
                false => {
                    let of = on_plane(plan, plane);
                    wrong.push(Diagnostic::Machine { problem, help: Some(help), of });
                }
            }
        }
        let mut claim = None;
        if !blueprints.is_empty() && self.claim.is_none() {
            match Claim::take(&plan.kernel.name, inherited) {
                Ok(taken) => claim = Some(taken),
                Err(error) => wrong.push(not_claimed(plan, &error)),
            }
        }
        let mut worker = None;
        if !blueprints.is_empty() && self.workers.is_empty() {
            let control = self.control.clone();
            match self.workers.spawn("kernel".into(), move |link| worker::run(control, link)) {
                Ok(spawned) => worker = Some(spawned),
                Err(error) => wrong
                    .push(Diagnostic::machine(format!("cannot start the thread for planes of the kernel: {error}"))),
            }
        }
        if wrong.is_empty() { Ok(Prepared::new(Ready { blueprints, drivers, worker, claim })) } else { Err(wrong) }
    }

    fn install(&mut self, prepared: Prepared, _: &mut Pools, sending: &Sending<'_>) {
        let Ready { blueprints, drivers, worker, claim } = prepared.into();
        self.claim = self.claim.take().or(claim);
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
        self.claim.iter().map(Claim::socket).collect()
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Metrics(self.numbers.subscribe()))
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(Shown::new(self.numbers.subscribe(), Explainer::new(self.thread.clone())))
    }

    fn open(&self) -> u64 {
        self.numbers.borrow().active()
    }

    fn join(self: Box<Self>) {
        self.workers.join();
    }
}

/// Listeners that a mechanism forwards for.
fn on_plane(plan: &Plan, plane: Mechanism) -> Vec<Subject> {
    let all = plan.listeners.iter().enumerate().filter(|(_, listener)| listener.plane == plane);
    all.map(|(at, _)| Subject::Listener(at)).collect()
}

/// An error about all listeners that the kernel forwards for.
fn not_claimed(plan: &Plan, error: &io::Error) -> Diagnostic {
    let name = &plan.kernel.name;
    let all = plan.listeners.iter().enumerate().filter(|(_, listener)| listener.plane.is_kernel());
    let of = all.map(|(at, _)| Subject::Listener(at)).collect();
    if error.kind() != io::ErrorKind::AddrInUse {
        let problem = format!("cannot claim the name {name:?} for the kernel: {error}");
        return Diagnostic::Machine { problem, help: None, of };
    }
    let problem = format!("another evenkeel in this network namespace forwards under the name {name:?}");
    Diagnostic::Machine {
        problem,
        help: Some("set another \"name\" in [kernel], or stop the other evenkeel".into()),
        of,
    }
}
