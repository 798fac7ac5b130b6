//! How is Envoy set up where algorithms are compared?

use super::kind::{Algorithm, Kind, Setup};
use serde_json::{Value, json};
use std::path::Path;

pub const KIND: Kind = Kind {
    name: "envoy",
    version_flag: "--version",
    config_name: "envoy.json",
    config,
    // No second process that could take over.
    arguments: |_, config, setup| {
        let (config, workers) = (config.display().to_string(), setup.workers.to_string());
        ["-c", &config, "--concurrency", &workers, "--disable-hot-restart", "-l", "error"].map(String::from).to_vec()
    },
    forks: false,
};

/// The type that a part of the configuration says it has.
fn typed(name: &str, mut value: Value) -> Value {
    value["@type"] = format!("type.googleapis.com/envoy.extensions.{name}").into();
    value
}

fn address(host: &str, port: &str) -> Value {
    json!({"socket_address": {"address": host, "port_value": port.parse::<u16>().unwrap_or(0)}})
}

fn config(_: &Path, setup: &Setup) -> String {
    let router =
        typed("filters.http.router.v3.Router", json!({"dynamic_stats": false, "suppress_envoy_headers": true}));
    let manager = typed(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": "web",
            "codec_type": "HTTP1",
            "generate_request_id": false,
            "common_http_protocol_options": {"idle_timeout": "3600s"},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
            "route_config": {"virtual_hosts": [{
                "name": "all",
                "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app", "timeout": "0s"}}],
            }]},
        }),
    );
    let chain =
        json!({"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]});
    let listener = json!({
        "name": "web", "address": address("0.0.0.0", &setup.port.to_string()), "tcp_backlog_size": 4096, "filter_chains": [chain],
    });
    let file = json!({"static_resources": {"listeners": [listener], "clusters": [cluster(setup)]}});
    format!("{file:#}\n")
}

fn cluster(setup: &Setup) -> Value {
    let policy = match setup.algorithm {
        Algorithm::RoundRobin => "ROUND_ROBIN",
        // Of as many draws as there are endpoints; it has nothing nearer.
        Algorithm::LeastConn => "LEAST_REQUEST",
        Algorithm::Random | Algorithm::PeakEwma => "RANDOM",
    };
    let endpoint = |endpoint: &String| {
        let (host, port) = endpoint.rsplit_once(':').unwrap_or((endpoint, "0"));
        json!({"endpoint": {"address": address(host, port)}})
    };
    let endpoints: Vec<Value> = setup.endpoints.iter().map(endpoint).collect();
    let limit = 1_000_000;
    let mut cluster = json!({
        "name": "app",
        "type": "STATIC",
        "lb_policy": policy,
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{
            "max_connections": limit, "max_pending_requests": limit, "max_requests": limit, "max_retries": 0,
        }]},
        "load_assignment": {"cluster_name": "app", "endpoints": [{"lb_endpoints": endpoints}]},
    });
    if setup.algorithm == Algorithm::LeastConn {
        cluster["least_request_lb_config"] = json!({"choice_count": setup.endpoints.len().max(2)});
    }
    cluster
}
