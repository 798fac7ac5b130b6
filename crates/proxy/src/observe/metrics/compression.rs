//! Metrics of compressed responses, by route.

use super::modes::is_http;
use super::{Family, Shown};
use crate::encoder_memory::Lack;
use crate::observe::stats::{Counter, RouteStats};
use evenkeel_compress::coding::Coding;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;

impl Shown<'_> {
    /// Writes the counters of the routes that compress.
    pub(super) fn compression(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let sum = |numbers: &[Arc<RouteStats>], counter: fn(&RouteStats) -> &Counter| {
            numbers.iter().fold(0, |sum: u64, route| sum.wrapping_add(counter(route).get()))
        };
        let compresses =
            |name: &str| self.plan.routes.iter().any(|route| &*route.name == name && route.filters.compress.is_some());
        let routes: Vec<_> = self.routes(is_http).filter(|(_, route, _)| compresses(route)).collect();
        let help = "Compressed responses";
        let mut family =
            encoder.encode_descriptor("evenkeel_http_compressed_responses", help, None, MetricType::Counter)?;
        for (listener, route, numbers) in &routes {
            for coding in Coding::ALL {
                let n = numbers
                    .iter()
                    .fold(0, |sum: u64, of| sum.wrapping_add(of.compression.responses[coding as usize].get()));
                let labels = [("listener", *listener), ("route", *route), ("coding", coding.name())];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        let families: [Family<RouteStats, Counter>; 3] = [
            (
                "evenkeel_http_compressed_stored_responses",
                "Compressed responses that were served from the cache already compressed",
                |route| &route.compression.stored,
            ),
            ("evenkeel_http_compression_in_bytes", "Bytes of compressed bodies before compression", |route| {
                &route.compression.before
            }),
            ("evenkeel_http_compression_out_bytes", "Bytes of compressed bodies after compression", |route| {
                &route.compression.after
            }),
        ];
        for (name, help, counter) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (listener, route, numbers) in &routes {
                let labels = [("listener", *listener), ("route", *route)];
                ConstCounter::new(sum(numbers, counter)).encode(family.encode_family(&labels)?)?;
            }
        }
        if routes.is_empty() { Ok(()) } else { self.encoder_memory(encoder) }
    }

    /// Writes the memory of compressors, and the effects of its limit.
    fn encoder_memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let memory = self.encoder_memory;
        for (name, help, bytes) in [
            ("evenkeel_http_compression_memory_bytes", "Bytes of memory that compressors use", memory.in_use()),
            (
                "evenkeel_http_compression_memory_limit_bytes",
                "Bytes of memory that compressors may use",
                memory.limit(),
            ),
        ] {
            ConstGauge::new(bytes).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let name = "evenkeel_http_compression_memory_lacks";
        let help = "Responses without enough memory for their compressor, by outcome";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (lack, outcome) in Lack::LABELS.into_iter().enumerate() {
            let labels = [("outcome", outcome)];
            ConstCounter::new(memory.counted(lack)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
