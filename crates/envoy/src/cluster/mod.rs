//! Translation of a `Cluster` to a pool: endpoints or their source, algorithm, checks, limits, protocol and TLS.

mod checks;

use crate::assignment::{self, Assigned, Hosts};
use crate::names;
use crate::node::Node;
use crate::spelling;
use crate::tls::with_endpoints;
use checks::{health, outlier};
use evenkeel_balance::algorithms;
use evenkeel_balance::slow_start;
use evenkeel_config::plan::{Balance, Discover, EndpointProtocol, Pool, PoolTls, Source, Xds, XdsServer};
use std::time::Duration;

/// Envoy's default of `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(5);

/// Longest time that pools can have.
const DAY: Duration = Duration::from_secs(86_400);

/// Discovery types of clusters (`Cluster.DiscoveryType`).
const STATIC: u64 = 0;
const STRICT_DNS: u64 = 1;
const LOGICAL_DNS: u64 = 2;
const EDS: u64 = 3;

/// A `Cluster`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub name: String,
    pub pool: Pool,
    /// Name by which its endpoints are assigned, if they are.
    pub assigned: Option<String>,
}

impl Cluster {
    /// Reads a cluster. `server` assigns its endpoints.
    ///
    /// # Errors
    /// The field that cannot be kept.
    pub fn of(node: &Node<'_>, server: &XdsServer) -> Result<Cluster, String> {
        let name = node.text("name").unwrap_or_default().to_owned();
        let mut pool = Pool::new(&names::of(&name));
        // Without endpoints it responds like Envoy.
        pool.empty_status = Some(503);
        let assigned = endpoints(node, &name, server, &mut pool)?;
        balance(node, &mut pool)?;
        let connect = node.duration("connect_timeout").filter(|time| !time.is_zero()).unwrap_or(CONNECT);
        pool.timeouts.connect = connect.clamp(Duration::from_millis(1), DAY);
        pool.health = health(node)?;
        pool.outlier = outlier(node);
        limits(node, &mut pool);
        protocol(node, &mut pool)?;
        if pool.endpoints.is_empty() && pool.discover.is_none() {
            node.differs("the cluster has no endpoints in the file");
        }
        // Endpoints with TLS must not get requests in clear.
        if node.has("transport_socket_matches") || node.has("transport_socket_matcher") {
            pool.tls = Some(PoolTls::default());
        }
        if let Some(socket) = node.node("transport_socket") {
            let read = transport(socket).map_err(|why| format!("transport_socket: {why}"));
            // If the socket cannot be kept, the pool uses TLS and checks certificates.
            pool.tls = node.part_of("transport_socket", read)?.unwrap_or_else(|| Some(PoolTls::default()));
        }
        Ok(Cluster { name, pool, assigned })
    }
}

/// Sets the endpoints of a pool, or their source. Returns the name by which they are assigned.
fn endpoints(node: &Node<'_>, name: &str, server: &XdsServer, pool: &mut Pool) -> Result<Option<String>, String> {
    let hosts = match node.number("type") {
        STATIC => Hosts::Addresses,
        STRICT_DNS => Hosts::AllOfNames,
        LOGICAL_DNS => Hosts::Names,
        EDS if node.is_of_file() => {
            node.refuse("type", "endpoints that a control plane has are not in the file")?;
            return Ok(None);
        }
        EDS => {
            let eds = node.node("eds_cluster_config");
            from_here(eds.and_then(|eds| eds.node("eds_config")))
                .map_err(|why| format!("eds_cluster_config: {why}"))?;
            let service = eds.and_then(|eds| eds.text("service_name")).filter(|service| !service.is_empty());
            let cluster = service.unwrap_or(name).to_owned();
            let source = Source::Xds(Xds { cluster: cluster.clone(), server: server.clone() });
            pool.discover = Some(Discover { source, ..Discover::default() });
            return Ok(Some(cluster));
        }
        _ => {
            node.refuse("type", &format!("{} has no counterpart", node.word("type")))?;
            return Ok(None);
        }
    };
    let Some(assignment) = node.node("load_assignment") else { return Ok(None) };
    let place = |why: String| format!("load_assignment: {why}");
    let Assigned { endpoints, skipped, ignored, .. } = assignment::endpoints(assignment, hosts).map_err(place)?;
    if let Some(lost) = skipped.into_iter().chain(ignored).next() {
        assignment.part(Err::<(), _>(lost)).map_err(place)?;
    }
    pool.endpoints = endpoints;
    Ok(None)
}

/// Checks that a resource comes over the stream that named it.
///
/// # Errors
/// Its config source is not `ads` or `self`.
pub fn from_here(config: Option<&Node<'_>>) -> Result<(), String> {
    match config.is_some_and(|config| config.mark("ads") | config.mark("self")) {
        true => Ok(()),
        false => Err("its config source is not ads".to_owned()),
    }
}

fn balance(node: &Node<'_>, pool: &mut Pool) -> Result<(), String> {
    let (name, settings) = match node.number("lb_policy") {
        0 => ("round_robin", "round_robin_lb_config"),
        1 => ("random", "least_request_lb_config"),
        2 => ("maglev", "ring_hash_lb_config"),
        3 => ("random", ""),
        5 => ("maglev", "maglev_lb_config"),
        _ => return node.refuse("lb_policy", &format!("{} has no counterpart", node.word("lb_policy"))),
    };
    let algorithm = algorithms::find(name).ok_or_else(|| format!("lb_policy: there is no {name}"))?;
    pool.balance = Balance::of(algorithm);
    let settings = if settings.is_empty() { None } else { node.node(settings) };
    if let Some(start) = settings.filter(|_| name != "maglev").and_then(|settings| settings.node("slow_start_config")) {
        let window = start.duration("slow_start_window").filter(|window| !window.is_zero());
        let least = start.node("min_weight_percent").map_or(10.0, |percent| percent.float("value"));
        pool.slow_start = window.map(|window| slow_start::Settings {
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            aggression: 1.0,
            min_weight: (least / 100.0).clamp(0.01, 1.0),
        });
    }
    if let Some(threshold) = node.node("common_lb_config").and_then(|common| common.node("healthy_panic_threshold")) {
        pool.panic.healthy_below = (threshold.float("value") / 100.0).clamp(0.0, 1.0);
    }
    Ok(())
}

/// Limits of the cluster, which are divided among its endpoints if those are known.
fn limits(node: &Node<'_>, pool: &mut Pool) {
    let Some(breakers) = node.node("circuit_breakers") else { return };
    for thresholds in breakers.nodes("thresholds") {
        let is_default = thresholds.number("priority") == 0;
        let [pending, requests] = ["max_pending_requests", "max_requests"].map(|name| thresholds.wrapped(name));
        if !is_default {
            thresholds.differs("limits of requests of another priority than DEFAULT are left out");
            continue;
        }
        if let Some(most) = requests {
            thresholds.differs("the limit of the cluster is divided among its endpoints");
            let each = most.div_ceil(pool.endpoints.len().max(1) as u64).clamp(1, 1_000_000);
            pool.limits.requests_per_endpoint = u32::try_from(each).unwrap_or_default();
        }
        if let Some(most) = pending {
            pool.queue.max = u32::try_from(most.min(1_000_000)).unwrap_or_default();
        }
    }
}

fn protocol(node: &Node<'_>, pool: &mut Pool) -> Result<(), String> {
    let mut h2 = node.node("http2_protocol_options");
    let mut http = node.node("common_http_protocol_options");
    for entry in node.nodes("typed_extension_protocol_options") {
        let key = entry.text("key").unwrap_or_default();
        let options = entry.extension("value").and_then(|value| value.node.as_ref());
        let options = options.ok_or_else(|| format!("typed_extension_protocol_options {key:?} is not kept"));
        let Some(options) = entry.part(options)? else { continue };
        http = options.node("common_http_protocol_options").or(http);
        if options.mark("auto_config") {
            pool.protocol = EndpointProtocol::Auto;
        }
        h2 = options.node("explicit_http_config").and_then(|of| of.node("http2_protocol_options")).or(h2);
    }
    if let Some(h2) = h2 {
        pool.protocol = EndpointProtocol::H2;
        if let Some(streams) = h2.wrapped("max_concurrent_streams") {
            let streams = h2.bounded("max_concurrent_streams", streams, 1..=10_000);
            pool.http2.streams = u32::try_from(streams).unwrap_or(1);
        }
    }
    if let Some(http) = http {
        http.wrapped("max_headers_count");
        // Envoy applies it to requests of clients only.
        let _ = spelling::of_fields(http);
        if let Some(idle) = http.duration("idle_timeout") {
            pool.timeouts.upstream_idle = if idle.is_zero() { DAY } else { idle.min(DAY) };
        }
    }
    Ok(())
}

fn transport(socket: &Node<'_>) -> Result<Option<PoolTls>, String> {
    let name = socket.text("name").unwrap_or_default();
    match socket.extension("typed_config") {
        Some(config) if config.kind.ends_with("UpstreamTlsContext") => {
            with_endpoints(config.node.as_ref().ok_or("it is empty")?).map(Some)
        }
        Some(config) if config.kind.ends_with("RawBuffer") => Ok(None),
        Some(config) => Err(format!("{name:?}, of type {:?}, has no counterpart", config.kind)),
        None if name.is_empty() || name == "envoy.transport_sockets.raw_buffer" => Ok(None),
        None => Err(format!("{name:?} has no counterpart")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::CLUSTER;
    use crate::testing::encoded;
    use crate::wire::resource;
    use evenkeel_config::Plan;
    use serde_json::{Value, json};

    fn read(json: &Value) -> Result<Cluster, String> {
        let bytes = encoded(&CLUSTER, json);
        let node = resource(&bytes, &CLUSTER).expect("a message");
        let read = Cluster::of(&node, &XdsServer::default())?;
        let mut unread = Vec::new();
        node.unread("", &mut unread);
        if unread.is_empty() { Ok(read) } else { Err(unread.join(", ")) }
    }

    /// The pool as a file has it, which its plan must be able to have.
    fn shown(json: &Value) -> String {
        let pool = read(json).expect("it can be kept").pool;
        let outcome = Plan::builder()
            .listener(evenkeel_config::plan::Listener::new("web", ([127, 0, 0, 1], 80).into()))
            .pool(pool)
            .build("test");
        let plan =
            outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)));
        plan.to_toml().split_once("[pool.").expect("a pool").1.to_owned()
    }

    fn assignment(hosts: &[&str]) -> Value {
        let one = |host: &&str| json!({ "endpoint": { "address": { "socket_address": { "address": host, "port_value": 80 } } } });
        json!({ "endpoints": { "lb_endpoints": hosts.iter().map(one).collect::<Vec<_>>() } })
    }

    #[test]
    fn settings_of_a_cluster_are_those_of_its_pool() {
        let shown = shown(&json!({
            "name": "web",
            "load_assignment": assignment(&["10.0.0.1", "10.0.0.2"]),
            "connect_timeout": 3,
            "lb_policy": 5,
            "common_lb_config": { "healthy_panic_threshold": 20.0 },
            "health_checks": [{
                "timeout": 1, "interval": 5, "unhealthy_threshold": 2, "healthy_threshold": 4,
                "http_health_check": { "path": "/health", "host": "a.test", "expected_statuses": { "start": 200, "end": 300 } },
            }],
            "circuit_breakers": { "thresholds": [{ "max_requests": 101, "max_pending_requests": 7 }, { "priority": 1, "max_requests": 1 }] },
            "outlier_detection": { "consecutive_5xx": 9, "enforcing_success_rate": 0, "base_ejection_time": 60 },
            "http2_protocol_options": { "max_concurrent_streams": 50 },
            "transport_socket": { "name": "tls", "typed_config": {
                "@type": "UpstreamTlsContext", "sni": "a.test",
                "common_tls_context": { "validation_context": { "trusted_ca": { "filename": "/ca.pem" } } },
            } },
        }));
        for line in [
            "balance = { maglev = {} }",
            "\"10.0.0.1:80\"",
            "protocol = \"h2\"",
            "http2 = { streams = 50 }",
            "timeouts = { connect = \"3s\" }",
            "http = { path = \"/health\", host = \"a.test\" }",
            "interval = \"5s\"",
            "fall = 2, rise = 4",
            "consecutive_5xx = 9",
            "eject = \"60s\"",
            "healthy_below = 0.2",
            "requests_per_endpoint = 51",
            "max = 7",
            "tls = { ca = \"/ca.pem\", server_name = \"a.test\" }",
        ] {
            let line = line.replace("\"60s\"", "\"1m\"");
            assert!(
                shown.contains(&line) || shown.contains(&line.replace("{ maglev = {} }", "\"maglev\"")),
                "{line}: {shown}"
            );
        }
    }

    #[test]
    fn names_are_resolved_as_the_type_wants_it() {
        let names = assignment(&["web.inside", "10.0.0.1"]);
        let of = |kind: u64| shown(&json!({ "name": "web", "type": kind, "load_assignment": names }));
        assert!(of(STRICT_DNS).contains("{ addr = \"web.inside:80\", resolve = \"all\" }"), "{}", of(STRICT_DNS));
        assert!(of(LOGICAL_DNS).contains("  \"web.inside:80\""), "{}", of(LOGICAL_DNS));
        assert!(read(&json!({ "name": "web", "load_assignment": names })).is_err_and(|why| why.contains("web.inside")));
        let eds = shown(
            &json!({ "name": "a|b", "type": EDS, "eds_cluster_config": { "eds_config": { "self": {} }, "service_name": "c" } }),
        );
        assert!(eds.starts_with("a-b-") && eds.contains("xds = { cluster = \"c\" }"), "{eds}");
    }

    #[test]
    fn clusters_that_no_pool_can_be_are_refused_with_the_field() {
        for (json, why) in [
            (json!({ "type": 4 }), "ORIGINAL_DST"),
            (
                json!({ "type": 3, "eds_cluster_config": { "eds_config": { "api_config_source": {} } } }),
                "config source is not ads",
            ),
            (json!({ "lb_policy": 6 }), "lb_policy"),
            (json!({ "load_balancing_policy": {} }), "load_balancing_policy"),
            (
                json!({ "health_checks": [{ "timeout": 1, "interval": 1, "tcp_health_check": {} }, {}] }),
                "a pool has one",
            ),
            (
                json!({ "health_checks": [{ "timeout": 1, "interval": 1, "custom_health_check": {} }] }),
                "none of http, grpc and tcp",
            ),
            (json!({ "transport_socket": { "name": "quic", "typed_config": { "@type": "a.Quic" } } }), "\"quic\""),
            (
                json!({ "transport_socket": { "typed_config": { "@type": "UpstreamTlsContext", "common_tls_context": {
                "validation_context": { "trusted_ca": { "inline_string": "MIIE" } } } } } }),
                "trusted_ca: its text is not PEM",
            ),
            (
                json!({ "typed_extension_protocol_options": { "key": "x", "value": { "@type": "a.B" } } }),
                "\"x\" is not kept",
            ),
            (json!({ "circuit_breakers": { "per_host_thresholds": {} } }), "circuit_breakers.per_host_thresholds"),
        ] {
            let refused = read(&json).expect_err(why);
            assert!(refused.contains(why), "{refused}: {why}");
        }
    }
}
