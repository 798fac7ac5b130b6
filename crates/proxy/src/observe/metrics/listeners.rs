//! Metrics of clients, by listener and route.

use super::modes::{Speaks, is_http, is_proxied_tcp, is_tcp};
use super::{CLASS_LABELS, Family, Labels, Shown};
use crate::observe::end::Cause;
use crate::observe::stats::{
    AuthEnd, CODES, Counter, EARLY, H3_CODES, ListenerStats, METHODS, REJECTED, RESET_BY, Redirected, RouteStats,
    SHAKEN, TlsStats, Unsecured,
};
use evenkeel_config::plan::{ErrorPage, Mode, Route};
use evenkeel_tokens::Refused;
use evenkeel_wire::h2::Flood;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Route label of requests that no route matched.
const NO_ROUTE: &str = "none";

impl Shown<'_> {
    /// Each matching listener with each of its routes and [`NO_ROUTE`]: the two names, and the statistics of the
    /// workers on which the route had requests.
    pub(super) fn routes(&self, speaks: Speaks) -> impl Iterator<Item = (&str, &str, Vec<Arc<RouteStats>>)> {
        let plan = self.plan;
        self.speaking(speaks).flat_map(move |(at, listener)| {
            let takes = |r: &Route| {
                (r.listeners.is_empty() && listener.mode == Mode::Http) || r.listeners.contains(&listener.name)
            };
            let tables = self.workers.iter().map(move |worker| &worker.routes[at]);
            let unrouted = tables.clone().map(|table| table.unrouted().clone()).collect();
            let routes = plan.routes.iter().filter(move |r| takes(r)).map(move |r| {
                let numbers = tables.clone().filter_map(|table| table.get(&r.name)).collect();
                (&*listener.name, &*r.name, numbers)
            });
            // A worker has numbers of a route from its first request on.
            let routes = routes.filter(move |(_, _, numbers): &(_, _, Vec<_>)| self.shows_all() || !numbers.is_empty());
            routes.chain([(&*listener.name, NO_ROUTE, unrouted)])
        })
    }

    /// Writes families with a counter for each matching listener.
    fn counters(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        speaks: Speaks,
        families: &[Family<ListenerStats, Counter>],
    ) -> fmt::Result {
        for (name, help, counter) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (i, listener) in self.speaking(speaks) {
                let n = self.sum(|w| counter(&w.listeners[i]));
                ConstCounter::new(n).encode(family.encode_family(&[("listener", &*listener.name)])?)?;
            }
        }
        Ok(())
    }

    pub(super) fn sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "evenkeel_tcp_session_duration_seconds";
        let help = "Duration of sessions that have ended; route \"none\" if no route matched";
        let mut durations = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (listener, route, numbers) in self.routes(is_tcp) {
            let labels = vec![("listener", listener), ("route", route)];
            self.histogram(&mut durations, &labels, numbers.iter().map(|route| &route.session))?;
        }
        self.counters(
            encoder,
            is_tcp,
            &[
                ("evenkeel_tcp_received_bytes", "Bytes from clients", |l| &l.bytes_in),
                ("evenkeel_tcp_sent_bytes", "Bytes to clients", |l| &l.bytes_out),
            ],
        )?;
        let help = "Sessions by the cause of their end; \"normal\" if both sides closed";
        self.by_listener(encoder, ("evenkeel_tcp_ends", help), is_tcp, ("cause", &Cause::LABELS), |l| &l.ends)?;
        let help = "Sessions that ended in a reset, by the side that sent it; evenkeel resets the other side too";
        self.by_listener(encoder, ("evenkeel_tcp_resets", help), is_tcp, ("side", &RESET_BY), |l| &l.resets)
    }

    /// Writes the requests that another route has answered, by the route that led to it. Routes that lead to no other have
    /// none.
    fn redirected(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "evenkeel_http_redirected_requests",
            "Requests that another route answered, by the route that led to it: with a page of an error, or by a path in a response",
            None,
            MetricType::Counter,
        )?;
        let asks = |pages: &[ErrorPage]| pages.iter().any(|page| page.route.is_some());
        let all: HashSet<&str> =
            self.plan.listeners.iter().filter(|l| asks(&l.error_pages)).map(|l| &*l.name).collect();
        let of_routes = self
            .plan
            .routes
            .iter()
            .filter(|of| asks(&of.filters.error_pages) || !of.filters.internal_redirects.is_empty());
        let routes: HashSet<&str> = of_routes.map(|route| &*route.name).collect();
        if all.is_empty() && routes.is_empty() {
            return Ok(());
        }
        let leads = |listener: &str, route: &str| all.contains(listener) || routes.contains(route);
        for (listener, route, numbers) in self.routes(is_http).filter(|(listener, route, _)| leads(listener, route)) {
            for (at, cause) in Redirected::LABELS.into_iter().enumerate() {
                let n = numbers.iter().fold(0, |sum: u64, route| sum.wrapping_add(route.redirected[at].get()));
                let labels = [("listener", listener), ("route", route), ("cause", cause)];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    pub(super) fn listeners(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut requests = encoder.encode_descriptor(
            "evenkeel_http_requests",
            "Requests by method (OTHER: an uncommon one) and status (none: no response was sent)",
            None,
            MetricType::Counter,
        )?;
        for (listener, route, numbers) in self.routes(is_http) {
            let mut counts: BTreeMap<(&str, u16), u64> = BTreeMap::new();
            counts.insert(("GET", if route == NO_ROUTE { 404 } else { 200 }), 0);
            for numbers in numbers {
                for (method, by_status) in METHODS.iter().zip(&numbers.requests) {
                    for (status, n) in by_status.iter() {
                        *counts.entry((method, status)).or_default() += n;
                    }
                }
            }
            for ((method, status), n) in counts {
                let code = if status == 0 { "none".to_string() } else { status.to_string() };
                let labels: Labels<'_> =
                    vec![("listener", listener), ("route", route), ("method", method), ("code", &code)];
                ConstCounter::new(n).encode(requests.encode_family(&labels)?)?;
            }
        }

        let mut durations = encoder.encode_descriptor(
            "evenkeel_http_request_duration_seconds",
            "Time from the request head to the last byte of the response; code_class \"none\" if there was no response",
            None,
            MetricType::Histogram,
        )?;
        for (listener, route, numbers) in self.routes(is_http) {
            for (class, label) in CLASS_LABELS.iter().enumerate() {
                let labels: Labels<'_> = vec![("listener", listener), ("route", route), ("code_class", label)];
                self.histogram(&mut durations, &labels, numbers.iter().map(|route| &route.duration[class]))?;
            }
        }

        self.redirected(encoder)?;
        let counters: [Family<ListenerStats, Counter>; 26] = [
            ("evenkeel_http_malformed_requests", "Requests refused for violating HTTP", |l| &l.malformed),
            (
                "evenkeel_http_regex_refused_requests",
                "Requests that got a 400 because regular expressions of routes would take too long",
                |l| &l.regex_refused,
            ),
            (
                "evenkeel_http_paths_refused_requests",
                "Requests that got a 400 because servers may read their paths in ways that choose different routes",
                |l| &l.paths_refused,
            ),
            ("evenkeel_http_rate_limited_requests", "Requests that got a 429 from limits.requests_per_address", |l| {
                &l.rate_limited
            }),
            ("evenkeel_http_access_refused_requests", "Requests refused by the access list of their route", |l| {
                &l.access_refused
            }),
            ("evenkeel_http_auth_refused_requests", "Requests that got a 401 from basic_auth of their route", |l| {
                &l.passwords_refused
            }),
            ("evenkeel_http_auth_verifications", "Passwords verified, on separate threads", |l| &l.passwords_verified),
            (
                "evenkeel_http_auth_overloaded_requests",
                "Requests that got a 503 because too many passwords waited to be verified",
                |l| &l.passwords_waiting,
            ),
            (
                "evenkeel_http_auth_displaced_requests",
                "Overloaded requests that had waited and lost their place to another network",
                |l| &l.passwords_gave_way,
            ),
            ("evenkeel_http_body_refused_requests", "Requests with a body over body_max of their route", |l| {
                &l.body_refused
            }),
            ("evenkeel_http_jwt_verified_requests", "Requests with a token that was verified", |l| &l.jwt_verified),
            ("evenkeel_http_jwt_known_requests", "Requests with a token that was already verified", |l| &l.jwt_known),
            ("evenkeel_http_loops", "Requests that got a 508 because an endpoint sent them back to evenkeel", |l| {
                &l.loops
            }),
            (
                "evenkeel_http_forwarded_malformed",
                "Invalid values of X-Forwarded-* and Forwarded from trusted proxies",
                |l| &l.forwarded_malformed,
            ),
            ("evenkeel_http2_connections", "HTTP/2 connections from clients", |l| &l.http2.connections),
            ("evenkeel_http2_streams", "Requests received over HTTP/2", |l| &l.http2.streams),
            ("evenkeel_http3_connections", "HTTP/3 connections from clients", |l| &l.http3.connections),
            ("evenkeel_http3_version2_connections", "HTTP/3 connections in version 2 of QUIC (RFC 9369)", |l| {
                &l.http3.version2
            }),
            ("evenkeel_http3_streams", "Requests received over HTTP/3", |l| &l.http3.streams),
            ("evenkeel_http3_retries", "Clients asked to prove their address before an HTTP/3 handshake", |l| {
                &l.http3.retries
            }),
            ("evenkeel_http3_migrations", "Changes of the address of an HTTP/3 client within its connection", |l| {
                &l.http3.migrations
            }),
            ("evenkeel_http3_sent_packets", "QUIC packets sent to HTTP/3 clients", |l| &l.http3.packets_sent),
            ("evenkeel_http3_lost_packets", "QUIC packets to HTTP/3 clients that were lost", |l| &l.http3.packets_lost),
            ("evenkeel_http3_early_data", "HTTP/3 connections whose early data (0-RTT) was accepted", |l| {
                &l.http3.early_data
            }),
            ("evenkeel_http_received_bytes", "Bytes of requests, including heads", |l| &l.bytes_in),
            ("evenkeel_http_sent_bytes", "Bytes of responses, including heads", |l| &l.bytes_out),
        ];
        self.counters(encoder, is_http, &counters)?;
        let help = "Requests that forward_auth of their route sent to a service, by result";
        let family = ("evenkeel_http_forward_auth_requests", help);
        self.by_listener(encoder, family, is_http, ("result", &AuthEnd::NAMES), |l| &l.forward_auth)?;
        let help = "Requests refused because of their token, by reason";
        let family = ("evenkeel_http_jwt_refused_requests", help);
        self.by_listener(encoder, family, is_http, ("reason", &Refused::LABELS), |l| &l.jwt_refused)?;
        let codes = ("code", &CODES[..]);
        let help = "Streams reset by clients, by HTTP/2 error code";
        let family = ("evenkeel_http2_resets_received", help);
        self.by_listener(encoder, family, is_http, codes, |l| &l.http2.resets_received)?;
        let help = "Streams reset by evenkeel, by HTTP/2 error code";
        let family = ("evenkeel_http2_resets_sent", help);
        self.by_listener(encoder, family, is_http, codes, |l| &l.http2.resets_sent)?;
        let help = "Connections closed because the client violated HTTP/2, by the error code sent";
        let family = ("evenkeel_http2_connection_errors", help);
        self.by_listener(encoder, family, is_http, codes, |l| &l.http2.errors)?;
        let help = "Connections closed because the client flooded them with useless frames, by kind";
        let family = ("evenkeel_http2_floods", help);
        self.by_listener(encoder, family, is_http, ("kind", &Flood::NAMES), |l| &l.http2.floods)?;
        let codes = ("code", &H3_CODES[..]);
        let help = "Streams reset by clients, by HTTP/3 error code";
        let family = ("evenkeel_http3_resets_received", help);
        self.by_listener(encoder, family, is_http, codes, |l| &l.http3.resets_received)?;
        let help = "Streams reset by evenkeel, by HTTP/3 error code";
        let family = ("evenkeel_http3_resets_sent", help);
        self.by_listener(encoder, family, is_http, codes, |l| &l.http3.resets_sent)?;
        let help = "Connections closed because the client violated HTTP/3, by the error code sent";
        let family = ("evenkeel_http3_connection_errors", help);
        self.by_listener(encoder, family, is_http, codes, |l| &l.http3.errors)?;
        let help = "HTTP/3 connections closed because the client flooded them with useless frames, by kind";
        let family = ("evenkeel_http3_floods", help);
        self.by_listener(encoder, family, is_http, ("kind", &Flood::NAMES), |l| &l.http3.floods)?;
        let help = "Requests in early data of HTTP/3: answered at once, or after the handshake";
        let family = ("evenkeel_http3_early_requests", help);
        self.by_listener(encoder, family, is_http, ("result", &EARLY), |l| &l.http3.early_requests)?;
        let help = "Requests by the cause of their end; \"normal\" if they completed";
        self.by_listener(encoder, ("evenkeel_http_ends", help), is_http, ("cause", &Cause::LABELS), |l| &l.ends)
    }

    /// Metrics of client connections, the same for HTTP and TCP.
    pub(super) fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.counters(
            encoder,
            is_proxied_tcp,
            &[("evenkeel_connections", "Client connections accepted", |l| &l.accepted)],
        )?;
        let help = "Client connections closed immediately, by reason: a limit, a missing PROXY protocol header, or no route \
                    for the TLS server name";
        let family = ("evenkeel_connections_rejected", help);
        self.by_listener(encoder, family, is_proxied_tcp, ("reason", &REJECTED), |l| &l.rejected)?;
        let gauges: [Family<ListenerStats, Counter>; 2] = [
            ("evenkeel_connections_active", "Open client connections", |l| &l.active),
            (
                "evenkeel_connections_lingering",
                "Open client connections that got their last response and wait for the client to close",
                |l| &l.lingering,
            ),
        ];
        for (name, help, gauge) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (i, listener) in self.speaking(is_proxied_tcp) {
                let n = self.sum(|w| gauge(&w.listeners[i]));
                ConstGauge::new(n).encode(family.encode_family(&[("listener", &*listener.name)])?)?;
            }
        }
        let help = "Lingering connections closed by evenkeel: after 5 s without a byte, after 30 s, or while draining";
        self.counters(encoder, is_proxied_tcp, &[("evenkeel_connections_linger_cut", help, |l| &l.linger_cut)])
    }

    /// Metrics of TLS handshakes.
    pub(super) fn handshakes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let secured: Vec<_> = self.speaking(is_proxied_tcp).filter(|(_, l)| l.tls.is_some()).collect();
        let help = "TLS handshakes with clients, by kind: \"resumed\" or \"full\"";
        let mut shaken = encoder.encode_descriptor("evenkeel_tls_handshakes", help, None, MetricType::Counter)?;
        for (i, listener) in &secured {
            for (at, kind) in SHAKEN.iter().enumerate() {
                let n = self.sum(|w| &w.listeners[*i].tls.shaken[at]);
                let labels = [("listener", &*listener.name), ("kind", *kind)];
                ConstCounter::new(n).encode(shaken.encode_family(&labels)?)?;
            }
        }
        let help = "Failed TLS handshakes with clients, by cause";
        let name = "evenkeel_tls_handshake_failures";
        let mut failed = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (i, listener) in &secured {
            for (at, cause) in Unsecured::LABELS.iter().enumerate() {
                let n = self.sum(|w| &w.listeners[*i].tls.failed[at]);
                let labels = [("listener", &*listener.name), ("cause", *cause)];
                ConstCounter::new(n).encode(failed.encode_family(&labels)?)?;
            }
        }
        let mut gauge = |name, help, count: fn(&TlsStats) -> &Counter| -> fmt::Result {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (i, listener) in &secured {
                let n = self.sum(|w| count(&w.listeners[*i].tls));
                ConstGauge::new(n).encode(family.encode_family(&[("listener", &*listener.name)])?)?;
            }
            Ok(())
        };
        let help = "Client connections with an incomplete TLS ClientHello";
        gauge("evenkeel_tls_hellos_waiting", help, |tls| &tls.waiting)?;
        let help = "TLS handshakes with clients in progress, counted from a complete ClientHello";
        gauge("evenkeel_tls_handshakes_active", help, |tls| &tls.active)?;
        Ok(())
    }

    /// Writes a counter for each listener and each value of a label; an empty name means no label.
    pub(super) fn by_listener(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        speaks: Speaks,
        (label, values): (&'static str, &[&'static str]),
        counters: fn(&ListenerStats) -> &[Counter],
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (i, listener) in self.speaking(speaks) {
            for (at, value) in values.iter().enumerate() {
                let n = self.sum(|w| &counters(&w.listeners[i])[at]);
                let mut labels = vec![("listener", &*listener.name)];
                labels.extend((!label.is_empty()).then_some((label, *value)));
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
