//! Runtime of a plan in every plane, and its replacement by the next plan. Steps that can fail come first, in all
//! planes, so that an error changes nothing; then every worker of every plane gets its part.

use crate::control::{self, Control};
use crate::generation::{Generation, Summary, keep_until_restart};
use crate::ledger::Ledger;
use crate::lost;
use crate::membership::{Endpoints, Found};
use crate::metrics::Metrics;
use crate::orders::Orders;
use crate::plane::{Change, Diagnostic, Next, Plane, Prepared, Sending, StartError, View};
use crate::pool::{Pools, SharedPool};
use evenkeel_config::{Plan, plan};
use evenkeel_net::clock::Base;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::ListenFd;
use evenkeel_net::workers::{Applying, Command, Interrupt, Interrupted};
use evenkeel_view::events::Kind;
use prometheus_client::collector::Collector;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;

/// Planes and the state that they share.
pub struct Runtime {
    running: watch::Sender<Arc<Generation>>,
    control: control::Thread,
    planes: Vec<Box<dyn Plane>>,
    interrupt: Interrupt,
    /// Number of workers of each plane.
    workers: usize,
    /// Identity of this evenkeel, see [`Runtime::instance`].
    instance: u64,
}

impl Runtime {
    /// Creates a runtime without planes for this plan. `instance`: its identity; `orders`: orders of operators for
    /// endpoints.
    ///
    /// # Errors
    /// The control thread cannot be started.
    pub fn new(plan: Plan, instance: u64, orders: Orders) -> Result<Runtime, StartError> {
        Runtime::found(plan, Found::new(), instance, orders)
    }

    /// Creates a runtime like [`new`](Self::new), with discovered endpoints for some pools instead of planned
    /// endpoints.
    ///
    /// # Errors
    /// The control thread cannot be started.
    pub fn found(plan: Plan, found: Found, instance: u64, orders: Orders) -> Result<Runtime, StartError> {
        let workers = match plan.runtime.workers {
            plan::Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            plan::Workers::Count(n) => usize::from(n),
        };
        let no_thread = |error| Diagnostic::machine(format!("cannot start a worker: {error}"));
        Ok(Runtime {
            running: watch::channel(Arc::new(Generation::first(Arc::new(plan), found))).0,
            control: Control::start(Base::now(), orders).map_err(no_thread)?,
            planes: Vec::new(),
            interrupt: Interrupt::default(),
            workers,
            instance,
        })
    }

    /// Starts the plan in all planes; when this returns, every listener accepts. `inherited`: sockets passed to the
    /// process.
    ///
    /// # Errors
    /// Every reason of every plane why it cannot run; no plane serves then.
    pub fn start(&mut self, planes: Vec<Box<dyn Plane>>, inherited: &mut Inherited) -> Result<(), StartError> {
        self.planes = planes;
        let first = self.now();
        first.splits.refresh(self.control.orders());
        let (new, prepared) = self.prepare(&first, None, inherited)?;
        self.install(first, new, prepared)
    }

    /// Replaces the plan while everything runs. Whatever both plans contain continues: connections, requests, idle
    /// connections to endpoints, counts. Requests in flight finish under the plan that they began with. When this
    /// returns, every worker uses the new plan.
    ///
    /// Some keys cannot change until a restart; [`Summary::at_restart`] lists those that the new plan would change.
    ///
    /// # Errors
    /// Every reason of every plane why it cannot run; nothing has changed in any plane then.
    pub fn reload(&mut self, plan: Plan) -> Result<Summary, StartError> {
        self.reload_found(plan, Found::new())
    }

    /// Reloads like [`reload`](Self::reload), with discovered endpoints for some pools instead of those in the plan.
    ///
    /// # Errors
    /// The errors of [`reload`](Self::reload).
    pub fn reload_found(&mut self, mut plan: Plan, found: Found) -> Result<Summary, StartError> {
        let now = self.now();
        let at_restart = keep_until_restart(&now.plan, &mut plan);
        let next = Arc::new(now.next(Arc::new(plan), found));
        next.splits.refresh(self.control.orders());
        let (new, prepared) = self.prepare(&next, Some(&now.plan), &mut Inherited::default())?;
        self.install(next.clone(), new, prepared)?;
        Ok(Summary::new(&now.plan, &next.plan, next.number, at_restart))
    }

    /// Has every plane do everything that can fail. Returns the new pools, and the result of each plane.
    fn prepare(
        &self,
        next: &Arc<Generation>,
        before: Option<&Plan>,
        inherited: &mut Inherited,
    ) -> Result<(Pools, Vec<Prepared>), StartError> {
        let new = self.new_pools(&next.plan);
        let next = Next { generation: next, before, control: &self.control, new: &new };
        let (mut prepared, mut wrong) = (Vec::new(), Vec::new());
        for plane in &self.planes {
            match plane.prepare(&next, inherited) {
                Ok(one) => prepared.push(one),
                // Planes may report the same problem; duplicates are dropped below.
                Err(more) => wrong.extend(more),
            }
        }
        let mut seen = HashSet::new();
        wrong.retain(|diagnostic| seen.insert(diagnostic.to_string()));
        if wrong.is_empty() { Ok((new, prepared)) } else { Err(StartError(wrong)) }
    }

    /// Creates the pools of a plan that do not exist yet.
    fn new_pools(&self, plan: &Plan) -> Pools {
        let known = self.control.pools();
        let new = plan.pools.iter().filter(|pool| !known.contains_key(&pool.name));
        let shared = || SharedPool::new(self.workers, self.control.orders(), self.control.events());
        new.map(|pool| (pool.name.clone(), shared())).collect()
    }

    /// Completes the change: reserves slots, sends every worker of every plane its part, and publishes the new
    /// endpoints only once all workers have applied it.
    fn install(&mut self, next: Arc<Generation>, new: Pools, prepared: Vec<Prepared>) -> Result<(), StartError> {
        let plan = &next.plan;
        let (fresh, stay): (Vec<_>, Vec<_>) = plan.pools.iter().partition(|pool| new.contains_key(&pool.name));
        let mut pools = self.control.pools();
        pools.extend(new);
        for (at, pool) in plan.pools.iter().enumerate() {
            shared(&mut pools, &pool.name).reserve(pool, &next.membership.endpoints(at));
        }
        for pool in fresh {
            // No worker knows it yet, so none can pick too early.
            shared(&mut pools, &pool.name).publish(self.control.now());
        }
        let applying = Applying::default();
        for (plane, prepared) in self.planes.iter_mut().zip(prepared) {
            plane.install(prepared, &mut pools, &Sending { generation: &next, applying: &applying });
        }
        // The control thread needs the pools meanwhile.
        drop(pools);
        let interrupted = |Interrupted| Diagnostic::machine("interrupted while a worker had not applied the plan");
        applying.wait(&self.interrupt).map_err(interrupted)?;
        let mut pools = self.control.pools();
        for pool in stay {
            shared(&mut pools, &pool.name).publish(self.control.now());
        }
        let names: HashSet<&str> = plan.pools.iter().map(|pool| &*pool.name).collect();
        pools.retain(|name, _| names.contains(&**name));
        self.control.orders().keep_drained(&names);
        drop(pools);
        self.applied(next);
        Ok(())
    }

    /// Replaces the endpoints of some pools, by name, and nothing else. Endpoints that stay keep their state; those
    /// that leave finish their requests. When this returns, every worker knows the new endpoints. Pools that do not
    /// exist, or have these endpoints already, are skipped.
    ///
    /// # Errors
    /// The wait for the workers was interrupted because the process is ending.
    pub fn apply_endpoints(&mut self, found: Found) -> Result<(), Interrupted> {
        let now = self.now();
        let other = found.into_iter().filter_map(|(name, endpoints)| Some((now.membership.at(&name)?, endpoints)));
        let other = other.filter(|(at, endpoints)| *now.membership.endpoints(*at) != **endpoints);
        let other: Vec<(usize, Endpoints)> = other.map(|(at, endpoints)| (at, endpoints.into())).collect();
        if other.is_empty() {
            return Ok(());
        }
        let mut pools = self.control.pools();
        for (at, endpoints) in &other {
            let pool = &now.plan.pools[*at];
            shared(&mut pools, &pool.name).reserve(pool, endpoints);
        }
        let mut changes = Vec::with_capacity(other.len());
        for (at, endpoints) in &other {
            let pool = &now.plan.pools[*at];
            changes.push(Change { pool, at: *at, endpoints, shared: &pools[&pool.name] });
        }
        let applying = Applying::default();
        for plane in &mut self.planes {
            plane.endpoints(&changes, &Sending { generation: &now, applying: &applying });
        }
        drop(changes);
        drop(pools);
        applying.wait(&self.interrupt)?;
        let mut pools = self.control.pools();
        let mut is_split_changed = false;
        for (at, _) in &other {
            is_split_changed |= shared(&mut pools, &now.plan.pools[*at].name).publish(self.control.now());
        }
        drop(pools);
        if is_split_changed {
            now.splits.refresh(self.control.orders());
        }
        let names = other.iter().map(|(at, _)| now.plan.pools[*at].name.clone()).collect();
        other.into_iter().for_each(|(at, endpoints)| now.membership.change(at, endpoints));
        self.control.changed_pools(names);
        self.planes.iter_mut().for_each(|plane| plane.applied());
        Ok(())
    }

    /// Makes a generation the current generation, after every worker has applied it.
    fn applied(&mut self, next: Arc<Generation>) {
        self.control.changed();
        self.planes.iter_mut().for_each(|plane| plane.applied());
        self.running.send_replace(next.clone());
        // Orders that were given since the generation was made went to the splits of the previous generation.
        for route in next.splits.refresh(self.control.orders()) {
            let text = format!(
                "split of route \"{route}\": using the configured weights, as all weights set by operators are 0 now"
            );
            tracing::warn!(route = &*route, "{text}");
            self.control.events().tell(Kind::Config, (None, None), text, None);
        }
    }

    /// Returns the generation that runs now.
    pub fn now(&self) -> Arc<Generation> {
        self.running.borrow().clone()
    }

    /// Returns a receiver of the generation that runs.
    pub fn running(&self) -> watch::Receiver<Arc<Generation>> {
        self.running.subscribe()
    }

    pub fn plan(&self) -> Arc<Plan> {
        self.now().plan.clone()
    }

    /// Handle of the control thread of the pools.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Number of workers of each plane that has any.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the identity that distinguishes this evenkeel from others; a process that takes over inherits it.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Returns a handle that interrupts waits for workers.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Returns the ledger of requests over all planes.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.running(), self.views().map(|view| view as _))
    }

    /// Returns every plane as operators see it.
    pub fn views(&self) -> impl Iterator<Item = Arc<dyn View>> {
        self.planes.iter().map(|plane| plane.view())
    }

    /// Has every plane look after its files and memory, once a second. Must be used inside a tokio runtime, whose threads do
    /// the longer work.
    pub fn tick(&mut self) {
        let now = self.control.now();
        for work in self.planes.iter_mut().filter_map(|plane| plane.tick(now)) {
            tokio::task::spawn_blocking(work);
        }
    }

    /// Metrics of the shared state, and of every plane.
    pub fn collectors(&self) -> impl Iterator<Item = Box<dyn Collector>> {
        let shared: Box<dyn Collector> = Box::new(Metrics::new(self.running(), Control::clone(&self.control)));
        std::iter::once(shared).chain(self.planes.iter().map(|plane| plane.collector()))
    }

    /// Listening sockets, each with the name of its listener, to hand over to a new process.
    pub fn sockets(&self) -> Vec<(String, ListenFd)> {
        self.planes.iter().flat_map(|plane| plane.sockets()).collect()
    }

    /// Number of open client connections.
    pub fn open(&self) -> u64 {
        self.planes.iter().map(|plane| plane.open()).sum()
    }

    /// Reopens log files after they were rotated, so that lines go to new files of the same names.
    ///
    /// # Errors
    /// A file cannot be opened; its lines still go to the old file.
    pub fn reopen(&self) -> Result<(), String> {
        self.planes.iter().try_for_each(|plane| plane.reopen())
    }

    /// Returns the name of each worker, with a number that increases between two calls if its event loop is alive.
    pub fn beats(&self) -> impl Iterator<Item = (&str, u64)> {
        self.planes.iter().flat_map(|plane| plane.workers().beats())
    }

    /// Orders the workers to drain or to stop.
    pub fn command(&self, command: Command) {
        self.planes.iter().for_each(|plane| plane.workers().command(command));
    }

    /// Waits until a worker has ended, and returns its name and the reason. A lost worker cannot be restarted. Cancel
    /// safe.
    pub async fn worker_lost(&mut self) -> String {
        lost::worker(&mut self.planes).await
    }

    /// Returns true if every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.planes.iter().all(|plane| plane.workers().has_ended())
    }

    /// Names of workers that have not ended.
    pub fn still_running(&self) -> impl Iterator<Item = &str> {
        self.planes.iter().flat_map(|plane| plane.workers().running())
    }

    /// Waits until every worker has ended and the logs are written.
    pub fn join(self) {
        self.planes.into_iter().for_each(Plane::join);
    }
}

fn shared<'p>(pools: &'p mut Pools, name: &str) -> &'p mut SharedPool {
    pools.get_mut(name).expect("every pool of the plan is there")
}
