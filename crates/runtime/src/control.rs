//! What happens beside the requests? Health checks, ejections and their ends, ramps, limits: one thread does all this
//! for the pools. It gives workers new sets, and workers wake it when a request has decided something.
#![expect(clippy::disallowed_types, reason = "workers get new sets, and never take the lock")]

use crate::check;
use crate::events::Events;
use crate::history::Checked;
use crate::orders::Orders;
use crate::pool::{Checkup, Pools, SharedPool};
use crate::snapshot::{PoolSnapshot, named};
use evenkeel_balance::rng::Rng;
use evenkeel_balance::state::State;
use evenkeel_balance::{EndpointId, Instant};
use evenkeel_config::{Plan, plan};
use evenkeel_net::clock::Base;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until};

/// A handle that sends events to the control thread.
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
    /// Requests have decided something about an endpoint of this pool.
    Tripped(Arc<str>),
    /// Pools, endpoints or checks have changed.
    Changed,
    /// A check of an endpoint of this pool has ended.
    Checked(Arc<str>, EndpointId, Checked),
    /// The thread has to stop.
    Stop,
}

/// The control thread. Stops when dropped.
#[derive(Debug)]
pub struct Thread {
    control: Control,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread, with no pools yet. Time counts from `base`; `orders`: what operators want of endpoints.
    ///
    /// # Errors
    /// The thread or its event loop cannot be made.
    pub fn start(base: Base, orders: Orders) -> io::Result<Thread> {
        let (inbox, receiver) = unbounded_channel();
        let control = Control::new(inbox, base, orders);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = control.clone();
        let run = move || runtime.block_on(Watching { control: inside, checkers: HashMap::new() }.run(receiver));
        let thread = std::thread::Builder::new().name("control".into()).spawn(run)?;
        Ok(Thread { control, thread: Some(thread) })
    }

    /// The pools of a plan without a control thread: their state before anything has happened.
    pub fn unattended(plan: &Plan, workers: usize) -> Control {
        let control = Control::new(unbounded_channel().0, Base::now(), Orders::default());
        for pool in &plan.pools {
            let mut shared = SharedPool::new(workers, &control.orders, &control.events);
            shared.reserve(pool);
            shared.publish(control.now());
            control.pools().insert(pool.name.clone(), shared);
        }
        control
    }

    fn new(inbox: UnboundedSender<Event>, base: Base, orders: Orders) -> Control {
        let (pools, events) = (Arc::default(), Events::default());
        Control { pools, inbox, base, orders, events }
    }

    /// What operators want of endpoints.
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// What has happened of late.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The pools by name. Hold the lock only briefly: the control thread needs it for all pools.
    pub fn pools(&self) -> MutexGuard<'_, Pools> {
        // A change that a panic interrupted leaves at worst an old set.
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present state of a plan's pools, in its order. While the plan changes, a pool may not exist yet: no endpoint of
    /// it has a state then.
    pub fn snapshot(&self, plan: &Plan) -> Vec<PoolSnapshot> {
        let pools = self.pools();
        let one = |plan: &Arc<plan::Pool>| match pools.get(&plan.name) {
            Some(pool) => pool.snapshot(plan),
            None => PoolSnapshot::unused(plan),
        };
        plan.pools.iter().map(one).collect()
    }

    /// The pools of a plan as operators see them, without what planes count.
    pub fn shown(&self, plan: &Plan) -> Vec<evenkeel_view::Pool> {
        let pools = self.pools();
        let one = |plan: &Arc<plan::Pool>| pools.get(&plan.name).map_or_else(|| named(plan), |pool| pool.shown(plan));
        plan.pools.iter().map(one).collect()
    }

    /// Whether an endpoint waits for the first result of its checks.
    pub fn is_checking_first(&self) -> bool {
        self.pools().values().any(|pool| pool.pool.states().any(|(_, state)| state == State::Unchecked))
    }

    /// The instant that the clocks of all workers count from.
    pub fn base(&self) -> Base {
        self.base
    }

    /// The time, as workers count it.
    pub fn now(&self) -> Instant {
        self.base.elapsed()
    }

    /// Requests have decided something about an endpoint of this pool.
    #[cold]
    pub fn poke(&self, pool: &Arc<str>) {
        self.send(Event::Tripped(pool.clone()));
    }

    /// Pools, endpoints or checks have changed.
    pub fn changed(&self) {
        self.send(Event::Changed);
    }

    fn send(&self, event: Event) {
        // After the end of the thread no event matters.
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
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

/// The state of the control thread.
struct Watching {
    control: Control,
    checkers: HashMap<(Arc<str>, EndpointId), Checker>,
}

/// The task that checks one endpoint.
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
    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        loop {
            let due = self.control.pools().values().filter_map(|pool| pool.due()).min();
            let wake = async {
                match due {
                    Some(due) => sleep(Duration::from_nanos(due.since(self.control.now()))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    None | Some(Event::Stop) => return,
                    Some(Event::Changed) => self.check_what_there_is(),
                    Some(Event::Tripped(pool)) => {
                        let now = self.control.now();
                        self.control.pools().get_mut(&pool).into_iter().for_each(|pool| pool.poll(now));
                    }
                    Some(Event::Checked(pool, id, checked)) => {
                        let now = self.control.now();
                        self.control.pools().get_mut(&pool).into_iter().for_each(|pool| pool.on_check(id, &checked, now));
                    }
                },
                () = wake => {
                    let now = self.control.now();
                    let mut pools = self.control.pools();
                    pools.values_mut().filter(|pool| pool.due().is_some_and(|due| due <= now)).for_each(|pool| pool.poll(now));
                }
            }
        }
    }

    /// Starts new checks, and ends those that are no longer configured; others go on undisturbed.
    fn check_what_there_is(&mut self) {
        let wanted: HashMap<_, _> = {
            let pools = self.control.pools();
            let of = |(name, pool): (&Arc<str>, &SharedPool)| {
                let name = name.clone();
                pool.checkups().map(move |(id, checkup)| ((name.clone(), id), checkup)).collect::<Vec<_>>()
            };
            pools.iter().flat_map(of).collect()
        };
        self.checkers.retain(|key, checker| wanted.get(key) == Some(&checker.checkup));
        for (key, checkup) in wanted {
            let (control, (pool, id)) = (&self.control, key.clone());
            self.checkers.entry(key).or_insert_with(|| {
                let task =
                    tokio::spawn(check_again_and_again(control.clone(), pool, id, checkup.clone())).abort_handle();
                Checker { checkup, task }
            });
        }
    }
}

/// Checks one endpoint for ever. The first check is at once: requests may wait for it.
async fn check_again_and_again(control: Control, pool: Arc<str>, id: EndpointId, checkup: Checkup) {
    // Seeded by the endpoint and the process, so that balancers that start together drift apart.
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
