//! Routes of the plan in the order in which they are preferred. See [`Ordered`].

use crate::providers::parts::Piece;
use evenkeel_config::plan::Route;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Routes of the plan, the preferred ones first.
#[derive(Default)]
pub struct Ordered {
    pub all: Vec<Piece<Route>>,
    names: BTreeSet<Arc<str>>,
    /// Names of ports of which a TCPRoute or UDPRoute has every session or datagram.
    pub taken: BTreeSet<Arc<str>>,
}

impl Ordered {
    /// Adds a route after all others. One that says the same as another one at another port is added to it.
    pub fn add(&mut self, of: &Arc<str>, mut route: Route) {
        let same = |there: &&mut Piece<Route>| {
            there.of == *of && there.value.name == route.name && {
                let Route { listeners, order, .. } = there.value.clone();
                Route { listeners, order, ..route.clone() } == there.value
            }
        };
        if let Some(there) = self.all.iter_mut().rev().take(64).find(same) {
            there.value.listeners.append(&mut route.listeners);
            return;
        }
        let mut name = route.name.clone();
        let mut next = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{}~{next}", route.name).into();
            next += 1;
        }
        let order = u32::try_from(self.all.len()).unwrap_or(u32::MAX - 1);
        self.all.push(Piece::new(of, Route { name, order, ..route }));
    }
}
