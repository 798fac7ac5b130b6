//! What do workers know that no other thread sees? A [`Looker`] asks them, and waits while the question is answered between
//! two requests: explanations that they keep, shadows, and what a pool would pick now.
#![expect(clippy::disallowed_methods, reason = "the admin waits for workers, and not the other way round")]

use super::installed::Worker;
use super::parts::Update;
use crate::listener::route_why::{self, Routed};
use crate::observe::explanations::{Explained, Pick};
use crate::observe::generation::Generation;
use crate::peer::hash_key;
use evenkeel_balance::shadow::unknown;
use evenkeel_balance::{Clock, Explanation, Request};
use evenkeel_config::plan;
use evenkeel_net::workers::Door;
use evenkeel_pools::Control;
use evenkeel_wire::head::{self, Table};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{oneshot, watch};

/// How long a worker is waited for. One that is busy for longer is left out of the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks workers.
pub struct Looker {
    doors: Vec<Door<Update>>,
    running: watch::Receiver<Arc<Generation>>,
    control: Control,
}

/// A request that is described, and not sent.
#[derive(Clone, Debug)]
pub struct Described {
    /// As sent.
    pub method: String,
    /// As a client would write it, with its port if it has one.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
    /// Where it would come in; the first listener for HTTP if that is not said.
    pub listener: Option<String>,
    /// The client that would send it.
    pub client: Option<IpAddr>,
}

/// What would become of it.
#[derive(Clone, Debug)]
pub struct WouldGo {
    /// Which route takes it, and why the others do not.
    pub routed: Routed,
    /// What the pool would pick now, by one of its workers.
    pub pick: Option<Pick>,
    /// The worker that says so.
    pub worker: Option<usize>,
}

/// The shadows of one pool.
#[derive(Clone, Debug)]
pub struct PoolShadows {
    /// Its name.
    pub pool: Arc<str>,
    /// The algorithm that picks.
    pub balance: String,
    /// The part of the picks that shadows are asked about.
    pub sample: f64,
    /// In the order of the configuration.
    pub shadows: Vec<Shadow>,
}

/// One shadow, over all workers.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    /// With what is not at its default.
    pub algorithm: String,
    /// Picks of the pool.
    pub picks: u64,
    /// Of these, those that were compared.
    pub compared: u64,
    /// The part of these where it would have picked the same; none before the first.
    pub agreement: Option<f64>,
    /// Where it found all endpoints full.
    pub refused: u64,
    /// Requests in flight at the picked endpoint before the pick, on average: the real picks, and those of the shadow by its counts.
    pub met: Option<Met>,
    /// The most picks for its weight that an endpoint got, over its fair share: 1 is even.
    pub peak: Option<Met>,
    /// By name.
    pub endpoints: Vec<ShadowEndpoint>,
    /// What it would know and cannot.
    pub unknown: &'static str,
}

/// A number of the real picks, and of the shadow's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// As it is.
    pub real: f64,
    /// As it would be.
    pub shadow: f64,
}

/// One endpoint, as picked and as the shadow would have.
#[derive(Clone, Debug, Default)]
pub struct ShadowEndpoint {
    /// Its name.
    pub endpoint: Arc<str>,
    /// Parts of the picks compared.
    pub share: Met,
    /// By weight.
    pub fair: f64,
}

/// Of one worker's shadow.
struct Seen {
    picks: u64,
    compared: u64,
    agreed: u64,
    refused: u64,
    met: (u64, u64),
    /// Name, weight, and picks: real and of the shadow.
    endpoints: Vec<(Arc<str>, u32, u64, u64)>,
    unknown: &'static str,
}

impl Looker {
    pub(crate) fn new(doors: Vec<Door<Update>>, running: watch::Receiver<Arc<Generation>>, control: Control) -> Looker {
        Looker { doors, running, control }
    }

    /// One to each worker.
    pub(super) fn doors(&self) -> &[Door<Update>] {
        &self.doors
    }

    fn now(&self) -> Arc<Generation> {
        self.running.borrow().clone()
    }

    /// Has workers look, and waits for their answers: those that come in time.
    async fn ask<T: Send + 'static>(&self, look: impl Fn(&Worker) -> T + Clone + Send + 'static) -> Vec<T> {
        let asked: Vec<_> = self.doors.iter().filter_map(|door| ask(door, look.clone())).collect();
        let mut answers = Vec::new();
        for answer in asked {
            answers.extend(tokio::time::timeout(PATIENCE, answer).await.ok().and_then(Result::ok));
        }
        answers
    }

    /// The explanations that are kept, the latest first.
    pub async fn explanations(&self) -> Vec<Explained> {
        let kept = self.ask(|worker| worker.core.explaining.kept()).await;
        let now = self.now();
        let mut all: Vec<Explained> = kept.into_iter().flatten().map(|one| Explained::clone(&one)).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.at_ms));
        self.fill(&now, &mut all);
        all
    }

    /// The explanation of a request, by its id.
    pub async fn explanation(&self, request_id: &str) -> Option<Explained> {
        let id = request_id.to_ascii_lowercase();
        let find = move |worker: &Worker| worker.core.explaining.kept().into_iter().find(|one| one.request_id == id);
        let mut found = Explained::clone(&*self.ask(find).await.into_iter().flatten().next()?);
        self.fill(&self.now(), std::slice::from_mut(&mut found));
        Some(found)
    }

    /// Adds tiers, zones, and since when endpoints are in their state. What is left out for another reason by now, says so
    /// by a state that is younger than the pick.
    fn fill(&self, now: &Generation, all: &mut [Explained]) {
        let since: BTreeMap<_, _> = now.plan.pools.iter().map(|pool| (pool.name.clone(), self.since(pool))).collect();
        let since_ms = |pool: &str, endpoint: &str| since.get(pool)?.get(endpoint).copied();
        all.iter_mut().for_each(|one| one.fill(&now.plan, since_ms));
    }

    fn since(&self, pool: &plan::Pool) -> BTreeMap<Arc<str>, u64> {
        let pools = self.control.pools();
        let snapshot = pools.get(&pool.name).map(|shared| shared.snapshot(pool)).unwrap_or_default();
        let ms = |since: SystemTime| since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        snapshot.endpoints.into_iter().filter_map(|e| Some((e.name, ms(e.since?)))).collect()
    }

    /// The next request of this pool is explained, whichever worker serves it.
    ///
    /// # Errors
    /// There is no such pool.
    pub fn arm(&self, pool: &str) -> Result<(), String> {
        let pool = self.pool(&self.now(), pool)?.name.clone();
        let had = Arc::<AtomicBool>::default();
        for door in &self.doors {
            let (pool, had) = (pool.clone(), had.clone());
            door.send(Update::Look(Box::new(move |worker| worker.core.explaining.arm(pool, had))));
        }
        Ok(())
    }

    fn pool<'g>(&self, now: &'g Generation, name: &str) -> Result<&'g plan::Pool, String> {
        now.plan.pools.iter().find(|pool| *pool.name == *name).ok_or_else(|| {
            let names: Vec<&str> = now.plan.pools.iter().map(|pool| &*pool.name).take(20).collect();
            format!("no pool is called \"{name}\"; there are: {}", names.join(", "))
        })
    }

    /// What would become of a request now. Nothing is counted.
    ///
    /// # Errors
    /// There is no such listener.
    pub async fn would_go(&self, described: Described) -> Result<WouldGo, String> {
        let now = self.now();
        let path = described.target.split('?').next().unwrap_or_default();
        let routed = route_why::explain(&now.plan, described.listener.as_deref(), &described.host, path)?;
        let Some(name) = routed.pool.clone() else { return Ok(WouldGo { routed, pick: None, worker: None }) };
        let look = {
            let name = name.clone();
            move |worker: &Worker| (worker.core.index, would_pick(worker, &name, &described))
        };
        let mut answer = None;
        for door in &self.doors {
            let Some(asked) = ask(door, look.clone()) else { continue };
            answer = tokio::time::timeout(PATIENCE, asked).await.ok().and_then(Result::ok);
            if answer.is_some() {
                break;
            }
        }
        let (worker, pick) = answer.unzip();
        let mut pick = pick.flatten();
        if let (Some(pick), Ok(pool)) = (&mut pick, self.pool(&now, &name)) {
            let since = self.since(pool);
            pick.fill(pool, |endpoint| since.get(endpoint).copied());
        }
        Ok(WouldGo { routed, pick, worker })
    }

    /// The shadows of all pools that have some, or of one.
    ///
    /// # Errors
    /// There is no such pool.
    pub async fn shadows(&self, pool: Option<&str>) -> Result<Vec<PoolShadows>, String> {
        let now = self.now();
        pool.map_or(Ok(()), |name| self.pool(&now, name).map(drop))?;
        let seen = self.ask(seen).await;
        let wanted = now.plan.pools.iter().filter(|of| pool.is_none_or(|name| *of.name == *name));
        let shadows = wanted.filter(|pool| !pool.shadow.is_empty()).map(|pool| {
            let of = |at: usize| {
                let workers = seen.iter().filter_map(|worker| worker.get(&pool.name)?.get(at));
                shadow(pool.shadow[at].to_string(), workers)
            };
            PoolShadows {
                pool: pool.name.clone(),
                balance: pool.balance.to_string(),
                sample: pool.shadow_sample,
                shadows: (0..pool.shadow.len()).map(of).collect(),
            }
        });
        Ok(shadows.collect())
    }
}

fn ask<T: Send + 'static>(
    door: &Door<Update>,
    look: impl FnOnce(&Worker) -> T + Send + 'static,
) -> Option<oneshot::Receiver<T>> {
    let (answer, answered) = oneshot::channel();
    // The client that asked may be gone.
    door.send(Update::Look(Box::new(move |worker| _ = answer.send(look(worker))))).then_some(answered)
}

fn would_pick(worker: &Worker, pool: &str, described: &Described) -> Option<Pick> {
    let installed = worker.installed.borrow();
    let pool = installed.pools.iter().find(|of| *of.name == *pool)?;
    let mut table: Table =
        described.fields.iter().map(|(name, value)| (name.as_bytes(), value.trim().as_bytes())).collect();
    let (method, target, host) = (&*described.method, &*described.target, described.host.as_bytes());
    let request = head::Request { method, target, host, fields: table.fields() };
    let ip = described.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let key = pool.key.as_ref().and_then(|key| hash_key::hash(key, &request, ip));
    let mut why = Explanation::default();
    let request = Request { key, tried: &[], beyond: false };
    let picked = pool.balancer.borrow_mut().would_pick(&request, worker.core.clock.now(), &mut why);
    Some(Pick::new(&why, picked.err(), |slot| pool.endpoints.name_of(slot)))
}

fn seen(worker: &Worker) -> BTreeMap<Arc<str>, Vec<Seen>> {
    let installed = worker.installed.borrow();
    let of_pool = |pool: &crate::upstream::pool::WorkerPool| {
        let shown = pool.balancer.borrow().shadows();
        let seen = shown.into_iter().map(|shown| Seen {
            picks: shown.starts,
            compared: shown.sampled,
            agreed: shown.agreed,
            refused: shown.apart,
            met: (shown.met_real, shown.met),
            endpoints: shown
                .endpoints
                .iter()
                .map(|e| (pool.endpoints.name_of(e.slot), e.weight, e.real, e.picks))
                .collect(),
            unknown: unknown(shown.algorithm),
        });
        seen.collect::<Vec<_>>()
    };
    installed.pools.iter().map(|pool| (pool.name.clone(), of_pool(pool))).collect()
}

fn shadow<'s>(algorithm: String, workers: impl Iterator<Item = &'s Seen>) -> Shadow {
    let mut shadow = Shadow { algorithm, ..Shadow::default() };
    let (mut agreed, mut met, mut endpoints) = (0, (0, 0), BTreeMap::<Arc<str>, (u64, u64, u64)>::new());
    for seen in workers {
        shadow.picks += seen.picks;
        shadow.compared += seen.compared;
        shadow.refused += seen.refused;
        shadow.unknown = seen.unknown;
        agreed += seen.agreed;
        met = (met.0 + seen.met.0, met.1 + seen.met.1);
        for (name, weight, real, picks) in &seen.endpoints {
            let sum = endpoints.entry(name.clone()).or_default();
            *sum = (u64::from(*weight), sum.1 + real, sum.2 + picks);
        }
    }
    let part = |of: u64, all: u64| if all == 0 { 0.0 } else { of as f64 / all as f64 };
    let weights: u64 = endpoints.values().map(|(weight, ..)| weight).sum();
    let (real, picks) = endpoints.values().fold((0, 0), |sum, (_, real, picks)| (sum.0 + real, sum.1 + picks));
    let endpoint = |(endpoint, (weight, of_real, of_picks)): (Arc<str>, (u64, u64, u64))| ShadowEndpoint {
        endpoint,
        share: Met { real: part(of_real, real), shadow: part(of_picks, picks) },
        fair: part(weight, weights),
    };
    shadow.endpoints = endpoints.into_iter().map(endpoint).collect();
    if shadow.compared > 0 {
        shadow.agreement = Some(part(agreed, shadow.compared));
        let own = shadow.compared - shadow.refused;
        shadow.met = Some(Met { real: part(met.0, shadow.compared), shadow: part(met.1, own) });
        let over = |share: fn(&Met) -> f64| {
            let over = shadow.endpoints.iter().filter(|e| e.fair > 0.0).map(|e| share(&e.share) / e.fair);
            over.fold(0.0, f64::max)
        };
        shadow.peak = Some(Met { real: over(|met| met.real), shadow: over(|met| met.shadow) });
    }
    shadow
}
