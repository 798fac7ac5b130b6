//! State of workers that no other thread sees. A [`Looker`] sends each of them a closure, which runs between two
//! requests: explanations that they keep, requests that they remember, and the pick that a pool would make now.
#![expect(clippy::disallowed_methods, reason = "the admin waits for workers, and not the other way round")]

use super::dry_run::dry_run;
use super::installed::Worker;
use super::parts::Update;
use crate::listener::route_why;
use crate::observe::numbers::Numbers;
use evenkeel_balance::EndpointId;
use evenkeel_balance::recent::Recent;
use evenkeel_config::plan;
use evenkeel_net::workers::Door;
use evenkeel_runtime::Control;
use evenkeel_runtime::membership::Endpoints;
use evenkeel_view::described::Parts;
use evenkeel_view::picks::{Explained, Pick, WouldGo};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Longest wait for a worker. A worker that is busy for longer is missing from the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs queries on the threads of workers.
pub struct Looker {
    doors: Vec<Door<Update>>,
    running: watch::Receiver<Arc<Numbers>>,
    control: Control,
}

/// Recent requests to a pool with shadow algorithms.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// The pool as configured, with its shadows.
    pub pool: Arc<plan::Pool>,
    /// The latest requests, an entry for each worker that answered.
    pub recent: Vec<Recent>,
    /// Names of the endpoints in `recent`.
    pub names: BTreeMap<EndpointId, Arc<str>>,
}

/// Facts about a pool that its workers do not have: tiers, zones, and the times of the last changes of state.
struct Known {
    endpoints: Endpoints,
    since_ms: BTreeMap<Arc<str>, u64>,
}

/// Recent requests of a worker, and the names of their endpoints.
type OfWorker = (Recent, Vec<(EndpointId, Arc<str>)>);

impl Looker {
    pub(crate) fn new(doors: Vec<Door<Update>>, running: watch::Receiver<Arc<Numbers>>, control: Control) -> Looker {
        Looker { doors, running, control }
    }

    /// Channels to the workers, in their order.
    pub(super) fn doors(&self) -> &[Door<Update>] {
        &self.doors
    }

    /// Statistics of the workers, under the plan that runs.
    pub fn now(&self) -> Arc<Numbers> {
        self.running.borrow().clone()
    }

    /// Runs `look` on all workers, and collects the answers that arrive in time.
    async fn ask<T: Send + 'static>(&self, look: impl Fn(&Worker) -> T + Clone + Send + 'static) -> Vec<T> {
        let asked: Vec<_> = self.doors.iter().filter_map(|door| ask(door, look.clone())).collect();
        let mut answers = Vec::new();
        for answer in asked {
            answers.extend(tokio::time::timeout(PATIENCE, answer).await.ok().and_then(Result::ok));
        }
        answers
    }

    /// All explanations that are kept, latest first.
    pub async fn explanations(&self) -> Vec<Explained> {
        let kept = self.ask(|worker| worker.core.explanations.kept()).await;
        let now = self.now();
        let mut all: Vec<Explained> = kept.into_iter().flatten().map(|one| Explained::clone(&one)).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.at_ms));
        self.fill(&now, &mut all);
        all
    }

    /// The explanation of the request with this id (case-insensitive); `None` if it was not explained or was
    /// forgotten.
    pub async fn explanation(&self, request_id: &str) -> Option<Explained> {
        let id = request_id.to_ascii_lowercase();
        let find = move |worker: &Worker| worker.core.explanations.kept().into_iter().find(|one| one.request_id == id);
        let mut found = Explained::clone(&*self.ask(find).await.into_iter().flatten().next()?);
        self.fill(&self.now(), std::slice::from_mut(&mut found));
        Some(found)
    }

    /// Adds tiers and zones of candidates, and since when excluded endpoints are in their state. That time is of now:
    /// if the state has changed after the pick, it is later than the pick.
    fn fill(&self, now: &Numbers, all: &mut [Explained]) {
        let mut pools = BTreeMap::new();
        for one in all {
            let known = pools.entry(one.pool.clone()).or_insert_with(|| self.known(now, &one.pool));
            let Some(known) = known else { continue };
            let picks = one.tries.iter_mut().filter_map(|tried| tried.pick.as_mut());
            picks.for_each(|pick| known.add_to(pick));
        }
    }

    fn known(&self, now: &Numbers, pool: &str) -> Option<Known> {
        let (plan, endpoints) = now.generation.pool(pool)?;
        let pools = self.control.pools();
        let snapshot = pools.get(pool).map(|shared| shared.snapshot(plan, &endpoints)).unwrap_or_default();
        let since_ms = snapshot.endpoints.into_iter().filter_map(|e| Some((e.name, e.since_ms?))).collect();
        Some(Known { endpoints, since_ms })
    }

    /// Explains the next request to this pool, on any worker.
    ///
    /// # Errors
    /// There is no pool of this name.
    pub fn arm(&self, pool: &str) -> Result<(), String> {
        let pool = self.pool(&self.now(), pool)?.name.clone();
        let had = Arc::<AtomicBool>::default();
        for door in &self.doors {
            let (pool, had) = (pool.clone(), had.clone());
            door.send(Update::Look(Box::new(move |worker| worker.core.explanations.arm(pool, had))));
        }
        Ok(())
    }

    fn pool<'g>(&self, now: &'g Numbers, name: &str) -> Result<&'g Arc<plan::Pool>, String> {
        now.generation.pool(name).map(|(pool, _)| pool).ok_or_else(|| {
            let names: Vec<&str> = now.plan().pools.iter().map(|pool| &*pool.name).take(20).collect();
            format!("unknown pool \"{name}\"; pools: {}", names.join(", "))
        })
    }

    /// Routes a described request, lets it pass its filters in a dry run, and picks for it, without sending it. Nothing
    /// is counted.
    ///
    /// # Errors
    /// There is no listener of this name.
    pub async fn would_go(&self, described: Parts) -> Result<WouldGo, String> {
        let now = self.now();
        let would = WouldGo { routed: route_why::explain(now.plan(), &described, None)?, ..WouldGo::default() };
        for door in &self.doors {
            let (would, described, running) = (would.clone(), described.clone(), now.clone());
            let Some(asked) = ask(door, move |worker| dry_run(worker, running.plan(), would, &described)) else {
                continue;
            };
            let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, asked).await else { continue };
            let mut would = answer?;
            if let (Some(pick), Some(pool)) = (&mut would.pick, &would.routed.pool)
                && let Some(known) = self.known(&now, pool)
            {
                known.add_to(pick);
            }
            return Ok(would);
        }
        Ok(would)
    }

    /// The latest requests of all pools with shadows, or of the pool `pool`.
    ///
    /// # Errors
    /// There is no pool of this name.
    pub async fn remembered(&self, pool: Option<&str>) -> Result<Vec<Remembered>, String> {
        let now = self.now();
        pool.map_or(Ok(()), |name| self.pool(&now, name).map(drop))?;
        let wanted = now.plan().pools.iter().filter(|of| pool.is_none_or(|name| *of.name == *name));
        let mut all = Vec::new();
        for pool in wanted.filter(|pool| !pool.shadow.is_empty()) {
            let name = pool.name.clone();
            let of_workers = self.ask(move |worker| remembered(worker, &name)).await;
            let mut found = Remembered { pool: pool.clone(), recent: Vec::new(), names: BTreeMap::new() };
            for (recent, names) in of_workers.into_iter().flatten() {
                found.recent.push(recent);
                found.names.extend(names);
            }
            all.push(found);
        }
        Ok(all)
    }
}

impl Known {
    /// Fills in the tiers, zones and times of a pick.
    fn add_to(&self, pick: &mut Pick) {
        for candidate in &mut pick.candidates {
            if let Some(endpoint) = self.endpoints.iter().find(|endpoint| endpoint.name == candidate.endpoint) {
                (candidate.tier, candidate.zone) = (Some(endpoint.priority), endpoint.zone.clone());
            }
        }
        for excluded in &mut pick.excluded {
            excluded.since_ms = self.since_ms.get(&*excluded.endpoint).copied();
        }
    }
}

fn ask<T: Send + 'static>(
    door: &Door<Update>,
    look: impl FnOnce(&Worker) -> T + Send + 'static,
) -> Option<oneshot::Receiver<T>> {
    let (answer, answered) = oneshot::channel();
    // The receiver may be gone, as the admin request that asked may have been cancelled.
    door.send(Update::Look(Box::new(move |worker| _ = answer.send(look(worker))))).then_some(answered)
}

fn remembered(worker: &Worker, pool: &str) -> Option<OfWorker> {
    let installed = worker.installed.borrow();
    let pool = installed.pools.iter().find(|of| *of.name == *pool)?;
    let recent = pool.balancer.borrow().recent()?;
    let names = recent.set.members().iter().map(|m| (m.id, pool.endpoints.name_of(m.slot))).collect();
    Some((recent, names))
}
