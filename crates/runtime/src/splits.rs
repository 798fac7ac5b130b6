//! Current weights of splits: the weights of the plan, with the orders of operators. Workers read them as published
//! values, so a change reaches all of them at their next request.

use crate::events::Events;
use crate::orders::{ORDERS_MAX, Orders, SplitOrder};
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::published::Published;
use evenkeel_balance::shares::Shares;
use evenkeel_config::Plan;
use evenkeel_config::plan::Action;
use evenkeel_view::events::Kind;
use evenkeel_view::orders::SplitChanges;
use evenkeel_view::served::{Share, Split, SplitOrderer};
use evenkeel_view::words::unix_ms;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// Largest weight of a pool in a split, as in a configuration.
pub const SPLIT_WEIGHT_MAX: u32 = 1_000_000;

/// Splits of a plan, by the names of their routes.
#[derive(Debug, Default)]
pub struct Splits(HashMap<Arc<str>, OfRoute>);

/// Split of a route, as planned and as it is now.
#[derive(Debug)]
struct OfRoute {
    /// Configured weights of the pools; at least one is above 0.
    configured: Vec<(Arc<str>, u32)>,
    now: Published<Weights>,
}

/// Weights of a split at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Shares of the pools, in the order of the plan.
    pub shares: Shares,
    weights: Vec<u32>,
    /// Pools whose share the others have, as all their endpoints are drained.
    left: Vec<bool>,
    /// Latest order of an operator, if one applies.
    order: Option<SplitOrder>,
}

/// Reason why an order for a split was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitRefused {
    /// No route has this name; the list has the routes with a split.
    UnknownRoute(Vec<Arc<str>>),
    /// The route exists, and has another action.
    NoSplit,
    /// The split has no such pool; the list has its pools.
    UnknownPool(String, Vec<Arc<str>>),
    /// A weight is above [`SPLIT_WEIGHT_MAX`].
    TooLarge(String, u32),
    /// No pool would have a weight above 0.
    AllZero,
    /// There are too many orders already.
    TooMany,
}

impl Splits {
    /// Collects the splits of a plan, with their configured weights.
    pub fn new(plan: &Plan) -> Splits {
        let splits = plan.routes.iter().filter_map(|route| match &route.action {
            Action::Split(split) => {
                let configured = split.weights.clone();
                let now = Published::new(Weights::new(&configured, None, &HashSet::new()));
                Some((route.name.clone(), OfRoute { configured, now }))
            }
            _ => None,
        });
        Splits(splits.collect())
    }

    /// Weights of the split of a route, for workers to follow.
    pub fn published(&self, route: &str) -> Option<&Published<Weights>> {
        self.0.get(route).map(|split| &split.now)
    }

    /// Publishes the weights that the orders result in, where they differ. Returns the routes whose order cannot be
    /// followed, as it leaves no weight above 0.
    pub fn refresh(&self, orders: &Orders) -> Vec<Arc<str>> {
        let mut unusable = Vec::new();
        // Under the lock of the orders, so that an older order never replaces a newer order.
        orders.with_splits(|given, drained| {
            for (route, split) in &self.0 {
                let order = given.get(&**route);
                if order.is_some_and(|order| order.applied_to(&split.configured).iter().all(|weight| *weight == 0)) {
                    unusable.push(route.clone());
                }
                split.publish(order, drained);
            }
        });
        unusable.sort();
        unusable
    }

    /// Changes the order for the split of a route, and publishes it. `by`: the operator.
    ///
    /// # Errors
    /// The reason why nothing changed.
    pub fn order(
        &self,
        (plan, route): (&Plan, &str),
        changes: &SplitChanges,
        by: &str,
        (orders, events): (&Orders, &Events),
    ) -> Result<(), SplitRefused> {
        let (route, split) = self.find(plan, route)?;
        for (pool, weight) in changes.iter().flatten() {
            if split.configured.iter().all(|(name, _)| **name != **pool) {
                let known = split.configured.iter().map(|(name, _)| name.clone()).collect();
                return Err(SplitRefused::UnknownPool(pool.clone(), known));
            }
            if let Some(weight) = weight.filter(|weight| *weight > SPLIT_WEIGHT_MAX) {
                return Err(SplitRefused::TooLarge(pool.clone(), weight));
            }
        }
        orders.with_splits(|given, drained| {
            let order = given.get(&**route);
            let next = order.cloned().unwrap_or_default().changed(changes, by, unix_ms(SystemTime::now()));
            if next.applied_to(&split.configured).iter().all(|weight| *weight == 0) {
                return Err(SplitRefused::AllZero);
            }
            if order.is_none() && given.len() >= ORDERS_MAX {
                return Err(SplitRefused::TooMany);
            }
            match next.weights.is_empty() {
                true => drop(given.remove(&**route)),
                false => drop(given.insert(route.to_string(), next)),
            }
            split.publish(given.get(&**route), drained);
            Ok(())
        })?;
        let again = if changes.is_none() { "configured weights again, " } else { "" };
        let text = format!("split of route \"{route}\": {again}{}", split.shown(route).words());
        tracing::info!(route = &**route, by, "operator order: {text}");
        events.tell(Kind::Operator, (None, None), text, Some(by));
        Ok(())
    }

    /// Split of a route as operators see it.
    ///
    /// # Errors
    /// The route is unknown, or has no split.
    pub fn shown(&self, plan: &Plan, route: &str) -> Result<Split, SplitRefused> {
        self.find(plan, route).map(|(route, split)| split.shown(route))
    }

    fn find(&self, plan: &Plan, route: &str) -> Result<(&Arc<str>, &OfRoute), SplitRefused> {
        self.0.get_key_value(route).ok_or_else(|| match plan.routes.iter().any(|planned| *planned.name == *route) {
            true => SplitRefused::NoSplit,
            false => SplitRefused::UnknownRoute(
                plan.routes
                    .iter()
                    .filter(|route| self.0.contains_key(&route.name))
                    .map(|route| route.name.clone())
                    .collect(),
            ),
        })
    }

    /// Every split, in the order of the names of their routes, with the present weights.
    pub fn all(&self) -> Vec<Split> {
        let mut all: Vec<Split> = self.0.iter().map(|(route, split)| split.shown(route)).collect();
        all.sort_by(|a, b| a.route.cmp(&b.route));
        all
    }
}

impl OfRoute {
    fn publish(&self, order: Option<&SplitOrder>, drained: &HashSet<Arc<str>>) {
        let next = Weights::new(&self.configured, order, drained);
        if *self.now.current() != next {
            self.now.publish(next);
        }
    }

    fn shown(&self, route: &str) -> Split {
        let now = self.now.current();
        let effective = now.effective();
        let total: f64 = effective.iter().map(|weight| f64::from(*weight)).sum();
        let share = |(at, (pool, configured)): (usize, &(Arc<str>, u32))| Share {
            pool: pool.to_string(),
            weight: now.weights[at],
            configured: *configured,
            drained: now.left[at],
            share: f64::from(effective[at]) / total,
        };
        Split {
            route: route.to_owned(),
            pools: self.configured.iter().enumerate().map(share).collect(),
            order: now.order.as_ref().map(|order| SplitOrderer { by: order.by.clone(), at_ms: order.unix_ms }),
        }
    }
}

impl Weights {
    /// Weights with an order applied; the configured weights if the order leaves none above 0. Drained pools have no
    /// share, as long as another pool has one.
    fn new(configured: &[(Arc<str>, u32)], order: Option<&SplitOrder>, drained: &HashSet<Arc<str>>) -> Weights {
        let ordered = order.map(|order| (order, order.applied_to(configured)));
        let ordered = ordered.filter(|(_, weights)| weights.iter().any(|weight| *weight > 0));
        let order = ordered.as_ref().map(|(order, _)| (*order).clone());
        let weights = match ordered {
            Some((_, weights)) => weights,
            None => configured.iter().map(|(_, weight)| *weight).collect(),
        };
        let mut left: Vec<bool> = configured.iter().map(|(pool, _)| drained.contains(pool)).collect();
        if weights.iter().zip(&left).all(|(weight, left)| *weight == 0 || *left) {
            left.fill(false);
        }
        let mut all = Weights { shares: Shares::default(), weights, left, order };
        let ids = configured.iter().map(|(pool, _)| stable_hash(pool.as_bytes()));
        all.shares = Shares::new(ids.zip(all.effective()));
        all
    }

    /// Weights by which the pools share the requests.
    fn effective(&self) -> Vec<u32> {
        self.weights.iter().zip(&self.left).map(|(weight, left)| if *left { 0 } else { *weight }).collect()
    }
}

impl SplitOrder {
    /// Weights of the pools of a split: the ordered weights, else the configured weights.
    fn applied_to(&self, configured: &[(Arc<str>, u32)]) -> Vec<u32> {
        configured.iter().map(|(pool, weight)| self.weights.get(&**pool).copied().unwrap_or(*weight)).collect()
    }

    fn changed(mut self, changes: &SplitChanges, by: &str, unix_ms: u64) -> SplitOrder {
        match changes {
            None => self.weights = BTreeMap::new(),
            Some(changes) => {
                for (pool, weight) in changes {
                    match weight {
                        Some(weight) => drop(self.weights.insert(pool.clone(), *weight)),
                        None => drop(self.weights.remove(pool)),
                    }
                }
            }
        }
        SplitOrder { weights: self.weights, by: by.to_owned(), unix_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(weights: &str) -> Plan {
        let text = format!(
            "[listener.web]\nbind = ['127.0.0.1:1']\n[[route]]\nname = 'r'\nsplit = {{ weights = {{ {weights} }} }}\n\
             [[route]]\nname = 'plain'\nmatch = {{ path = '/p' }}\npool = 'a'\n[pool.a]\nendpoints = ['127.0.0.1:2']\n\
             [pool.b]\nendpoints = ['127.0.0.1:3']\n[pool.c]\nendpoints = ['127.0.0.1:4']\n[[route]]\nname = 'c'\nmatch = \
             {{ path = '/c' }}\npool = 'c'\n[[route]]\nname = 'b'\nmatch = {{ path = '/b' }}\npool = 'b'"
        );
        let outcome = evenkeel_config::parse_str("a.toml", &text, &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
    }

    fn changes(weights: &[(&str, Option<u32>)]) -> SplitChanges {
        Some(weights.iter().map(|(pool, weight)| ((*pool).to_owned(), *weight)).collect())
    }

    #[test]
    fn an_order_counts_over_plans_and_is_dropped_where_it_leaves_nothing() {
        let first = plan("a = 95, b = 5");
        let (orders, events) = (Orders::default(), Events::default());
        let splits = Splits::new(&first);
        let mut reader = splits.published("r").expect("a split").reader();
        let weights = |splits: &Splits| splits.all()[0].pools.iter().map(|pool| pool.weight).collect::<Vec<_>>();
        let order = |changes: &SplitChanges| splits.order((&first, "r"), changes, "me", (&orders, &events));
        assert_eq!(weights(&splits), [95, 5]);
        order(&changes(&[("a", Some(0)), ("b", Some(7))])).expect("it is one");
        assert!(reader.refresh() && reader.get().shares.drawn(0) == Some(1));
        assert_eq!(
            (weights(&splits), splits.all()[0].order.as_ref().map(|order| &*order.by)),
            (vec![0, 7], Some("me"))
        );
        assert_eq!(order(&changes(&[("b", Some(0))])), Err(SplitRefused::AllZero));
        assert_eq!(
            order(&changes(&[("d", Some(1))])),
            Err(SplitRefused::UnknownPool("d".into(), vec!["a".into(), "b".into()]))
        );
        assert_eq!(order(&changes(&[("a", Some(1_000_001))])), Err(SplitRefused::TooLarge("a".into(), 1_000_001)));
        assert_eq!(splits.order((&first, "plain"), &None, "me", (&orders, &events)), Err(SplitRefused::NoSplit));
        assert_eq!(
            splits.order((&first, "no"), &None, "me", (&orders, &events)),
            Err(SplitRefused::UnknownRoute(vec!["r".into()]))
        );
        let event = events.since(0).pop().expect("it is told");
        assert_eq!((&*event.text, event.by.as_deref()), ("split of route \"r\": a 0, b 7", Some("me")));

        // Other configured weights do not end the order, a pool that is new has its own.
        let next = Splits::new(&plan("a = 50, b = 40, c = 10"));
        assert_eq!((next.refresh(&orders), weights(&next)), (vec![], vec![0, 7, 10]));
        // Without the pool that has a weight, the order would leave none.
        let without = Splits::new(&plan("a = 3"));
        assert_eq!((without.refresh(&orders), weights(&without)), (vec!["r".into()], vec![3]));
        assert_eq!(without.all()[0].order, None);

        order(&changes(&[("a", None)])).expect("it is one");
        assert_eq!(weights(&splits), [95, 7]);
        order(&None).expect("it is one");
        assert_eq!((weights(&splits), orders.all().is_empty()), (vec![95, 5], true));
        assert!(reader.refresh());
    }

    #[test]
    fn a_drained_pool_leaves_its_split_while_another_serves() {
        let (plan, orders) = (plan("a = 95, b = 5, c = 0"), Orders::default());
        let (splits, [a, b]) = (Splits::new(&plan), ["a", "b"].map(Arc::<str>::from));
        let drain = |pool: &Arc<str>, is_drained| {
            orders.note_drained(pool, is_drained);
            splits.refresh(&orders);
            let pools = &splits.all()[0].pools;
            pools.iter().map(|pool| (pool.share, pool.drained)).collect::<Vec<_>>()
        };
        let drawn = || splits.published("r").expect("a split").current().shares.drawn(0);
        assert_eq!(drain(&a, true), [(0.0, true), (1.0, false), (0.0, false)]);
        assert_eq!((drawn(), &*splits.all()[0].words()), (Some(1), "a 95 (drained), b 5, c 0"));
        // Nothing else has a weight: the shares stay, and requests get the reason.
        assert_eq!(drain(&b, true), [(0.95, false), (0.05, false), (0.0, false)]);
        assert_eq!(drain(&a, false), [(1.0, false), (0.0, true), (0.0, false)]);
        let events = Events::default();
        splits.order((&plan, "r"), &changes(&[("c", Some(5))]), "me", (&orders, &events)).expect("it is one");
        assert_eq!(drain(&a, true), [(0.0, true), (0.0, true), (1.0, false)], "orders and drains add up");
        orders.keep_drained(&HashSet::from(["a"]));
        assert_eq!(drain(&a, true), [(0.0, true), (0.5, false), (0.5, false)]);
    }
}
