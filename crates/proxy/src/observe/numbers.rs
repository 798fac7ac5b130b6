//! The numbers of the workers under the plan that runs, replaced as a whole by those of the next one.

use crate::observe::stats::WorkerStats;
use evenkeel_config::Plan;
use evenkeel_runtime::Generation;
use std::sync::Arc;

/// What the workers count under a plan.
#[derive(Debug)]
pub struct Numbers {
    /// The plan that runs.
    pub generation: Arc<Generation>,
    /// The numbers of each worker.
    pub workers: Vec<Arc<WorkerStats>>,
}

impl Numbers {
    /// The first ones, of so many workers.
    pub fn first(generation: Arc<Generation>, workers: usize) -> Numbers {
        let workers = (0..workers).map(|_| WorkerStats::new(&generation.plan, None).into()).collect();
        Numbers { generation, workers }
    }

    /// Those that follow: what both plans name goes on counting.
    pub fn next(&self, generation: Arc<Generation>) -> Numbers {
        let next = |w: &Arc<WorkerStats>| WorkerStats::new(&generation.plan, Some((self.plan(), &**w))).into();
        let workers = self.workers.iter().map(next).collect();
        Numbers { generation, workers }
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        &self.generation.plan
    }
}
