//! Clusters that pools have subscribed to, and the consumer of other resources. See [`Topics`].

use super::assignment::Assigned;
use super::consumer::{Consumer, Kind, Wanted};
use crate::lock::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{Notify, watch};

/// Clusters that pools have subscribed to, and the consumer of other resources.
#[derive(Debug, Default)]
pub struct Topics {
    by_cluster: Mutex<BTreeMap<String, watch::Sender<Seen>>>,
    consumer: Mutex<Option<Consuming>>,
    /// Wakes the task of the stream.
    pub changed: Notify,
}

/// Consumer, while it is attached.
#[derive(Debug)]
struct Consuming {
    consumer: Weak<dyn Consumer>,
    /// True if it asks for differences.
    delta: bool,
    /// Number of consumers before it.
    generation: u64,
}

/// Latest state of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Endpoints that were valid last; `None` before the first.
    pub assigned: Option<Arc<Assigned>>,
    /// Reason why the list may be old, or is missing.
    pub trouble: Option<String>,
    /// Number of times that the endpoints were confirmed.
    pub confirmed: u64,
}

/// Subscription of a pool, which ends when this is dropped.
#[derive(Debug)]
pub struct Subscription {
    /// `None` only while it is dropped.
    seen: Option<watch::Receiver<Seen>>,
    topics: Arc<Topics>,
}

impl Topics {
    /// Subscribes to the endpoints of a cluster.
    pub fn subscribe(self: &Arc<Topics>, cluster: &str) -> Subscription {
        let seen = lock(&self.by_cluster).entry(cluster.to_owned()).or_default().subscribe();
        self.changed.notify_one();
        Subscription { seen: Some(seen), topics: self.clone() }
    }

    /// Gives listeners, route configurations and clusters to a consumer, as long as that exists.
    pub fn attach(&self, consumer: &Arc<dyn Consumer>, delta: bool) {
        let mut consuming = lock(&self.consumer);
        let generation = consuming.as_ref().map_or(1, |before| before.generation + 1);
        *consuming = Some(Consuming { consumer: Arc::downgrade(consumer), delta, generation });
        self.changed.notify_one();
    }

    /// Clusters of pools that still exist.
    fn names(&self) -> BTreeSet<String> {
        let mut all = lock(&self.by_cluster);
        all.retain(|_, topic| topic.receiver_count() > 0);
        all.keys().cloned().collect()
    }

    /// Consumer that still exists.
    pub fn consumer(&self) -> Option<Arc<dyn Consumer>> {
        lock(&self.consumer).as_ref()?.consumer.upgrade()
    }

    /// Form of the stream: true if the consumer asks for differences. Also returns a number that differs between
    /// consumers: each needs a separate stream to get everything.
    pub fn form(&self) -> (bool, u64) {
        let consuming = lock(&self.consumer);
        consuming.as_ref().map_or((false, 0), |one| (one.delta && one.consumer.strong_count() > 0, one.generation))
    }

    /// True if there is anything to ask for.
    pub fn wants_something(&self) -> bool {
        Kind::ALL.iter().any(|kind| !matches!(self.wanted(*kind), Wanted::Nothing))
    }

    /// Resources that the provider and the pools want.
    pub fn wanted(&self, kind: Kind) -> Wanted {
        let consumer = self.consumer();
        let names = match (kind, consumer) {
            (Kind::Cluster | Kind::Listener, Some(_)) => return Wanted::All,
            (Kind::Cluster | Kind::Listener, None) => return Wanted::Nothing,
            (Kind::Assignment, _) => self.names(),
            (Kind::Routes, consumer) => consumer.map(|consumer| consumer.route_names()).unwrap_or_default(),
        };
        if names.is_empty() { Wanted::Nothing } else { Wanted::Named(names) }
    }

    pub fn update(&self, cluster: &str, change: impl FnOnce(&mut Seen)) {
        if let Some(topic) = lock(&self.by_cluster).get(cluster) {
            topic.send_modify(change);
        }
    }

    pub fn update_all(&self, change: impl Fn(&mut Seen)) {
        lock(&self.by_cluster).values().for_each(|topic| topic.send_modify(&change));
    }

    /// True if a cluster has endpoints from this stream or an earlier stream, or is known to have none.
    pub fn has_list(&self, cluster: &str) -> bool {
        lock(&self.by_cluster).get(cluster).is_some_and(|topic| topic.borrow().assigned.is_some())
    }

    /// Notes that the endpoints of a cluster are current.
    pub fn confirm(&self, cluster: &str) {
        self.update(cluster, |seen| {
            seen.trouble = None;
            seen.confirmed += 1;
        });
    }

    /// Confirms all clusters that are not in trouble. For the others nothing has changed.
    pub fn confirm_all(&self) {
        for topic in lock(&self.by_cluster).values() {
            topic.send_if_modified(|seen| {
                let is_good = seen.trouble.is_none();
                seen.confirmed += u64::from(is_good);
                is_good
            });
        }
    }

    pub fn fail(&self, cluster: &str, why: String) {
        self.update(cluster, |seen| seen.trouble = Some(why));
    }
}

impl Subscription {
    /// Returns the latest state, and marks it as seen.
    pub fn latest(&mut self) -> Seen {
        self.seen.as_mut().map_or_else(Seen::default, |seen| seen.borrow_and_update().clone())
    }

    /// Waits for a state that was not seen; false if the control plane is not followed any more. Cancel safe.
    pub async fn changed(&mut self) -> bool {
        match &mut self.seen {
            Some(seen) => seen.changed().await.is_ok(),
            None => false,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        drop(self.seen.take());
        self.topics.changed.notify_one();
    }
}
