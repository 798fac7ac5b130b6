//! The provider `xds`: listeners, route configurations and clusters of a control plane. [`catalog`] has the resources that
//! were accepted, and those in use; their meaning is in `evenkeel_envoy`.

mod catalog;
#[cfg(test)]
mod hostile;

use super::parts::{Contribution, Part, Piece};
use crate::backoff::until;
use crate::lock::lock;
use crate::shared::Shared;
use crate::xds::ads::{Ads, Subscription};
use crate::xds::consumer::{Consumer, Kind, Received};
use catalog::Catalog;
use evenkeel_config::plan::{XdsProvider, XdsServer};
use evenkeel_envoy::plan::{self, InUse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Least time between two parts; faster changes are combined.
const APART: Duration = Duration::from_millis(100);

/// Resources, shared by the stream and the provider.
#[derive(Debug)]
struct Resources {
    catalog: Mutex<Catalog>,
    logged: Mutex<Logged>,
    changed: Notify,
}

/// Failures in the log. Each is logged once until it changes: control planes resend refused resources again and again.
#[derive(Debug, Default)]
struct Logged {
    refused: BTreeMap<Kind, String>,
    /// Reason for which there is no control plane.
    lost: Option<String>,
}

impl Logged {
    /// Returns true if a refusal is not in the log yet.
    fn refuse(&mut self, kind: Kind, why: &str) -> bool {
        self.refused.insert(kind, why.to_owned()).as_deref() != Some(why)
    }

    /// Returns true if this loss of the control plane is not in the log yet.
    fn lose(&mut self, why: &str) -> bool {
        self.lost.replace(why.to_owned()).as_deref() != Some(why)
    }
}

impl Consumer for Resources {
    fn route_names(&self) -> BTreeSet<String> {
        lock(&self.catalog).route_names()
    }

    fn take(&self, received: Received<'_>) -> Result<(), String> {
        let kind = received.kind;
        let taken = lock(&self.catalog).take(&received, Instant::now());
        match &taken {
            Ok(taken) if taken.emptied => tracing::warn!(
                ?kind,
                "the control plane has sent nothing since the stream began; earlier resources stay in use"
            ),
            Ok(_) => tracing::debug!(?kind, resources = received.resources.len(), "resources accepted"),
            Err(why) if lock(&self.logged).refuse(kind, why) => {
                tracing::warn!(?kind, why, "resources of the control plane refused; earlier resources stay in use");
            }
            Err(_) => {}
        }
        if taken.is_ok() {
            lock(&self.logged).refused.remove(&kind);
        }
        self.changed.notify_one();
        taken.map(|_| ())
    }

    fn lost(&self, why: &str) {
        if lock(&self.logged).lose(why) {
            tracing::warn!(why, "the control plane is unreachable; its last resources stay in use");
            self.changed.notify_one();
        }
    }

    fn found(&self) {
        if lock(&self.logged).lost.take().is_some() {
            tracing::info!("the control plane is reachable again");
            self.changed.notify_one();
        }
    }
}

/// Serves until it is aborted.
pub async fn run(provider: XdsProvider, server: XdsServer, planes: Shared, contribution: Contribution) {
    let ads = planes.get(&server, || Ads::follow(server.clone()));
    let resources = Arc::new(Resources {
        catalog: Mutex::new(Catalog::new(server)),
        logged: Mutex::default(),
        changed: Notify::new(),
    });
    let consumer: Arc<dyn Consumer> = resources.clone();
    ads.attach(&consumer, provider.delta);
    let mut settled = contribution.settled();
    let mut subscriptions = BTreeMap::new();
    let (mut has_put, mut notes, mut unkept) = (false, Vec::new(), Vec::new());
    loop {
        contribution.note(lock(&resources.logged).lost.clone());
        let noted = lock(&resources.catalog).noted();
        if noted != unkept {
            noted.iter().filter(|note| !unkept.contains(*note)).for_each(|note| tracing::warn!("{note}"));
            unkept.clone_from(&noted);
            contribution.warn(noted);
        }
        let (changed, due) = advance(&resources, &ads, &mut subscriptions);
        if (changed || !has_put) && lock(&resources.catalog).is_complete(Instant::now()) {
            let (part, noted) = part(lock(&resources.catalog).in_use());
            tracing::info!(
                listeners = part.listeners.len(),
                routes = part.routes.len(),
                pools = part.pools.len(),
                "plan of the control plane"
            );
            noted.iter().filter(|note| !notes.contains(*note)).for_each(|note| tracing::warn!("{note}"));
            notes = noted;
            contribution.put(part);
            has_put = true;
            sleep(APART).await;
        }
        let warmed = warmed(&mut subscriptions);
        tokio::select! {
            () = resources.changed.notified() => {}
            () = warmed => {}
            () = until(due) => {}
            changed = settled.changed() => {
                if changed.is_err() {
                    return;
                }
                for refused in &settled.borrow_and_update().refused {
                    tracing::error!(of = &*refused.of, why = refused.why, "a resource of the control plane cannot be used");
                }
            }
        }
    }
}

/// Returns the resources that are in use as a part of the plan, and the differences from their originals in words for the log.
fn part(in_use: &InUse) -> (Part, Vec<String>) {
    let plan::Pieces { listeners, routes, pools, notes, .. } = plan::pieces(in_use);
    fn all<T>(pieces: Vec<plan::Piece<T>>) -> Vec<Piece<T>> {
        pieces.into_iter().map(|piece| Piece::new(&piece.of, piece.value)).collect()
    }
    let part = Part { listeners: all(listeners), routes: all(routes), pools: all(pools) };
    (part, notes.into_iter().map(|(_, note)| note).collect())
}

/// Puts resources into use, with the endpoints that were assigned so far. Returns true if anything has changed, and the
/// time at which a resource stops waiting.
fn advance(
    resources: &Resources,
    ads: &Ads,
    subscriptions: &mut BTreeMap<String, Subscription>,
) -> (bool, Option<Instant>) {
    let mut catalog = lock(&resources.catalog);
    let assigned = catalog.assigned();
    subscriptions.retain(|cluster, _| assigned.contains(cluster));
    for cluster in assigned {
        subscriptions.entry(cluster).or_insert_with_key(|cluster| ads.subscribe(cluster));
    }
    let warm: BTreeSet<String> = subscriptions
        .iter_mut()
        .filter_map(|(cluster, seen)| seen.latest().assigned.is_some().then(|| cluster.clone()))
        .collect();
    let now = Instant::now();
    let changed = catalog.advance(now, |cluster| warm.contains(cluster));
    (changed, catalog.due().filter(|due| *due > now))
}

/// Waits until endpoints were assigned to a cluster that had none. Cancel safe.
async fn warmed(subscriptions: &mut BTreeMap<String, Subscription>) {
    let cold: Vec<_> = subscriptions
        .values_mut()
        .filter_map(|subscription| subscription.latest().assigned.is_none().then(|| Box::pin(subscription.changed())))
        .collect();
    if cold.is_empty() {
        return std::future::pending().await;
    }
    let mut cold = cold;
    std::future::poll_fn(|cx| match cold.iter_mut().any(|one| one.as_mut().poll(cx).is_ready()) {
        true => std::task::Poll::Ready(()),
        false => std::task::Poll::Pending,
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_once_until_it_changes() {
        let mut logged = Logged::default();
        assert!(logged.refuse(Kind::Listener, "web: port 0"));
        assert!(!logged.refuse(Kind::Listener, "web: port 0"), "it was sent again");
        assert!(logged.refuse(Kind::Cluster, "web: port 0") && logged.refuse(Kind::Listener, "web: port 1"));
        assert!(logged.lose("it ended the stream") && logged.lose("refused") && !logged.lose("refused"));
    }
}
