//! The DNS plane of the runtime. Preparing a plan does everything that can fail (sockets, threads,
//! balancers); installing it sends each worker its part.

use crate::answer::Answerer;
use crate::cookie::Secret;
use crate::metrics::{Counted, Metrics, Numbers};
use crate::pools::{Endpoint, Found, PoolParts, WorkerPool};
use crate::stats::EndpointStats;
use crate::worker::{self, ListenerParts, Sockets, ZoneUpdate};
use crate::zone::Zone;
use evenkeel_balance::rng::mix;
use evenkeel_balance::{Balancer, Slot};
use evenkeel_config::plan::{self, Listener, Mode};
use evenkeel_config::{Plan, Subject};
use evenkeel_net::clock::Base;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{self, CannotListen, Claim, ListenFd, Protocol};
use evenkeel_net::workers::{Threads, Worker, Workers};
use evenkeel_runtime::ledger::Members;
use evenkeel_runtime::pool::address;
use evenkeel_runtime::{
    Change, Diagnostic, Generation, Next, Plane, Pools, Prepared, Runtime, Sending, SharedPool, StartError, View,
};
use prometheus_client::collector::Collector;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// DNS as a plane: the control side of its workers. Threads exist only once a plan has a listener with `mode
/// = "dns"`.
pub struct Dns {
    count: usize,
    base: Base,
    secret: Secret,
    workers: Workers<ZoneUpdate>,
    /// Sockets at each address, as long as a worker has them.
    sockets: HashMap<SocketAddr, Vec<Weak<OwnedFd>>>,
    /// Endpoints of the pools that zones name, by worker.
    endpoints: Vec<Found>,
    running: Arc<Generation>,
    numbers: watch::Sender<Arc<Numbers>>,
    /// State last sent to workers, until all of them have applied it.
    sent: Option<(Arc<Generation>, Arc<Numbers>)>,
    /// Endpoint counters sent to workers, by pool.
    changed: Vec<(Arc<str>, Arc<Members<EndpointStats>>)>,
}

/// A prepared plan: all steps that can fail have succeeded.
struct Ready {
    /// New sockets, by address and worker.
    sockets: HashMap<SocketAddr, Vec<Sockets>>,
    workers: Vec<Worker<ZoneUpdate>>,
    /// Zones in the order of the DNS listeners.
    zones: Vec<ReadyZone>,
}

/// A zone with the balancers for its names.
struct ReadyZone {
    zone: Arc<Zone>,
    /// Balancers by worker, then in the order of [`Zone::pools`].
    balancers: Vec<Vec<Balancer>>,
}

impl Dns {
    /// A plane that serves nothing yet.
    ///
    /// # Errors
    /// If the kernel provides no random bytes for the cookie secret.
    pub fn new(runtime: &Runtime) -> Result<Dns, StartError> {
        let no_bytes = |error| Diagnostic::machine(format!("DNS: no random bytes for the cookie secret: {error}"));
        Ok(Dns {
            count: runtime.workers(),
            base: runtime.control().base(),
            secret: Secret::random().map_err(no_bytes)?,
            workers: Workers::default(),
            sockets: HashMap::new(),
            endpoints: (0..runtime.workers()).map(|_| Found::new()).collect(),
            running: runtime.now(),
            numbers: watch::channel(Arc::default()).0,
            sent: None,
            changed: Vec::new(),
        })
    }

    /// Counters for the metrics, under the current and later plans.
    fn numbers(&self) -> watch::Receiver<Arc<Numbers>> {
        self.numbers.subscribe()
    }

    /// Opens sockets at addresses that have none yet.
    fn open(
        &self,
        plan: &Plan,
        inherited: &mut Inherited,
        wrong: &mut Vec<Diagnostic>,
    ) -> HashMap<SocketAddr, Vec<Sockets>> {
        let (mut sockets, claim) = (HashMap::new(), Claim::of(plan.runtime.share_ports));
        for listener in listeners(plan) {
            for &addr in listener.bind.iter().filter(|addr| !self.sockets.contains_key(addr)) {
                let claim = claim.beside(addr, self.sockets.keys().copied());
                // Without coalescing, because each query is a datagram of its own.
                let udp = listen::udp(addr, self.count, inherited.at((Protocol::Udp, addr)), claim, false);
                let both = udp.and_then(|udp| {
                    let tcp = listen::tcp(addr, self.count, inherited.at((Protocol::Tcp, addr)), claim)?;
                    Ok(udp.into_iter().zip(tcp).map(|(udp, tcp)| Sockets { udp, tcp }).collect())
                });
                match both {
                    Ok(by_worker) => _ = sockets.insert(addr, by_worker),
                    Err(error) => {
                        wrong.push(Diagnostic::Listen(CannotListen { listener: listener.name.clone(), addr, error }));
                    }
                }
            }
        }
        sockets
    }

    /// Builds the zone of a listener, with balancers over the pools shared by all planes.
    fn zone(&self, zone: Zone, next: &Next<'_>, wrong: &mut Vec<Diagnostic>) -> ReadyZone {
        let pools = next.pools();
        let mut balancers: Vec<Vec<Balancer>> = (0..self.count).map(|_| Vec::new()).collect();
        for name in zone.pools() {
            let plan = next.plan().pool(&name).expect("a record's pool is in its plan");
            for (worker, balancers) in balancers.iter_mut().enumerate() {
                match pools.get(&name).balancer_for_answers(plan, worker as u32) {
                    Ok(balancer) => balancers.push(balancer),
                    Err(error) => {
                        let at = next.plan().pools.iter().position(|pool| pool.name == name);
                        let of = at.map(Subject::Pool).into_iter().collect();
                        wrong.push(Diagnostic::Plan { problem: format!("pool \"{name}\": {error}"), of });
                    }
                }
            }
        }
        ReadyZone { zone: Arc::new(zone), balancers }
    }
}

impl Plane for Dns {
    fn prepare(&self, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
        let (plan, mut wrong) = (next.plan(), Vec::new());
        let sockets = self.open(plan, inherited, &mut wrong);
        let zones = listeners(plan).filter_map(|listener| listener.zone.as_ref()).map(Zone::new);
        let zones: Vec<_> = zones.map(|zone| self.zone(zone, next, &mut wrong)).collect();
        let missing = if zones.is_empty() { 0 } else { self.count - self.workers.len() };
        let base = self.base;
        let mut workers = Vec::new();
        for index in 0..missing {
            match self.workers.spawn(format!("dns-{index}"), move |link| worker::serve(base, link)) {
                Ok(worker) => workers.push(worker),
                Err(error) => wrong.push(Diagnostic::machine(format!("cannot start a DNS worker: {error}"))),
            }
        }
        if wrong.is_empty() { Ok(Prepared::new(Ready { sockets, workers, zones })) } else { Err(wrong) }
    }

    /// Replaces whole zones. Sockets of unchanged addresses are kept, with everything queued in them.
    fn install(&mut self, prepared: Prepared, pools: &mut Pools, sending: &Sending<'_>) {
        let Ready { mut sockets, workers, mut zones } = prepared.into();
        workers.into_iter().for_each(|worker| self.workers.add(worker));
        for (addr, new) in &sockets {
            let all = new.iter().flat_map(|sockets| sockets.udp.iter().chain(&sockets.tcp));
            self.sockets.insert(*addr, all.map(Arc::downgrade).collect());
        }
        let plan = &sending.generation.plan;
        let numbers = Arc::new(Numbers::next(sending.generation, self.count, &self.numbers.borrow()));
        let of_zones: HashSet<Arc<str>> = zones.iter().flat_map(|ready| ready.zone.pools()).collect();
        let of_zones = plan.pools.iter().filter(|pool| of_zones.contains(&pool.name));
        let keyed: HashMap<&str, bool> =
            of_zones.clone().map(|pool| (&*pool.name, pool.balance.algorithm.needs.key)).collect();
        let members: Vec<_> = of_zones.map(|pool| (&pool.name, numbers.members(&pool.name))).collect();
        for index in 0..self.workers.len() {
            let known = members.iter().map(|(name, of)| (Arc::clone(name), endpoints(&pools[*name], of, index)));
            let before = std::mem::replace(&mut self.endpoints[index], known.collect());
            let known = &self.endpoints[index];
            let parts = listeners(plan).zip(&mut zones).map(|(listener, ready)| {
                let balancers = std::mem::take(&mut ready.balancers[index]);
                let pool = |(name, balancer): (Arc<str>, Balancer)| {
                    let parts = PoolParts {
                        balancer,
                        goes_by_key: keyed[&*name],
                        endpoints: known[&name].clone(),
                        leaving: before.get(&name).cloned().unwrap_or_default(),
                    };
                    WorkerPool::new(parts, numbers.pool(&name, index))
                };
                let pools = ready.zone.pools().into_iter().zip(balancers).map(pool).collect();
                let seed = mix(u64::from(std::process::id())) ^ mix(index as u64 + 1);
                let stats = numbers.listener(&listener.name, index);
                ListenerParts {
                    plan: listener.clone(),
                    answerer: Answerer::new(ready.zone.clone(), pools, self.secret, stats, seed),
                    binds: listener.bind.iter().map(|&a| (a, sockets.get_mut(&a).and_then(Vec::pop))).collect(),
                    connections_max: listener.limits.connections.div_ceil(self.count),
                }
            });
            self.workers.send(index, ZoneUpdate::Plan(parts.collect()), sending.applying);
        }
        self.sent = Some((sending.generation.clone(), numbers));
    }

    /// Skips pools that no zone names.
    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>) {
        let numbers = self.numbers.borrow().clone();
        let of_zones = changes.iter().filter(|change| numbers.has(&change.pool.name));
        let found: Vec<_> = of_zones
            .map(|change| (change, Arc::new(numbers.members(&change.pool.name).next(change.endpoints.clone()))))
            .collect();
        if found.is_empty() {
            return;
        }
        for worker in 0..self.workers.len() {
            let endpoints = |(change, members): &(&Change<'_>, Arc<_>)| {
                (change.pool.name.clone(), endpoints(change.shared, members, worker))
            };
            let found: Found = found.iter().map(endpoints).collect();
            self.endpoints[worker].extend(found.iter().map(|(name, endpoints)| (name.clone(), endpoints.clone())));
            self.workers.send(worker, ZoneUpdate::Endpoints(found), sending.applying);
        }
        self.changed = found.into_iter().map(|(change, members)| (change.pool.name.clone(), members)).collect();
    }

    fn applied(&mut self) {
        for (pool, members) in self.changed.drain(..) {
            self.numbers.borrow().change(&pool, members);
        }
        let Some((running, numbers)) = self.sent.take() else { return };
        self.sockets.retain(|addr, _| listeners(&running.plan).any(|listener| listener.bind.contains(addr)));
        self.running = running;
        self.numbers.send_replace(numbers);
    }

    fn workers(&self) -> &Threads {
        self.workers.threads()
    }

    fn workers_mut(&mut self) -> &mut Threads {
        self.workers.threads_mut()
    }

    fn sockets(&self) -> Vec<(String, ListenFd)> {
        let mut all: Vec<(String, ListenFd)> = Vec::new();
        for listener in listeners(&self.running.plan) {
            let here = listener.bind.iter().filter_map(|addr| self.sockets.get(addr)).flatten();
            for socket in here.filter_map(Weak::upgrade) {
                // Workers may share a socket.
                if !all.iter().any(|(_, other)| Arc::ptr_eq(other, &socket)) {
                    all.push((listener.name.to_string(), socket));
                }
            }
        }
        all
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Metrics::new(self.numbers()))
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(Counted(self.numbers()))
    }

    fn join(self: Box<Self>) {
        self.workers.join();
    }
}

/// Listeners that speak DNS, each with a zone.
fn listeners(plan: &Plan) -> impl Iterator<Item = &Arc<Listener>> {
    plan.listeners.iter().filter(|l| l.mode == Mode::Dns && l.zone.is_some())
}

/// Endpoints of a pool with a known address, as a worker's answers need them.
fn endpoints(pool: &SharedPool, members: &Members<EndpointStats>, worker: usize) -> Vec<(Slot, Endpoint)> {
    let one = |(of, stats): (&plan::Endpoint, &Arc<EndpointStats>)| {
        let (slot, addr) = (pool.slot_of(of)?, address(&of.addr)?.socket_addr()?);
        let (weight, priority, zone) = (of.weight, of.priority, of.zone.clone());
        Some((slot, Endpoint { addr, weight, priority, zone, stats: stats.clone() }))
    };
    members.endpoints.iter().zip(&members.workers[worker]).filter_map(one).collect()
}

#[cfg(test)]
mod tests;
