//! How is Envoy set up?

use super::kind::{Kind, Site};
use crate::experiments::protocol_cost::case::{Back, Front};
use serde_json::{Value, json};

pub const KIND: Kind = Kind {
    name: "envoy",
    config_name: "envoy.json",
    config,
    // One worker, and no second process that could take over.
    arguments: |program, _, config| {
        let words = ["--concurrency", "1", "--disable-hot-restart", "-l", "error"].map(String::from);
        [vec![program, "-c".into(), config.display().to_string()], words.to_vec()].concat()
    },
    version_flag: "--version",
    forks: false,
    cannot: |_| None,
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
    let (codec, alpn) = match site.front {
        Front::H2c | Front::H2(_) => ("HTTP2", json!(["h2"])),
        Front::Https(_) => ("HTTP1", json!(["http/1.1"])),
    };
    // No ids of requests, no counts for each route: at its best, as nothing reads them here.
    let router =
        typed("filters.http.router.v3.Router", json!({"dynamic_stats": false, "suppress_envoy_headers": true}));
    let manager = typed(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": "web",
            "codec_type": codec,
            "generate_request_id": false,
            "common_http_protocol_options": {"idle_timeout": "3600s"},
            "http2_protocol_options": {"max_concurrent_streams": 256},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
            "route_config": {"virtual_hosts": [{
                "name": "all",
                "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app", "timeout": "0s"}}],
            }]},
        }),
    );
    let mut chain = json!({"filters": [{
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": manager,
    }]});
    if let Some(files) = site.certificate {
        let context = typed(
            "transport_sockets.tls.v3.DownstreamTlsContext",
            json!({"common_tls_context": {"alpn_protocols": alpn, "tls_certificates": [{
                "certificate_chain": {"filename": files.certificate},
                "private_key": {"filename": files.key},
            }]}}),
        );
        chain["transport_socket"] = json!({"name": "envoy.transport_sockets.tls", "typed_config": context});
    }
    json!({"name": "web", "address": address(site.port), "tcp_backlog_size": 4096, "filter_chains": [chain]})
}

fn cluster(site: &Site) -> Value {
    let protocol = match site.back {
        Back::Http1 => "http_protocol_options",
        Back::H2c | Back::Grpc => "http2_protocol_options",
    };
    let endpoint = |port: &u16| json!({"endpoint": {"address": address(*port)}});
    let endpoints: Vec<Value> = site.endpoints.iter().map(endpoint).collect();
    let limit = 1_000_000;
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
                typed("upstreams.http.v3.HttpProtocolOptions", json!({"explicit_http_config": {protocol: {}}})),
        },
        "load_assignment": {"cluster_name": "app", "endpoints": [{"lb_endpoints": endpoints}]},
    })
}
