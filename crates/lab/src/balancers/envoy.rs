//! Setup as an Envoy configuration. If it has to reload, it reads listeners and clusters from files that it watches:
//! replacing a file is a reload.

use super::kind::{Able, Cannot, Kind, Reload, Site, Written};
use super::setup::{Algorithm, Back, Care, Front, Lasts, Listener, Pool, Reuse, Route};
use crate::error::{Error, Result, While};
use crate::http;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

pub const KIND: Kind = Kind {
    name: "envoy",
    program: "envoy",
    version_flag: "--version",
    files,
    // Hot restart is off, as no second process takes over.
    arguments: |site, config| {
        let workers = site.setup.workers.to_string();
        ["-c", config, "--concurrency", &workers, "--disable-hot-restart", "-l", "warning"].map(String::from).to_vec()
    },
    forks: false,
    logs_to_socket: false,
    reload: Reload::Files,
    // Its hot restart needs a parent process, which the lab is not.
    upgrades: false,
    generation: |site, _| told(site, "cluster_manager.cds.update_success"),
    retries: |site| told(site, "upstream_rq_retry"),
    settings: "LEAST_REQUEST of two draws, since only that and round robin have a slow start, of 3 s; checks of /health each 500 ms with \
300 ms of patience, 2 to fall and 2 to rise, which close connections as they fall; outlier detection each 500 ms: 3 failed \
connects, resets, gateway errors or answers of 500 and above in a row, all counted together, as a new connection would else forget resets, or a rate of success below that of the others, eject for 5 s, half of \
them at most, and a passed check does not bring back what was ejected; up to 3 retries, elsewhere, after a failed connect, a reset, 1 s without an answer or a 503, but of \
a POST only if nothing of it has left, and of a call of gRPC also if it is UNAVAILABLE; retries at most 20 % of the requests; PING after \
500 ms to endpoints of HTTP/2, which have 1 s to answer.",
};

const LISTENERS: &str = "listeners.json";
const CLUSTERS: &str = "clusters.json";

fn files(site: &Site) -> Written {
    let listeners = site.setup.listeners.iter().map(|of| listener(site, of)).collect::<Able<Vec<Value>>>()?;
    let clusters = site.setup.pools.iter().map(|of| cluster(site, of)).collect::<Able<Vec<Value>>>()?;
    let mut file = json!({});
    if let Some(port) = site.setup.admin {
        file = json!({"node": {"id": "lab", "cluster": "lab"}, "admin": {"address": address(http::local(port))}});
    }
    let text = |file: &Value| format!("{file:#}\n");
    if !site.setup.reloads {
        file["static_resources"] = json!({"listeners": listeners, "clusters": clusters});
        return Ok(vec![("envoy.json", text(&file))]);
    }
    let watched = |name: &str| json!({"path_config_source": {"path": site.file(name)}, "resource_api_version": "V3"});
    file["dynamic_resources"] = json!({"lds_config": watched(LISTENERS), "cds_config": watched(CLUSTERS)});
    let resources = |name: &str, all: Vec<Value>| {
        let all = all.into_iter().map(|one| typed(&format!("config.{name}"), one)).collect::<Vec<_>>();
        text(&json!({ "resources": all }))
    };
    let (listeners, clusters) =
        (resources("listener.v3.Listener", listeners), resources("cluster.v3.Cluster", clusters));
    Ok(vec![("envoy.json", text(&file)), (LISTENERS, listeners), (CLUSTERS, clusters)])
}

fn address(at: SocketAddr) -> Value {
    json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}})
}

/// Adds its type to a part of the configuration.
fn typed(name: &str, mut value: Value) -> Value {
    value["@type"] = format!("type.googleapis.com/envoy.{name}").into();
    value
}

/// Named extension with its typed configuration.
fn part(name: &str, of: &str, config: Value) -> Value {
    json!({"name": name, "typed_config": typed(&format!("extensions.{of}"), config)})
}

/// Duration in seconds, with a fraction if needed.
fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

fn listener(site: &Site, listener: &Listener) -> Able<Value> {
    let filter = match listener.front {
        Front::Udp | Front::Dns(_) => {
            return Err(Cannot("the lab has it neither pass on datagrams nor answer queries"));
        }
        Front::Kernel(_) => return Err(Cannot("it has no plane in the kernel")),
        Front::Tcp => {
            let (pool, idle) = (listener.pool, seconds(site.setup.timeouts.idle));
            let proxy = json!({"stat_prefix": listener.name, "cluster": pool, "idle_timeout": idle});
            part("envoy.filters.network.tcp_proxy", "filters.network.tcp_proxy.v3.TcpProxy", proxy)
        }
        _ => requests(site, listener)?,
    };
    let mut chain = json!({"filters": [filter]});
    let mut at = address(listener.bind);
    let mut written = json!({"name": listener.name});
    if listener.front == Front::H3 {
        let tls = json!({"downstream_tls_context": {"common_tls_context": {"tls_certificates": certificates(site)?}}});
        let name = "transport_sockets.quic.v3.QuicDownstreamTransport";
        chain["transport_socket"] = part("envoy.transport_sockets.quic", name, tls);
        at["socket_address"]["protocol"] = "UDP".into();
        // A listener has one protocol, so nothing listens on TCP.
        written["udp_listener_config"] = json!({"quic_options": {}, "downstream_socket_config": {"prefer_gro": true}});
    } else if listener.front.is_tls() {
        let alpn: &[&str] = if listener.front == Front::H2 { &["h2", "http/1.1"] } else { &["http/1.1"] };
        chain["transport_socket"] = part(
            "envoy.transport_sockets.tls",
            "transport_sockets.tls.v3.DownstreamTlsContext",
            json!({"common_tls_context": {"alpn_protocols": alpn, "tls_certificates": certificates(site)?}}),
        );
    }
    written["address"] = at;
    written["filter_chains"] = json!([chain]);
    if listener.front != Front::H3 {
        written["tcp_backlog_size"] = 4096.into();
    }
    Ok(written)
}

fn certificates(site: &Site) -> Able<Value> {
    let files = site.certificate()?;
    Ok(json!([{"certificate_chain": {"filename": files.certificate}, "private_key": {"filename": files.key}}]))
}

fn requests(site: &Site, listener: &Listener) -> Able<Value> {
    let setup = site.setup;
    let whole = listener.pool.map(|pool| Route::new("/", pool));
    let routes: Vec<&Route> = setup.routes.iter().filter(|_| whole.is_none()).chain(&whole).collect();
    if routes.iter().any(|route| route.maps.is_some()) {
        return Err(Cannot("it has no maps in files"));
    }
    if routes.iter().any(|route| route.ruled) {
        return Err(Cannot("the lab does not write its rules"));
    }
    if routes.iter().any(|route| route.cached) {
        return Err(Cannot("its cache is not finished"));
    }
    let host = |host: Option<&str>| {
        let of = routes.iter().filter(|route| route.host == host).map(|of| self::routes(site, of));
        let of = of.collect::<Able<Vec<_>>>()?.concat();
        Ok(json!({"name": host.unwrap_or("all"), "domains": [host.unwrap_or("*")], "routes": of}))
    };
    let hosts = routes.iter().filter(|route| route.host.is_some()).map(|route| route.host).chain([None]);
    // No request ids, and no per-route statistics unless they are read: its fastest setup.
    let router = json!({"dynamic_stats": setup.admin.is_some(), "suppress_envoy_headers": true});
    let mut manager = json!({
        "stat_prefix": listener.name,
        "codec_type": match listener.front {
            Front::H2c => "HTTP2",
            Front::H2 => "AUTO",
            Front::H3 => "HTTP3",
            _ => "HTTP1",
        },
        "generate_request_id": false,
        "common_http_protocol_options": {"idle_timeout": seconds(setup.timeouts.idle)},
        "http_protocol_options": {"accept_http_10": true},
        "http_filters": [part("envoy.filters.http.router", "filters.http.router.v3.Router", router)],
        "route_config": {"virtual_hosts": hosts.map(host).collect::<Able<Vec<Value>>>()?},
    });
    if listener.front == Front::H3 {
        let quic = json!({"max_concurrent_streams": 256, "idle_network_timeout": seconds(setup.timeouts.idle)});
        manager["http3_protocol_options"] = json!({ "quic_protocol_options": quic });
    } else if setup.reuse == Reuse::Many {
        manager["http2_protocol_options"] = json!({"max_concurrent_streams": 256});
    }
    if routes.iter().any(|route| route.lasts == Lasts::Endless) {
        manager["stream_idle_timeout"] = "3600s".into();
        manager["upgrade_configs"] = json!([{"upgrade_type": "websocket"}]);
    }
    if setup.logs {
        let log = json!({"path": site.log()});
        let log = part("envoy.access_loggers.file", "access_loggers.file.v3.FileAccessLog", log);
        manager["access_log"] = json!([log]);
    }
    let name = "filters.network.http_connection_manager.v3.HttpConnectionManager";
    Ok(part("envoy.filters.network.http_connection_manager", name, manager))
}

/// Splits a route if it has retries: retry policies cannot distinguish methods, so POST gets a separate route.
fn routes(site: &Site, route: &Route) -> Able<Vec<Value>> {
    let pool = site.pool(route.pool)?;
    let plain = json!({"match": {"prefix": route.path}, "route": {"cluster": pool.name, "timeout": "0s"}});
    // Streams do not end, so they get no timeout per attempt.
    if pool.care != Care::Full || route.lasts != Lasts::Usual {
        return Ok(vec![plain]);
    }
    let tries = |on: &str| {
        let mut tried = plain.clone();
        let predicate = part(
            "envoy.retry_host_predicates.previous_hosts",
            "retry.host.previous_hosts.v3.PreviousHostsPredicate",
            json!({}),
        );
        tried["route"]["retry_policy"] = json!({
            "retry_on": on,
            "retriable_status_codes": [503],
            "num_retries": 3,
            "per_try_timeout": "1s",
            "retry_host_predicate": [predicate],
            "host_selection_retry_max_attempts": 5,
        });
        tried
    };
    let unsent = "connect-failure,refused-stream,reset-before-request";
    if pool.back == Back::Grpc {
        return Ok(vec![tries(&format!("{unsent},unavailable"))]);
    }
    let mut posts = tries(unsent);
    posts["match"]["headers"] = json!([{"name": ":method", "string_match": {"exact": "POST"}}]);
    Ok(vec![posts, tries("reset,connect-failure,refused-stream,retriable-status-codes")])
}

fn cluster(site: &Site, pool: &Pool) -> Able<Value> {
    let setup = site.setup;
    let endpoint = |at: &SocketAddr| {
        let mut endpoint = json!({"endpoint": {"address": address(*at)}});
        if let Some(weight) = pool.weight {
            endpoint["load_balancing_weight"] = weight.into();
        }
        endpoint
    };
    let endpoints: Vec<Value> = pool.endpoints.iter().map(endpoint).collect();
    let mut protocol = json!({});
    if pool.care == Care::Full && pool.back != Back::Http1 {
        protocol["connection_keepalive"] = json!({"interval": "0.5s", "timeout": "1s"});
    }
    let back = if pool.back == Back::Http1 { "http_protocol_options" } else { "http2_protocol_options" };
    let mut common = json!({});
    if setup.reuse == Reuse::Never {
        common["max_requests_per_connection"] = 1.into();
    }
    let limit = 1_000_000;
    let mut cluster = json!({
        "name": pool.name,
        "type": "STATIC",
        "connect_timeout": seconds(setup.timeouts.connect.unwrap_or(Duration::from_secs(5))),
        "circuit_breakers": {"thresholds": [{
            "max_connections": limit, "max_pending_requests": limit, "max_requests": limit,
        }]},
        "load_assignment": {"cluster_name": pool.name, "endpoints": [{"lb_endpoints": endpoints}]},
    });
    match pool.algorithm {
        Algorithm::Usual => {}
        Algorithm::RoundRobin => cluster["lb_policy"] = "ROUND_ROBIN".into(),
        // With as many draws as endpoints, the nearest that it has.
        Algorithm::LeastConn => {
            cluster["lb_policy"] = "LEAST_REQUEST".into();
            cluster["least_request_lb_config"] = json!({"choice_count": endpoints.len().max(2)});
        }
        Algorithm::Random | Algorithm::OneDraw => cluster["lb_policy"] = "RANDOM".into(),
        Algorithm::PeakEwma => return Err(Cannot("it has no Peak EWMA")),
        Algorithm::Prequal => return Err(Cannot("it has no Prequal")),
    }
    match pool.care {
        Care::Usual | Care::Checked => {}
        Care::None => cluster["circuit_breakers"]["thresholds"][0]["max_retries"] = 0.into(),
        Care::Full => {
            common["idle_timeout"] = seconds(setup.timeouts.idle).into();
            full(&mut cluster);
        }
    }
    let options = json!({"explicit_http_config": {back: protocol}, "common_http_protocol_options": common});
    cluster["typed_extension_protocol_options"] = json!({
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions":
            typed("extensions.upstreams.http.v3.HttpProtocolOptions", options),
    });
    Ok(cluster)
}

/// Adds checks, ejections, a slow start and a retry budget.
fn full(cluster: &mut Value) {
    let budget = json!({"budget_percent": {"value": 20}, "min_retry_concurrency": 10});
    cluster["circuit_breakers"]["thresholds"][0]["retry_budget"] = budget;
    cluster["lb_policy"] = "LEAST_REQUEST".into();
    cluster["least_request_lb_config"] = json!({"choice_count": 2, "slow_start_config": {"slow_start_window": "3s"}});
    cluster["close_connections_on_host_health_failure"] = true.into();
    cluster["health_checks"] = json!([{
        "timeout": "0.3s",
        "interval": "0.5s",
        "no_traffic_interval": "0.5s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 2,
        "http_health_check": {"path": "/health"},
    }]);
    cluster["outlier_detection"] = json!({
        "interval": "0.5s",
        "base_ejection_time": "5s",
        "max_ejection_percent": 50,
        "consecutive_gateway_failure": 3,
        "enforcing_consecutive_gateway_failure": 100,
        "consecutive_5xx": 3,
        "success_rate_minimum_hosts": 5,
        "success_rate_request_volume": 10,
        "successful_active_health_check_uneject_host": false,
    });
}

/// Sum of all counters whose names end with `counter`.
fn told(site: &Site, counter: &str) -> Result<u64> {
    // It does not accept HTTP/1.0. The response is short, so it is a single chunk.
    let doing = || "cannot ask Envoy for its counters".to_owned();
    let mut stream = http::connect(site.admin()?)?;
    let ask = format!("GET /stats?filter={counter}$ HTTP/1.1\r\nHost: lab.test\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).or_say(doing)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).or_say(doing)?;
    parse(&text, counter).ok_or_else(|| Error::Wrong(format!("Envoy has no counter {counter}")))
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
