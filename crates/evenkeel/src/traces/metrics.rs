//! Metrics of spans: how many were exported, and how many were not.

use evenkeel_proxy::traces::overrun;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of spans, by result.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Spans that the collector has.
    pub exported: AtomicU64,
    /// Spans that the collector refused.
    pub refused: AtomicU64,
    /// Spans for a collector that was not there, or too busy.
    pub unreachable: AtomicU64,
}

/// Metrics of the exporter, to be registered.
#[derive(Debug, Default)]
pub struct Metrics(Arc<Numbers>);

impl Metrics {
    /// Creates the metrics of these numbers.
    pub fn new(numbers: Arc<Numbers>) -> Metrics {
        Metrics(numbers)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Spans that the collector accepted";
        let exported = encoder.encode_descriptor("evenkeel_traces_spans_exported", help, None, MetricType::Counter)?;
        ConstCounter::new(self.0.exported.load(Relaxed)).encode(exported)?;
        let help = "Dropped spans, by reason: the collector refused them or could not be reached in time";
        let mut dropped =
            encoder.encode_descriptor("evenkeel_traces_spans_dropped", help, None, MetricType::Counter)?;
        for (reason, counter) in [("refused", &self.0.refused), ("unreachable", &self.0.unreachable)] {
            ConstCounter::new(counter.load(Relaxed)).encode(dropped.encode_family(&[("reason", reason)])?)?;
        }
        let help = "Recorded requests that were dropped because too many waited for the export";
        let family = encoder.encode_descriptor("evenkeel_traces_requests_dropped", help, None, MetricType::Counter)?;
        ConstCounter::new(overrun()).encode(family)
    }
}
