//! What do endpoints say of their load, what does it cost to ask them, and what do we tell of our own?

use super::modes::is_http;
use super::{NO_LABEL, Shown};
use crate::observe::dropped_report::Dropped;
use crate::observe::stats::{ANSWERS_DROPPED, CAME, Counter, GIVEN, PROBES, Reported};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

impl Shown<'_> {
    pub(super) fn reports(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Load reports of endpoints that could be read, by how they came";
        self.by_pool(encoder, ("evenkeel_load_reports", help), is_http, ("form", &CAME), |p, i| &p.reports[i])?;
        let help = "Load reports that were not gone by, and why";
        let reasons = Dropped::names();
        self.by_pool(encoder, ("evenkeel_load_reports_dropped", help), is_http, ("reason", &reasons), |p, i| {
            &p.reports_dropped[i]
        })?;
        let help = "Probes that the algorithm wanted, by what became of them";
        self.by_pool(encoder, ("evenkeel_load_probes", help), is_http, ("result", &PROBES), |p, i| &p.probes[i])?;
        let help = "Answers to probes by datagram that were dropped, and why";
        let mut family =
            encoder.encode_descriptor("evenkeel_load_probe_answers_dropped", help, None, MetricType::Counter)?;
        for (i, reason) in ANSWERS_DROPPED.iter().enumerate() {
            let n = self.sum(|w| &w.probing.answers_dropped[i]);
            ConstCounter::new(n).encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        let help = "Time that workers spent on sending probes and taking answers; its rate is a share of one core";
        let family = encoder.encode_descriptor("evenkeel_load_probing_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(self.sum(|w| &w.probing.spent_ns) as f64 / 1e9).encode(family)?;
        let help = "Reports of a listener's own load, by how they were given";
        self.by_listener(encoder, ("evenkeel_load_reports_given", help), is_http, ("form", &GIVEN), |l| {
            &l.reports_given
        })?;
        let help = "Datagrams that came to a listener and are no probes";
        self.by_listener(encoder, ("evenkeel_load_probes_malformed", help), is_http, NO_LABEL, |l| {
            std::slice::from_ref(&l.no_probes)
        })?;
        let help = "Requests in flight that an endpoint reported last, from all balancers";
        self.reported(encoder, ("evenkeel_endpoint_reported_in_flight", help), 1.0, |r| &r.in_flight)?;
        let help = "What a request takes at its load, as an endpoint reported last; 0 when it did not";
        self.reported(encoder, ("evenkeel_endpoint_reported_latency_seconds", help), 1e-9, |r| &r.latency_ns)?;
        let help = "How busy an endpoint is, as it reported last: of its application, or else of its processor";
        self.reported(encoder, ("evenkeel_endpoint_reported_utilization_ratio", help), 1e-6, |r| &r.utilization_ppm)
    }

    /// What each endpoint said last, to whichever worker. Only of endpoints that are told apart: sums would say nothing.
    fn reported(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        unit: f64,
        of: fn(&Reported) -> &Counter,
    ) -> fmt::Result {
        if !self.plan.telemetry.metrics.per_endpoint {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (p, labels, endpoints) in self.rows(is_http) {
            for e in endpoints {
                let said = self.members[p].stats(e).map(|stats| &stats.reported);
                let last = said.max_by_key(|reported| reported.at_ns.get());
                let value = last.map_or(0, |reported| of(reported).get()) as f64 * unit;
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
