//! Current state of a pool, for metrics and operators. A copy, so that the lock of the pools is held only while it is
//! made.

use crate::history::Counts;
use crate::pool::{SharedPool, address};
use evenkeel_balance::EndpointId;
use evenkeel_balance::slow_start::FULL;
use evenkeel_balance::state::State;
use evenkeel_config::plan;
use evenkeel_view::words::reason;
use evenkeel_view::{Endpoint, Listener, Order, Pool, Weights};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct PoolSnapshot {
    pub name: Arc<str>,
    /// True if so few endpoints are healthy that `panic.mode` applies.
    pub in_panic: bool,
    /// Requests in the queue for an endpoint.
    pub waiting: u32,
    /// Endpoints, in the order of the pool.
    pub endpoints: Vec<EndpointSnapshot>,
}

#[derive(Clone, Debug, Default)]
pub struct EndpointSnapshot {
    pub name: Arc<str>,
    /// State of the endpoint; `None` until its plan is in use.
    pub state: Option<State>,
    /// Effective weight: 0 while it gets no requests, less than configured during slow start.
    pub weight: f64,
    /// Configured weight, without the order of an operator.
    pub weight_configured: u32,
    /// Start of the current state, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Counts of each kind of event.
    pub counts: Counts,
}

impl PoolSnapshot {
    /// Snapshot of a pool whose plan is not in use yet or no longer.
    pub fn unused(plan: &plan::Pool, endpoints: &[plan::Endpoint]) -> PoolSnapshot {
        let endpoint = |endpoint: &plan::Endpoint| EndpointSnapshot {
            name: endpoint.name.clone(),
            weight_configured: endpoint.weight.into(),
            ..EndpointSnapshot::default()
        };
        PoolSnapshot {
            name: plan.name.clone(),
            endpoints: endpoints.iter().map(endpoint).collect(),
            ..PoolSnapshot::default()
        }
    }
}

impl SharedPool {
    /// Current state of the pool, with these endpoints.
    pub fn snapshot(&self, plan: &plan::Pool, endpoints: &[plan::Endpoint]) -> PoolSnapshot {
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
                weight_configured: configured,
                since_ms: seen.map(|seen| seen.since_ms),
                counts: seen.map(|seen| seen.counts).unwrap_or_default(),
            }
        };
        PoolSnapshot {
            name: plan.name.clone(),
            in_panic: history.in_panic(),
            waiting: self.pool.queue().depth(),
            endpoints: endpoints.iter().map(endpoint).collect(),
        }
    }

    /// Pool as shown to operators, with these endpoints and without the counts of planes.
    pub fn shown(&self, plan: &plan::Pool, endpoints: &[plan::Endpoint]) -> Pool {
        let PoolSnapshot { in_panic, waiting, endpoints: snapshots, .. } = self.snapshot(plan, endpoints);
        let weights: f64 = snapshots.iter().map(|endpoint| endpoint.weight).sum();
        let endpoint = |(snapshot, plan): (&EndpointSnapshot, &plan::Endpoint)| {
            let order = self.order_of(&plan.name).map(Order::from);
            let seen = self.history().endpoint(EndpointId::of(&plan.name));
            let check = seen.and_then(|seen| seen.checked.clone());
            Endpoint {
                name: plan.name.to_string(),
                address: address(&plan.addr).map(|addr| addr.to_string()),
                state: snapshot.state.map_or("unknown", State::name).into(),
                reason: snapshot.state.and_then(|state| reason(state, order.as_ref(), check.as_ref())),
                since_ms: snapshot.since_ms.unwrap_or_default(),
                weight: Weights { configured: plan.weight.into(), effective: snapshot.weight },
                priority: plan.priority,
                zone: plan.zone.as_ref().map(ToString::to_string),
                in_flight: self.slot_of(plan).map_or(0, |slot| self.pool.in_flight(slot)),
                fair_share: if weights > 0.0 { snapshot.weight / weights } else { 0.0 },
                check,
                order,
                ..Endpoint::default()
            }
        };
        let endpoints = snapshots.iter().zip(endpoints).map(endpoint).collect();
        Pool { in_panic, waiting, endpoints, ..named(plan) }
    }
}

/// Listener as shown to operators, without the counts of planes.
pub fn listener(plan: &plan::Listener) -> Listener {
    Listener {
        name: plan.name.to_string(),
        mode: plan.mode.name().into(),
        plane: plan.plane.name().into(),
        addresses: plan.bind.iter().map(ToString::to_string).collect(),
        ..Listener::default()
    }
}

/// Pool with name and algorithm only, for a pool whose plan is not in use yet.
pub fn named(plan: &plan::Pool) -> Pool {
    Pool { name: plan.name.to_string(), algorithm: plan.balance.algorithm.name.into(), ..Pool::default() }
}
