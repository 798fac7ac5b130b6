//! Routes of the plan in the order in which they are preferred. See [`Ordered`].

use crate::providers::kubernetes::world::objects::Meta;
use crate::providers::parts::Piece;
use evenkeel_config::plan::Route;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Routes of the plan. Routes of older objects are preferred, whatever the kinds of the objects. Among the routes of an
/// object, earlier routes are preferred.
#[derive(Default)]
pub struct Ordered {
    pub all: Vec<Piece<Route>>,
    /// Rank of each route in `all`.
    ranks: Vec<Rank>,
    /// Rank of the routes that are added next.
    rank: Rank,
    /// Namespace of the routes that are added next.
    namespace: Arc<str>,
    names: BTreeSet<Arc<str>>,
    /// Names of ports where a TCPRoute or UDPRoute gets every session or datagram.
    pub taken: BTreeSet<Arc<str>>,
}

/// Rank of the routes of an object; lower ranks are preferred. True if they follow all others, and the time of the
/// object.
type Rank = (bool, String);

impl Ordered {
    /// Sets the object of the routes that are added next. `follows`: they follow the routes of all other objects.
    pub fn since(&mut self, object: &Meta, follows: bool) {
        self.rank = (follows, object.creation_timestamp.clone());
        self.namespace = object.namespace.as_str().into();
    }

    /// Returns all routes, with the order in which they are preferred.
    pub fn into_pieces(self) -> Vec<Piece<Route>> {
        let mut all: Vec<(Rank, Piece<Route>)> = self.ranks.into_iter().zip(self.all).collect();
        // Stable: of objects of the same second, the order of those who added them.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let numbered = all.into_iter().zip(0..).map(|((_, piece), order)| {
            let value = Route { order, ..piece.value };
            Piece { value, ..piece }
        });
        numbered.collect()
    }

    /// Adds a route. If an equal route of the object exists at another port, that route gets the listeners of the new
    /// route.
    pub fn add(&mut self, of: &Arc<str>, mut route: Route) {
        let same = |there: &&mut Piece<Route>| {
            there.of == *of && there.value.name == route.name && {
                let listeners = there.value.listeners.clone();
                Route { listeners, ..route.clone() } == there.value
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
        let tenant = Some(self.namespace.clone());
        self.all.push(Piece { of: of.clone(), tenant, value: Route { name, ..route } });
        self.ranks.push(self.rank.clone());
    }
}
