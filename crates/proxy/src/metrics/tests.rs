//! Is every number where Prometheus looks for it?

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
    let control = Control::unattended(&running.plan, 2);
    registry.register_collector(Box::new(Metrics::new(watch::channel(Arc::new(running)).1, control)));
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
    has(&text, r#"evenkeel_endpoint_weight{pool="p",endpoint="127.0.0.1:4",kind="configured"} 5.0"#);
    has(&text, r#"evenkeel_endpoint_weight{pool="p",endpoint="127.0.0.1:4",kind="effective"} 5.0"#);
    has(&text, r#"evenkeel_endpoint_state{pool="p",endpoint="127.0.0.1:4",state="up"} 1"#);
    has(&text, r#"evenkeel_endpoint_state{pool="p",endpoint="127.0.0.1:4",state="ejected"} 0"#);
    has(&text, r#"evenkeel_retries_refused_total{pool="p",reason="budget"} 0"#);
    has(&text, r#"evenkeel_hedges_total{pool="p",outcome="won"} 0"#);
    has(&text, r#"evenkeel_queue_depth{pool="p"} 0"#);
    has(&text, r#"evenkeel_queue_rejected_total{pool="p",reason="timeout"} 0"#);
    has(&text, r#"evenkeel_health_checks_total{pool="p",endpoint="127.0.0.1:3",result="failed"} 0"#);
    has(&text, r#"evenkeel_health_check_duration_seconds_count{pool="p",endpoint="127.0.0.1:3"} 0"#);
    has(&text, r#"evenkeel_pool_panic{pool="p"} 0"#);
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
    has(&text, r#"evenkeel_endpoint_state{pool="p",state="up"} 2"#);
    has(&text, r#"evenkeel_endpoint_weight{pool="p",kind="configured"} 6.0"#);
    assert!(!text.contains("endpoint="), "{text}");
}
