//! Which metrics are there? Those of every room, together.

use crate::configured::reload::{self, Reloads};
use evenkeel_acme::{Metrics as Issued, issuer};
use evenkeel_admin::Process;
use evenkeel_discovery::{Discovery, Numbers as Found};
use evenkeel_dns::metrics::{Metrics as Answers, Numbers};
use evenkeel_pools::control::Control;
use evenkeel_proxy::Generation;
use evenkeel_proxy::metrics::Metrics;
use evenkeel_tls::{Metrics as Certificates, Store};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use tokio::sync::watch;

/// Every metric there is: those of the proxy, of the DNS plane, of what is discovered, of its configuration, of the process,
/// and which build it is.
pub fn registry(
    running: watch::Receiver<Arc<Generation>>,
    control: Control,
    dns: watch::Receiver<Arc<Numbers>>,
    reloads: Arc<Reloads>,
    discovery: &Discovery,
    certificates: &Store,
    orders: Arc<issuer::Shown>,
) -> Registry {
    let mut registry = Registry::default();
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("evenkeel_build", "Which evenkeel this is", build);
    registry.register_collector(Box::new(Metrics::new(running, control)));
    registry.register_collector(Box::new(Answers::new(dns)));
    registry.register_collector(Box::new(Found::new(discovery)));
    registry.register_collector(Box::new(reload::Numbers(reloads)));
    registry.register_collector(Box::new(Certificates::new(certificates)));
    registry.register_collector(Box::new(Issued::new(orders)));
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
