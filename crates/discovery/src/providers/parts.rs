//! Parts of providers other than the file: listeners, routes and pools, each with the object that it was made from. See
//! [`Parts`].

use crate::lock::lock;
use crate::out::unix_time;
use evenkeel_config::plan::{Listener, Pool, Route};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Listeners, routes and pools of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub listeners: Vec<Piece<Arc<Listener>>>,
    pub routes: Vec<Piece<Route>>,
    pub pools: Vec<Piece<Arc<Pool>>>,
}

/// A listener, route or pool, and the object that it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<T> {
    /// Kind and name of the object, such as `HTTPRoute shop/web`.
    pub of: Arc<str>,
    /// Namespace of the object; `None` if the provider has a single tenant.
    pub tenant: Option<Arc<str>>,
    pub value: T,
}

impl<T> Piece<T> {
    pub fn new(of: &Arc<str>, value: T) -> Piece<T> {
        Piece { of: of.clone(), tenant: None, value }
    }
}

/// An object that was left out of the plan, at least in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The object, as in [`Piece::of`].
    pub of: Arc<str>,
    pub why: String,
}

/// Outcome of a part: it is in use, without the pieces that were refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Number of the part, as [`Contribution::put`] returned it; 0 before the first part.
    pub number: u64,
    pub refused: Vec<Refusal>,
}

/// Parts of all providers, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct Parts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<BTreeMap<&'static str, Latest>>,
    put: Notify,
}

#[derive(Debug, Default)]
struct Latest {
    /// Number of the latest part; 0 = none yet.
    number: u64,
    part: Arc<Part>,
    settled: watch::Sender<Settled>,
    /// Reason why the part may be out of date.
    fault: Option<String>,
    /// Warnings about objects that are used without a protection that they ask for.
    warnings: Arc<[String]>,
    /// Time at which the part was put, since 1970.
    put_at: Option<Duration>,
}

/// A provider as status and metrics show it.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub name: &'static str,
    /// Number of parts that it has put.
    pub number: u64,
    /// Time at which the latest part was put, since 1970; `None` = never.
    pub put_at: Option<Duration>,
    pub part: Arc<Part>,
    /// Pieces that are not in use.
    pub refused: Vec<Refusal>,
    /// Reason why the part may be out of date.
    pub fault: Option<String>,
    /// Warnings about objects that are used without a protection that they ask for.
    pub warnings: Arc<[String]>,
}

/// Handle with which a provider puts its part.
#[derive(Clone, Debug)]
pub struct Contribution {
    provider: &'static str,
    parts: Parts,
}

impl Parts {
    /// Returns the handle of a provider. Its part is empty until it puts a part.
    pub fn of(&self, provider: &'static str) -> Contribution {
        lock(&self.0.latest).entry(provider).or_default();
        Contribution { provider, parts: self.clone() }
    }

    /// Forgets the part of a provider.
    pub(super) fn forget(&self, provider: &'static str) {
        lock(&self.0.latest).remove(provider);
    }

    /// Provider, number and part of each; a number of 0 means that nothing was put yet.
    pub(super) fn all(&self) -> Vec<(&'static str, u64, Arc<Part>)> {
        lock(&self.0.latest).iter().map(|(name, latest)| (*name, latest.number, latest.part.clone())).collect()
    }

    pub fn states(&self) -> Vec<State> {
        let all = lock(&self.0.latest);
        let state = |(name, latest): (&&'static str, &Latest)| State {
            name,
            number: latest.number,
            put_at: latest.put_at,
            part: latest.part.clone(),
            refused: latest.settled.borrow().refused.clone(),
            fault: latest.fault.clone(),
            warnings: latest.warnings.clone(),
        };
        all.iter().map(state).collect()
    }

    /// Tells a provider about a part.
    pub(super) fn settle(&self, provider: &'static str, settled: Settled) {
        if let Some(latest) = lock(&self.0.latest).get(provider) {
            latest.settled.send_replace(settled);
        }
    }

    /// Waits until a provider has put a part. Cancel safe.
    pub(super) async fn changed(&self) {
        self.0.put.notified().await;
    }
}

impl Contribution {
    /// Replaces the part of this provider. Returns its number.
    pub fn put(&self, part: Part) -> u64 {
        let mut all = lock(&self.parts.0.latest);
        // It was forgotten if another plan has no such provider.
        let Some(latest) = all.get_mut(self.provider) else { return 0 };
        latest.number += 1;
        latest.part = Arc::new(part);
        latest.put_at = Some(unix_time());
        self.parts.0.put.notify_one();
        latest.number
    }

    /// Sets the reason why the part may be out of date; `None` if it is current.
    pub fn note(&self, fault: Option<String>) {
        if let Some(latest) = lock(&self.parts.0.latest).get_mut(self.provider) {
            latest.fault = fault;
        }
    }

    /// Replaces the warnings about objects that are used without a protection that they ask for.
    pub fn warn(&self, warnings: Vec<String>) {
        if let Some(latest) = lock(&self.parts.0.latest).get_mut(self.provider) {
            latest.warnings = warnings.into();
        }
    }

    /// Outcomes of the parts, of which the latest is kept.
    pub fn settled(&self) -> watch::Receiver<Settled> {
        lock(&self.parts.0.latest).entry(self.provider).or_default().settled.subscribe()
    }
}
