//! Metrics of load reports: reports of endpoints, the cost of probing, and reports of our own load.

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
        let help = "Valid load reports from endpoints, by transport";
        self.by_pool(encoder, ("evenkeel_load_reports", help), is_http, ("form", &CAME), |p, i| &p.reports[i])?;
        let help = "Load reports that were ignored, by reason";
        let reasons = Dropped::names();
        self.by_pool(encoder, ("evenkeel_load_reports_dropped", help), is_http, ("reason", &reasons), |p, i| {
            &p.reports_dropped[i]
        })?;
        let help = "Load probes requested by the algorithm, by result";
        self.by_pool(encoder, ("evenkeel_load_probes", help), is_http, ("result", &PROBES), |p, i| &p.probes[i])?;
        let help = "Answers to UDP probes that were dropped, by reason";
        let mut family =
            encoder.encode_descriptor("evenkeel_load_probe_answers_dropped", help, None, MetricType::Counter)?;
        for (i, reason) in ANSWERS_DROPPED.iter().enumerate() {
            let n = self.sum(|w| &w.probing.answers_dropped[i]);
            ConstCounter::new(n).encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        let help = "Time that workers spent sending probes and reading answers; the rate is the share of one core";
        let family = encoder.encode_descriptor("evenkeel_load_probing_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(self.sum(|w| &w.probing.spent_ns) as f64 / 1e9).encode(family)?;
        let help = "Reports of a listener's own load, by transport";
        self.by_listener(encoder, ("evenkeel_load_reports_given", help), is_http, ("form", &GIVEN), |l| {
            &l.reports_given
        })?;
        let help = "Datagrams to a listener that are not probes";
        self.by_listener(encoder, ("evenkeel_load_probes_malformed", help), is_http, NO_LABEL, |l| {
            std::slice::from_ref(&l.no_probes)
        })?;
        let help = "Requests in flight that an endpoint last reported, from all balancers";
        self.reported(encoder, ("evenkeel_endpoint_reported_in_flight", help), 1.0, |r| &r.in_flight)?;
        let help = "Latency at its current load that an endpoint last reported; 0 if it reported none";
        self.reported(encoder, ("evenkeel_endpoint_reported_latency_seconds", help), 1e-9, |r| &r.latency_ns)?;
        let help = "Utilization that an endpoint last reported: of its application, or else of its CPU";
        self.reported(encoder, ("evenkeel_endpoint_reported_utilization_ratio", help), 1e-6, |r| &r.utilization_ppm)
    }

    /// Writes a value of each endpoint's latest report to any worker. Only with per-endpoint metrics: a sum over
    /// endpoints is meaningless.
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
                if !self.shows_all() && last.is_none_or(|reported| reported.at_ns.get() == 0) {
                    continue;
                }
                let value = last.map_or(0, |reported| of(reported).get()) as f64 * unit;
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
