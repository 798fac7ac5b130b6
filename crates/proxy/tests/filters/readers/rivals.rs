//! Table of the spellings that pass a rule for `/admin` in each proxy: evenkeel with each setting of `paths`, and NGINX,
//! HAProxy and Envoy as they are and with all that they can do about paths.

use super::{Process, READERS, Reader, SPELLINGS, passes, proxy};
use crate::support::haproxy::Haproxy;
use crate::support::nginx::{Directory, Nginx};
use crate::support::{listening, own_addr, tool};
use evenkeel_peers::installed;
use std::any::Any;
use std::net::SocketAddr;

/// A running proxy with a rule for `/admin`, and its address.
type Rival = (SocketAddr, Box<dyn Any>);

/// Actions of HAProxy that change paths, decoding first, `..` last.
const NORMALIZE: &str = "http-request normalize-uri percent-decode-unreserved
http-request normalize-uri percent-to-uppercase
http-request normalize-uri fragment-strip
http-request normalize-uri path-merge-slashes
http-request normalize-uri path-strip-dot
http-request normalize-uri path-strip-dotdot full";

/// Settings of Envoy about paths.
const CLEAN: &str = r#""normalize_path": true, "merge_slashes": true,"#;

/// Starts a proxy in front of an endpoint.
type Start = fn(SocketAddr) -> Rival;

const PROXIES: [(&str, Start); 10] = [
    ("none", |to| (to, Box::new(()))),
    ("evenkeel", |to| evenkeel(to, "refuse")),
    ("evenkeel, `normalise`", |to| evenkeel(to, "normalise")),
    ("evenkeel, `as_sent`", |to| evenkeel(to, "as_sent")),
    ("NGINX", nginx),
    ("HAProxy", |to| haproxy(to, "")),
    ("HAProxy, `normalize-uri`", |to| haproxy(to, NORMALIZE)),
    ("Envoy", |to| envoy(to, "")),
    ("Envoy, `UNESCAPE_AND_FORWARD`", |to| envoy(to, "UNESCAPE_AND_FORWARD")),
    ("Envoy, `REJECT_REQUEST`", |to| envoy(to, "REJECT_REQUEST")),
];

fn evenkeel(to: SocketAddr, paths: &str) -> Rival {
    let proxy = proxy(to, paths);
    (proxy.addr(), Box::new(proxy))
}

fn nginx(to: SocketAddr) -> Rival {
    let deny = "location /admin/ { return 403; } location = /admin { return 403; }";
    let nginx = Nginx::with(&format!("listen $BIND; location / {{ proxy_pass http://{to}; }} {deny}"));
    (nginx.addr, Box::new(nginx))
}

fn haproxy(to: SocketAddr, normalize: &str) -> Rival {
    let haproxy = Haproxy::start(&format!(
        "global\nexpose-experimental-directives\nfrontend web\nbind $BIND\n{normalize}\n\
         http-request deny if {{ path /admin }} || {{ path_beg /admin/ }}\ndefault_backend web\n\
         backend web\nserver one {to}"
    ));
    (haproxy.addr, Box::new(haproxy))
}

/// `action`: the setting for escaped slashes, beside [`CLEAN`]; empty for Envoy without settings.
fn envoy(to: SocketAddr, action: &str) -> Rival {
    let (folder, addr) = (Directory::new(), own_addr());
    let at = |addr: SocketAddr| {
        let (ip, port) = (addr.ip(), addr.port());
        format!(r#"{{ "socket_address": {{ "address": "{ip}", "port_value": {port} }} }}"#)
    };
    let clean = match action {
        "" => String::new(),
        action => format!(r#"{CLEAN} "path_with_escaped_slashes_action": "{action}","#),
    };
    let types = "type.googleapis.com/envoy.extensions.filters";
    let config = format!(
        r#"{{ "static_resources": {{
            "listeners": [{{ "address": {bind}, "filter_chains": [{{ "filters": [{{ "name": "http", "typed_config": {{
                "@type": "{types}.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "web", "delayed_close_timeout": "0s", {clean}
                "http_filters": [{{ "name": "router", "typed_config": {{ "@type": "{types}.http.router.v3.Router" }} }}],
                "route_config": {{ "virtual_hosts": [{{ "name": "all", "domains": ["*"], "routes": [
                    {{ "match": {{ "path_separated_prefix": "/admin" }}, "direct_response": {{ "status": 403 }} }},
                    {{ "match": {{ "prefix": "/" }}, "route": {{ "cluster": "web" }} }}
                ] }}] }}
            }} }}] }}] }}],
            "clusters": [{{ "name": "web", "connect_timeout": "5s", "load_assignment": {{ "cluster_name": "web",
                "endpoints": [{{ "lb_endpoints": [{{ "endpoint": {{ "address": {endpoint} }} }}] }}] }} }}]
        }} }}"#,
        bind = at(addr),
        endpoint = at(to),
    );
    let file = folder.0.join("envoy.json");
    std::fs::write(&file, config).expect("a file of ours");
    let mut envoy = tool("envoy");
    envoy.arg("-c").arg(file).args(["--concurrency", "1", "--disable-hot-restart", "-l", "off"]);
    (addr, Box::new(Process { child: listening(envoy, addr), _files: Some(folder) }))
}

#[test]
#[ignore = "prints the table beside rivals: Envoy comes with scripts/setup.sh bench"]
fn the_table_of_spellings_beside_rivals() {
    if !installed(&["nginx", "haproxy", "envoy", "node", "go", "python3", "java", "javac"]) {
        return;
    }
    let readers: Vec<Reader> = READERS.iter().filter_map(|start| start()).collect();
    // For each proxy, the spellings that pass it to each endpoint.
    let through =
        |start: fn(SocketAddr) -> Rival| readers.iter().map(|reader| passes(start(reader.addr).0)).collect::<Vec<_>>();
    let all: Vec<_> = PROXIES.iter().map(|(_, start)| through(*start)).collect();
    let line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        println!("| {first} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    line("Sent", &mut PROXIES.iter().map(|(name, _)| (*name).to_owned()));
    println!("|---{}|", "|---".repeat(PROXIES.len()));
    for path in SPELLINGS {
        let reached = |of: &Vec<Vec<&str>>| of.iter().filter(|passed| passed.contains(&path)).count();
        line(&format!("`{path}`"), &mut all.iter().map(|of| reached(of).to_string()));
    }
    let any = |of: &Vec<Vec<&str>>| SPELLINGS.iter().filter(|path| of.iter().any(|all| all.contains(path))).count();
    line("spellings that reach an endpoint", &mut all.iter().map(|of| any(of).to_string()));
    for (at, reader) in readers.iter().enumerate() {
        line(&format!("of them: {}", reader.name), &mut all.iter().map(|of| of[at].len().to_string()));
    }
    for (name, passed) in [1, 2].map(|at| (PROXIES[at].0, &all[at])) {
        assert!(passed.iter().all(Vec::is_empty), "{name}: {passed:?}");
    }
}
