//! Metrics of endpoints: requests, connections, errors.

use super::modes::{Speaks, forwards, has_sessions, is_http};
use super::{CLASS_LABELS, NO_LABEL, Shown};
use crate::observe::stats::{CODES, Counter, ERROR_KINDS, EndpointStats};
use evenkeel_config::plan::EndpointProtocol;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::fmt;

impl Shown<'_> {
    pub(super) fn endpoints(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests sent to endpoints that have ended, by status class; \"none\" if there was no response";
        let family = ("evenkeel_upstream_requests", help, MetricType::Counter);
        self.of_workers(encoder, family, is_http, ("code_class", &CLASS_LABELS), |e, i| &e.requests[i])?;
        let help = "TCP sessions connected to endpoints, and UDP flows directed to them";
        let family = ("evenkeel_upstream_sessions", help, MetricType::Counter);
        self.of_workers(encoder, family, has_sessions, NO_LABEL, |e, _| &e.sessions)?;
        let help = "Failed connections to endpoints, of requests and sessions, and UDP flows that could not be sent";
        let family = ("evenkeel_upstream_unreached", help, MetricType::Counter);
        self.of_workers(encoder, family, forwards, NO_LABEL, |e, _| &e.unreached)?;
        let help = "Bytes that TCP sessions and UDP flows sent to endpoints";
        let family = ("evenkeel_upstream_sent_bytes", help, MetricType::Counter);
        self.of_workers(encoder, family, has_sessions, NO_LABEL, |e, _| &e.sent)?;
        let help = "Bytes that TCP sessions and UDP flows received from endpoints";
        let family = ("evenkeel_upstream_received_bytes", help, MetricType::Counter);
        self.of_workers(encoder, family, has_sessions, NO_LABEL, |e, _| &e.received)?;
        let help = "Requests, sessions and flows in flight at endpoints";
        let family = ("evenkeel_upstream_requests_active", help, MetricType::Gauge);
        self.of_workers(encoder, family, forwards, NO_LABEL, |e, _| &e.active)?;
        let help = "Open connections to endpoints, by state";
        let family = ("evenkeel_upstream_connections", help, MetricType::Gauge);
        self.of_workers(encoder, family, is_http, ("state", &["idle"]), |e, _| &e.idle)?;
        let help = "Idle connections closed because their worker reached its limit (`runtime.idle_connections`)";
        let family = ("evenkeel_upstream_idle_closed", help, MetricType::Counter);
        self.of_workers(encoder, family, is_http, NO_LABEL, |e, _| &e.idle_closed)?;
        let family = ("evenkeel_upstream_connects", "Connection attempts to endpoints", MetricType::Counter);
        self.of_workers(encoder, family, forwards, NO_LABEL, |e, _| &e.connects)?;
        let family = ("evenkeel_upstream_errors", "Failures of endpoints, by cause", MetricType::Counter);
        self.of_workers(encoder, family, forwards, ("kind", &ERROR_KINDS), |e, i| &e.errors[i])?;
        let help = "Open HTTP/2 connections to endpoints";
        let family = ("evenkeel_upstream_http2_connections", help, MetricType::Gauge);
        self.of_http2(encoder, family, NO_LABEL, |e, _| &e.http2.connections)?;
        let help = "Requests in flight at endpoints over HTTP/2";
        let family = ("evenkeel_upstream_http2_streams", help, MetricType::Gauge);
        self.of_http2(encoder, family, NO_LABEL, |e, _| &e.http2.streams)?;
        let help = "Streams reset by endpoints, by HTTP/2 error code";
        let family = ("evenkeel_upstream_http2_resets", help, MetricType::Counter);
        self.of_http2(encoder, family, ("code", &CODES), |e, i| &e.http2.resets[i])?;
        let help = "Connections on which an endpoint sent GOAWAY";
        let family = ("evenkeel_upstream_http2_go_aways", help, MetricType::Counter);
        self.of_http2(encoder, family, NO_LABEL, |e, _| &e.http2.go_aways)?;
        let help = "Connections closed because the endpoint did not reply to a PING";
        let family = ("evenkeel_upstream_http2_silent", help, MetricType::Counter);
        self.of_http2(encoder, family, NO_LABEL, |e, _| &e.http2.silent)?;
        let help = "Interim responses (1xx) dropped because the client had not read the earlier ones";
        let family = ("evenkeel_upstream_http2_interim_dropped", help, MetricType::Counter);
        self.of_http2(encoder, family, NO_LABEL, |e, _| &e.http2.interim_dropped)
    }

    /// Writes a value for each endpoint of matching pools and each value of a label, summed over the workers.
    fn of_workers(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        family: (&str, &str, MetricType),
        speaks: Speaks,
        label: (&'static str, &[&'static str]),
        counter: fn(&EndpointStats, usize) -> &Counter,
    ) -> fmt::Result {
        self.by_endpoint(encoder, family, speaks, label, |p, e, i| self.sum_of(p, e, |stats| counter(stats, i)))
    }

    /// Writes a value for each endpoint of HTTP pools whose protocol may be HTTP/2.
    fn of_http2(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        family: (&str, &str, MetricType),
        label: (&'static str, &[&'static str]),
        counter: fn(&EndpointStats, usize) -> &Counter,
    ) -> fmt::Result {
        self.by_endpoint(encoder, family, is_http, label, |p, e, i| {
            let may_speak = self.plan.pools[p].protocol != EndpointProtocol::Http1;
            may_speak.then(|| self.sum_of(p, e, |stats| counter(stats, i)))
        })
    }
}
