//! Plane of these tests. Each of its workers has a balancer for each pool, and knows the slots that it was sent.

use evenkeel_balance::{Balancer, Instant, Request, Slot};
use evenkeel_config::plan;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::ListenFd;
use evenkeel_net::workers::{Command, ControlLink, Threads, Workers};
use evenkeel_runtime::ledger::{EndpointCounts, Members, PlaneCounts, PoolCounts, Tally};
use evenkeel_runtime::membership::Endpoints;
use evenkeel_runtime::{
    Change, Control, Diagnostic, Next, Plane, Pools, Prepared, Runtime, Sending, SharedPool, View, Work,
};
use evenkeel_view::timeline::Counts;
use evenkeel_view::{Endpoint, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::{HashMap, HashSet};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::{fmt, io};

/// Calls of planes, in order.
pub type Log = Arc<Mutex<Vec<String>>>;

/// State of a plane that tests read and set.
#[derive(Debug)]
pub struct Seen {
    pub name: &'static str,
    log: Log,
    /// Reasons for which it rejects the next plan; empty to accept it.
    pub refuses: Mutex<Vec<Diagnostic>>,
    /// While a test holds it, its workers apply nothing.
    pub gate: Mutex<()>,
    /// Endpoints that could be picked when its workers were sent something, by pool.
    pub pickable: Mutex<HashMap<String, usize>>,
    /// Number of prepared plans that were neither installed nor dropped.
    pub prepared: AtomicUsize,
    /// True if its workers pick all the time.
    pub picks: AtomicBool,
    pub picked: AtomicUsize,
    /// Picks of endpoints that the worker did not know.
    pub unknown: AtomicUsize,
    /// Counts of endpoints, by pool.
    tallies: Mutex<HashMap<Arc<str>, Tally<Requests>>>,
    /// True if its workers end by an error when they are sent something.
    pub breaks: AtomicBool,
    /// Threads that have done its longer work.
    pub worked: Mutex<Vec<ThreadId>>,
}

impl Seen {
    pub fn new(name: &'static str, log: &Log) -> Arc<Seen> {
        Arc::new(Seen {
            name,
            log: log.clone(),
            refuses: Mutex::default(),
            gate: Mutex::default(),
            pickable: Mutex::default(),
            prepared: AtomicUsize::new(0),
            picks: AtomicBool::new(false),
            picked: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
            tallies: Mutex::default(),
            breaks: AtomicBool::new(false),
            worked: Mutex::default(),
        })
    }

    /// Counts requests at an endpoint, at the last worker.
    pub fn count(&self, pool: &str, endpoint: &str, requests: u64) {
        let members = lock(&self.tallies)[pool].members();
        let at = members.endpoints.iter().position(|of| *of.name == *endpoint).expect("it is in the pool");
        members.workers.last().expect("it has workers")[at].0.fetch_add(requests, SeqCst);
    }

    fn note(&self, what: &str) {
        lock(&self.log).push(format!("{} {what}", self.name));
    }

    /// Records how many endpoints of a pool can be picked now.
    fn look(&self, pool: &SharedPool, name: &str) {
        lock(&self.pickable).insert(name.to_owned(), pool.pool.view().set.members().len());
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Requests(AtomicU64);

impl EndpointCounts for Requests {
    fn counts(&self) -> Counts {
        Counts { requests: self.0.load(SeqCst), errors: 0, unreached: 0 }
    }

    fn add_to<'s>(all: impl Iterator<Item = &'s Requests> + Clone, now: Instant, to: &mut Endpoint) {
        to.bytes_in += all.map(|one| one.0.load(SeqCst)).sum::<u64>() * now.0;
    }
}

struct Counting(Arc<Seen>);

impl PlaneCounts for Counting {
    fn pool(&self, name: &str, endpoints: &Endpoints) -> Option<Arc<dyn PoolCounts>> {
        Some(lock(&self.0.tallies).get(name)?.over(endpoints))
    }

    fn listeners(&self) -> Counts {
        Counts { requests: 1, errors: 0, unreached: 0 }
    }
}

impl View for Counting {
    fn not_ready(&self) -> Option<&'static str> {
        self.0.picks.load(SeqCst).then_some("it picks")
    }

    fn add_to(&self, status: &mut Status) {
        status.workers += 1;
    }
}

pub struct TestPlane {
    seen: Arc<Seen>,
    workers: Workers<Update>,
    socket: ListenFd,
    changed: Vec<(Arc<str>, Arc<Members<Requests>>)>,
}

enum Update {
    Plan(Vec<(Arc<str>, Option<Balancer>, HashSet<Slot>)>),
    Endpoints(Vec<(Arc<str>, HashSet<Slot>)>),
}

struct Ready {
    /// Balancers by pool, then by worker; `None` for pools whose balancers stay.
    balancers: Vec<Option<Vec<Balancer>>>,
    _counted: Counted,
}

struct Counted(Arc<Seen>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.prepared.fetch_sub(1, SeqCst);
    }
}

impl TestPlane {
    pub fn start(runtime: &Runtime, seen: &Arc<Seen>) -> TestPlane {
        let mut workers = Workers::default();
        for index in 0..runtime.workers() {
            let (seen, control) = (seen.clone(), runtime.control().clone());
            let name = format!("{}-{index}", seen.name);
            workers.add(workers.spawn(name, move |link| serve(link, seen, control)).expect("a thread"));
        }
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        TestPlane { seen: seen.clone(), workers, socket: Arc::new(socket.into()), changed: Vec::new() }
    }
}

impl Plane for TestPlane {
    fn prepare(&self, next: &Next<'_>, _: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
        self.seen.note("prepares");
        self.seen.prepared.fetch_add(1, SeqCst);
        let counted = Counted(self.seen.clone());
        let wrong = std::mem::take(&mut *lock(&self.seen.refuses));
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let (pools, count) = (next.pools(), self.workers.len());
        let balancers = next.plan().pools.iter().map(|pool| {
            let stays = next.before.is_some_and(|before| before.pool(&pool.name).is_some());
            let made =
                |worker| pools.get(&pool.name).balancer_for_answers(pool, worker as u32).expect("good parameters");
            (!stays).then(|| (0..count).map(made).collect())
        });
        Ok(Prepared::new(Ready { balancers: balancers.collect(), _counted: counted }))
    }

    fn install(&mut self, prepared: Prepared, pools: &mut Pools, sending: &Sending<'_>) {
        self.seen.note("installs");
        let Ready { mut balancers, _counted } = prepared.into();
        let plan = &sending.generation.plan;
        plan.pools.iter().for_each(|pool| self.seen.look(&pools[&pool.name], &pool.name));
        let mut tallies = lock(&self.seen.tallies);
        let before = std::mem::take(&mut *tallies);
        tallies.extend(sending.generation.pools().map(|(pool, endpoints)| {
            let next = before.get(&pool.name).map(|before| before.next(endpoints.clone()));
            (pool.name.clone(), next.unwrap_or_else(|| Tally::first(endpoints, self.workers.len())))
        }));
        drop(tallies);
        for worker in 0..self.workers.len() {
            let parts = plan.pools.iter().zip(&mut balancers).map(|(pool, balancers)| {
                let slots = slots(&pools[&pool.name], &pool.endpoints);
                (pool.name.clone(), balancers.as_mut().and_then(Vec::pop), slots)
            });
            self.workers.send(worker, Update::Plan(parts.collect()), sending.applying);
        }
    }

    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>) {
        let names: Vec<&str> = changes.iter().map(|change| &*change.pool.name).collect();
        self.seen.note(&format!("gets endpoints of {}", names.join(", ")));
        changes.iter().for_each(|change| self.seen.look(change.shared, &change.pool.name));
        let tallies = lock(&self.seen.tallies);
        let next = |of: &Change<'_>| tallies[&of.pool.name].members().next(of.endpoints.clone());
        self.changed.extend(changes.iter().map(|change| (change.pool.name.clone(), Arc::new(next(change)))));
        drop(tallies);
        let changed = |change: &Change<'_>| (change.pool.name.clone(), slots(change.shared, change.endpoints));
        for worker in 0..self.workers.len() {
            let update = Update::Endpoints(changes.iter().map(changed).collect());
            self.workers.send(worker, update, sending.applying);
        }
    }

    fn applied(&mut self) {
        let tallies = lock(&self.seen.tallies);
        self.changed.drain(..).for_each(|(pool, members)| tallies[&pool].change(members));
        drop(tallies);
        self.seen.note("lets go");
    }

    fn workers(&self) -> &Threads {
        self.workers.threads()
    }

    fn workers_mut(&mut self) -> &mut Threads {
        self.workers.threads_mut()
    }

    fn sockets(&self) -> Vec<(String, ListenFd)> {
        vec![(self.seen.name.to_owned(), self.socket.clone())]
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(NoMetrics)
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(Counting(self.seen.clone()))
    }

    fn tick(&mut self, _: Instant) -> Option<Work> {
        self.seen.note("ticks");
        let seen = self.seen.clone();
        Some(Box::new(move || lock(&seen.worked).push(std::thread::current().id())))
    }

    fn open(&self) -> u64 {
        2
    }

    fn join(self: Box<Self>) {
        self.workers.join();
        self.seen.note("has ended");
    }
}

#[derive(Debug)]
struct NoMetrics;

impl Collector for NoMetrics {
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Slots of endpoints, all of which must be reserved.
fn slots(pool: &SharedPool, endpoints: &[plan::Endpoint]) -> HashSet<Slot> {
    endpoints.iter().map(|endpoint| pool.slot_of(endpoint).expect("it is reserved")).collect()
}

/// State of a pool in a worker.
struct Held {
    balancer: Balancer,
    known: HashSet<Slot>,
    /// Slots that it knew before, which may be picked until the set without them is published.
    leaving: HashSet<Slot>,
}

async fn serve(link: ControlLink<Update>, seen: Arc<Seen>, control: Control) -> io::Result<()> {
    let ControlLink { mut updates, mut commands } = link;
    let mut pools = HashMap::new();
    while *commands.borrow_and_update() == Command::Run {
        tokio::select! {
            biased;
            changed = commands.changed() => if changed.is_err() { break },
            update = updates.recv() => match update {
                Some((update, _applied)) => apply(&mut pools, update, &seen)?,
                None => break,
            },
            () = tokio::task::yield_now(), if seen.picks.load(SeqCst) => {
                pools.values_mut().for_each(|pool| pick(pool, &seen, control.now()));
            }
        }
    }
    Ok(())
}

fn apply(pools: &mut HashMap<Arc<str>, Held>, update: Update, seen: &Seen) -> io::Result<()> {
    drop(lock(&seen.gate));
    if seen.breaks.load(SeqCst) {
        return Err(io::Error::other("no room"));
    }
    match update {
        Update::Plan(parts) => {
            let mut before = std::mem::take(pools);
            for (name, balancer, known) in parts {
                let (old, leaving) = before.remove(&name).map(|held| (held.balancer, held.known)).unzip();
                let balancer = balancer.or(old).expect("a new pool comes with a balancer");
                pools.insert(name, Held { balancer, known, leaving: leaving.unwrap_or_default() });
            }
        }
        Update::Endpoints(changed) => {
            for (name, known) in changed {
                let held = pools.get_mut(&name).expect("it has every pool of the plan");
                held.leaving = std::mem::replace(&mut held.known, known);
            }
        }
    }
    seen.note("has applied");
    Ok(())
}

fn pick(pool: &mut Held, seen: &Seen, now: Instant) {
    let mut picked = Vec::new();
    if pool.balancer.choose_k(&Request::default(), 1, now, &mut picked).is_ok() {
        seen.picked.fetch_add(picked.len(), SeqCst);
        let unknown = picked.iter().filter(|slot| !pool.known.contains(slot) && !pool.leaving.contains(slot));
        seen.unknown.fetch_add(unknown.count(), SeqCst);
    }
}
