//! Sources of a plan, and the endpoints that its pools get from them. A source that is also in the next plan continues,
//! and keeps its endpoints.

use crate::context::Context;
use crate::guard::{Guard, Trust};
use crate::kept::Kept;
use crate::lock::lock;
use crate::out::{In, Pending, advice, channel, first, unix_time};
use crate::sources;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::{self, Address, Dns, Endpoint, Records, Resolve, Resolver, Scope};
use evenkeel_config::{Plan, endpoints_from_toml, endpoints_to_toml};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// Longest wait for new sources before pools start without them.
const FIRST: Duration = Duration::from_secs(2);

/// Least time between two changes of pools; faster changes are combined.
const APART: Duration = Duration::from_millis(10);

/// Sources of the current plan. Must be used inside a tokio runtime, in which they run as tasks.
#[derive(Debug, Default)]
pub struct Discovery {
    following: Arc<Mutex<Following>>,
    news: Arc<Pending>,
    /// Connections that sources share.
    shared: Context,
    /// Time at which changes were last returned.
    last: Option<Instant>,
    /// Lists of the process before, for the first plan, by pool and hash of the settings.
    before: Mutex<HashMap<(Arc<str>, u64), Found>>,
    /// Endpoints that were last logged as refused, with the reasons, by pool.
    told: Mutex<HashMap<Arc<str>, Vec<String>>>,
}

/// Endpoints that a source has found, for the process that takes over: the source may fail just then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    pool: Arc<str>,
    /// Hash of the settings of the source.
    settings: u64,
    /// Endpoints in TOML, as a list.
    toml: String,
    /// Time of the last confirmation of the list, since 1970.
    held_at: Option<Duration>,
}

/// Sources of a plan. A source ends with the last plan that has it.
#[derive(Clone, Debug, Default)]
pub struct Following {
    /// Pools in the order of the plan.
    pools: Vec<Arc<Pool>>,
    at: HashMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct Pool {
    name: Arc<str>,
    entries: Vec<Entry>,
    guard: Arc<Guard>,
    /// True if no endpoint may be on this machine.
    refuses_local: bool,
}

/// An endpoint given by name without a known address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    pub pool: Arc<str>,
    /// Name of the endpoint in metrics and logs.
    pub endpoint: Arc<str>,
    /// Reason, from the last attempt to resolve it.
    pub why: String,
}

/// Origins of a pool's endpoints, in order.
#[derive(Clone, Debug)]
enum Entry {
    Fixed(Endpoint),
    /// An endpoint given by name.
    Named(Endpoint, Arc<Source>),
    Found(Arc<Source>),
}

/// A source with the task that runs it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) pool: Arc<str>,
    pub(crate) source: plan::Source,
    allow_empty: bool,
    resolver: Resolver,
    /// Start of the source, since 1970.
    pub(crate) began: Duration,
    said: In,
    task: AbortHandle,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Source {
    /// Results of the source so far.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.said.kept()
    }
}

impl Discovery {
    /// Discovery that starts with the endpoints that the previous process has found.
    pub fn after(before: Vec<Found>) -> Discovery {
        let before = before.into_iter().map(|found| ((found.pool.clone(), found.settings), found));
        Discovery { before: Mutex::new(before.collect()), ..Discovery::default() }
    }

    /// Endpoints that the sources have found, for the process that takes over.
    pub fn found(&self) -> Vec<Found> {
        let following = lock(&self.following);
        let mut seen = HashSet::new();
        let each = following.sources().filter(|source| seen.insert(Arc::as_ptr(source)));
        each.filter_map(|source| Found::of(source)).collect()
    }

    /// Prepares the sources of a plan that is about to run, and waits a short time for new sources. The current sources
    /// continue until [`keep`](Self::keep).
    pub async fn follow(&self, plan: &Plan) -> Following {
        let before = lock(&self.following).clone();
        let following = Following::of(plan, |pool, source, allow_empty| {
            let same = |old: &&Arc<Source>| {
                old.pool == *pool
                    && old.source == source
                    && old.allow_empty == allow_empty
                    && old.resolver == plan.resolver
            };
            let mut there = before.at.get(pool).into_iter().flat_map(|at| before.pools[*at].sources());
            there.find(same).cloned().unwrap_or_else(|| self.start(pool, source, allow_empty, &plan.resolver))
        });
        let answered = async {
            for source in following.sources() {
                source.said.answered().await;
            }
        };
        if timeout(FIRST, answered).await.is_err() {
            for source in following.sources().filter(|source| !source.said.has_answered()) {
                let (pool, source) = (&*source.pool, source.source.to_string());
                tracing::warn!(pool, source, "no response within {FIRST:?}; the pool starts without endpoints");
            }
        }
        following
    }

    /// Makes these the current sources, and ends all others.
    pub fn keep(&self, following: Following) {
        lock(&self.told).retain(|pool, _| following.at.contains_key(pool));
        following.with_sources().for_each(|pool| self.tell(pool));
        *lock(&self.following) = following;
        lock(&self.before).clear();
    }

    /// Logs endpoints that a pool must not have, unless the same list is in the log already.
    fn tell(&self, pool: &Pool) {
        let refused: Vec<String> = pool.refused(|_| true);
        let mut told = lock(&self.told);
        if told.get(&pool.name).map_or(&[][..], Vec::as_slice) == refused {
            return;
        }
        if !refused.is_empty() {
            let (pool, endpoints, first) = (&*pool.name, refused.len(), first(&refused));
            tracing::warn!(pool, endpoints, first, "endpoints refused");
        }
        told.insert(pool.name.clone(), refused);
    }

    /// Waits until endpoints of pools have changed, but at least [`APART`] since the last time. Returns those
    /// pools with their endpoints. Cancel safe. Pools that have not changed cost nothing.
    pub async fn changed(&mut self) -> Vec<(Arc<str>, Vec<Endpoint>)> {
        self.news.wait().await;
        if let Some(last) = self.last {
            sleep_until(last + APART).await;
        }
        self.last = Some(Instant::now());
        let (changed, following) = (self.news.take(), lock(&self.following));
        let list = |name: Arc<str>| {
            let pool = &following.pools[*following.at.get(&name)?];
            self.tell(pool);
            Some((name, pool.endpoints()))
        };
        changed.into_iter().filter_map(list).collect()
    }

    /// Current endpoints of each pool with sources.
    pub fn lists(&self) -> Vec<(Arc<str>, Vec<Endpoint>)> {
        lock(&self.following).lists()
    }

    /// Endpoints given by name without a known address.
    pub fn unresolved(&self) -> Vec<Unresolved> {
        let following = lock(&self.following);
        let each = following.pools.iter().flat_map(|pool| pool.entries.iter().map(move |entry| (pool, entry)));
        let unresolved = each.filter_map(|(pool, entry)| match entry {
            Entry::Named(endpoint, source) => {
                let refused = || pool.refused(|one| std::ptr::eq(one, entry)).into_iter().next();
                let why = source.kept().why_nothing().map(|why| why + advice(&source.source, &source.resolver));
                let why = why.or_else(|| pool.of(entry).is_empty().then(refused)?)?;
                Some(Unresolved { pool: pool.name.clone(), endpoint: endpoint.name.clone(), why })
            }
            Entry::Fixed(_) | Entry::Found(_) => None,
        });
        unresolved.collect()
    }

    /// The current sources, now and after later plans, for metrics.
    pub(crate) fn current(&self) -> Arc<Mutex<Following>> {
        self.following.clone()
    }

    /// Connections of the sources.
    pub(crate) fn shared(&self) -> Context {
        self.shared.clone()
    }

    fn start(&self, pool: &Arc<str>, source: plan::Source, allow_empty: bool, resolver: &Resolver) -> Arc<Source> {
        let before = lock(&self.before).remove(&(pool.clone(), settings(&source))).and_then(|found| found.kept());
        let (out, said) = channel(pool.clone(), (&source, resolver), allow_empty, self.news.clone(), before);
        let context = Context { resolver: resolver.clone(), ..self.shared.clone() };
        let task = tokio::spawn(sources::run(source.clone(), context, out)).abort_handle();
        let (pool, resolver, began) = (pool.clone(), resolver.clone(), unix_time());
        Source { pool, source, allow_empty, resolver, began, said, task }.into()
    }
}

impl Found {
    fn of(source: &Source) -> Option<Found> {
        let kept = source.kept();
        let endpoints = kept.endpoints();
        let (pool, settings, held_at) = (source.pool.clone(), settings(&source.source), kept.held_at);
        (!endpoints.is_empty()).then(|| Found { pool, settings, toml: endpoints_to_toml(endpoints), held_at })
    }

    fn kept(&self) -> Option<Kept> {
        let endpoints = endpoints_from_toml(&self.toml);
        (!endpoints.is_empty()).then(|| Kept::resumed(endpoints, self.held_at))
    }
}

/// Hash of all settings of a source, equal in every process of this version.
fn settings(source: &plan::Source) -> u64 {
    EndpointId::of(&format!("{source:?}")).0
}

impl Following {
    /// Collects the sources of a plan. `source` returns the source for a pool with these settings; the flag allows
    /// empty lists.
    fn of(plan: &Plan, mut source: impl FnMut(&Arc<str>, plan::Source, bool) -> Arc<Source>) -> Following {
        let guard = Arc::new(Guard::of(plan));
        let pools = plan.pools.iter().map(|pool| {
            let mut entries = Vec::new();
            for endpoint in &pool.endpoints {
                entries.push(match &endpoint.addr {
                    Address::Ip(_) | Address::Unix(_) => Entry::Fixed(endpoint.clone()),
                    Address::Name { host, port } => {
                        let (name, min_ttl) = (host.clone(), plan.resolver.min_ttl);
                        let dns = Dns { name, records: Records::Addresses, port: *port, min_ttl };
                        Entry::Named(endpoint.clone(), source(&pool.name, plan::Source::Dns(dns), false))
                    }
                });
            }
            if let Some(discover) = &pool.discover {
                let mut wanted = discover.source.clone();
                if let (plan::Source::Kubernetes(kubernetes), Some(_)) = (&mut wanted, &plan.providers.kubernetes) {
                    // The provider watches the whole cluster anyway, so pools share its scope and a single watch.
                    kubernetes.server.scope = Scope::Cluster;
                }
                entries.push(Entry::Found(source(&pool.name, wanted, discover.allow_empty)));
            }
            let refuses_local = pool.refuse_local;
            Arc::new(Pool { name: pool.name.clone(), entries, guard: guard.clone(), refuses_local })
        });
        let pools: Vec<_> = pools.collect();
        let at = pools.iter().enumerate().map(|(at, pool)| (pool.name.clone(), at)).collect();
        Following { pools, at }
    }

    /// All sources. A source that several entries share occurs repeatedly.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Arc<Source>> {
        self.pools.iter().flat_map(|pool| pool.sources())
    }

    /// Number of endpoints of a source that its pool must not have.
    pub(crate) fn refused(&self, source: &Source) -> usize {
        let Some(at) = self.at.get(&source.pool) else { return 0 };
        self.pools[*at].refused(|entry| entry.source().is_some_and(|one| std::ptr::eq(&**one, source))).len()
    }

    /// Pools with sources, or with endpoints that may be refused.
    fn with_sources(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.iter().filter(|pool| pool.refuses_local || pool.sources().next().is_some())
    }

    /// Current endpoints of each pool with sources.
    pub fn lists(&self) -> Vec<(Arc<str>, Vec<Endpoint>)> {
        self.with_sources().map(|pool| (pool.name.clone(), pool.endpoints())).collect()
    }
}

impl Pool {
    fn sources(&self) -> impl Iterator<Item = &Arc<Source>> {
        self.entries.iter().filter_map(Entry::source)
    }

    /// Endpoints without duplicate names and addresses. Endpoints of the configuration take precedence.
    fn endpoints(&self) -> Vec<Endpoint> {
        let (mut names, mut addrs) = (HashSet::new(), HashSet::new());
        let all = self.entries.iter().flat_map(|entry| self.listed(entry));
        all.filter(|e| names.insert(e.name.clone()) && addrs.insert(e.addr.clone())).collect()
    }

    /// Endpoints of an entry, with addresses that the pool may have. A name without an address is an endpoint that gets
    /// no requests.
    fn listed(&self, entry: &Entry) -> Vec<Endpoint> {
        let found = self.of(entry);
        match entry {
            Entry::Fixed(_) | Entry::Found(_) => found,
            Entry::Named(named, _) => match (named.resolve, &found[..]) {
                (Resolve::All, found) => found.iter().map(|found| one_of_many(named, found)).collect(),
                (Resolve::First, []) => vec![named.clone()],
                (Resolve::First, [first, ..]) => vec![Endpoint { addr: first.addr.clone(), ..named.clone() }],
            },
        }
    }

    /// Endpoints of an entry at addresses that the pool may have.
    fn of(&self, entry: &Entry) -> Vec<Endpoint> {
        entry.with(|all| all.iter().filter(|one| self.refuses(entry, one).is_none()).cloned().collect())
    }

    /// Endpoints of some entries that the pool must not have, with the reasons.
    fn refused(&self, of: impl Fn(&Entry) -> bool) -> Vec<String> {
        let mut refused = Vec::new();
        for entry in self.entries.iter().filter(|entry| of(entry)) {
            let line = |one: &Endpoint| Some(format!("{}: {}", one.name, self.refuses(entry, one)?));
            refused.extend(entry.with(|all| all.iter().filter_map(line).collect::<Vec<_>>()));
        }
        refused
    }

    /// Reason for which the pool must not have an endpoint.
    fn refuses(&self, entry: &Entry, endpoint: &Endpoint) -> Option<String> {
        let Address::Ip(addr) = endpoint.addr else { return None };
        let trust = match entry {
            _ if self.refuses_local => Trust::Tenant,
            Entry::Fixed(_) => return None,
            Entry::Named(..) => Trust::File,
            Entry::Found(source) if matches!(source.source, plan::Source::Kubernetes(_)) => Trust::Tenant,
            Entry::Found(_) => Trust::Registry,
        };
        self.guard.refuses(addr, trust)
    }
}

impl Entry {
    fn source(&self) -> Option<&Arc<Source>> {
        match self {
            Entry::Fixed(_) => None,
            Entry::Named(_, source) | Entry::Found(source) => Some(source),
        }
    }

    /// Looks at the endpoints as they are listed or found.
    fn with<T>(&self, look: impl FnOnce(&[Endpoint]) -> T) -> T {
        match self {
            Entry::Fixed(endpoint) => look(std::slice::from_ref(endpoint)),
            Entry::Named(_, source) | Entry::Found(source) => look(source.kept().endpoints()),
        }
    }
}

/// An endpoint of an entry with `resolve = "all"`. Its name is its address, after the name of the entry if the entry
/// has a name.
fn one_of_many(entry: &Endpoint, found: &Endpoint) -> Endpoint {
    let name = match *entry.name == *entry.addr.to_string() {
        true => found.name.clone(),
        false => format!("{}/{}", entry.name, found.name).into(),
    };
    Endpoint { name, addr: found.addr.clone(), ..entry.clone() }
}
