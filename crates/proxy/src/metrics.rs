//! How do the numbers of the workers look to Prometheus? Sums over the workers, written when somebody asks: the workers
//! only ever count.
//!
//! Every series is there from the start, at zero, so that a rate over its first event is right; only requests by method
//! and status start with `GET` and `200` (for requests without a route, `404`) and show others once they occur.

use crate::end::Cause;
use crate::generation::Generation;
use crate::stats::{
    CLASSES, Counter, ERROR_KINDS, EndpointStats, Histogram, ListenerStats, METHODS, PoolStats, REJECTED, WorkerStats,
};
use evenkeel_config::Plan;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// Labels of the classes of a status, in the order of the counters.
const CLASS_LABELS: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// Labels of why no endpoint was picked, in the order of the counters.
const NO_PICK_LABELS: [&str; 4] = ["empty", "all_tried", "all_full", "unchecked"];

/// The route of requests that no route took.
const NO_ROUTE: &str = "none";

/// The metrics of a running proxy, to be registered without a prefix.
#[derive(Debug)]
pub struct Metrics(watch::Receiver<Arc<Generation>>);

/// What is shown once.
struct Shown<'g> {
    plan: &'g Plan,
    workers: &'g [Arc<WorkerStats>],
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Name, help, and where in the numbers `S` its value is.
type Family<S, N> = (&'static str, &'static str, fn(&S) -> &N);

impl Metrics {
    /// Metrics of whatever runs when they are asked for.
    pub fn new(running: watch::Receiver<Arc<Generation>>) -> Metrics {
        Metrics(running)
    }
}

impl Shown<'_> {
    /// The sum of one number over the workers. Wrapping: a number that went up here may go down there.
    fn sum<'w>(&'w self, counter: impl Fn(&'w WorkerStats) -> &'w Counter) -> u64 {
        self.workers.iter().fold(0, |sum, worker| sum.wrapping_add(counter(worker).get()))
    }

    fn histogram<'w>(
        &'w self,
        family: &mut MetricEncoder<'_>,
        labels: &Labels<'_>,
        of: impl Fn(&'w WorkerStats) -> &'w Histogram,
    ) -> fmt::Result {
        let bounds = self.plan.telemetry.metrics.buckets.iter().copied().chain([f64::INFINITY]);
        let counts: Vec<(f64, u64)> =
            bounds.enumerate().map(|(i, bound)| (bound, self.sum(|w| &of(w).buckets[i]))).collect();
        // The count is that of the buckets, so that a scrape is consistent in itself while workers go on counting.
        let count = counts.iter().map(|(_, n)| n).sum();
        let sum = self.sum(|w| &of(w).sum_ns) as f64 / 1e9;
        family.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &counts, None)
    }

    /// Each listener with each of the routes that take its requests, `None` for no route: their indices and names.
    fn routes(&self) -> impl Iterator<Item = (usize, usize, &str, &str)> {
        let plan = self.plan;
        plan.listeners.iter().enumerate().flat_map(move |(at, listener)| {
            let takes =
                |r: &evenkeel_config::plan::Route| r.listeners.is_empty() || r.listeners.contains(&listener.name);
            let routes = plan.routes.iter().enumerate().filter(move |(_, r)| takes(r)).map(|(i, r)| (i, &*r.name));
            routes.chain([(plan.routes.len(), NO_ROUTE)]).map(move |(i, name)| (at, i, &*listener.name, name))
        })
    }

    fn listeners(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut requests = encoder.encode_descriptor(
            "evenkeel_http_requests",
            "Requests by method (OTHER: none of the usual) and status (none: no response was sent)",
            None,
            MetricType::Counter,
        )?;
        for (listener, route, listener_name, route_name) in self.routes() {
            let mut counts: BTreeMap<(&str, u16), u64> = BTreeMap::new();
            counts.insert(("GET", if route_name == NO_ROUTE { 404 } else { 200 }), 0);
            for worker in self.workers {
                for (method, by_status) in METHODS.iter().zip(&worker.routes[listener][route].requests) {
                    for (status, n) in by_status.iter() {
                        *counts.entry((method, status)).or_default() += n;
                    }
                }
            }
            for ((method, status), n) in counts {
                let code = if status == 0 { "none".to_string() } else { status.to_string() };
                let labels: Labels<'_> =
                    vec![("listener", listener_name), ("route", route_name), ("method", method), ("code", &code)];
                ConstCounter::new(n).encode(requests.encode_family(&labels)?)?;
            }
        }

        let mut durations = encoder.encode_descriptor(
            "evenkeel_http_request_duration_seconds",
            "From the head of a request to the last byte of its response; code_class \"none\" if there was no response",
            None,
            MetricType::Histogram,
        )?;
        for (listener, route, listener_name, route_name) in self.routes() {
            for (class, label) in CLASS_LABELS.iter().enumerate() {
                let labels: Labels<'_> =
                    vec![("listener", listener_name), ("route", route_name), ("code_class", label)];
                self.histogram(&mut durations, &labels, |w| &w.routes[listener][route].duration[class])?;
            }
        }

        let counters: [Family<ListenerStats, Counter>; 6] = [
            ("evenkeel_http_malformed_requests", "Requests refused since they break the rules of HTTP", |l| {
                &l.malformed
            }),
            ("evenkeel_http_rate_limited_requests", "Requests answered 429 at limits.requests_per_address", |l| {
                &l.rate_limited
            }),
            (
                "evenkeel_http_forwarded_malformed",
                "Values of X-Forwarded-* and Forwarded from trusted proxies that made no sense",
                |l| &l.forwarded_malformed,
            ),
            ("evenkeel_http_received_bytes", "Bytes of requests, heads included", |l| &l.bytes_in),
            ("evenkeel_http_sent_bytes", "Bytes of responses, heads included", |l| &l.bytes_out),
            ("evenkeel_connections", "Client connections accepted", |l| &l.accepted),
        ];
        for (name, help, counter) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (i, listener) in self.plan.listeners.iter().enumerate() {
                let n = self.sum(|w| counter(&w.listeners[i]));
                ConstCounter::new(n).encode(family.encode_family(&[("listener", &*listener.name)])?)?;
            }
        }
        let help = "Requests by who ended them; \"normal\" if nobody did";
        self.by_listener(encoder, ("evenkeel_http_ends", help), ("cause", &Cause::LABELS), |l| &l.ends)?;
        let help = "Client connections closed at once: at a limit, or without the PROXY protocol header that was due";
        self.by_listener(encoder, ("evenkeel_connections_rejected", help), ("reason", &REJECTED), |l| &l.rejected)?;
        let help = "Client connections open now";
        let mut active = encoder.encode_descriptor("evenkeel_connections_active", help, None, MetricType::Gauge)?;
        for (i, listener) in self.plan.listeners.iter().enumerate() {
            let n = self.sum(|w| &w.listeners[i].active);
            ConstGauge::new(n).encode(active.encode_family(&[("listener", &*listener.name)])?)?;
        }
        Ok(())
    }

    /// One counter for each listener and each value of a label.
    fn by_listener(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        (label, values): (&'static str, &[&'static str]),
        counters: fn(&ListenerStats) -> &[Counter],
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (i, listener) in self.plan.listeners.iter().enumerate() {
            for (at, value) in values.iter().enumerate() {
                let n = self.sum(|w| &counters(&w.listeners[i])[at]);
                let labels = [("listener", &*listener.name), (label, value)];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// One value for each endpoint and each value of `label`, or for each pool if endpoints are not told apart.
    fn by_endpoint(
        &self,
        family: &mut MetricEncoder<'_>,
        label: Option<(&'static str, &[&'static str])>,
        gauge: bool,
        counter: fn(&EndpointStats, usize) -> &Counter,
    ) -> fmt::Result {
        let per_endpoint = self.plan.telemetry.metrics.per_endpoint;
        for (p, pool) in self.plan.pools.iter().enumerate() {
            let each = |e: usize, i: usize| self.sum(|w| counter(&w.endpoints[p][e], i));
            let rows: Vec<(Option<&str>, std::ops::Range<usize>)> = match per_endpoint {
                true => pool.endpoints.iter().enumerate().map(|(e, it)| (Some(&*it.name), e..e + 1)).collect(),
                false => vec![(None, 0..pool.endpoints.len())],
            };
            for (name, endpoints) in rows {
                let (key, values) = label.unwrap_or(("", &[""]));
                for (i, value) in values.iter().enumerate() {
                    let mut labels: Labels<'_> = vec![("pool", &pool.name)];
                    labels.extend(name.map(|name| ("endpoint", name)));
                    labels.extend(label.map(|_| (key, *value)));
                    let n = endpoints.clone().fold(0, |sum: u64, e| sum.wrapping_add(each(e, i)));
                    let family = family.encode_family(&labels)?;
                    if gauge {
                        ConstGauge::new(n).encode(family)?
                    } else {
                        ConstCounter::new(n).encode(family)?
                    };
                }
            }
        }
        Ok(())
    }

    fn endpoints(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "evenkeel_upstream_requests",
            "Requests that endpoints were sent and that ended, by class of the response; \"none\" if there was none",
            None,
            MetricType::Counter,
        )?;
        self.by_endpoint(&mut family, Some(("code_class", &CLASS_LABELS)), false, |e, i| &e.requests[i])?;
        let help = "Requests that endpoints are working on now";
        let mut family =
            encoder.encode_descriptor("evenkeel_upstream_requests_active", help, None, MetricType::Gauge)?;
        self.by_endpoint(&mut family, None, true, |e, _| &e.active)?;
        let help = "Connections to endpoints, by state; idle ones wait for a request";
        let mut family = encoder.encode_descriptor("evenkeel_upstream_connections", help, None, MetricType::Gauge)?;
        self.by_endpoint(&mut family, Some(("state", &["idle"])), true, |e, _| &e.idle)?;
        let help = "Connections to endpoints that were begun";
        let mut family = encoder.encode_descriptor("evenkeel_upstream_connects", help, None, MetricType::Counter)?;
        self.by_endpoint(&mut family, None, false, |e, _| &e.connects)?;
        let help = "What endpoints did wrong";
        let mut family = encoder.encode_descriptor("evenkeel_upstream_errors", help, None, MetricType::Counter)?;
        self.by_endpoint(&mut family, Some(("kind", &ERROR_KINDS)), false, |e, i| &e.errors[i])?;
        if !self.plan.telemetry.metrics.per_endpoint {
            return Ok(());
        }
        let help = "Weight of an endpoint as configured; 0 while it drains";
        let mut family = encoder.encode_descriptor("evenkeel_endpoint_weight", help, None, MetricType::Gauge)?;
        for pool in &self.plan.pools {
            for endpoint in &pool.endpoints {
                let weight = if endpoint.drain { 0 } else { u64::from(endpoint.weight) };
                let labels = [("pool", &*pool.name), ("endpoint", &*endpoint.name)];
                ConstGauge::new(weight).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn pools(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let histograms: [Family<PoolStats, Histogram>; 3] = [
            (
                "evenkeel_upstream_request_duration_seconds",
                "From the head of a request to the last byte of the response, for requests that an endpoint was picked for",
                |p| &p.duration,
            ),
            ("evenkeel_upstream_connect_duration_seconds", "Until a new connection to an endpoint was open", |p| {
                &p.connect
            }),
            ("evenkeel_upstream_ttfb_seconds", "From the head of a request to the head of the response", |p| &p.ttfb),
        ];
        for (name, help, of) in histograms {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (i, pool) in self.plan.pools.iter().enumerate() {
                self.histogram(&mut family, &vec![("pool", &pool.name)], |w| of(&w.pools[i]))?;
            }
        }
        let help = "Requests that went to another endpoint after a failed connect";
        let mut family = encoder.encode_descriptor("evenkeel_retries", help, None, MetricType::Counter)?;
        for (i, pool) in self.plan.pools.iter().enumerate() {
            let n = self.sum(|w| &w.pools[i].retries);
            ConstCounter::new(n).encode(family.encode_family(&[("pool", &*pool.name)])?)?;
        }
        let help = "Picks that found no endpoint: none eligible, each tried by this request, each at its limit, or none checked yet";
        let mut family = encoder.encode_descriptor("evenkeel_no_pick", help, None, MetricType::Counter)?;
        for (i, pool) in self.plan.pools.iter().enumerate() {
            for (reason, label) in NO_PICK_LABELS.iter().enumerate() {
                let n = self.sum(|w| &w.pools[i].no_pick[reason]);
                let labels = [("pool", &*pool.name), ("reason", label)];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let running = self.0.borrow().clone();
        let shown = Shown { plan: &running.plan, workers: &running.workers };
        shown.listeners(&mut encoder)?;
        shown.endpoints(&mut encoder)?;
        shown.pools(&mut encoder)?;
        let name = "evenkeel_access_log_lines_dropped";
        let help = "Lines of the access log that were dropped as its disk did not keep up";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(shown.sum(|w| &w.log_lines_dropped)).encode(family)?;
        let help = "How often the configuration was changed since the start";
        let family = encoder.encode_descriptor("evenkeel_config_generation", help, None, MetricType::Gauge)?;
        ConstGauge::new(running.number).encode(family)?;
        let help = "Earlier configurations by which requests still run";
        let family = encoder.encode_descriptor("evenkeel_generations_draining", help, None, MetricType::Gauge)?;
        ConstGauge::new(running.draining()).encode(family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    const PLAN: &str = "
        [listener.a]
        bind = ['127.0.0.1:1']
        [listener.b]
        bind = ['127.0.0.1:2']
        [[route]]
        name = 'only \"a\"'
        match = { listener = ['a'] }
        pool = 'p'
        [pool.p]
        endpoints = ['127.0.0.1:3', { addr = '127.0.0.1:4', weight = 5 }]
        limits = { requests_per_endpoint = 1 }
    ";

    fn shown(extra: &str, count: impl Fn(&[Arc<WorkerStats>])) -> String {
        let text = format!("{extra}{PLAN}");
        let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
        let plan = Arc::new(outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics)));
        let running = Generation::first(plan, 2);
        count(&running.workers);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Metrics::new(watch::channel(Arc::new(running)).1)));
        let mut out = String::new();
        prometheus_client::encoding::text::encode(&mut out, &registry).expect("a String takes everything");
        out
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
    }

    #[test]
    fn every_series_is_there_at_zero() {
        let text = shown("", |_| {});
        has(&text, r#"evenkeel_http_requests_total{listener="a",route="only \"a\"",method="GET",code="200"} 0"#);
        has(&text, r#"evenkeel_http_requests_total{listener="b",route="none",method="GET",code="404"} 0"#);
        assert!(!text.contains(r#"listener="b",route="only"#), "a route that a listener does not take has no series");
        has(&text, r#"evenkeel_connections_active{listener="b"} 0"#);
        has(&text, r#"evenkeel_http_ends_total{listener="b",cause="client_slow"} 0"#);
        has(&text, r#"evenkeel_connections_rejected_total{listener="b",reason="proxy_protocol"} 0"#);
        has(&text, r#"evenkeel_upstream_errors_total{pool="p",endpoint="127.0.0.1:4",kind="timeout"} 0"#);
        has(&text, r#"evenkeel_upstream_connections{pool="p",endpoint="127.0.0.1:3",state="idle"} 0"#);
        has(&text, r#"evenkeel_upstream_connect_duration_seconds_bucket{le="+Inf",pool="p"} 0"#);
        has(&text, r#"evenkeel_endpoint_weight{pool="p",endpoint="127.0.0.1:4"} 5"#);
        has(&text, r#"evenkeel_no_pick_total{pool="p",reason="all_full"} 0"#);
        has(&text, "evenkeel_access_log_lines_dropped_total 0");
    }

    #[test]
    fn workers_add_up() {
        let text = shown("", |workers| {
            for worker in workers {
                worker.routes[0][0].count(0, 200, 3_000_000);
                worker.routes[0][0].count(2, 503, 20_000_000_000);
                worker.listeners[0].active.add(2);
                worker.endpoints[0][1].requests[1].add(4);
            }
            workers[0].listeners[0].active.sub(1);
        });
        let route = r#"listener="a",route="only \"a\"""#;
        has(&text, &format!(r#"evenkeel_http_requests_total{{{route},method="GET",code="200"}} 2"#));
        has(&text, &format!(r#"evenkeel_http_requests_total{{{route},method="POST",code="503"}} 2"#));
        let histogram = "evenkeel_http_request_duration_seconds";
        has(&text, &format!(r#"{histogram}_bucket{{le="0.0025",{route},code_class="2xx"}} 0"#));
        has(&text, &format!(r#"{histogram}_bucket{{le="0.005",{route},code_class="2xx"}} 2"#));
        has(&text, &format!(r#"{histogram}_bucket{{le="10.0",{route},code_class="5xx"}} 0"#));
        has(&text, &format!(r#"{histogram}_bucket{{le="+Inf",{route},code_class="5xx"}} 2"#));
        has(&text, &format!(r#"{histogram}_sum{{{route},code_class="5xx"}} 40.0"#));
        has(&text, r#"evenkeel_connections_active{listener="a"} 3"#);
        has(&text, r#"evenkeel_upstream_requests_total{pool="p",endpoint="127.0.0.1:4",code_class="2xx"} 8"#);
    }

    #[test]
    fn endpoints_are_summed_where_they_are_not_told_apart() {
        let text = shown("[telemetry]\nmetrics = { per_endpoint = false }\n", |workers| {
            for endpoint in &workers[1].endpoints[0] {
                endpoint.requests[1].add(4);
                endpoint.idle.add(1);
            }
        });
        has(&text, r#"evenkeel_upstream_requests_total{pool="p",code_class="2xx"} 8"#);
        has(&text, r#"evenkeel_upstream_connections{pool="p",state="idle"} 2"#);
        has(&text, r#"evenkeel_upstream_connects_total{pool="p"} 0"#);
        assert!(!text.contains("endpoint="), "{text}");
    }
}
