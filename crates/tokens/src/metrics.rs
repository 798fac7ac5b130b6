//! Metrics of key sets that are fetched: fetches by result, keys, and the time of the last success.

use crate::routes::Tokens;
use crate::source::Counts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::watch;

/// Collector for the sets of the plan in use.
#[derive(Debug)]
pub struct Metrics(watch::Receiver<Arc<Tokens>>);

impl Metrics {
    /// Metrics of the latest value of `tokens`.
    pub fn new(tokens: watch::Receiver<Arc<Tokens>>) -> Metrics {
        Metrics(tokens)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let tokens = self.0.borrow().clone();
        let fetched = || tokens.sources().iter().filter_map(|source| Some((&**source.url()?, &source.counts)));
        let help = "Fetches of token keys, by URL and result; after a failure, the previous keys stay in use";
        let mut family = encoder.encode_descriptor("evenkeel_jwt_key_fetches", help, None, MetricType::Counter)?;
        for (url, counts) in fetched() {
            for (result, n) in [("success", &counts.fetched), ("failure", &counts.failed)] {
                let labels = [("url", url), ("result", result)];
                ConstCounter::new(n.load(Relaxed)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Usable token keys, by URL";
        let mut family = encoder.encode_descriptor("evenkeel_jwt_keys", help, None, MetricType::Gauge)?;
        for (url, counts) in fetched() {
            let n = i64::try_from(counts.keys.load(Relaxed)).unwrap_or(i64::MAX);
            ConstGauge::new(n).encode(family.encode_family(&[("url", url)])?)?;
        }
        let name = "evenkeel_jwt_keys_last_success_timestamp_seconds";
        let help = "Unix time of the last successful fetch of token keys; 0 before the first";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let at = |counts: &Counts| counts.fetched_at.load(Relaxed);
        for (url, counts) in fetched() {
            ConstGauge::new(at(counts)).encode(family.encode_family(&[("url", url)])?)?;
        }
        Ok(())
    }
}
