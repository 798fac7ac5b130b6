//! A plan that is wanted, and where it is from; and the place where providers put theirs.

use super::texts::Texts;
use crate::lock::lock;
use evenkeel_config::{Outcome, Plan};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// A plan that is to run.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The plan: as it was asked for, whatever was found since.
    pub plan: Arc<Plan>,
    /// Origin of the plan.
    pub provenance: Provenance,
}

/// Origin of a plan.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Name of the provider: `file` or `typed`.
    pub provider: String,
    /// `start`, `reload`, `apply` or `rollback`.
    pub how: String,
    /// Client, signal or file that asked for it.
    pub by: String,
    /// Texts that it was read from; `None` for one that was made without a text.
    pub texts: Option<Arc<Texts>>,
}

/// Offer of a provider: a plan, or all that is wrong with it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The plan, if it is possible, and what is to be said of it.
    pub outcome: Outcome,
    /// Origin of the offer.
    pub provenance: Provenance,
}

impl Offer {
    /// The plan, if it is possible.
    pub fn wanted(&self) -> Option<Wanted> {
        let plan = Arc::new(self.outcome.plan.clone()?);
        Some(Wanted { plan, provenance: self.provenance.clone() })
    }
}

/// The place where providers put their offers. Only the latest counts: an offer that was not taken yet is replaced by the next.
#[derive(Clone, Debug, Default)]
pub struct Offers(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    latest: Mutex<Option<Offer>>,
    put: Notify,
}

impl Offers {
    /// Offers a plan.
    pub fn put(&self, offer: Offer) {
        *lock(&self.0.latest) = Some(offer);
        self.0.put.notify_one();
    }

    /// Waits for an offer and takes it. May be dropped and called again.
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

    /// A plan of a provider that has no text.
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
