//! What is the state of a pool now, for metrics, a dashboard or an answer to an operator? A copy, so that the lock of
//! the pools is held only while it is made.

use crate::history::{Counts, LastCheck};
use crate::orders::Order;
use crate::pool::{SharedPool, address};
use evenkeel_balance::EndpointId;
use evenkeel_balance::slow_start::FULL;
use evenkeel_balance::state::State;
use evenkeel_config::plan;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

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
    /// Where it is.
    pub addr: Option<SocketAddr>,
    /// The weight of its configuration.
    pub weight_configured: u32,
    /// Its tier.
    pub priority: u8,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Since when it is in its state.
    pub since: Option<SystemTime>,
    /// Its latest check.
    pub checked: Option<LastCheck>,
    /// What operators want of it.
    pub order: Option<Order>,
    /// Requests in flight there, over all workers.
    pub in_flight: u32,
    /// How often each thing happened to it.
    pub counts: Counts,
}

impl PoolSnapshot {
    /// A pool of a plan that is not in use yet, or no more.
    pub fn unused(plan: &plan::Pool) -> PoolSnapshot {
        let endpoint = |endpoint: &plan::Endpoint| EndpointSnapshot {
            name: endpoint.name.clone(),
            weight_configured: endpoint.weight.into(),
            ..EndpointSnapshot::default()
        };
        PoolSnapshot {
            name: plan.name.clone(),
            endpoints: plan.endpoints.iter().map(endpoint).collect(),
            ..PoolSnapshot::default()
        }
    }
}

impl SharedPool {
    /// The present state of the pool, with the endpoints of this plan.
    pub fn snapshot(&self, plan: &plan::Pool) -> PoolSnapshot {
        let (view, history) = (self.pool.view(), self.history());
        let states: HashMap<EndpointId, State> = self.pool.states().collect();
        let ramps: HashMap<EndpointId, u16> = view.set.members().iter().map(|m| (m.id, m.ramp)).collect();
        let endpoint = |endpoint: &plan::Endpoint| {
            let id = EndpointId::of(&endpoint.name);
            let order = self.order_of(&endpoint.name);
            let configured = u32::from(endpoint.weight);
            let weight = order.as_ref().and_then(|order| order.weight).unwrap_or(configured);
            let part = ramps.get(&id).map_or(0.0, |&ramp| f64::from(ramp) / f64::from(FULL));
            let seen = history.endpoint(id);
            EndpointSnapshot {
                name: endpoint.name.clone(),
                state: states.get(&id).copied(),
                weight: part * f64::from(weight),
                addr: address(&endpoint.addr),
                weight_configured: configured,
                priority: endpoint.priority,
                zone: endpoint.zone.as_deref().map(Into::into),
                since: seen.map(|seen| seen.since),
                checked: seen.and_then(|seen| seen.checked.clone()),
                order,
                in_flight: self.slot_of(endpoint).map_or(0, |slot| self.pool.in_flight(slot)),
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
