//! Control thread: health checks, ejections, slow start and concurrency limits of all pools. It publishes new endpoint
//! sets to workers, and workers wake it when the outcome of a request requires a decision.
#![expect(clippy::disallowed_types, reason = "workers get new sets, and never take the lock")]

use crate::check;
use crate::events::Events;
use crate::generation::Generation;
use crate::history::Checked;
use crate::membership::Endpoints;
use crate::orders::Orders;
use crate::pool::{Checkup, Pools, SharedPool};
use crate::snapshot::{PoolSnapshot, named};
use evenkeel_balance::rng::Rng;
use evenkeel_balance::state::State;
use evenkeel_balance::{EndpointId, Instant};
use evenkeel_config::{Plan, plan};
use evenkeel_net::clock::Base;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until};

/// Handle of the control thread: access to the pools, and events to it.
#[derive(Clone, Debug)]
pub struct Control {
    pools: Arc<Mutex<Pools>>,
    inbox: UnboundedSender<Event>,
    base: Base,
    orders: Orders,
    events: Events,
}

#[derive(Debug)]
enum Event {
    /// Outcomes of requests require a decision on an endpoint of this pool.
    Tripped(Arc<str>),
    /// A plan was applied: any pool, endpoint or check may have changed.
    Changed,
    /// The endpoints of these pools have changed.
    Members(Vec<Arc<str>>),
    /// A check of an endpoint of this pool has ended.
    Checked(Arc<str>, EndpointId, Checked),
    /// Order to the thread to stop.
    Stop,
}

/// Running control thread, which stops when this is dropped.
#[derive(Debug)]
pub struct Thread {
    control: Control,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread, without pools. Time counts from `base`; `orders`: orders of operators for endpoints.
    ///
    /// # Errors
    /// The thread or its event loop cannot be created.
    pub fn start(base: Base, orders: Orders) -> io::Result<Thread> {
        let (inbox, receiver) = unbounded_channel();
        let control = Control::new(inbox, base, orders);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = control.clone();
        let run = move || runtime.block_on(Watching::new(inside).run(receiver));
        let thread = std::thread::Builder::new().name("control".into()).spawn(run)?;
        Ok(Thread { control, thread: Some(thread) })
    }

    /// Creates the pools of a plan in their initial state, without a control thread.
    pub fn unattended(plan: &Plan, workers: usize) -> Control {
        let control = Control::new(unbounded_channel().0, Base::now(), Orders::default());
        for pool in &plan.pools {
            let mut shared = SharedPool::new(workers, &control.orders, &control.events);
            shared.reserve(pool, &pool.endpoints);
            shared.publish(control.now());
            control.pools().insert(pool.name.clone(), shared);
        }
        control
    }

    fn new(inbox: UnboundedSender<Event>, base: Base, orders: Orders) -> Control {
        let (pools, events) = (Arc::default(), Events::default());
        Control { pools, inbox, base, orders, events }
    }

    /// Returns the orders of operators.
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Returns the latest events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Locks the pools, by name. Hold the lock only briefly: the control thread needs it for all pools.
    pub fn pools(&self) -> MutexGuard<'_, Pools> {
        // A change that a panic interrupted leaves an outdated set at worst.
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current state of the pools of a generation, in the order of its plan. While the plan changes, a pool may not
    /// exist yet; its endpoints then have no state.
    pub fn snapshot(&self, of: &Generation) -> Vec<PoolSnapshot> {
        let pools = self.pools();
        let one = |(plan, endpoints): (&Arc<plan::Pool>, Endpoints)| match pools.get(&plan.name) {
            Some(pool) => pool.snapshot(plan, &endpoints),
            None => PoolSnapshot::unused(plan, &endpoints),
        };
        of.pools().map(one).collect()
    }

    /// Pool as shown to operators, with these endpoints and without the counts of planes.
    pub fn shown(&self, plan: &plan::Pool, endpoints: &[plan::Endpoint]) -> evenkeel_view::Pool {
        self.pools().get(&plan.name).map_or_else(|| named(plan), |pool| pool.shown(plan, endpoints))
    }

    /// Returns true if an endpoint waits for the first result of its checks.
    pub fn is_checking_first(&self) -> bool {
        self.pools().values().any(|pool| pool.pool.states().any(|(_, state)| state == State::Unchecked))
    }

    /// Instant from which all workers count time.
    pub fn base(&self) -> Base {
        self.base
    }

    /// Current time since [`base`](Self::base), as workers count it.
    pub fn now(&self) -> Instant {
        self.base.elapsed()
    }

    /// Wakes the thread: outcomes of requests require a decision on an endpoint of this pool.
    #[cold]
    pub fn poke(&self, pool: &Arc<str>) {
        self.send(Event::Tripped(pool.clone()));
    }

    /// Wakes the thread: a plan was applied, so any pool, endpoint or check may have changed.
    pub fn changed(&self) {
        self.send(Event::Changed);
    }

    /// Wakes the thread: the endpoints of these pools have changed.
    pub fn changed_pools(&self, names: Vec<Arc<str>>) {
        self.send(Event::Members(names));
    }

    fn send(&self, event: Event) {
        // Events after the end of the thread do not matter.
        let _ = self.inbox.send(event);
    }
}

impl std::ops::Deref for Thread {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.control.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic already.
            let _ = thread.join();
        }
    }
}

/// State of the control thread. The cost of an event depends on its pool alone, not on the number of pools.
struct Watching {
    control: Control,
    /// Checking tasks, by pool and endpoint.
    checkers: HashMap<Arc<str>, HashMap<EndpointId, Checker>>,
    dues: Dues,
}

/// Next due time of each pool, in order of time.
#[derive(Default)]
struct Dues {
    of: HashMap<Arc<str>, Instant>,
    in_order: BTreeSet<(Instant, Arc<str>)>,
}

impl Dues {
    /// Sets the due time of a pool; `None` if nothing is due.
    fn set(&mut self, pool: &Arc<str>, due: Option<Instant>) {
        if self.of.get(pool).copied() == due {
            return;
        }
        if let Some(before) = self.of.remove(pool) {
            self.in_order.remove(&(before, pool.clone()));
        }
        if let Some(due) = due {
            self.of.insert(pool.clone(), due);
            self.in_order.insert((due, pool.clone()));
        }
    }

    /// Returns the earliest due time.
    fn first(&self) -> Option<Instant> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// Pools in which something is due at `now`.
    fn by(&self, now: Instant) -> Vec<Arc<str>> {
        self.in_order.iter().take_while(|(due, _)| *due <= now).map(|(_, pool)| pool.clone()).collect()
    }
}

/// Task that checks an endpoint, aborted when dropped.
struct Checker {
    checkup: Checkup,
    task: AbortHandle,
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watching {
    fn new(control: Control) -> Watching {
        Watching { control, checkers: HashMap::new(), dues: Dues::default() }
    }

    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        loop {
            let due = self.dues.first();
            let wake = async {
                match due {
                    Some(due) => sleep(Duration::from_nanos(due.since(self.control.now()))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    None | Some(Event::Stop) => return,
                    Some(Event::Changed) => self.look_at_all(),
                    Some(Event::Members(pools)) => pools.iter().for_each(|pool| self.look_at(pool)),
                    Some(Event::Tripped(pool)) => self.with(&pool, SharedPool::poll),
                    Some(Event::Checked(pool, id, checked)) => {
                        self.with(&pool, |pool, now| pool.on_check(id, &checked, now));
                    }
                },
                () = wake => {
                    for pool in self.dues.by(self.control.now()) {
                        self.with(&pool, SharedPool::poll);
                    }
                }
            }
        }
    }

    /// Changes a pool, and updates its due time.
    fn with(&mut self, name: &Arc<str>, work: impl FnOnce(&mut SharedPool, Instant)) {
        let now = self.control.now();
        let mut pools = self.control.pools();
        let due = pools.get_mut(name).and_then(|pool| {
            work(pool, now);
            pool.due()
        });
        drop(pools);
        self.dues.set(name, due);
    }

    /// Applies [`look_at`](Self::look_at) to every pool, including those that are gone.
    fn look_at_all(&mut self) {
        let mut names: HashSet<Arc<str>> = self.control.pools().keys().cloned().collect();
        names.extend(self.checkers.keys().cloned());
        names.extend(self.dues.of.keys().cloned());
        names.iter().for_each(|name| self.look_at(name));
    }

    /// Starts new checks of a pool and ends those that are no longer configured; others continue undisturbed.
    fn look_at(&mut self, name: &Arc<str>) {
        let (due, wanted): (_, HashMap<EndpointId, Checkup>) = match self.control.pools().get(name) {
            Some(pool) => (pool.due(), pool.checkups().collect()),
            None => (None, HashMap::new()),
        };
        self.dues.set(name, due);
        if wanted.is_empty() {
            self.checkers.remove(name);
            return;
        }
        let checkers = self.checkers.entry(name.clone()).or_default();
        checkers.retain(|id, checker| wanted.get(id) == Some(&checker.checkup));
        for (id, checkup) in wanted {
            checkers.entry(id).or_insert_with(|| {
                let check = check_again_and_again(self.control.clone(), name.clone(), id, checkup.clone());
                Checker { checkup, task: tokio::spawn(check).abort_handle() }
            });
        }
    }
}

/// Checks an endpoint forever. The first check is immediate, as requests may wait for it.
async fn check_again_and_again(control: Control, pool: Arc<str>, id: EndpointId, checkup: Checkup) {
    // Seeded by endpoint and process, so that the checks of balancers that start together drift apart.
    let mut rng = Rng::new(id.0 ^ u64::from(std::process::id()));
    loop {
        let began = tokio::time::Instant::now();
        let result = check::run(&checkup).await;
        let checked = Checked { result: result.map_err(|e| e.to_string()), took: began.elapsed() };
        control.send(Event::Checked(pool.clone(), id, checked));
        let stretch = 1.0 + checkup.check.jitter * (2.0 * rng.unit() - 1.0);
        sleep_until(began + checkup.check.interval.mul_f64(stretch)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_first_is_known_without_a_look_at_every_pool() {
        let (mut dues, [a, b]) = (Dues::default(), ["a", "b"].map(Arc::<str>::from));
        assert_eq!(dues.first(), None);
        dues.set(&a, Some(Instant(5)));
        dues.set(&b, Some(Instant(3)));
        dues.set(&b, Some(Instant(7)));
        assert_eq!((dues.first(), dues.by(Instant(4)).len()), (Some(Instant(5)), 0));
        assert_eq!(dues.by(Instant(7)), [a.clone(), b.clone()]);
        dues.set(&a, None);
        assert_eq!((dues.first(), dues.by(Instant(7))), (Some(Instant(7)), vec![b.clone()]));
        dues.set(&b, None);
        assert!(dues.of.is_empty() && dues.in_order.is_empty());
    }
}
