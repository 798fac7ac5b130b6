//! How is Envoy set up to live with broken endpoints? It reads listeners and clusters from files that it watches: a file that takes the
//! place of another is a reload.

use super::kind::{Kind, Mixed, Reload, Site};
use crate::error::{Error, Result, While};
use crate::http;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;

pub const KIND: Kind = Kind {
    name: "envoy",
    config_name: "envoy.json",
    config: bootstrap,
    more: |site| vec![(LISTENERS, resources(listeners(site))), (CLUSTERS, resources(clusters(site)))],
    // One worker, and no second process that could take over.
    arguments: |_, config| {
        let words = ["--concurrency", "1", "--disable-hot-restart", "-l", "warning"].map(String::from);
        [vec!["-c".into(), config.display().to_string()], words.to_vec()].concat()
    },
    version_flag: "--version",
    reload: Reload::Files,
    // Its hot restart takes a parent that the lab would have to be.
    upgrades: false,
    generation: |site, _| told(site, "cluster_manager.cds.update_success"),
    settings: "LEAST_REQUEST of two draws, since only that and round robin have a slow start, of 3 s; checks of /health each 500 ms with \
300 ms of patience, 2 to fall and 2 to rise, which close connections as they fall; outlier detection each 500 ms: 3 failed \
connects, resets, gateway errors or answers of 500 and above in a row, all counted together, as a new connection would else forget resets, or a rate of success below that of the others, eject for 5 s, half of \
them at most, and a passed check does not bring back what was ejected; up to 3 retries, elsewhere, after a failed connect, a reset, 1 s without an answer or a 503, but of \
a POST only if nothing of it has left, and of a call of gRPC also if it is UNAVAILABLE; retries at most 20 % of the requests; PING after \
500 ms to endpoints of HTTP/2, which have 1 s to answer.",
    retries: |site| told(site, "upstream_rq_retry"),
};

const LISTENERS: &str = "listeners.json";
const CLUSTERS: &str = "clusters.json";

/// What is no route to an endpoint, and where the rest is.
fn bootstrap(site: &Site) -> String {
    let watched = |name: &str| json!({"path_config_source": {"path": site.file(name)}, "resource_api_version": "V3"});
    let file = json!({
        "node": {"id": "lab", "cluster": "lab"},
        "admin": {"address": address(http::local(site.admin_port))},
        "dynamic_resources": {"lds_config": watched(LISTENERS), "cds_config": watched(CLUSTERS)},
    });
    format!("{file:#}\n")
}

fn resources(all: Vec<Value>) -> String {
    format!("{:#}\n", json!({ "resources": all }))
}

fn address(at: SocketAddr) -> Value {
    json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}})
}

/// The type that a part of the configuration says it has.
fn typed(name: &str, mut value: Value) -> Value {
    value["@type"] = format!("type.googleapis.com/envoy.{name}").into();
    value
}

fn listeners(site: &Site) -> Vec<Value> {
    let mut all = vec![listener("web", site.port, "HTTP1", None)];
    if let Some(mixed) = site.mixed {
        all.push(listener("h2c", mixed.h2c_port, "HTTP2", None));
        all.push(listener("tls", mixed.tls_port, "AUTO", Some(mixed)));
    }
    all
}

fn listener(name: &str, port: u16, codec: &str, tls: Option<&Mixed>) -> Value {
    let router = typed("extensions.filters.http.router.v3.Router", json!({"suppress_envoy_headers": true}));
    let manager = typed(
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": name,
            "codec_type": codec,
            "generate_request_id": false,
            "common_http_protocol_options": {"idle_timeout": "60s"},
            "stream_idle_timeout": "3600s",
            "upgrade_configs": [{"upgrade_type": "websocket"}],
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
            "route_config": {"virtual_hosts": [
                {"name": "spare", "domains": ["spare.test"], "routes": [route("/", "spare", json!({}))]},
                {"name": "all", "domains": ["*"], "routes": routes()},
            ]},
        }),
    );
    let mut chain =
        json!({"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]});
    if let Some(Mixed { certificate, key, .. }) = tls {
        let certificates = json!([{"certificate_chain": {"filename": certificate}, "private_key": {"filename": key}}]);
        let common = json!({"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": certificates});
        let name = "extensions.transport_sockets.tls.v3.DownstreamTlsContext";
        chain["transport_socket"] = json!({
            "name": "envoy.transport_sockets.tls", "typed_config": typed(name, json!({"common_tls_context": common})),
        });
    }
    json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": name,
        "address": address(http::local(port)),
        "tcp_backlog_size": 4096,
        "filter_chains": [chain],
    })
}

/// `more`: of the route, beside where it leads.
fn route(prefix: &str, cluster: &str, more: Value) -> Value {
    let mut to = json!({"cluster": cluster, "timeout": "0s"});
    for (key, value) in more.as_object().into_iter().flatten() {
        to[key] = value.clone();
    }
    json!({"match": {"prefix": prefix}, "route": to})
}

/// Streams have no end, so no time for a try. A retry knows no methods, so each kind of request has a route.
fn routes() -> Vec<Value> {
    let tries = |on: &str| {
        let elsewhere = typed("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate", json!({}));
        let predicate = json!({"name": "envoy.retry_host_predicates.previous_hosts", "typed_config": elsewhere});
        json!({"retry_policy": {
            "retry_on": on,
            "retriable_status_codes": [503],
            "num_retries": 3,
            "per_try_timeout": "1s",
            "retry_host_predicate": [predicate],
            "host_selection_retry_max_attempts": 5,
        }})
    };
    let unsent = "connect-failure,refused-stream,reset-before-request";
    let mut posts = route("/", "app", tries(unsent));
    posts["match"]["headers"] = json!([{"name": ":method", "string_match": {"exact": "POST"}}]);
    vec![
        route("/echo", "app", json!({})),
        route("/upload", "app", json!({})),
        route("/download/", "app", json!({})),
        route("/lab.Echo/Stream", "grpc", json!({})),
        route("/lab.Echo/", "grpc", tries(&format!("{unsent},unavailable"))),
        posts,
        route("/", "app", tries("reset,connect-failure,refused-stream,retriable-status-codes")),
    ]
}

fn clusters(site: &Site) -> Vec<Value> {
    let mut all = vec![cluster("app", site.endpoints, json!({"http_protocol_options": {}}))];
    if site.mixed.is_some() {
        let ping = json!({"interval": "0.5s", "timeout": "1s"});
        all.push(cluster("grpc", site.endpoints, json!({"http2_protocol_options": {"connection_keepalive": ping}})));
    }
    let spare = json!({"endpoint": {"address": address(site.endpoints[0])}, "load_balancing_weight": site.weight});
    all.push(json!({
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": "spare",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "spare", "endpoints": [{"lb_endpoints": [spare]}]},
    }));
    all
}

fn cluster(name: &str, endpoints: &[SocketAddr], protocol: Value) -> Value {
    let endpoint = |at: &SocketAddr| json!({"endpoint": {"address": address(*at)}});
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
    let limit = 1_000_000;
    let options = typed(
        "extensions.upstreams.http.v3.HttpProtocolOptions",
        json!({"explicit_http_config": protocol, "common_http_protocol_options": {"idle_timeout": "60s"}}),
    );
    json!({
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "0.5s",
        "lb_policy": "LEAST_REQUEST",
        "least_request_lb_config": {"choice_count": 2, "slow_start_config": {"slow_start_window": "3s"}},
        "close_connections_on_host_health_failure": true,
        "circuit_breakers": {"thresholds": [{
            "max_connections": limit,
            "max_pending_requests": limit,
            "max_requests": limit,
            "retry_budget": {"budget_percent": {"value": 20}, "min_retry_concurrency": 10},
        }]},
        "health_checks": [{
            "timeout": "0.3s",
            "interval": "0.5s",
            "no_traffic_interval": "0.5s",
            "unhealthy_threshold": 2,
            "healthy_threshold": 2,
            "http_health_check": {"path": "/health"},
        }],
        "outlier_detection": {
            "interval": "0.5s",
            "base_ejection_time": "5s",
            "max_ejection_percent": 50,
            "consecutive_gateway_failure": 3,
            "enforcing_consecutive_gateway_failure": 100,
            "consecutive_5xx": 3,
            "success_rate_minimum_hosts": 5,
            "success_rate_request_volume": 10,
            "successful_active_health_check_uneject_host": false,
        },
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    })
}

/// The sum of the counters whose names end so.
fn told(site: &Site, counter: &str) -> Result<u64> {
    // It takes no HTTP/1.0. What it says comes in one chunk, as it is short.
    let doing = || "cannot ask Envoy for its counters".to_owned();
    let mut stream = http::connect(site.admin_port)?;
    let ask = format!("GET /stats?filter={counter}$ HTTP/1.1\r\nHost: lab.test\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).or_say(doing)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).or_say(doing)?;
    parse(&text, counter).ok_or_else(|| Error::Wrong(format!("Envoy tells no {counter}")))
}

fn parse(text: &str, counter: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.strip_suffix(counter).filter(|before| before.is_empty() || before.ends_with('.'))?;
        value.trim().parse::<u64>().ok()
    });
    values.reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn counters_of_all_clusters_are_added_and_others_are_not() {
        let text =
            "cluster.app.rq_retry: 3\r\ncluster.grpc.rq_retry: 1\ncluster.app.rq_retry_limit: 7\na.my_rq_retry: 9\n";
        assert_eq!((parse(text, "rq_retry"), parse(text, "cds")), (Some(4), None));
    }
}
