//! How is Envoy set up?

use super::kind::{Kind, Site, and};
use crate::experiments::protocol_cost::cases::{Back, Front, Setup};
use serde_json::{Value, json};

pub const KIND: Kind = Kind {
    name: "envoy",
    program: "envoy",
    config_name: "envoy.json",
    config,
    // One worker, and no second process that could take over.
    arguments: |command, _, config| {
        let config = config.display().to_string();
        and(command, &["-c", &config, "--concurrency", "1", "--disable-hot-restart", "-l", "error"])
    },
    version_flag: "--version",
    forks: false,
    logs_to_socket: false,
    cannot: |_, _| None,
};

fn config(site: &Site) -> String {
    let file = json!({"static_resources": {"listeners": [listener(site)], "clusters": [cluster(site)]}});
    format!("{file:#}\n")
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

/// The type that a part of the configuration says it has.
fn typed(name: &str, mut value: Value) -> Value {
    value["@type"] = format!("type.googleapis.com/envoy.extensions.{name}").into();
    value
}

fn listener(site: &Site) -> Value {
    let filter = if site.front == Front::Tcp { sessions() } else { requests(site) };
    let mut chain = json!({"filters": [filter]});
    if let Some(files) = site.certificate {
        let alpn = if matches!(site.front, Front::Https(_)) { "http/1.1" } else { "h2" };
        let context = typed(
            "transport_sockets.tls.v3.DownstreamTlsContext",
            json!({"common_tls_context": {"alpn_protocols": [alpn], "tls_certificates": [{
                "certificate_chain": {"filename": files.certificate},
                "private_key": {"filename": files.key},
            }]}}),
        );
        chain["transport_socket"] = json!({"name": "envoy.transport_sockets.tls", "typed_config": context});
    }
    json!({"name": "web", "address": address(site.port), "tcp_backlog_size": 4096, "filter_chains": [chain]})
}

fn sessions() -> Value {
    let proxy = typed(
        "filters.network.tcp_proxy.v3.TcpProxy",
        json!({"stat_prefix": "web", "cluster": "app", "idle_timeout": "3600s"}),
    );
    json!({"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy})
}

fn requests(site: &Site) -> Value {
    let codec = match site.front {
        Front::H2c | Front::H2(_) => "HTTP2",
        Front::Http1(_) | Front::Tcp | Front::Https(_) => "HTTP1",
    };
    // No ids of requests, no counts for each route: at its best, as nothing reads them here.
    let router =
        typed("filters.http.router.v3.Router", json!({"dynamic_stats": false, "suppress_envoy_headers": true}));
    let mut manager = json!({
        "stat_prefix": "web",
        "codec_type": codec,
        "generate_request_id": false,
        "common_http_protocol_options": {"idle_timeout": "3600s"},
        "http_protocol_options": {"accept_http_10": true},
        "http2_protocol_options": {"max_concurrent_streams": 256},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        "route_config": {"virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app", "timeout": "0s"}}],
        }]},
    });
    if site.front.setup() == Setup::Logged {
        let log = typed("access_loggers.file.v3.FileAccessLog", json!({"path": site.log()}));
        manager["access_log"] = json!([{"name": "envoy.access_loggers.file", "typed_config": log}]);
    }
    let manager = typed("filters.network.http_connection_manager.v3.HttpConnectionManager", manager);
    json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager})
}

fn cluster(site: &Site) -> Value {
    let protocol = match site.back {
        Back::Http1 => "http_protocol_options",
        Back::H2c | Back::Grpc => "http2_protocol_options",
    };
    let endpoint = |port: &u16| json!({"endpoint": {"address": address(*port)}});
    let endpoints: Vec<Value> = site.endpoints.iter().map(endpoint).collect();
    let limit = 1_000_000;
    let mut options = json!({"explicit_http_config": {protocol: {}}});
    if site.front.setup() == Setup::CloseUpstream {
        options["common_http_protocol_options"] = json!({"max_requests_per_connection": 1});
    }
    json!({
        "name": "app",
        "type": "STATIC",
        "lb_policy": "RANDOM",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{
            "max_connections": limit,
            "max_pending_requests": limit,
            "max_requests": limit,
        }]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions":
                typed("upstreams.http.v3.HttpProtocolOptions", options),
        },
        "load_assignment": {"cluster_name": "app", "endpoints": [{"lb_endpoints": endpoints}]},
    })
}
