//! Resources as JSON, in the spelling of protobuf.
// Each of the binaries that have it uses a part.
#![allow(dead_code)]

use serde_json::{Value, json};

const EXTENSIONS: &str = "type.googleapis.com/envoy.extensions";

/// Listener at an address, whose requests go by the route configuration of this name.
pub fn listener(name: &str, addr: &str, routes: &str) -> Value {
    let rds = json!({ "routeConfigName": routes, "configSource": { "ads": {}, "resourceApiVersion": "V3" } });
    listener_of(name, addr, &[json!({ "filters": [manager("rds", &rds)] })])
}

/// Listener with these filter chains.
pub fn listener_of(name: &str, addr: &str, chains: &[Value]) -> Value {
    let (host, port) = addr.rsplit_once(':').expect("an address with a port");
    let port: u32 = port.parse().expect("a port");
    json!({
        "name": name,
        "address": { "socketAddress": { "address": host, "portValue": port } },
        "filterChains": chains,
    })
}

/// Connection manager with `rds` or `routeConfig`.
pub fn manager(key: &str, value: &Value) -> Value {
    let router = json!({ "@type": format!("{EXTENSIONS}.filters.http.router.v3.Router") });
    let mut config = json!({
        "@type": format!("{EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "statPrefix": "web",
        "httpFilters": [{ "name": "envoy.filters.http.router", "typedConfig": router }],
    });
    config[key] = value.clone();
    json!({ "name": "envoy.filters.network.http_connection_manager", "typedConfig": config })
}

/// Filter that leads sessions to a cluster.
pub fn proxy(cluster: &str) -> Value {
    let kind = format!("{EXTENSIONS}.filters.network.tcp_proxy.v3.TcpProxy");
    json!({ "name": "envoy.filters.network.tcp_proxy", "typedConfig": { "@type": kind, "statPrefix": "tcp", "cluster": cluster } })
}

/// Route configuration with one virtual host for these domains.
pub fn routes(name: &str, domains: &[&str], routes: &[Value]) -> Value {
    json!({ "name": name, "virtualHosts": [{ "name": "all", "domains": domains, "routes": routes }] })
}

/// Route of a prefix to a cluster.
pub fn to(prefix: &str, cluster: &str) -> Value {
    json!({ "match": { "prefix": prefix }, "route": { "cluster": cluster } })
}

/// Cluster whose endpoints are assigned.
pub fn assigned(name: &str) -> Value {
    json!({
        "name": name,
        "type": "EDS",
        "connectTimeout": "1s",
        "edsClusterConfig": { "edsConfig": { "ads": {}, "resourceApiVersion": "V3" } },
    })
}

/// Cluster with endpoints of its own.
pub fn cluster(name: &str, addrs: &[&str]) -> Value {
    let endpoints: Vec<Value> = addrs.iter().map(|addr| endpoint(addr)).collect();
    json!({
        "name": name,
        "type": "STATIC",
        "connectTimeout": "1s",
        "loadAssignment": { "clusterName": name, "endpoints": [{ "lbEndpoints": endpoints }] },
    })
}

pub fn endpoint(addr: &str) -> Value {
    let (host, port) = addr.rsplit_once(':').expect("an address with a port");
    let port: u32 = port.parse().expect("a port");
    json!({ "endpoint": { "address": { "socketAddress": { "address": host, "portValue": port } } } })
}
