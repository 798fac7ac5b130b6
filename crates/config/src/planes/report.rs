//! Listeners of a plan, and the parts that their planes keep of the algorithms of their pools.

use super::{Fidelity, Forwarding};
use crate::plan::{Balance, Listener, Plan};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pool to which a listener leads, and the parts that its plane keeps of the algorithm.
#[derive(Clone, Debug)]
pub struct Line {
    pub listener: Arc<str>,
    pub kind: Forwarding,
    pub pool: Arc<str>,
    pub balance: Balance,
    pub keeps: Fidelity,
}

impl Line {
    fn new(listener: &Listener, pool: Arc<str>, balance: &Balance) -> Line {
        let kind = Forwarding::of(listener.mode, listener.plane);
        Line { listener: listener.name.clone(), kind, pool, balance: balance.clone(), keeps: kind.keeps(balance) }
    }

    /// Kinds that keep the algorithm, in the order of preference. Empty for requests, which only a single kind takes.
    pub fn that_keep(&self) -> Vec<Forwarding> {
        match self.kind {
            Forwarding::Requests | Forwarding::Dns => Vec::new(),
            _ => Forwarding::that_keep(&self.balance).collect(),
        }
    }
}

/// Lines of a plan, in the order of its listeners and their routes.
pub fn lines(plan: &Plan) -> Vec<Line> {
    let mut lines = Vec::new();
    for listener in &plan.listeners {
        let mut seen = BTreeSet::new();
        let records = listener.zone.iter().flat_map(|zone| &zone.records).map(|record| &record.pool);
        let routed = plan.routes_on(&listener.name).flat_map(|route| route.pools());
        for name in records.chain(routed).filter(|name| seen.insert(Arc::clone(name))) {
            if let Some(pool) = plan.pool(name) {
                lines.push(Line::new(listener, name.clone(), &pool.balance));
            }
        }
    }
    lines
}
