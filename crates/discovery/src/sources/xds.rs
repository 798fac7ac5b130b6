//! The source `xds`: endpoints that a control plane assigns to a cluster.

use crate::context::Context;
use crate::kept::Answer;
use crate::out::Out;
use crate::registry::never;
use crate::xds::ads::Ads;
use crate::xds::assignment::Assigned;
use evenkeel_config::plan::Xds;
use std::sync::Arc;

/// Follows the endpoints of a cluster, forever.
pub(super) async fn run(xds: Xds, context: Context, mut out: Out) -> ! {
    let ads = context.shared.get(&xds.server, || Ads::follow(xds.server.clone()));
    let mut subscription = ads.subscribe(&xds.cluster);
    let (mut last, mut confirmed): (Option<Arc<Assigned>>, u64) = (None, 0);
    loop {
        let seen = subscription.latest();
        match seen.assigned {
            Some(assigned) if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &assigned)) => {
                out.ignore(assigned.ignored.clone());
                out.put(Answer::List(assigned.list.clone()));
                last = Some(assigned);
            }
            _ if seen.confirmed > confirmed && seen.trouble.is_none() => out.put(Answer::Same),
            _ => {}
        }
        confirmed = seen.confirmed;
        if let Some(why) = seen.trouble {
            out.put(Answer::Failed(why));
        }
        if !subscription.changed().await {
            never("evenkeel no longer follows its control plane".into(), out).await;
        }
    }
}
