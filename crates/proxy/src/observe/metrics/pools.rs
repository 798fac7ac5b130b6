//! Metrics of pools: times, retries, hedges, and queued requests.

use super::modes::{Speaks, forwards, is_http, is_proxied_tcp, is_tcp};
use super::{Family, NO_LABEL, Shown};
use crate::observe::stats::{Counter, Histogram, MirrorDrop, PoolStats, QUEUE_REJECTED};
use evenkeel_balance::retry::Stop;
use evenkeel_config::plan::GrpcStatus;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::fmt;

/// Labels of the reasons why no endpoint was picked, in the order of the counters.
const NO_PICK_LABELS: [&str; 4] = ["empty", "all_tried", "all_full", "unchecked"];

impl Shown<'_> {
    /// Times of requests, sessions and flows.
    pub(super) fn pool_times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let histograms: [(Speaks, Family<PoolStats, Histogram>); 4] = [
            (
                forwards,
                (
                    "evenkeel_upstream_request_duration_seconds",
                    "Time from the request head to the last byte of the response, of requests that got an endpoint; of TCP \
                     sessions and UDP flows, from their start to their end",
                    |p| &p.duration,
                ),
            ),
            (
                is_proxied_tcp,
                ("evenkeel_upstream_connect_duration_seconds", "Time to open a new connection to an endpoint", |p| {
                    &p.connect
                }),
            ),
            (
                forwards,
                (
                    "evenkeel_upstream_ttfb_seconds",
                    "Time from the request head to the response head; of TCP sessions and UDP flows, from their start to \
                     the first byte or datagram of the endpoint",
                    |p| &p.ttfb,
                ),
            ),
            (
                is_proxied_tcp,
                ("evenkeel_queue_wait_seconds", "Time in the queue of requests that waited for an endpoint", |p| {
                    &p.queue_wait
                }),
            ),
        ];
        for (speaks, (name, help, of)) in histograms {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (i, pool) in self.pools_of(speaks) {
                let of_workers = self.workers.iter().map(|w| of(&w.pools[i]));
                self.histogram(&mut family, &vec![("pool", &pool.name)], of_workers)?;
            }
        }
        Ok(())
    }

    pub(super) fn pools(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests rejected by the queue without an endpoint: the queue was full, or the wait timed out";
        self.by_pool(
            encoder,
            ("evenkeel_queue_rejected", help),
            is_proxied_tcp,
            ("reason", &QUEUE_REJECTED),
            |p, i| &p.queue_rejected[i],
        )?;
        let help = "Retries after a failed attempt";
        self.by_pool(encoder, ("evenkeel_retries", help), is_proxied_tcp, NO_LABEL, |p, _| &p.retries)?;
        let help = "Failed attempts that were not retried, by reason";
        let reasons = Stop::ALL.map(Stop::name);
        self.by_pool(encoder, ("evenkeel_retries_refused", help), is_proxied_tcp, ("reason", &reasons), |p, i| {
            &p.retries_refused[i]
        })?;
        let help = "TCP sessions that were reset because their endpoint went down (`on_down = \"close\"`)";
        self.by_pool(encoder, ("evenkeel_sessions_ended_down", help), is_tcp, NO_LABEL, |p, _| &p.ended_down)?;
        let help =
            "Requests, sessions and flows whose first endpoint was drawn uniformly instead of picked (`explore`)";
        self.by_pool(encoder, ("evenkeel_pool_explored", help), forwards, NO_LABEL, |p, _| &p.explored)?;
        let help = "Hedged copies of slow requests: copies sent, and copies that responded first";
        self.by_pool(encoder, ("evenkeel_hedges", help), is_http, ("outcome", &["sent", "won"]), |p, i| {
            [&p.hedges, &p.hedges_won][i]
        })?;
        let help = "Copies of requests that `mirror` of a route sent to the pool";
        self.by_pool(encoder, ("evenkeel_mirrors_sent", help), is_http, NO_LABEL, |p, _| &p.mirrors.sent)?;
        let help = "Copies of requests to the pool that got no complete response in time";
        self.by_pool(encoder, ("evenkeel_mirrors_failed", help), is_http, NO_LABEL, |p, _| &p.mirrors.failed)?;
        let help = "Requests that `mirror` of a route did not copy to the pool, by reason";
        let labels = ("reason", &MirrorDrop::NAMES[..]);
        self.by_pool(encoder, ("evenkeel_mirrors_dropped", help), is_http, labels, |p, i| &p.mirrors.dropped[i])?;
        let help = "gRPC calls by status, as sent to clients";
        self.by_pool(encoder, ("evenkeel_grpc_responses", help), is_http, ("status", GrpcStatus::NAMES), |p, i| {
            &p.grpc[i]
        })?;
        let help = "Picks that found no endpoint: none eligible, all tried by this request, all at their limit, or none checked yet";
        self.by_pool(encoder, ("evenkeel_no_pick", help), forwards, ("reason", &NO_PICK_LABELS), |p, i| &p.no_pick[i])
    }

    /// Writes a counter for each matching pool and each value of a label; an empty name means no label.
    pub(super) fn by_pool(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        speaks: Speaks,
        (label, values): (&'static str, &[&'static str]),
        counter: fn(&PoolStats, usize) -> &Counter,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (p, pool) in self.pools_of(speaks) {
            for (i, value) in values.iter().enumerate() {
                let n = self.sum(|w| counter(&w.pools[p], i));
                let mut labels = vec![("pool", &*pool.name)];
                labels.extend((!label.is_empty()).then_some((label, *value)));
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
