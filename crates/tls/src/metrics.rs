//! Metrics of certificates: their expiry, counts of reloads, and sessions with early data.

use crate::store::{Shown, Store};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Collector for the certificates of all listeners and pools.
#[derive(Debug)]
pub struct Metrics(Arc<Shown>);

impl Metrics {
    /// Metrics of a store and of all that are made from it with [`Store::next`].
    pub fn new(store: &Store) -> Metrics {
        Metrics(store.shown())
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) =
            ("evenkeel_certificate_not_after_timestamp_seconds", "Unix time at which a certificate expires");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((listener, name), not_after) in self.0.expiries() {
            let labels = [("listener", &*listener), ("name", &*name)];
            ConstGauge::new(not_after).encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = (
            "evenkeel_ocsp_next_update_timestamp_seconds",
            "Unix time at which the OCSP response of a certificate expires; 0 if no response is stapled",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((listener, name), at) in self.0.next_updates() {
            let labels = [("listener", &*listener), ("name", &*name)];
            ConstGauge::new(at).encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = ("evenkeel_http3_sessions", "Sessions that clients may resume with early data over HTTP/3");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (listener, sessions) in self.0.sessions() {
            let kept = i64::try_from(sessions.len()).unwrap_or(i64::MAX);
            ConstGauge::new(kept).encode(family.encode_family(&[("listener", &*listener)])?)?;
        }
        let (name, help) = (
            "evenkeel_http3_early_data_refused",
            "Early data refused because its session was used before or is not known",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (listener, sessions) in self.0.sessions() {
            let counter = ConstCounter::new(sessions.refused());
            counter.encode(family.encode_family(&[("listener", &*listener)])?)?;
        }
        let (name, help) = ("evenkeel_certificate_reloads", "Changed TLS files, by result");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (result, counter) in [("applied", &self.0.reloads), ("refused", &self.0.refused)] {
            ConstCounter::new(counter.load(Relaxed)).encode(family.encode_family(&[("result", result)])?)?;
        }
        Ok(())
    }
}
