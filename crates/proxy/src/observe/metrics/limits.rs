//! Metrics of limits, by route and key.

use super::Shown;
use crate::peer::limits::Limit;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::BTreeMap;
use std::fmt;

impl Shown<'_> {
    pub(super) fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests answered 429 by a limit of their route, by its key";
        self.by_limit(encoder, ("evenkeel_http_limited_requests", help), Limit::refused)?;
        let help = "Keys that a limit forgot before their limit was whole again, as its table was full, and requests \
                    in flight that it could not count";
        self.by_limit(encoder, ("evenkeel_http_limit_keys_forgotten", help), Limit::forgotten)
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
