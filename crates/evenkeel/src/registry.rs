//! Metrics of all rooms in one registry.

use crate::configured::reload::{self, Reloads};
use crate::log::queue::Dropped;
use crate::traces::Metrics as Spans;
use evenkeel_acme::{Metrics as Issued, issuer};
use evenkeel_admin::Process;
use evenkeel_discovery::providers::parts::Parts;
use evenkeel_discovery::{Discovery, Numbers as Found};
use evenkeel_tls::{Metrics as Certificates, Store};
use evenkeel_tokens::Metrics as Keys;
use prometheus_client::collector::Collector;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

pub struct Rooms<'r> {
    /// Metrics that planes share, and the metrics of each plane, in the order of the planes.
    pub planes: Vec<Box<dyn Collector>>,
    pub reloads: Arc<Reloads>,
    pub discovery: &'r Discovery,
    /// Providers other than the file.
    pub providers: Parts,
    /// Certificates of listeners.
    pub certificates: &'r Store,
    /// Orders of new certificates.
    pub orders: Arc<issuer::Shown>,
    pub spans: Spans,
    /// Keys of tokens that are fetched from URLs.
    pub tokens: Keys,
    /// Connections of the admin.
    pub admin: evenkeel_admin::Numbers,
}

/// Returns a registry of all metrics: of the rooms, of the process, and of the build. No collector holds a lock while
/// it writes, as a client may be slow to read.
pub fn registry(rooms: Rooms<'_>) -> Registry {
    let mut registry = Registry::default();
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("evenkeel_build", "Version of evenkeel", build);
    rooms.planes.into_iter().for_each(|plane| registry.register_collector(plane));
    registry.register_collector(Box::new(Found::new(rooms.discovery).with(rooms.providers)));
    registry.register_collector(Box::new(reload::Numbers(rooms.reloads)));
    registry.register_collector(Box::new(Certificates::new(rooms.certificates)));
    registry.register_collector(Box::new(Issued::new(rooms.orders)));
    registry.register_collector(Box::new(rooms.spans));
    registry.register_collector(Box::new(rooms.tokens));
    registry.register_collector(Box::new(Dropped));
    registry.register_collector(Box::new(rooms.admin));
    registry.register_collector(Box::new(Process));
    registry
}

/// Writes the metrics as OpenMetrics, without the end.
pub fn write(mut to: &mut dyn fmt::Write, registry: &Registry) -> fmt::Result {
    prometheus_client::encoding::text::encode_registry(&mut to, registry)
}

/// Renders the metrics as text.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // A String takes everything, and no collector of ours fails.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}
