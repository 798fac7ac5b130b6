//! Metrics of the caches of routes.

use super::Shown;
use crate::cache::counts::{CacheCounts, CacheResult};
use evenkeel_cache::refusal::Refusal;
use evenkeel_net::counter::Counter;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::fmt;
use std::sync::Arc;

/// Name and help of a family.
type Family<'f> = (&'f str, &'f str);

impl Shown<'_> {
    pub(super) fn cache(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests of routes with a cache, by what it did: a fresh response, a stale one, a stored one that the \
                    endpoint has validated; stored or not stored what the endpoint sent; passed by";
        let family = ("evenkeel_cache_requests", help);
        self.by_label(encoder, family, ("result", &CacheResult::LABELS), |counts, at| &counts.results[at])?;
        let reasons = Refusal::ALL.map(Refusal::label);
        let family = ("evenkeel_cache_not_stored", "Responses of endpoints that were not stored, by the reason");
        self.by_label(encoder, family, ("reason", &reasons), |counts, at| &counts.refused[at])?;
        let help = "Requests that have waited for the response to another request";
        self.by_label(encoder, ("evenkeel_cache_collapsed_requests", help), ("", &[""]), |counts, _| {
            &counts.collapsed
        })?;
        let family = ("evenkeel_cache_sent_bytes", "Bytes of bodies that came from the cache");
        self.by_label(encoder, family, ("", &[""]), |counts, _| &counts.bytes)
    }

    /// Writes a counter for each route with a cache and each value of a label; an empty name means no label.
    fn by_label(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): Family<'_>,
        (label, values): (&str, &[&str]),
        counter: impl Fn(&CacheCounts, usize) -> &Counter,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for route in self.plan.routes.iter().filter(|route| route.cache.is_some()) {
            let counts: Vec<Arc<CacheCounts>> = self.cache.counts.of_route(&route.name);
            for (at, value) in values.iter().enumerate() {
                let sum = counts.iter().fold(0, |sum: u64, counts| sum.wrapping_add(counter(counts, at).get()));
                let labels = [("route", &*route.name), (label, *value)];
                let labels = if label.is_empty() { &labels[..1] } else { &labels[..] };
                ConstCounter::new(sum).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
