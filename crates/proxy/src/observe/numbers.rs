//! Statistics of the workers under the running plan. Replaced as a whole with the plan; when the endpoints of a pool
//! change, only that pool's are replaced.

use crate::cache::SharedCache;
use crate::cache::handover::Context;
use crate::encoder_memory::EncoderMemory;
use crate::observe::stats::{EndpointStats, WorkerStats};
use crate::resource::Resources;
use evenkeel_config::Plan;
use evenkeel_runtime::Generation;
use evenkeel_runtime::ledger::{self, Tally};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Time for writing the memory of the cache to its disk at the end of the process.
const SAVE_MAX: Duration = Duration::from_secs(10);

/// The endpoints of a pool, with the counters of each worker for them.
pub type Members = ledger::Members<EndpointStats>;

/// Statistics of all workers under a plan.
#[derive(Debug)]
pub struct Numbers {
    /// Generation of the plan in use.
    pub generation: Arc<Generation>,
    /// Statistics of each worker.
    pub workers: Vec<Arc<WorkerStats>>,
    pub(crate) resources: Arc<Resources>,
    /// Stored responses of all routes.
    pub(crate) cache: Arc<SharedCache>,
    /// Memory of the compressors of all workers.
    pub(crate) encoder_memory: Arc<EncoderMemory>,
    tallies: Vec<Tally<EndpointStats>>,
}

impl Numbers {
    /// Creates the statistics for the first plan, for `workers` workers.
    pub fn first(generation: Arc<Generation>, workers: usize, resources: Resources) -> Numbers {
        let tallies = generation.pools().map(|(_, endpoints)| Tally::first(endpoints, workers)).collect();
        let workers = (0..workers).map(|_| WorkerStats::new(&generation.plan, None).into()).collect();
        Numbers::new((generation, tallies), workers, resources.into())
    }

    /// Creates the statistics for the next plan. Entries named in both plans keep their counts.
    pub(crate) fn next(&self, generation: Arc<Generation>, resources: Arc<Resources>) -> Numbers {
        let next = |w: &Arc<WorkerStats>| WorkerStats::new(&generation.plan, Some((self.plan(), &**w))).into();
        let workers: Vec<_> = self.workers.iter().map(next).collect();
        let tallies = generation.pools().map(|(pool, endpoints)| match self.tally(&pool.name) {
            Some(before) => before.next(endpoints),
            None => Tally::first(endpoints, workers.len()),
        });
        let tallies = tallies.collect();
        Numbers::new((generation, tallies), workers, resources)
    }

    fn new(
        (generation, tallies): (Arc<Generation>, Vec<Tally<EndpointStats>>),
        workers: Vec<Arc<WorkerStats>>,
        resources: Arc<Resources>,
    ) -> Numbers {
        let (cache, encoder_memory) = (resources.of::<SharedCache>().clone(), resources.of::<EncoderMemory>().clone());
        Numbers { generation, workers, resources, cache, encoder_memory, tallies }
    }

    /// Parts that a handover of stored responses uses.
    pub fn handover(running: watch::Receiver<Arc<Numbers>>) -> Context {
        Context { cache: Box::new(move || running.borrow().cache.clone()) }
    }

    /// Writes the responses in memory to the disk of the cache, and releases the disk, in a limited time. Not for a
    /// thread that serves requests.
    pub fn save_cache(&self) {
        let until = std::time::Instant::now() + SAVE_MAX;
        if let Some(disk) = &self.cache.disk {
            disk.save(&self.cache.store, until);
            disk.close();
            disk.is_closed(until.saturating_duration_since(std::time::Instant::now()));
        }
    }

    /// Drops the responses in memory, stores nothing more, and lets another process have the disk.
    pub fn retire_cache(&self) {
        self.cache.let_go();
        self.cache.retire();
    }

    /// Lets time pass for stored responses, as tests do that cannot wait.
    pub fn skip_cache_time(&self, time: Duration) {
        self.cache.clock.skip(time);
    }

    /// Sets the wall clock of stored responses forward, or back, as tests do.
    pub fn step_cache_wall_clock(&self, ms: i64) {
        self.cache.clock.step_wall(ms);
    }

    /// Number of fetches behind requests: of stale responses that have answered them, and of whole responses.
    pub fn cache_fetches_behind(&self) -> u64 {
        self.cache.behind()
    }

    pub fn plan(&self) -> &Plan {
        &self.generation.plan
    }

    /// The counts of a pool, by its name.
    pub(crate) fn tally(&self, pool: &str) -> Option<&Tally<EndpointStats>> {
        Some(&self.tallies[self.generation.membership.at(pool)?])
    }

    /// The endpoints of a pool, by its index in the plan.
    pub fn members(&self, pool: usize) -> Arc<Members> {
        self.tallies[pool].members()
    }

    /// The endpoints of each pool, in the order of the plan.
    pub fn all_members(&self) -> Vec<Arc<Members>> {
        self.tallies.iter().map(Tally::members).collect()
    }

    /// Replaces the endpoints of a pool.
    pub(crate) fn change(&self, pool: usize, members: Arc<Members>) {
        self.tallies[pool].change(members);
    }
}
