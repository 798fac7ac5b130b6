//! Metrics of the sources: how often their lists changed, when they were last confirmed, and their sizes.

use crate::following::{Discovery, Following, Source};
use crate::kept::RESULTS;
use crate::lock::lock;
use crate::out::unix_time;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Collector for the sources that are current at each scrape, to be registered without a prefix.
#[derive(Debug)]
pub struct Numbers(Arc<Mutex<Following>>);

/// Name, help, and value for a source.
type Gauge<'a> = (&'static str, &'static str, &'a dyn Fn(&Source) -> f64);

impl Numbers {
    /// A collector for the sources of `discovery`, now and after later plans.
    pub fn new(discovery: &Discovery) -> Numbers {
        Numbers(discovery.current())
    }
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let following = lock(&self.0).clone();
        // Names of a pool may differ only in their port, and entries may share a source.
        let mut sources: Vec<(String, &Arc<Source>)> =
            following.sources().map(|source| (source.source.to_string(), source)).collect();
        sources.sort_by(|(a, x), (b, y)| (&x.pool, a).cmp(&(&y.pool, b)));
        sources.dedup_by(|(a, x), (b, y)| x.pool == y.pool && a == b);

        let help = "Answers of a discovery source; \"empty\" and \"failed\" left the last list unchanged";
        let mut family = encoder.encode_descriptor("evenkeel_discovery_updates", help, None, MetricType::Counter)?;
        for (label, source) in &sources {
            let counts = source.kept().counts;
            for (result, n) in RESULTS.iter().zip(counts) {
                let labels = [("pool", &*source.pool), ("source", label), ("result", result)];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        let now = unix_time();
        let gauges: [Gauge<'_>; 5] = [
            (
                "evenkeel_discovery_last_success_timestamp_seconds",
                "Unix time when the list of a source was last confirmed; 0: never",
                &|source| source.kept().held_at.map_or(0.0, |at| at.as_secs_f64()),
            ),
            (
                "evenkeel_discovery_list_age_seconds",
                "Time since the list of a source was last confirmed, or since the source was added if it never was",
                &|source| now.saturating_sub(source.kept().held_at.unwrap_or(source.began)).as_secs_f64(),
            ),
            (
                "evenkeel_discovery_list_ttl_seconds",
                "How long the list of a source is valid, as it states itself; +Inf: until the next list",
                &|source| source.kept().ttl.map_or(f64::INFINITY, |ttl| ttl.as_secs_f64()),
            ),
            ("evenkeel_discovery_endpoints", "Endpoints found by a source", &|source| {
                source.kept().endpoints().len() as f64
            }),
            (
                "evenkeel_discovery_skipped_entries",
                "Entries of the list of a source that are left out, as the log says",
                &|source| source.kept().skipped().len() as f64,
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (label, source) in &sources {
                let labels = [("pool", &*source.pool), ("source", label)];
                ConstGauge::new(value(source)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
