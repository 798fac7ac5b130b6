//! State that the admin shows of a process, which may not run yet.

use super::cached::OfLate;
use super::native::native;
use super::state;
use crate::registry::write;
use evenkeel_admin::Ready;
use evenkeel_admin::exposition::Native;
use evenkeel_proxy::{Looker, Numbers};
use evenkeel_runtime::control::Control;
use evenkeel_runtime::{Events, Ledger};
use evenkeel_view::timeline::Timeline;
use prometheus_client::registry::Registry;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// State that the admin shows. Each part is empty until it is there.
#[derive(Default)]
pub struct Shown {
    /// Empty until the workers run.
    pub registry: OnceLock<Registry>,
    pub looker: OnceLock<Arc<Looker>>,
    pub control: OnceLock<Control>,
    /// Numbers of the plan that runs.
    pub running: OnceLock<watch::Receiver<Arc<Numbers>>>,
    /// The requests of all planes.
    pub ledger: OnceLock<Ledger>,
    /// Expiry times of certificates.
    pub certificates: OnceLock<Arc<evenkeel_tls::store::Shown>>,
    /// Times at which new certificates are ordered.
    pub issued: OnceLock<Arc<evenkeel_acme::issuer::Shown>>,
    /// Numbers of the queries of resolvers.
    pub answers: OnceLock<watch::Receiver<Arc<evenkeel_dns::metrics::Numbers>>>,
    /// Numbers of the planes of the kernel.
    pub kernel: OnceLock<watch::Receiver<Arc<evenkeel_kernel::numbers::Numbers>>>,
    /// Asks the kernel about listeners.
    pub explainer: OnceLock<evenkeel_kernel::Explainer>,
    pub timeline: Timeline,
    /// Requests of routes with a cache over the last minutes.
    pub cached: OfLate,
    /// True once every endpoint was checked. New endpoints of a reload do not make the process unready.
    checked: AtomicBool,
    /// True once each mechanism of the kernel had what its pools ask for. Those of a reload do not make the process unready.
    forwards: AtomicBool,
    /// True from the start until every provider of plans has put its part. One of a later plan does not make the process
    /// unready.
    pub awaits_provider: AtomicBool,
    /// True if the process accepts no more.
    pub draining: AtomicBool,
}

impl Shown {
    /// Returns the reasons why the process is not ready, if there are any.
    pub fn ready(&self) -> Ready {
        let is_checking = |control: &Control| {
            let checking = !self.checked.load(Relaxed) && control.is_checking_first();
            self.checked.store(!checking, Relaxed);
            checking
        };
        let checking = self.control.get().is_some_and(is_checking);
        let is_forwarding = |numbers: &watch::Receiver<Arc<evenkeel_kernel::numbers::Numbers>>| {
            let forwards = self.forwards.load(Relaxed) || numbers.borrow().has_applied();
            self.forwards.store(forwards, Relaxed);
            forwards
        };
        let forwards = self.kernel.get().is_none_or(is_forwarding);
        let reasons = [
            (self.control.get().is_none(), "starting"),
            (checking, "checking endpoints"),
            (!forwards, "the kernel does not forward yet"),
            (self.awaits_provider.load(Relaxed), "waiting for the first plan of a provider"),
            (self.draining.load(Relaxed), "draining"),
        ];
        Ready { reasons: reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_string()).collect() }
    }

    /// Notes the counts of this second.
    pub fn count(&self, ledger: &Ledger, now_ms: u64) {
        self.timeline.count(ledger, now_ms);
        if let Some(running) = self.running.get() {
            self.cached.count(&running.borrow(), now_ms);
        }
    }

    /// True if a route of the plan that runs has a cache.
    pub fn has_cache(&self) -> bool {
        self.running.get().is_some_and(|running| running.borrow().has_cache())
    }

    /// Frees memory of stored responses that nothing serves any more.
    pub fn sweep_cache(&self) {
        if let (Some(running), Some(control)) = (self.running.get(), self.control.get()) {
            running.borrow().sweep_cache(control.now());
        }
    }

    /// Writes all metrics as OpenMetrics, without the end.
    pub fn metrics(&self, to: &mut dyn fmt::Write) -> fmt::Result {
        self.registry.get().map_or(Ok(()), |registry| write(to, registry))
    }

    /// Returns the native histograms, which the text format cannot express.
    pub fn native(&self) -> Vec<Native> {
        let running = self.running.get().map(|running| running.borrow().clone());
        let metrics = running.as_ref().map(|running| &running.plan().telemetry.metrics);
        let wanted = metrics.is_some_and(|metrics| metrics.per_endpoint && metrics.endpoint_histograms);
        self.ledger.get().filter(|_| wanted).map(native).unwrap_or_default()
    }

    /// Returns the events of the process.
    pub fn events(&self) -> Events {
        self.control.get().map(|control| control.events().clone()).unwrap_or_default()
    }

    /// Writes what operators want to the file that keeps it, if there is one.
    pub fn keep_orders(&self, now: &Numbers, control: &Control) -> io::Result<()> {
        now.plan().runtime.state.as_ref().map_or(Ok(()), |file| state::write(file, &control.orders().all()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_balance::{EndpointId, Instant};

    #[test]
    fn is_ready_once_every_endpoint_was_checked_and_stays_so() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2', '127.0.0.1:3']\n\
                    health = { tcp = {} }";
        let plan = evenkeel_config::parse_str("test.toml", text, &|_| None).plan.expect("a good plan");
        let shown = Shown::default();
        assert_eq!(shown.ready().reasons, ["starting"]);
        let control = Control::unattended(&plan, 1);
        let _ = shown.control.set(control.clone());
        let check = |endpoint: &str, passed| {
            let mut pools = control.pools();
            let pool = pools.get_mut("web").expect("the pool of the plan");
            pool.pool.on_check(EndpointId::of(endpoint), passed, Instant(0));
        };
        assert_eq!(shown.ready().reasons, ["checking endpoints"]);
        check("127.0.0.1:2", true);
        assert_eq!(shown.ready().reasons, ["checking endpoints"]);
        check("127.0.0.1:3", false);
        assert_eq!(shown.ready(), Ready::default());
        // As a reload with new endpoints does.
        *control.pools() = std::mem::take(&mut *Control::unattended(&plan, 1).pools());
        assert_eq!(shown.ready(), Ready::default());
        shown.draining.store(true, Relaxed);
        assert_eq!(shown.ready().reasons, ["draining"]);
    }
}
