//! Envoy: listeners, virtual hosts, routes and clusters of `static_resources`, as YAML or JSON.

// Order: auth, cluster, address, compression, route
mod address;
mod auth;
mod cluster;
mod compression;
mod route;

use crate::ledger::Ledger;
use crate::model::{Cond, Key, Listener, Match, Route, Table, Target, Value, name_of};
use crate::tree::{self, Node};
use address::socket;
use std::sync::Arc;

/// Reason and advice for keys that no part of the translation reads.
const UNKNOWN: (&str, &str) =
    ("this key has no counterpart", "look it up in the manual of Envoy, and in the reference of keys here");

/// Reads a bootstrap configuration into a draft of the output.
pub(crate) fn translate(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Target {
    let root = tree::read(text, file, ledger);
    let mut target = Target::default();
    for cluster in root.at("static_resources.clusters").map_or(&[][..], Node::list) {
        if let Some(pool) = cluster::read(cluster, ledger) {
            target.pools.push(pool);
        }
    }
    for (index, listener) in root.at("static_resources.listeners").map_or(&[][..], Node::list).iter().enumerate() {
        read_listener(listener, index, &mut target, ledger);
    }
    for key in ["admin", "node", "stats_config", "layered_runtime", "overload_manager"] {
        if let Some(node) = root.get(key) {
            node.dropped("it is about Envoy's own process; metrics and the dashboard are those of [admin]", ledger);
        }
    }
    if let Some(node) = root.get("dynamic_resources") {
        node.lost(
            "what comes over xDS is not in the file",
            "[provider.xds] for all of it, or discover = { xds = { cluster = \"NAME\" } } of a pool for its endpoints",
            ledger,
        );
    }
    root.lost(UNKNOWN.0, UNKNOWN.1, ledger);
    target
}

fn read_listener(node: &Node, index: usize, target: &mut Target, ledger: &mut Ledger) {
    let name = node.take("name", ledger).map_or_else(|| format!("listener-{index}"), name_of);
    let Some(bind) =
        node.get("address").and_then(|address| socket(address, ledger)).filter(|bind| !bind.starts_with("unix:"))
    else {
        return node.lost("the listener has no address that can be listened at", "add a listener with bind", ledger);
    };
    let mut listener = Listener { name: name.clone(), bind: vec![bind], ..Listener::default() };
    let chains = node.get("filter_chains").map_or(&[][..], Node::list);
    if let Some(rest) = chains.get(1..) {
        for chain in rest {
            chain.lost("a listener has one chain", "routes by host, or a listener for each", ledger);
        }
    }
    let Some(chain) = chains.first() else {
        return node.lost("the listener has no filters", "add a listener with a pool", ledger);
    };
    tls(chain, &mut listener, ledger);
    let mut routes = Vec::new();
    for filter in chain.get("filters").map_or(&[][..], Node::list) {
        let kind = filter.take("name", ledger).unwrap_or_default().to_string();
        let Some(config) = filter.get("typed_config") else { continue };
        if let Some(of) = config.get("@type") {
            of.carried(ledger);
        }
        if kind.ends_with("tcp_proxy") {
            listener.is_tcp = true;
            listener.pool = config.take("cluster", ledger).map(name_of);
            config.dropped("sessions are counted and logged by their listener", ledger);
        } else if kind.ends_with("http_connection_manager") {
            manager(config, &mut listener, &mut routes, target, ledger);
        } else {
            config.lost("this filter has no counterpart", "see the keys of listeners and routes", ledger);
        }
    }
    crate::reconcile::reconcile(&mut routes, "Envoy", ledger);
    for route in &mut routes {
        route.matching.conds.insert(0, Cond::one_of(Key::Listener, [name.clone()]));
    }
    if let Some(filters) = node.get("listener_filters") {
        filters.dropped("server names are read where they are needed", ledger);
    }
    target.routes.extend(routes);
    target.listeners.push(listener);
}

fn tls(chain: &Node, listener: &mut Listener, ledger: &mut Ledger) {
    if let Some(matching) = chain.get("filter_chain_match") {
        matching.lost("connections are not chosen by the chain", "match.host of a [[route]]", ledger);
    }
    let Some(config) = chain.at("transport_socket.typed_config") else { return };
    let mut files: Vec<Value> = Vec::new();
    for certificate in config.at("common_tls_context.tls_certificates").map_or(&[][..], Node::list) {
        let cert = certificate.take("certificate_chain.filename", ledger);
        if let (Some(cert), Some(key)) = (cert, certificate.take("private_key.filename", ledger)) {
            files.push(Table::one("cert", cert).with("key", key).into());
        }
    }
    match files.is_empty() {
        true => {
            listener.set.put("tls.self_signed", true);
            ledger.changes(
                config.line,
                "its certificates are not in files: a self-signed one is used",
                "tls.certificates of the listener",
            );
        }
        false => drop(listener.set.put("tls.certificates", Value::List(files))),
    }
    if config.take("require_client_certificate", ledger) == Some("true")
        && let Some(ca) = config.take("common_tls_context.validation_context.trusted_ca.filename", ledger)
    {
        listener.set.put("tls.client_auth", Table::one("ca", ca));
    }
    for key in ["@type", "common_tls_context.alpn_protocols", "common_tls_context.tls_params"] {
        if let Some(node) = config.at(key) {
            node.dropped("HTTP/2 and HTTP/1.1 are offered, with TLS 1.2 and 1.3", ledger);
        }
    }
    if let Some(socket) = chain.get("transport_socket") {
        socket.take("name", ledger);
        socket.lost("TLS has no such setting here", "tls of the listener", ledger);
    }
}

/// The connection manager: its routes, and settings of the listener.
fn manager(config: &Node, listener: &mut Listener, routes: &mut Vec<Route>, target: &mut Target, ledger: &mut Ledger) {
    for host in config.at("route_config.virtual_hosts").map_or(&[][..], Node::list) {
        let name = name_of(host.take("name", ledger).unwrap_or("host"));
        let domains: Vec<String> =
            host.texts("domains", ledger).into_iter().map(|domain| domain.to_ascii_lowercase()).collect();
        let mut own = Match::default();
        if !domains.iter().any(|domain| domain == "*") {
            let (fit, other): (Vec<String>, Vec<String>) = domains
                .into_iter()
                .partition(|domain| !domain.ends_with('*') && (!domain.contains('*') || domain.starts_with("*.")));
            if !other.is_empty() || fit.is_empty() {
                ledger.changes(
                    host.line,
                    "a domain with another wildcard than `*.x` is left out",
                    "header = { Host = { prefix = \"NAME\" } } in match",
                );
            }
            if fit.is_empty() {
                host.lost("none of its domains was carried over", "write its [[route]]s by hand", ledger);
                continue;
            }
            // A port in a domain is compared there, and not here.
            let bare = fit.iter().map(|domain| domain.split(':').next().unwrap_or(domain).to_string());
            own.conds.push(Cond::one_of(Key::Host, bare));
        }
        let filters = route::fields(host, ledger);
        let mut theirs = Vec::new();
        for node in host.get("routes").map_or(&[][..], Node::list) {
            for mut route in route::read(node, &name, target, ledger) {
                let mut set = filters.clone();
                set.merge(&route.set);
                route.set = set;
                theirs.push(route);
            }
        }
        for route in theirs {
            match own.and(&route.matching) {
                Ok(matching) => routes.push(Route { matching, ..route }),
                Err(_) => ledger.dropped(route.line, "no request of this host fulfils it"),
            }
        }
        if host.take("require_tls", ledger).is_some_and(|which| which != "NONE") {
            ledger.changes(
                host.line,
                "the redirect to HTTPS is a key of the listener",
                "redirect_https of the listener on port 80",
            );
        }
        host.lost("a virtual host has no such setting here", "see the keys of a [[route]]", ledger);
    }
    if let Some(filters) = config.get("http_filters") {
        for filter in filters.list() {
            if auth::read(filter, config, &listener.name, routes, ledger) || compression::read(filter, routes, ledger) {
                continue;
            }
            let is_router = filter.at("name").and_then(Node::text).is_some_and(|name| name.ends_with("router"));
            match is_router {
                true => filter.dropped("requests are always routed", ledger),
                false => filter.lost(
                    "this filter is not carried over",
                    "see the filters of a [[route]]: limits, cors, access and others",
                    ledger,
                ),
            }
        }
    }
    if let Some(log) = config.get("access_log") {
        log.lost("the access log is off unless it is set", "telemetry.access_log.path = \"stdout\"", ledger);
    }
    if config.take("codec_type", ledger) == Some("HTTP2") && listener.set.get("tls").is_none() {
        listener.set.put("h2c", true);
    }
    for key in [
        "stat_prefix",
        "use_remote_address",
        "generate_request_id",
        "server_name",
        "upgrade_configs",
        "@type",
        "route_config.name",
        "normalize_path",
        "merge_slashes",
    ] {
        if let Some(node) = config.at(key) {
            node.dropped("it is the default here, or names figures", ledger);
        }
    }
    if let Some(rds) = config.get("rds") {
        rds.lost(
            "its routes are not in the file",
            "[provider.xds] takes listeners and routes of a control plane",
            ledger,
        );
    }
    config.lost(
        "the connection manager has no such setting here",
        "see timeouts, limits and trusted_proxies of the listener",
        ledger,
    );
}
