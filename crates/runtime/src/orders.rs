//! Orders of operators for endpoints and splits, on top of the configuration. An order applies until it is withdrawn,
//! across reloads, upgrades and, if a file keeps it, restarts.
#![expect(clippy::disallowed_types, reason = "the control side holds it, never a worker")]

use evenkeel_balance::EndpointSpec;
use evenkeel_balance::endpoint::Forced;
use evenkeel_view::{Drain, Health};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of orders over all pools. Orders for endpoints that left are kept, as these may come back.
pub const ORDERS_MAX: usize = 100_000;

/// Largest weight, as in a configuration.
pub const WEIGHT_MAX: u32 = 65_535;

/// Order for an endpoint, which overrides its configuration and health.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Drains the endpoint: it gets no new requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Weight that replaces the configured weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Forces the endpoint up or down, regardless of its checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Operator who gave the latest order.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Time of the latest order, in milliseconds since 1970.
    #[serde(default)]
    pub unix_ms: u64,
}

/// Order for the split of a route, which overrides weights of its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitOrder {
    /// Weights that replace the configured weights, by pool.
    pub weights: BTreeMap<String, u32>,
    /// Operator who gave the latest order.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Time of the latest order, in milliseconds since 1970.
    #[serde(default)]
    pub unix_ms: u64,
}

/// Change of an endpoint's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Starts or stops draining.
    Drain(Option<Drain>),
    /// Overrides the weight, or restores the configured weight.
    Weight(Option<u32>),
    /// Forces the health, or follows the checks again.
    Health(Option<Health>),
    /// Clears every order for the endpoint.
    Clear,
}

impl Order {
    /// Returns true if the order changes nothing.
    pub fn is_empty(&self) -> bool {
        self.drain.is_none() && self.weight.is_none() && self.health.is_none()
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Drain(drain) => self.drain = drain,
            Change::Weight(weight) => self.weight = weight.map(|weight| weight.min(WEIGHT_MAX)),
            Change::Health(word) => self.health = word,
            Change::Clear => (self.drain, self.weight, self.health) = (None, None, None),
        }
    }

    /// Applies the order to the specification from the configuration.
    pub fn applied_to(&self, spec: EndpointSpec) -> EndpointSpec {
        let forced = self.health.map(|health| match health {
            Health::Up => Forced::Up,
            Health::Down => Forced::Down,
        });
        let (drain, weight) = (spec.drain || self.drain.is_some(), self.weight.unwrap_or(spec.weight));
        let keeps = self.drain.map_or(spec.keeps_sessions, |drain| drain == Drain::KeepSessions);
        spec.drain(drain).keeps_sessions(keeps).weight(weight).forced(forced)
    }
}

impl From<Order> for evenkeel_view::Order {
    fn from(Order { drain, weight, health, by, unix_ms }: Order) -> evenkeel_view::Order {
        evenkeel_view::Order { drain, weight, health, by, at_ms: unix_ms }
    }
}

/// Orders for endpoints and splits, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct Orders(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    given: Mutex<Given>,
    /// Pools whose endpoints are all drained, by orders or by the configuration.
    drained: Mutex<HashSet<Arc<str>>>,
}

/// All orders, as a file keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Orders for splits, by the name of the route. No pool has a name with a space.
    #[serde(rename = "split weights", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, SplitOrder>,
    /// Orders for endpoints, by the name of the pool, then of the endpoint.
    #[serde(flatten)]
    pub endpoints: ForEndpoints,
}

type ForEndpoints = BTreeMap<String, BTreeMap<String, Order>>;

impl Given {
    /// Returns true if there are no orders.
    pub fn is_empty(&self) -> bool {
        self.splits.is_empty() && self.endpoints.is_empty()
    }
}

impl Orders {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drained(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.0.drained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether all endpoints of a pool are drained. Returns true if that has changed.
    pub(crate) fn note_drained(&self, pool: &Arc<str>, is_drained: bool) -> bool {
        let mut drained = self.drained();
        if is_drained { drained.insert(pool.clone()) } else { drained.remove(pool) }
    }

    /// Forgets drained pools without these names.
    pub(crate) fn keep_drained(&self, names: &HashSet<&str>) {
        self.drained().retain(|pool| names.contains(&**pool));
    }

    /// Returns the order for an endpoint.
    pub fn of(&self, pool: &str, endpoint: &str) -> Option<Order> {
        self.given().endpoints.get(pool)?.get(endpoint).cloned()
    }

    pub fn all(&self) -> Given {
        self.given().clone()
    }

    /// Replaces all orders by kept orders. Empty orders are dropped.
    pub fn set(&self, mut given: Given) {
        given.endpoints.values_mut().for_each(|of_pool| of_pool.retain(|_, order| !order.is_empty()));
        given.endpoints.retain(|_, of_pool| !of_pool.is_empty());
        given.splits.retain(|_, order| !order.weights.is_empty());
        *self.given() = given;
    }

    /// Reads or changes the orders for splits, by the name of the route. The set has the pools that are drained now.
    pub(crate) fn with_splits<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, SplitOrder>, &HashSet<Arc<str>>) -> T,
    ) -> T {
        let mut given = self.given();
        change(&mut given.splits, &self.drained())
    }

    /// Changes the order for an endpoint. Returns `false` at the limit of [`ORDERS_MAX`].
    pub(crate) fn change(&self, pool: &str, endpoint: &str, change: Change, by: &str, unix_ms: u64) -> bool {
        let given = &mut self.given().endpoints;
        let is_known = given.get(pool).is_some_and(|of_pool| of_pool.contains_key(endpoint));
        if !is_known && given.values().map(BTreeMap::len).sum::<usize>() >= ORDERS_MAX {
            return false;
        }
        let of_pool = given.entry(pool.to_owned()).or_default();
        let order = of_pool.entry(endpoint.to_owned()).or_default();
        order.change(change);
        (order.by, order.unix_ms) = (by.to_owned(), unix_ms);
        if order.is_empty() {
            of_pool.remove(endpoint);
            if of_pool.is_empty() {
                given.remove(pool);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_add_up_until_they_are_taken_back() {
        let orders = Orders::default();
        assert!(orders.change("shop", "a", Change::Weight(Some(3)), "root", 1));
        assert!(orders.change("shop", "a", Change::Drain(Some(Drain::Now)), "eve", 2));
        let order = orders.of("shop", "a").expect("it was given");
        assert_eq!((order.weight, order.drain, &*order.by, order.unix_ms), (Some(3), Some(Drain::Now), "eve", 2));
        let spec = order.applied_to(EndpointSpec::new("a").weight(7));
        assert_eq!((spec.weight, spec.drain, spec.keeps_sessions, spec.forced), (3, true, false, None));
        orders.change("shop", "a", Change::Weight(None), "eve", 3);
        orders.change("shop", "a", Change::Health(Some(Health::Down)), "eve", 3);
        let spec = orders.of("shop", "a").expect("it drains").applied_to(EndpointSpec::new("a").weight(7));
        assert_eq!((spec.weight, spec.drain, spec.forced), (7, true, Some(Forced::Down)));
        orders.change("shop", "a", Change::Clear, "eve", 4);
        assert_eq!((orders.of("shop", "a"), orders.all().is_empty()), (None, true));
    }

    #[test]
    fn they_are_kept_as_text_and_empty_ones_are_not() {
        let orders = Orders::default();
        orders.change("shop", "a", Change::Drain(Some(Drain::KeepSessions)), "root", 5);
        let text = serde_json::to_string(&orders.all()).expect("maps of names can be written");
        assert_eq!(text, r#"{"shop":{"a":{"drain":"keep-sessions","by":"root","unix_ms":5}}}"#);
        let (again, mut given) = (Orders::default(), serde_json::from_str::<Given>(&text).expect("it was written so"));
        given.endpoints.entry("shop".into()).or_default().insert("b".into(), Order::default());
        given.splits.insert("web".into(), SplitOrder::default());
        again.set(given);
        assert_eq!(again.all(), orders.all());
        let canary = SplitOrder { weights: [("canary".into(), 10)].into(), ..SplitOrder::default() };
        let given = Given { splits: [("web".into(), canary)].into(), ..orders.all() };
        let text = serde_json::to_string(&given).expect("maps of names can be written");
        assert!(
            text.starts_with(r#"{"split weights":{"web":{"weights":{"canary":10},"unix_ms":0}},"shop":{"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Given>(&text).expect("it was written so"), given);
        assert!(serde_json::from_str::<Given>(r#"{"shop":1}"#).is_err());
    }

    #[test]
    fn a_configured_drain_stays_one() {
        let order = Order { weight: Some(2), ..Order::default() };
        let spec = order.applied_to(EndpointSpec::new("a").drain(true));
        assert_eq!((spec.drain, spec.keeps_sessions, spec.weight), (true, true, 2));
    }
}
