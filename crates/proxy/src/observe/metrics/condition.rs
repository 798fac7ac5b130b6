//! What is known of pools and endpoints beside the requests? States, weights, checks, ejections, panic: the control side.

use super::modes::{Speaks, any, is_proxied_tcp};
use super::{NO_LABEL, Shown};
use evenkeel_balance::state::State;
use evenkeel_runtime::control::Control;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

impl Shown<'_> {
    pub(super) fn condition(&self, encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
        let pools = self.plan.pools.iter().zip(&self.members);
        let known = control.snapshot(pools.map(|(pool, members)| (&*pool.name, &*members.endpoints)));
        let of = |p: usize, e: usize| known[p].endpoints.get(e);
        let counts = |p, e| of(p, e).map(|endpoint| endpoint.counts).unwrap_or_default();

        let help = "Requests that wait for a place at an endpoint now";
        self.gauge_by_pool(encoder, "evenkeel_queue_depth", help, is_proxied_tcp, |p| u64::from(known[p].waiting))?;
        let help = "Whether so few endpoints are healthy that panic.mode decides";
        self.gauge_by_pool(encoder, "evenkeel_pool_panic", help, any, |p| u64::from(known[p].in_panic))?;
        let family = ("evenkeel_endpoint_state", "1 for what an endpoint is, 0 for all else", MetricType::Gauge);
        self.by_endpoint(encoder, family, any, ("state", &State::NAMES), |p, e, i| {
            let state = of(p, e).and_then(|endpoint| endpoint.state);
            u64::from(state.is_some_and(|state| state.name() == State::NAMES[i]))
        })?;
        self.weights(encoder, |p, e| of(p, e).map_or(0.0, |endpoint| endpoint.weight))?;
        let family = ("evenkeel_health_checks", "Health checks by result", MetricType::Counter);
        self.by_endpoint(encoder, family, any, ("result", &["passed", "failed"]), |p, e, i| {
            let counts = counts(p, e);
            [counts.passed, counts.failed][i]
        })?;
        let (name, help) = ("evenkeel_health_check_duration_seconds", "How long health checks took");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (p, labels, endpoints) in self.rows(any) {
            let checks = || endpoints.clone().map(|e| counts(p, e));
            let n = checks().map(|counts| counts.passed + counts.failed).sum();
            let sum = checks().map(|counts| counts.checking.as_secs_f64()).sum();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, n, &[(f64::INFINITY, n)], None)?;
        }
        let help = "Changes of what endpoints are, as evenkeel_endpoint_state has it";
        let family = ("evenkeel_endpoint_transitions", help, MetricType::Counter);
        self.by_endpoint(encoder, family, any, NO_LABEL, |p, e, _| counts(p, e).changes)?;
        let help = "Ejections of endpoints for how requests fared there";
        let family = ("evenkeel_outlier_ejections", help, MetricType::Counter);
        self.by_endpoint(encoder, family, any, NO_LABEL, |p, e, _| counts(p, e).ejections)
    }

    fn weights(&self, encoder: &mut DescriptorEncoder<'_>, effective: impl Fn(usize, usize) -> f64) -> fmt::Result {
        let help = "Weight of an endpoint: as configured, and what of it counts now; 0 while it gets no requests";
        let mut family = encoder.encode_descriptor("evenkeel_endpoint_weight", help, None, MetricType::Gauge)?;
        for (p, labels, endpoints) in self.rows(any) {
            let configured = |e: usize| f64::from(self.members[p].endpoints[e].weight);
            let sums = [
                ("configured", endpoints.clone().map(configured).sum()),
                ("effective", endpoints.map(|e| effective(p, e)).sum()),
            ];
            for (kind, sum) in sums {
                let sum: f64 = sum;
                let labels = [&labels[..], &[("kind", kind)]].concat();
                ConstGauge::new(sum).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn gauge_by_pool(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        speaks: Speaks,
        value: impl Fn(usize) -> u64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (p, pool) in self.pools_of(speaks) {
            ConstGauge::new(value(p)).encode(family.encode_family(&[("pool", &*pool.name)])?)?;
        }
        Ok(())
    }
}
