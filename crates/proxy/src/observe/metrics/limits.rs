//! Metrics of limits, by route and key.

use super::Shown;
use crate::peer::limits::Limit;
use evenkeel_balance::time::SECOND_NS;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::BTreeMap;
use std::fmt;

impl Shown<'_> {
    pub(super) fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that got a 429 from a limit of their route, by key of the limit";
        self.by_limit(encoder, ("evenkeel_http_limited_requests", help), Limit::refused)?;
        let help = "Keys that a limit forgot too early because its table was full, and requests in flight that it \
                    could not count";
        self.by_limit(encoder, ("evenkeel_http_limit_keys_forgotten", help), Limit::forgotten)?;
        self.bandwidths(encoder)
    }

    fn bandwidths(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "evenkeel_http_bandwidth_delay_seconds";
        let help = "Time that parts of bodies waited for the bandwidth of their route, summed over all parts";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for route in self.plan.routes.iter() {
            let Some(bandwidth) = self.limits.bandwidth_of(&route.name) else { continue };
            let seconds = bandwidth.delayed_ns() as f64 / SECOND_NS as f64;
            ConstCounter::new(seconds).encode(family.encode_family(&[("route", &*route.name)])?)?;
        }
        Ok(())
    }

    /// Writes a counter for each key of the limits of each route: their sum, if there are several.
    fn by_limit(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        count: fn(&Limit) -> u64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for route in self.plan.routes.iter() {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for limit in self.limits.of(&route.name).iter().flat_map(|limits| limits.all()) {
                *counts.entry(limit.plan.key.to_string()).or_default() += count(limit);
            }
            for (key, n) in counts {
                let labels = [("route", &*route.name), ("limit", &*key)];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
