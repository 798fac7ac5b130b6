//! Metrics of the sources: how often their lists changed, when they were last confirmed, and their sizes. Metrics of
//! the providers: the size of their parts, and whether these are current.

use crate::following::{Discovery, Following, Source};
use crate::kept::RESULTS;
use crate::lock::lock;
use crate::out::unix_time;
use crate::providers::parts::{Part, Parts, State};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Collector for the sources and providers that are current at each scrape, to be registered without a prefix.
#[derive(Debug)]
pub struct Numbers {
    following: Arc<Mutex<Following>>,
    providers: Parts,
}

/// Name, help, and value for a source.
type Gauge<'a> = (&'static str, &'static str, &'a dyn Fn(&Source) -> f64);

impl Numbers {
    /// A collector for the sources of `discovery`, now and after later plans.
    pub fn new(discovery: &Discovery) -> Numbers {
        Numbers { following: discovery.current(), providers: Parts::default() }
    }

    /// Also collects for these providers.
    pub fn with(self, providers: Parts) -> Numbers {
        Numbers { providers, ..self }
    }
}

/// Name, help, and value for a provider.
type OfProvider<'a> = (&'static str, &'static str, &'a dyn Fn(&State) -> f64);

impl Numbers {
    fn encode_providers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.providers.states();
        let help = "Listeners, routes and pools that a provider adds to those of the file";
        let mut family = encoder.encode_descriptor("evenkeel_provider_pieces", help, None, MetricType::Gauge)?;
        for state in &states {
            let Part { listeners, routes, pools } = &*state.part;
            for (kind, n) in [("listener", listeners.len()), ("route", routes.len()), ("pool", pools.len())] {
                let labels = [("provider", state.name), ("kind", kind)];
                ConstGauge::new(n as f64).encode(family.encode_family(&labels)?)?;
            }
        }
        let gauges: [OfProvider<'_>; 3] = [
            ("evenkeel_provider_up", "1 if a provider knows the latest state of its system", &|state| {
                f64::from(u8::from(state.fault.is_none() && state.number > 0))
            }),
            ("evenkeel_provider_refused", "Objects of a provider that are left out, as status and log say", &|state| {
                state.refused.len() as f64
            }),
            (
                "evenkeel_provider_last_change_timestamp_seconds",
                "Unix time at which a provider had something else to add; 0: never",
                &|state| state.put_at.map_or(0.0, |at| at.as_secs_f64()),
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for state in &states {
                ConstGauge::new(value(state)).encode(family.encode_family(&[("provider", state.name)])?)?;
            }
        }
        Ok(())
    }
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let following = lock(&self.following).clone();
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
                &|source| {
                    // The second looks at the same list, which is locked.
                    let skipped = source.kept().skipped().len();
                    (skipped + following.refused(source)) as f64
                },
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (label, source) in &sources {
                let labels = [("pool", &*source.pool), ("source", label)];
                ConstGauge::new(value(source)).encode(family.encode_family(&labels)?)?;
            }
        }
        self.encode_providers(&mut encoder)
    }
}
