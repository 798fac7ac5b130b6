//! State that the admin shows of a process, which may not run yet.

use super::native::native;
use super::state;
use crate::registry::write;
use evenkeel_admin::Ready;
use evenkeel_admin::exposition::Native;
use evenkeel_proxy::Looker;
use evenkeel_runtime::control::Control;
use evenkeel_runtime::{Events, Generation, Ledger, View};
use evenkeel_view::timeline::Timeline;
use prometheus_client::registry::Registry;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// State that the admin shows.
#[derive(Default)]
pub struct Shown {
    /// Empty until the planes serve.
    started: OnceLock<Started>,
    pub timeline: Timeline,
    /// True once every endpoint was checked. New endpoints of a reload do not make the process unready.
    checked: AtomicBool,
    /// True from the start until every provider of plans has put its part. A provider of a later plan does not make the
    /// process unready.
    pub awaits_provider: AtomicBool,
    /// True once the process accepts nothing new.
    pub draining: AtomicBool,
}

/// Parts of a process whose planes serve.
pub struct Started {
    pub registry: Registry,
    pub control: Control,
    /// The generation that runs.
    pub running: watch::Receiver<Arc<Generation>>,
    /// Number of workers of each plane.
    pub workers: usize,
    /// The requests of all planes.
    pub ledger: Ledger,
    pub planes: Vec<Arc<dyn View>>,
    /// Asks workers of the proxy.
    pub looker: Arc<Looker>,
    /// Expiry times of certificates.
    pub certificates: Arc<evenkeel_tls::store::Shown>,
    /// Times at which new certificates are ordered.
    pub issued: Arc<evenkeel_acme::issuer::Shown>,
}

impl Started {
    /// Returns the generation that runs.
    pub fn now(&self) -> Arc<Generation> {
        self.running.borrow().clone()
    }

    /// Writes orders of operators to the file that keeps them, if any.
    pub fn keep_orders(&self) -> io::Result<()> {
        let orders = || self.control.orders().all();
        self.now().plan.runtime.state.as_ref().map_or(Ok(()), |file| state::write(file, &orders()))
    }
}

impl Shown {
    /// Shows the process from now on. To be called once.
    pub fn start(&self, started: Started) {
        let _ = self.started.set(started);
    }

    /// Returns the parts of the process; `None` until its planes serve.
    pub fn started(&self) -> Option<&Started> {
        self.started.get()
    }

    /// Returns the reasons why the process is not ready, if there are any.
    pub fn ready(&self) -> Ready {
        let mut reasons = Vec::new();
        match self.started() {
            None => reasons.push("starting"),
            Some(started) => {
                reasons.extend(self.is_checking(&started.control).then_some("checking endpoints"));
                reasons.extend(started.planes.iter().filter_map(|plane| plane.not_ready()));
            }
        }
        let flags = [(&self.awaits_provider, "waiting for the first plan of a provider"), (&self.draining, "draining")];
        reasons.extend(flags.into_iter().filter(|(holds, _)| holds.load(Relaxed)).map(|(_, text)| text));
        Ready { reasons: reasons.into_iter().map(str::to_owned).collect() }
    }

    /// True until every endpoint was checked.
    fn is_checking(&self, control: &Control) -> bool {
        let checking = !self.checked.load(Relaxed) && control.is_checking_first();
        self.checked.store(!checking, Relaxed);
        checking
    }

    /// Notes the counts of this second.
    pub fn count(&self, now_ms: u64) {
        if let Some(started) = self.started() {
            self.timeline.count(&started.ledger, now_ms);
        }
    }

    /// Writes all metrics as OpenMetrics, without the end.
    pub fn metrics(&self, to: &mut dyn fmt::Write) -> fmt::Result {
        self.started().map_or(Ok(()), |started| write(to, &started.registry))
    }

    /// Returns the native histograms, which the text format cannot express.
    pub fn native(&self) -> Vec<Native> {
        let Some(started) = self.started() else { return Vec::new() };
        let now = started.now();
        let metrics = &now.plan.telemetry.metrics;
        if metrics.per_endpoint && metrics.endpoint_histograms { native(&started.ledger) } else { Vec::new() }
    }

    /// Returns the events of the process.
    pub fn events(&self) -> Events {
        self.started().map(|started| started.control.events().clone()).unwrap_or_default()
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
        let (shown, control) = (Shown::default(), Control::unattended(&plan, 1));
        let check = |endpoint: &str, passed| {
            let mut pools = control.pools();
            let pool = pools.get_mut("web").expect("the pool of the plan");
            pool.pool.on_check(EndpointId::of(endpoint), passed, Instant(0));
        };
        assert!(shown.is_checking(&control));
        check("127.0.0.1:2", true);
        assert!(shown.is_checking(&control));
        check("127.0.0.1:3", false);
        assert!(!shown.is_checking(&control));
        // As a reload with new endpoints does.
        *control.pools() = std::mem::take(&mut *Control::unattended(&plan, 1).pools());
        assert!(!shown.is_checking(&control));
    }

    #[test]
    fn a_process_that_starts_or_drains_is_not_ready() {
        let shown = Shown::default();
        assert_eq!(shown.ready().reasons, ["starting"]);
        shown.draining.store(true, Relaxed);
        assert_eq!(shown.ready().reasons, ["starting", "draining"]);
    }
}
