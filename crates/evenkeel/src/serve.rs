//! What runs while evenkeel serves? The proxy and, if configured, the admin listener beside it; and how both end.

use crate::failure::Failure;
use crate::signals::{Asked, Signals};
use evenkeel_admin::{Admin, Pages, Process, Ready};
use evenkeel_config::Plan;
use evenkeel_proxy::metrics::Metrics;
use evenkeel_proxy::stats::WorkerStats;
use evenkeel_proxy::{Command, Server};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A running proxy, and whoever watches it.
pub struct Serving {
    server: Server,
    admin: Option<Admin>,
    shown: Arc<Shown>,
}

/// What the admin listener shows.
#[derive(Default)]
struct Shown {
    /// Empty until the workers run.
    registry: OnceLock<Registry>,
    draining: AtomicBool,
}

impl Shown {
    fn ready(&self) -> Ready {
        let reasons = [(self.registry.get().is_none(), "starting"), (self.draining.load(Relaxed), "draining")];
        Ready { reasons: reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_string()).collect() }
    }

    fn metrics(&self) -> String {
        self.registry.get().map(render).unwrap_or_default()
    }
}

/// Every metric there is: those of the proxy, of the process, and which build it is.
pub fn registry(plan: &Arc<Plan>, workers: &[Arc<WorkerStats>]) -> Registry {
    let mut registry = Registry::default();
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("evenkeel_build", "Which evenkeel this is", build);
    registry.register_collector(Box::new(Metrics::new(plan.clone(), workers.to_vec())));
    registry.register_collector(Box::new(Process));
    registry
}

/// The metrics as text.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // A String takes everything, and no collector of ours fails.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

impl Serving {
    /// Starts all of it; the admin first, so that it can say "starting", and nothing serves if its address is in use.
    pub fn start(plan: Plan) -> Result<Serving, Failure> {
        let shown = Arc::new(Shown::default());
        let (for_metrics, for_ready) = (shown.clone(), shown.clone());
        let pages = Pages {
            metrics_path: plan.telemetry.metrics.path.clone(),
            metrics: Arc::new(move || for_metrics.metrics()),
            ready: Arc::new(move || for_ready.ready()),
        };
        let bind = plan.admin.as_ref().and_then(|admin| admin.bind);
        let admin = bind.map(|bind| Admin::start(bind, pages).map_err(|e| Failure::listen("admin", bind, &e)));
        let admin = admin.transpose()?;
        let server = Server::start(plan)?;
        // Set once, here.
        let _ = shown.registry.set(registry(server.plan(), server.stats()));
        Ok(Serving { server, admin, shown })
    }

    /// The proxy.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Serves until a signal asks it to end, then drains: accepts no more, and gives what runs its time. A second signal
    /// ends that at once. `from_file`: there is a configuration that SIGHUP could mean.
    pub async fn until_told(self, mut signals: Signals, from_file: bool) -> Result<(), Failure> {
        loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Hangup if from_file => {
                        tracing::warn!("SIGHUP: reading the configuration again is not there yet; nothing changed");
                    }
                    _ => break,
                },
                () = self.ended(Duration::from_secs(1)) => {
                    return Err(Failure::running("every worker has ended on its own; the log says why"));
                }
            }
        }
        self.shown.draining.store(true, Relaxed);
        let (limit, open) = (self.server.plan().runtime.drain_timeout, self.open());
        tracing::info!(
            open,
            ?limit,
            "draining: accepting no more, finishing what runs; a second signal ends it at once"
        );
        self.server.command(Command::Drain);
        let told_again = async { while signals.next().await != Asked::End {} };
        tokio::select! {
            () = self.ended(Duration::from_millis(10)) => tracing::info!("drained"),
            () = tokio::time::sleep(limit) => tracing::warn!(open = self.open(), "the time to drain is over: closing the rest"),
            () = told_again => tracing::warn!(open = self.open(), "told again: closing the rest"),
        }
        self.server.command(Command::Stop);
        self.server.join();
        drop(self.admin);
        Ok(())
    }

    /// Client connections.
    fn open(&self) -> u64 {
        let listeners = self.server.stats().iter().flat_map(|worker| &worker.listeners);
        listeners.fold(0, |sum, listener| sum.wrapping_add(listener.active.get()))
    }

    /// Waits until every worker has ended.
    async fn ended(&self, look_every: Duration) {
        while !self.server.has_ended() {
            tokio::time::sleep(look_every).await;
        }
    }
}
