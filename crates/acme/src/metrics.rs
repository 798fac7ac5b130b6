//! Metrics of orders: certificates issued, failures by cause, and times of the next orders.

use crate::failed::Cause;
use crate::issuer::Shown;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Collector for the orders of an issuer.
#[derive(Debug)]
pub struct Metrics(Arc<Shown>);

impl Metrics {
    /// Metrics of the issuer with this [`Issuer::shown`](crate::issuer::Issuer::shown).
    pub fn new(shown: Arc<Shown>) -> Metrics {
        Metrics(shown)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Certificates issued by ACME";
        let issued = encoder.encode_descriptor("evenkeel_acme_issued", help, None, MetricType::Counter)?;
        ConstCounter::new(self.0.issued.load(Relaxed)).encode(issued)?;
        let help = "Failed certificate orders, by cause";
        let mut failures = encoder.encode_descriptor("evenkeel_acme_failures", help, None, MetricType::Counter)?;
        for &cause in Cause::ALL {
            let labels = [("cause", cause.label())];
            ConstCounter::new(self.0.failed[cause as usize].load(Relaxed)).encode(failures.encode_family(&labels)?)?;
        }
        let help = "Unix time of the next certificate order";
        let mut due =
            encoder.encode_descriptor("evenkeel_acme_due_timestamp_seconds", help, None, MetricType::Gauge)?;
        // A copy, as the client may read so slowly that the issuer would wait for the lock.
        let all = self.0.due.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, at) in &all {
            ConstGauge::new(*at).encode(due.encode_family(&[("name", name.as_str())])?)?;
        }
        Ok(())
    }
}
