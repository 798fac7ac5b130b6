//! Listeners: addresses, filter chains, and the contents of their HTTP connection managers. See [`ListenerResource`].

use crate::action::{scaled, upgrades};
use crate::cluster::from_here;
use crate::matching::host;
use crate::names;
use crate::node::{Node, TIME_MAX};
use crate::route::RouteConfiguration;
use crate::spelling;
use crate::tls::with_clients;
use evenkeel_config::entry::address;
use evenkeel_config::plan::{Cidr, HostPattern, Listener, ListenerTls, Mode, Underscores};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Listener filters that only detect the properties that filter chains match.
const FINDERS: [&str; 2] = ["TlsInspector", "HttpInspector"];

/// Types of filters of a chain that refuse no client, and leave bytes as they are. A chain is not used without others.
const OPEN_FILTERS: [&str; 8] = [
    ".kafka_broker.",
    ".mongo_proxy.",
    ".mysql_proxy.",
    ".set_filter_state.",
    ".zookeeper_proxy.",
    "MetadataExchange",
    "stats.PluginConfig",
    ".thrift_to_metadata.",
];

/// A `Listener`, with the requests or sessions of its filter chains.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerResource {
    pub name: String,
    pub listener: Listener,
    pub chains: Vec<Chain>,
}

/// Clients that a filter chain accepts, and their destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Position in `filter_chains`; the default chain is behind them.
    pub position: usize,
    /// Server names by which clients choose it; empty = any.
    pub hosts: Vec<HostPattern>,
    pub to: ChainTo,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ChainTo {
    /// Requests, by a route configuration of the listener.
    Routes(Arc<RouteConfiguration>, Idle),
    /// Requests, by a route configuration of this name.
    NamedRoutes(String, Idle),
    /// Sessions, to clusters with their weights.
    Clusters(Vec<(String, u32)>, Idle),
}

/// Idle time after which a request or session ends; `None` = the default of the plan.
pub type Idle = Option<Duration>;

impl ListenerResource {
    /// Reads a listener.
    ///
    /// # Errors
    /// The field that cannot be kept, with its place.
    pub fn of(node: &Node<'_>) -> Result<ListenerResource, String> {
        let name = node.text("name").unwrap_or_default().to_owned();
        let first = node.node("address").ok_or("it has no address")?;
        if node.wrapped("bind_to_port") == Some(0) {
            return Err("bind_to_port: others lead to it, and it does not listen by itself".to_owned());
        }
        // Without it, chains would get the clients of others.
        if node.is_of_file() && node.has("filter_chain_matcher") {
            return Err("filter_chain_matcher has no counterpart".to_owned());
        }
        let more: Vec<_> = node.nodes("additional_addresses").collect();
        let more = more.iter().filter_map(|more| more.node("address"));
        let bind = std::iter::once(first).chain(more).map(bind).collect::<Result<Vec<_>, _>>()?;
        let mut listener = Listener { name: names::of(&name).into(), bind, ..Listener::default() };
        for filter in node.nodes("listener_filters") {
            let read = listener_filter(filter, &mut listener);
            filter.part(read).map_err(|why| format!("listener_filters: {why}"))?;
        }
        let defaults = node.node("default_filter_chain");
        let all: Vec<_> = node.nodes("filter_chains").map(|chain| (chain, false)).collect();
        let all = all.into_iter().chain(defaults.map(|chain| (chain, true)));
        let (mut chains, mut whole) = (Vec::new(), None::<Listener>);
        for (position, (chain, is_default)) in all.enumerate() {
            let place = |why: String| format!("filter_chains[{position}]: {why}");
            let read = read(chain, position, listener.clone(), is_default).and_then(|(read, made)| {
                let joined = whole.as_ref().map_or(Ok(made.clone()), |before| joined(before, made))?;
                Ok((read, joined))
            });
            if let Some((read, joined)) = chain.part(read).map_err(place)? {
                whole = Some(joined);
                chains.push(read);
            }
        }
        let mut listener = whole.ok_or("it has no filter_chains")?;
        // Addresses of the same port and family may be equal here.
        listener.bind.dedup();
        Ok(ListenerResource { name, listener, chains })
    }

    /// Names of the route configurations that come from elsewhere.
    pub fn route_names(&self) -> impl Iterator<Item = &str> {
        self.chains.iter().filter_map(|chain| match &chain.to {
            ChainTo::NamedRoutes(name, _) => Some(name.as_str()),
            ChainTo::Routes(..) | ChainTo::Clusters(..) => None,
        })
    }
}

fn bind(node: &Node<'_>) -> Result<SocketAddr, String> {
    let socket = node.node("socket_address").ok_or("address: it is not a socket_address")?;
    let (host, port) = (socket.text("address").unwrap_or_default(), socket.number("port_value"));
    match (host.parse::<IpAddr>(), u16::try_from(port)) {
        // It listens on all addresses.
        (Ok(ip), Ok(port)) if ip.is_unspecified() && port > 0 => Ok(SocketAddr::new(ip, port)),
        _ => address(host, port).map_err(|why| format!("address: {why}")),
    }
}

fn listener_filter(filter: &Node<'_>, listener: &mut Listener) -> Result<(), String> {
    let name = filter.text("name").unwrap_or_default();
    let kind = filter.extension("typed_config").map_or(name, |config| config.kind);
    let is = |word: &str| kind.ends_with(word);
    if FINDERS.iter().any(|finder| is(finder)) || is("tls_inspector") || is("http_inspector") {
        return Ok(());
    }
    if is("proxy_protocol.v3.ProxyProtocol") || is("filters.listener.proxy_protocol") {
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        listener.accept_proxy_protocol = all.into_iter().filter_map(|all| Cidr::around(all, 0)).collect();
        return Ok(());
    }
    Err(format!("{name:?} has no counterpart"))
}

/// Reads a filter chain. Returns it with the listener as it would be with this chain alone.
fn read(
    node: &Node<'_>,
    position: usize,
    mut listener: Listener,
    is_default: bool,
) -> Result<(Chain, Listener), String> {
    node.text("name");
    let mut hosts = Vec::new();
    if let Some(matching) = node.node("filter_chain_match") {
        let read = server_names(matching, node.has("transport_socket"));
        hosts = matching.whole(read).map_err(|why| format!("filter_chain_match.{why}"))?;
        if is_default && !hosts.is_empty() {
            return Err("filter_chain_match: the default chain has none".to_owned());
        }
    }
    if let Some(socket) = node.node("transport_socket") {
        listener.tls = transport(socket).map_err(|why| format!("transport_socket: {why}"))?;
    }
    let mut to = None;
    for filter in node.nodes("filters") {
        let name = filter.text("name").unwrap_or_default();
        let place = |why: String| format!("filters {name:?}: {why}");
        let config = filter.extension("typed_config").ok_or_else(|| place("it has no typed_config".to_owned()))?;
        let inner = config.node.as_ref();
        let read = match inner.filter(|_| to.is_none()) {
            Some(inner) if config.kind.ends_with("HttpConnectionManager") => manager(inner, &mut listener),
            Some(inner) if config.kind.ends_with("TcpProxy") => {
                listener.mode = Mode::Tcp;
                proxy(inner)
            }
            _ if to.is_none() && !OPEN_FILTERS.iter().any(|word| config.kind.contains(word)) => {
                return Err(place("it may refuse clients, and has no counterpart".to_owned()));
            }
            _ => Err("it has no counterpart".to_owned()),
        };
        to = filter.part(read).map_err(place)?.or(to);
    }
    Ok((Chain { position, hosts, to: to.ok_or("it has no filters")? }, listener))
}

/// Server names of the clients of a filter chain.
fn server_names(matching: &Node<'_>, has_tls: bool) -> Result<Vec<HostPattern>, String> {
    let mut hosts = Vec::new();
    for name in matching.texts("server_names") {
        hosts.extend(host(name).map_err(|why| format!("server_names: {why}"))?);
    }
    // Behind a handshake of the proxy's own, clients choose among the protocols that are offered.
    if !has_tls && matching.has("application_protocols") {
        return Err("application_protocols: sessions are not told apart by the protocols that clients offer".to_owned());
    }
    matching.mark("application_protocols");
    match (matching.text("transport_protocol"), has_tls) {
        (None | Some(""), _) | (Some("tls"), _) | (Some("raw_buffer"), false) => Ok(hosts),
        (Some(other), _) => Err(format!("transport_protocol: {other:?} is not kept")),
    }
}

/// The listener of two filter chains.
fn joined(before: &Listener, made: Listener) -> Result<Listener, String> {
    let certificates =
        |listener: &Listener| listener.tls.as_ref().map(|tls| tls.certificates.clone()).unwrap_or_default();
    let new: Vec<_> = certificates(&made).into_iter().filter(|one| !certificates(before).contains(one)).collect();
    let bare = |listener: &Listener| {
        let tls = listener.tls.clone().map(|tls| ListenerTls { certificates: Vec::new(), ..tls });
        Listener { tls, paths: before.paths, underscores: before.underscores, ..listener.clone() }
    };
    if bare(before) != bare(&made) {
        return Err("it differs from another chain in more than server names, certificates and routes".to_owned());
    }
    let mut all = before.clone();
    (all.paths, all.underscores) = (before.paths.min(made.paths), before.underscores.min(made.underscores));
    if let Some(tls) = &mut all.tls {
        tls.certificates.extend(new);
    }
    Ok(all)
}

fn transport(socket: &Node<'_>) -> Result<Option<ListenerTls>, String> {
    let name = socket.text("name").unwrap_or_default();
    match socket.extension("typed_config") {
        Some(config) if config.kind.ends_with("DownstreamTlsContext") => {
            with_clients(config.node.as_ref().ok_or("it is empty")?).map(Some)
        }
        Some(config) if config.kind.ends_with("RawBuffer") => Ok(None),
        None if name == "envoy.transport_sockets.raw_buffer" => Ok(None),
        _ => Err(format!("{name:?} has no counterpart")),
    }
}

fn manager(node: &Node<'_>, listener: &mut Listener) -> Result<ChainTo, String> {
    // AUTO finds HTTP/2 without TLS by its first bytes.
    listener.h2c = match node.number("codec_type") {
        0 | 2 => listener.tls.is_none(),
        1 => false,
        _ => return Err("codec_type: HTTP/3 has no counterpart".to_owned()),
    };
    for (name, why) in [
        ("forward_client_cert_details", "the field of a client's certificate is not forwarded"),
        ("xff_num_trusted_hops", "proxies in front are trusted by their address"),
    ] {
        if node.number(name) > 0 {
            node.refuse(name, why)?;
        }
    }
    listener.paths = spelling::of_requests(node)?;
    let options = node.node("common_http_protocol_options");
    listener.underscores = options.map_or(Underscores::default(), spelling::of_fields);
    for filter in node.nodes("http_filters") {
        filter.part(http_filter(filter)).map_err(|why| format!("http_filters: {why}"))?;
    }
    upgrades(node)?;
    limits(node, listener);
    let idle = node.duration("stream_idle_timeout").map(|idle| if idle.is_zero() { TIME_MAX } else { idle });
    match (node.node("rds"), node.node("route_config")) {
        (Some(rds), _) => {
            if node.is_of_file() {
                return Err("rds: routes that a control plane has are not in the file".to_owned());
            }
            from_here(rds.node("config_source")).map_err(|why| format!("rds: {why}"))?;
            let name = rds.text("route_config_name").filter(|name| !name.is_empty());
            Ok(ChainTo::NamedRoutes(name.ok_or("rds: it has no route_config_name")?.to_owned(), idle))
        }
        (None, Some(inline)) => {
            let routes = RouteConfiguration::of(inline).map_err(|why| format!("route_config: {why}"))?;
            Ok(ChainTo::Routes(Arc::new(routes), idle))
        }
        (None, None) => Err("it has no routes that can be kept: rds or route_config".to_owned()),
    }
}

fn limits(node: &Node<'_>, listener: &mut Listener) {
    let positive = |node: &Node<'_>, name| node.duration(name).filter(|time| !time.is_zero());
    let day = Duration::from_secs(86_400);
    if let Some(time) = positive(node, "request_headers_timeout") {
        listener.timeouts.client_header = time.clamp(Duration::from_millis(10), day);
    }
    if let Some(common) = node.node("common_http_protocol_options") {
        if let Some(time) = positive(common, "idle_timeout") {
            listener.timeouts.client_idle = time.clamp(Duration::from_millis(10), day);
        }
        if let Some(most) = common.wrapped("max_headers_count") {
            let most = common.bounded("max_headers_count", most, 1..=256);
            listener.limits.header_count = usize::try_from(most).unwrap_or(256);
        }
    }
    if let Some(kb) = node.wrapped("max_request_headers_kb") {
        let kb = node.bounded("max_request_headers_kb", kb, 1..=128);
        listener.limits.headers = usize::try_from(kb).unwrap_or(128) << 10;
    }
    if let Some(h2) = node.node("http2_protocol_options")
        && let Some(streams) = h2.wrapped("max_concurrent_streams")
    {
        let streams = h2.bounded("max_concurrent_streams", streams, 1..=10_000);
        listener.http2.streams = u32::try_from(streams).unwrap_or(100);
    }
}

/// Checks that a filter does nothing to requests that would be lost.
fn http_filter(filter: &Node<'_>) -> Result<(), String> {
    let name = filter.text("name").unwrap_or_default();
    let kind = filter.extension("typed_config").map_or(name, |config| config.kind);
    let is_router = kind.ends_with("filters.http.router.v3.Router") || kind == "envoy.filters.http.router";
    // Clients of a control plane may leave out those that are optional. A file is of Envoy, which has them.
    let (is_optional, is_disabled) = (filter.flag("is_optional"), filter.flag("disabled"));
    let may_go = is_disabled || is_optional && !filter.is_of_file();
    match is_router || may_go {
        true => Ok(()),
        false => Err(format!("{name:?} is not kept; evenkeel has only the router")),
    }
}

fn proxy(node: &Node<'_>) -> Result<ChainTo, String> {
    let idle = node.duration("idle_timeout").map(|idle| if idle.is_zero() { TIME_MAX } else { idle });
    if let Some(cluster) = node.text("cluster").filter(|cluster| !cluster.is_empty()) {
        return Ok(ChainTo::Clusters(vec![(cluster.to_owned(), 1)], idle));
    }
    let weighted = node.node("weighted_clusters").ok_or("it has no cluster that can be kept")?;
    let mut all = Vec::new();
    for part in weighted.nodes("clusters") {
        all.push((part.text("name").unwrap_or_default().to_owned(), part.number("weight").max(1)));
    }
    match all.is_empty() {
        true => Err("weighted_clusters: it has none".to_owned()),
        false => Ok(ChainTo::Clusters(scaled(all, weighted), idle)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{InUse, pieces};
    use crate::schema::LISTENER;
    use crate::testing::encoded;
    use crate::wire::resource;
    use evenkeel_config::plan::Paths;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn read(json: &Value) -> Result<ListenerResource, String> {
        let bytes = encoded(&LISTENER, json);
        let node = resource(&bytes, &LISTENER).expect("a message");
        let read = ListenerResource::of(&node)?;
        let mut unread = Vec::new();
        node.unread("", &mut unread);
        if unread.is_empty() { Ok(read) } else { Err(unread.join(", ")) }
    }

    fn listener(chains: Value) -> Value {
        let address = json!({ "socket_address": { "address": "0.0.0.0", "port_value": 443 } });
        json!({ "name": "main", "address": address, "filter_chains": chains })
    }

    fn manager(cluster: &str) -> Value {
        let route = json!({ "match": { "prefix": "/" }, "route": { "cluster": cluster } });
        let routes =
            json!({ "name": cluster, "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [route] }] });
        json!({ "name": "http", "typed_config": { "@type": "HttpConnectionManager", "route_config": routes } })
    }

    fn tls(file: &str) -> Value {
        let pair = json!({ "certificate_chain": { "filename": file }, "private_key": { "filename": "key.pem" } });
        json!({ "typed_config": { "@type": "DownstreamTlsContext", "common_tls_context": { "tls_certificates": [pair] } } })
    }

    fn chain(names: &[&str], file: &str, cluster: &str) -> Value {
        json!({ "filter_chain_match": { "server_names": names }, "filters": [manager(cluster)], "transport_socket": tls(file) })
    }

    #[test]
    fn chains_by_server_names_are_certificates_and_hosts_of_one_listener() {
        let json = listener(json!([
            chain(&["a.test"], "a.pem", "a"),
            chain(&["*.b.test"], "b.pem", "b"),
            chain(&[], "c.pem", "c")
        ]));
        let listener = read(&json).expect("it can be kept");
        let tls = listener.listener.tls.clone().expect("TLS");
        assert_eq!(tls.certificates.len(), 3);
        assert!(!listener.listener.h2c, "it is for listeners without TLS");
        let in_use = InUse { listeners: [("main".to_owned(), Arc::new(listener))].into(), ..InUse::default() };
        let part = pieces(&in_use);
        let shown = |hosts: &[HostPattern]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let routes: Vec<_> = part
            .routes
            .iter()
            .map(|piece| format!("{} {}", shown(&piece.value.matching.hosts), piece.value.action))
            .collect();
        assert_eq!(routes, ["a.test a", "*.b.test b", " c"]);
    }

    #[test]
    fn settings_of_a_connection_manager_are_those_of_the_listener() {
        let mut chain = json!({ "filters": [manager("web")] });
        let config = &mut chain["filters"][0]["typed_config"];
        config["request_headers_timeout"] = json!(5);
        config["stream_idle_timeout"] = json!(0);
        config["max_request_headers_kb"] = json!(96);
        config["common_http_protocol_options"] = json!({ "idle_timeout": 30, "max_headers_count": 50 });
        config["http2_protocol_options"] = json!({ "max_concurrent_streams": 7 });
        config["http_filters"] = json!([{ "name": "x", "is_optional": true }, { "name": "envoy.filters.http.router" }]);
        config["access_log"] = json!([{}]);
        let mut json = listener(json!([chain]));
        json["listener_filters"] = json!([{ "name": "tls", "typed_config": { "@type": "a.TlsInspector" } },
            { "name": "envoy.filters.listener.proxy_protocol" }]);
        let read = read(&json).expect("it can be kept");
        let Listener { timeouts, limits, http2, h2c, accept_proxy_protocol, .. } = read.listener;
        assert_eq!((timeouts.client_header.as_secs(), timeouts.client_idle.as_secs()), (5, 30));
        assert_eq!((limits.headers, limits.header_count, http2.streams, h2c), (96 << 10, 50, 7, true));
        assert_eq!(accept_proxy_protocol.len(), 2);
        assert!(matches!(&read.chains[0].to, ChainTo::Routes(_, Some(idle)) if *idle == TIME_MAX));
    }

    #[test]
    fn sessions_are_split_by_the_shares_of_weights_that_are_too_large() {
        let parts = json!([{ "name": "a", "weight": 4_000_000 }, { "name": "b", "weight": 1_000_000 }]);
        let config = json!({ "@type": "TcpProxy", "weighted_clusters": { "clusters": parts } });
        let proxy = json!({ "name": "tcp", "typed_config": config });
        let read = read(&listener(json!([{ "filters": [proxy] }]))).expect("it can be kept");
        let wanted = vec![("a".to_owned(), 1_000_000), ("b".to_owned(), 250_000)];
        assert_eq!(read.chains[0].to, ChainTo::Clusters(wanted, None));
    }

    #[test]
    fn protection_that_is_not_kept_is_noted_if_it_is_set() {
        let noted = |settings: &[(&str, Value)]| {
            let mut chain = json!({ "filters": [manager("web")] });
            for (key, value) in settings {
                chain["filters"][0]["typed_config"][*key] = value.clone();
            }
            let bytes = encoded(&LISTENER, &listener(json!([chain])));
            let node = resource(&bytes, &LISTENER).expect("a message");
            ListenerResource::of(&node).expect("it can be kept");
            let (mut unread, mut all) = (Vec::new(), BTreeSet::new());
            node.unread("", &mut unread);
            node.noted(&mut all);
            assert_eq!(unread, [""; 0]);
            all.into_iter().collect::<Vec<_>>().join(", ")
        };
        assert_eq!(noted(&[("path_with_escaped_slashes_action", json!(2))]), "path_with_escaped_slashes_action");
        let none = [
            ("normalize_path", json!("\u{8}\u{1}")),
            ("merge_slashes", json!(true)),
            ("path_with_escaped_slashes_action", json!(1)),
            ("server_name", json!("x")),
        ];
        assert_eq!(noted(&none), "");
    }

    #[test]
    fn settings_of_paths_become_those_of_the_listener() {
        let paths = |settings: &[(&str, Value)]| {
            let mut chain = json!({ "filters": [manager("web")] });
            for (key, value) in settings {
                chain["filters"][0]["typed_config"][*key] = value.clone();
            }
            read(&listener(json!([chain]))).expect("it can be kept").listener.paths
        };
        let names = |action: u64| {
            let mut chain = json!({ "filters": [manager("a")] });
            let options = json!({ "headers_with_underscores_action": action });
            chain["filters"][0]["typed_config"]["common_http_protocol_options"] = options;
            read(&listener(json!([chain]))).expect("it can be kept").listener.underscores
        };
        assert_eq!([0, 1, 2].map(names), [Underscores::Keep, Underscores::Refuse, Underscores::Drop]);
        let normalize = || ("normalize_path", json!("\u{8}\u{1}"));
        let escaped = |action: u64| ("path_with_escaped_slashes_action", json!(action));
        assert_eq!(paths(&[]), Paths::AsSent);
        assert_eq!(paths(&[("normalize_path", json!({})), escaped(1)]), Paths::AsSent);
        // Istio sets these two everywhere.
        assert_eq!(paths(&[normalize(), ("merge_slashes", json!(true))]), Paths::Normalise);
        assert_eq!(paths(&[("merge_slashes", json!(true)), escaped(1)]), Paths::Normalise);
        assert_eq!(paths(&[escaped(4)]), Paths::Normalise);
        assert_eq!(paths(&[normalize(), escaped(2)]), Paths::Refuse);
    }

    #[test]
    fn listeners_that_the_plan_cannot_have_are_refused_with_the_field() {
        let with = |key: &str, value: Value| {
            let mut chain = json!({ "filters": [manager("web")] });
            chain["filters"][0]["typed_config"][key] = value;
            listener(json!([chain]))
        };
        let inline = json!({ "certificate_chain": { "inline_string": "MIIE" }, "private_key": { "filename": "k" } });
        let inline = json!({ "@type": "DownstreamTlsContext", "common_tls_context": { "tls_certificates": [inline] } });
        let sds = json!({ "@type": "DownstreamTlsContext", "common_tls_context": { "tls_certificate_sds_secret_configs": [{}] } });
        let plain = json!({ "filters": [manager("web")] });
        for (json, why) in [
            (json!({ "name": "a" }), "it has no address"),
            (json!({ "name": "a", "address": { "pipe": {} } }), "not a socket_address"),
            (listener(json!([])), "no filter_chains"),
            (
                listener(json!([{ "filters": [{ "name": "redis", "typed_config": { "@type": "a.RedisProxy" } }] }])),
                "filters \"redis\": it may refuse clients",
            ),
            (
                listener(json!([{ "filter_chain_match": { "source_ports": 5 }, "filters": [manager("a")] }])),
                "filter_chain_match.source_ports",
            ),
            (
                listener(
                    json!([{ "filter_chain_match": { "application_protocols": ["h2"] }, "filters": [manager("a")] }]),
                ),
                "filter_chain_match.application_protocols: sessions",
            ),
            (listener(json!([plain, chain(&["a.test"], "a.pem", "a")])), "filter_chains[1]: it differs"),
            (
                listener(json!([{ "filters": [manager("a")], "transport_socket": { "typed_config": inline } }])),
                "certificate_chain: its text is not PEM",
            ),
            (
                listener(json!([{ "filters": [manager("a")], "transport_socket": { "typed_config": sds } }])),
                "tls_certificates: it has no certificate",
            ),
            (
                with("http_filters", json!([{ "name": "lua", "typed_config": { "@type": "a.Lua" } }])),
                "\"lua\" is not kept",
            ),
            (with("xff_num_trusted_hops", json!(1)), "xff_num_trusted_hops"),
            (with("local_reply_config", json!({})), "filter_chains.filters.typed_config.local_reply_config"),
            (with("upgrade_configs", json!([{ "upgrade_type": "CONNECT" }])), "\"CONNECT\" is not forwarded"),
        ] {
            let refused = read(&json).expect_err(why);
            assert!(refused.contains(why), "{refused}: {why}");
        }
    }
}
