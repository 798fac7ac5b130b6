//! Offered plans with their origin, and the place where providers put them.

use super::texts::Texts;
use crate::lock::lock;
use evenkeel_config::{Outcome, Plan};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// A valid plan that should run.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The plan as requested, without endpoints discovered since, and without pieces of other providers.
    pub plan: Arc<Plan>,
    pub provenance: Provenance,
}

/// Origin of a plan: provider, trigger and requester.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Name of the provider: `file` or `typed`, or a provider that has added to it.
    pub provider: String,
    /// `start`, `reload`, `apply`, `rollback` or `push`.
    pub how: String,
    /// Client, signal or file that asked for it.
    pub by: String,
    /// Texts that it was read from; `None` for a plan made without a text.
    pub texts: Option<Arc<Texts>>,
}

/// Offer of a provider: a plan, or its errors.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The plan if it is valid, with all diagnostics.
    pub outcome: Outcome,
    pub provenance: Provenance,
}

impl Offer {
    /// The plan with its origin; `None` if it is invalid.
    pub fn wanted(&self) -> Option<Wanted> {
        let plan = Arc::new(self.outcome.plan.clone()?);
        Some(Wanted { plan, provenance: self.provenance.clone() })
    }
}

/// Slot for offers of providers. Only the latest counts: it replaces an offer that was not taken yet.
#[derive(Clone, Debug, Default)]
pub struct Offers(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    latest: Mutex<Option<Offer>>,
    put: Notify,
}

impl Offers {
    /// Puts an offer. Replaces an offer that was not taken.
    pub fn put(&self, offer: Offer) {
        *lock(&self.0.latest) = Some(offer);
        self.0.put.notify_one();
    }

    /// Waits for an offer and takes it. Cancel safe.
    pub(super) async fn next(&self) -> Offer {
        loop {
            let latest = lock(&self.0.latest).take();
            match latest {
                Some(offer) => return offer,
                None => self.0.put.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::{Endpoint, Listener, Pool};
    use std::time::Duration;

    /// An offer of a provider without a text.
    fn offer(port: u16) -> Offer {
        let at = |port| ([127, 0, 0, 1], port).into();
        let pool = Pool { endpoints: vec![Endpoint::at(at(port))], ..Pool::new("web") };
        let builder = Plan::builder().listener(Listener::new("web", at(1))).pool(pool);
        let [provider, how, by] = ["test", "push", "the provider"].map(str::to_owned);
        Offer { outcome: builder.build(&provider), provenance: Provenance { provider, how, by, texts: None } }
    }

    #[tokio::test]
    async fn the_latest_offer_is_the_one_that_counts() {
        let offers = Offers::default();
        let ready = || tokio::time::timeout(Duration::from_millis(1), offers.next());
        assert!(ready().await.is_err());
        (2..=4).for_each(|port| offers.clone().put(offer(port)));
        let wanted = ready().await.expect("there is one").wanted().expect("it is possible");
        assert_eq!(&*wanted.plan.pools[0].endpoints[0].name, "127.0.0.1:4");
        assert!(ready().await.is_err(), "it was taken");
        let (taken, ()) = tokio::join!(offers.next(), async { offers.put(offer(5)) });
        assert_eq!(taken.provenance.provider, "test");
    }
}
