//! Tests of the exposition: names, labels and values of the series.

use super::*;
use evenkeel_runtime::{Control, Generation};
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

fn shown(extra: &str, count: impl Fn(&Numbers)) -> String {
    of_plan(&format!("{extra}{PLAN}"), count)
}

fn of_plan(text: &str, count: impl Fn(&Numbers)) -> String {
    let outcome = evenkeel_config::parse_str("plan", text, &|_| None);
    let plan = Arc::new(outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics)));
    let resources = crate::table::resources(&plan).expect("it has no files");
    let running = Numbers::first(Arc::new(Generation::first(plan, Vec::new())), 2, resources);
    count(&running);
    let mut registry = Registry::default();
    let (control, generation) = (Control::unattended(running.plan(), 2), watch::channel(running.generation.clone()).1);
    registry.register_collector(Box::new(evenkeel_runtime::Metrics::new(generation, control)));
    registry.register_collector(Box::new(Metrics::new(watch::channel(Arc::new(running)).1)));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry).expect("a String takes everything");
    out
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
}

/// Shows series before their first event.
const UNUSED: &str = "[telemetry]\nmetrics = { unused = true }\n";

#[test]
fn every_series_is_there_at_zero_if_unused_ones_are_shown() {
    let text = shown(UNUSED, |_| {});
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
fn pools_endpoints_and_routes_have_series_from_their_first_event_on() {
    let text = shown("", |_| {});
    assert_eq!(families(&text, "route=\"only"), Default::default(), "a route without a request");
    has(&text, r#"evenkeel_http_requests_total{listener="b",route="none",method="GET",code="404"} 0"#);
    has(&text, r#"evenkeel_connections_active{listener="b"} 0"#);
    let states = ["evenkeel_endpoint_state", "evenkeel_endpoint_weight", "evenkeel_pool_panic", "evenkeel_queue_depth"];
    assert_eq!(families(&text, "pool=\"p\""), states.into_iter().collect());
    let text = shown("", |numbers| {
        numbers.workers[1].routes[0].of(&Arc::from("only \"a\"")).count(0, 200, 3_000_000, true);
        numbers.members(0).stats(1).for_each(|endpoint| endpoint.connects.add(1));
    });
    // An event exports all series of its subject, so that later events are a rate.
    has(&text, r#"evenkeel_http_requests_total{listener="a",route="only \"a\"",method="GET",code="200"} 1"#);
    has(&text, r#"evenkeel_upstream_errors_total{pool="p",endpoint="127.0.0.1:4",kind="timeout"} 0"#);
    has(&text, r#"evenkeel_upstream_connect_duration_seconds_bucket{le="+Inf",pool="p"} 0"#);
    has(&text, r#"evenkeel_retries_refused_total{pool="p",reason="budget"} 0"#);
    let states = text.lines().filter(|line| line.starts_with("evenkeel_endpoint_state{")).collect::<Vec<_>>();
    assert!(states.len() == 2 && states.iter().all(|line| line.ends_with("state=\"up\"} 1")), "{states:?}");
    let idle = families(&text, r#"endpoint="127.0.0.1:3""#);
    assert_eq!(idle, ["evenkeel_endpoint_state", "evenkeel_endpoint_weight"].into_iter().collect());
}

#[test]
fn five_hundred_idle_pools_of_four_endpoints_are_less_than_a_megabyte() {
    let plan: String = (0..500)
        .map(|n| {
            let endpoints: Vec<String> =
                (0..4).map(|e| format!("'192.0.2.{}:{}'", n % 250, 8000 + 500 * e + n)).collect();
            format!(
                "[[route]]\nmatch = {{ path = '/{n}' }}\npool = 'pool-{n}'\n[pool.pool-{n}]\nendpoints = [{}]\n",
                endpoints.join(", ")
            )
        })
        .collect();
    let plan = format!("[listener.web]\nbind = ['127.0.0.1:1']\n{plan}");
    let (text, all) = (of_plan(&plan, |_| {}), of_plan(&format!("{UNUSED}{plan}"), |_| {}));
    println!("{} bytes of {}", text.len(), all.len());
    assert!(text.len() < 1 << 20 && all.len() > 5 << 20, "{} of {}", text.len(), all.len());
}

#[test]
fn workers_add_up() {
    let text = shown("", |numbers| {
        for worker in &numbers.workers {
            let route = worker.routes[0].of(&Arc::from("only \"a\""));
            route.count(0, 200, 3_000_000, true);
            route.count(2, 503, 20_000_000_000, true);
            worker.listeners[0].active.add(2);
        }
        numbers.members(0).stats(1).for_each(|endpoint| endpoint.requests[1].add(4));
        numbers.workers[0].listeners[0].active.sub(1);
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
    let text = shown("[telemetry]\nmetrics = { per_endpoint = false }\n", |numbers| {
        for endpoint in &numbers.members(0).workers[1] {
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

/// The names of the series with the label `whose`.
fn families<'t>(text: &'t str, whose: &str) -> std::collections::BTreeSet<&'t str> {
    text.lines().filter(|line| line.contains(whose)).filter_map(|line| Some(line.split_once('{')?.0)).collect()
}

#[test]
fn listeners_and_pools_have_the_families_of_their_mode_and_no_other() {
    let plan = "
        [listener]
        http = { bind = ['127.0.0.1:1'] }
        tcp = { bind = ['127.0.0.1:2'], mode = 'tcp', pool = 'for_tcp' }
        udp = { bind = ['127.0.0.1:3'], mode = 'udp', pool = 'for_udp' }
        both = { bind = ['127.0.0.1:5'], mode = 'udp', pool = 'for_tcp' }
        [listener.dns]
        bind = ['127.0.0.1:4']
        mode = 'dns'
        zone = { name = 'a.example', records = { www = { pool = 'for_dns' } } }
        [[route]]
        match = { listener = ['http'] }
        pool = 'for_http'
        [pool]
        for_http = { balance = 'round_robin', endpoints = ['127.0.0.1:6'] }
        for_tcp = { balance = 'round_robin', endpoints = ['127.0.0.1:6'] }
        for_udp = { balance = 'round_robin', endpoints = ['127.0.0.1:6'] }
        for_dns = { balance = 'round_robin', endpoints = ['127.0.0.1:6'] }
    ";
    let text = of_plan(&format!("{UNUSED}{plan}"), |_| {});
    // For each label: parts of names that must occur, and parts that must not.
    for (whose, has, lacks) in [
        ("listener=\"http\"", &["_http_", "_connections"][..], &["_tcp_", "_udp_"][..]),
        ("listener=\"tcp\"", &["_tcp_", "_connections"], &["_http_", "_udp_", "_load_"]),
        ("listener=\"udp\"", &["_udp_"], &["_http_", "_tcp_", "_load_", "_connections"]),
        ("listener=\"dns\"", &[], &["_"]),
        (
            "pool=\"for_http\"",
            &["_hedges", "_load_", "_retries", "_no_pick", "_requests_total", "_state"],
            &["_sessions"],
        ),
        (
            "pool=\"for_tcp\"",
            &["_retries", "_queue_depth", "_ttfb", "_connect_", "_no_pick", "_active", "_errors", "_state"],
            &["_hedges", "_load_", "_reported", "_requests_total", "_upstream_connections"],
        ),
        (
            "pool=\"for_udp\"",
            &["_no_pick", "_active", "_connects", "_errors", "_state", "_sessions", "_ttfb", "_request_duration"],
            &["_retries", "_queue", "_connect_", "_hedges", "_load_"],
        ),
        (
            "pool=\"for_dns\"",
            &["_state", "_weight", "_health_checks", "_panic", "_ejections"],
            &["_upstream_", "_no_pick", "_queue", "_retries", "_hedges", "_load_", "_reported"],
        ),
    ] {
        let seen = families(&text, whose);
        let some = |part: &&&str| seen.iter().any(|family| family.contains(**part));
        assert_eq!(has.iter().filter(|part| !some(part)).collect::<Vec<_>>(), [&""; 0], "{whose} has only {seen:?}");
        assert_eq!(lacks.iter().filter(some).collect::<Vec<_>>(), [&""; 0], "{whose} has {seen:?}");
    }
}
