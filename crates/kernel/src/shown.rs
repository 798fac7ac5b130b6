//! Kernel planes as operators see them: counts for the ledger, listeners, and the state of the kernel for a listener.

use crate::explain::Explainer;
use crate::numbers::Numbers;
use evenkeel_config::plan::Plane;
use evenkeel_runtime::View;
use evenkeel_runtime::ledger::{PlaneCounts, PoolCounts};
use evenkeel_runtime::membership::Endpoints;
use evenkeel_runtime::plane::Asking;
use evenkeel_view::Status;
use evenkeel_view::served::InKernel;
use evenkeel_view::timeline::{Counts, RouteCounts};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::watch;

/// Kernel planes as operators see them.
pub struct Shown {
    numbers: watch::Receiver<Arc<Numbers>>,
    explainer: Explainer,
    /// True once each mechanism matched its pools. Pools of a later plan do not make the process unready.
    forwards: AtomicBool,
}

impl Shown {
    /// Creates a view that follows these numbers.
    pub fn new(numbers: watch::Receiver<Arc<Numbers>>, explainer: Explainer) -> Shown {
        Shown { numbers, explainer, forwards: AtomicBool::new(false) }
    }
}

impl PlaneCounts for Shown {
    fn pool(&self, name: &str, endpoints: &Endpoints) -> Option<Arc<dyn PoolCounts>> {
        Some(self.numbers.borrow().tallies.get(name)?.over(endpoints))
    }

    fn listeners(&self) -> Counts {
        let (numbers, mut sum) = (self.numbers.borrow(), Counts::default());
        numbers.tallies.keys().for_each(|pool| sum.add(numbers.counts(pool)));
        sum
    }

    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts> {
        let numbers = self.numbers.borrow();
        // Listeners that share a pool share its counts: the kernel counts by endpoint.
        let alone = |pool: &Arc<str>| numbers.services.iter().filter(|(.., other)| other == pool).count() == 1;
        let of = |(_, listener, pool): &(Plane, Arc<str>, Arc<str>)| {
            let counts = numbers.counts(pool);
            (counts.requests > 0).then(|| {
                ((listener.clone(), listener.clone()), RouteCounts { counts, sent: counts, ..RouteCounts::default() })
            })
        };
        numbers.services.iter().filter(|(.., pool)| alone(pool)).filter_map(of).collect()
    }
}

impl View for Shown {
    fn not_ready(&self) -> Option<&'static str> {
        let forwards = self.forwards.load(Relaxed) || self.numbers.borrow().has_applied();
        self.forwards.store(forwards, Relaxed);
        (!forwards).then_some("the kernel does not forward yet")
    }

    fn add_to(&self, status: &mut Status) {
        let numbers = self.numbers.borrow().clone();
        for listener in &mut status.listeners {
            if let Some((open, started)) = numbers.of_listener(&listener.name) {
                (listener.connections, listener.accepted) = (open, started);
            }
        }
    }

    fn in_kernel(&self, listener: &str) -> Option<Asking> {
        let numbers = self.numbers.borrow().clone();
        let (plane, listener, pool) = numbers.services.iter().find(|(_, name, _)| **name == *listener)?.clone();
        let (connections, _) = numbers.of_listener(&listener)?;
        let explainer = self.explainer.clone();
        Some(Box::pin(async move {
            let lines = explainer.explain(listener.clone()).await?;
            let (listener, plane, pool) = (listener.to_string(), plane.name().to_owned(), pool.to_string());
            Ok(InKernel { listener, plane, pool, connections, lines })
        }))
    }
}
