//! What is the state of a pool now, for metrics, a dashboard or an answer to an operator? A copy, so that the lock of
//! the pools is held only while it is made.

use crate::history::Counts;
use crate::pool::SharedPool;
use evenkeel_balance::EndpointId;
use evenkeel_balance::slow_start::FULL;
use evenkeel_balance::state::State;
use evenkeel_config::plan;
use std::collections::HashMap;
use std::sync::Arc;

/// One pool.
#[derive(Clone, Debug, Default)]
pub struct PoolSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Whether so few endpoints are healthy that health is ignored.
    pub in_panic: bool,
    /// Requests that wait for a place at an endpoint.
    pub waiting: u32,
    /// In the order of the plan.
    pub endpoints: Vec<EndpointSnapshot>,
}

/// One endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointSnapshot {
    /// Its name in the plan.
    pub name: Arc<str>,
    /// Its state; `None` while the plan that names it is not in use yet.
    pub state: Option<State>,
    /// The weight that counts now: 0 while it gets no requests, less than configured during slow start.
    pub weight: f64,
    /// Why its latest check failed, if it did.
    pub failure: Option<String>,
    /// How often each thing happened to it.
    pub counts: Counts,
}

impl SharedPool {
    /// The present state of the pool, with the endpoints of this plan.
    pub fn snapshot(&self, plan: &plan::Pool) -> PoolSnapshot {
        let (view, history) = (self.pool.view(), self.history());
        let states: HashMap<EndpointId, State> = self.pool.states().collect();
        let ramps: HashMap<EndpointId, u16> = view.set.members().iter().map(|m| (m.id, m.ramp)).collect();
        let endpoint = |endpoint: &plan::Endpoint| {
            let id = EndpointId::of(&endpoint.name);
            let part = ramps.get(&id).map_or(0.0, |&ramp| f64::from(ramp) / f64::from(FULL));
            let seen = history.endpoint(id);
            EndpointSnapshot {
                name: endpoint.name.clone(),
                state: states.get(&id).copied(),
                weight: part * f64::from(endpoint.weight),
                failure: seen.and_then(|seen| seen.failure.clone()),
                counts: seen.map(|seen| seen.counts).unwrap_or_default(),
            }
        };
        PoolSnapshot {
            name: plan.name.clone(),
            in_panic: history.in_panic(),
            waiting: self.pool.queue().depth(),
            endpoints: plan.endpoints.iter().map(endpoint).collect(),
        }
    }
}
