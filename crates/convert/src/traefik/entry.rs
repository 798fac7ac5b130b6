//! Entry points, which become listeners, with the options of TLS that their routers name.

use super::effect::Effect;
use super::router::Router;
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Draft, Key, Listener, Route, Target, Test, Value, cert_files, name_of};
use crate::report::OPEN;
use crate::tree::Node;
use evenkeel_config::plan;
use std::collections::{BTreeMap, BTreeSet};

/// An entry point that becomes a listener.
#[derive(Default)]
pub(super) struct Entry {
    pub bind: Option<String>,
    pub is_tls: bool,
    /// True if all of its routers have TLS, whatever their own settings are.
    pub is_tls_by_default: bool,
    pub redirects: bool,
    has_h3: bool,
    /// Port of HTTP/3 in `Alt-Svc`.
    h3_port: Option<u64>,
    pub acme: Vec<String>,
    /// Middlewares of all of its routers, before their own.
    pub middlewares: Vec<String>,
    trusted: Vec<String>,
    /// Options of TLS, if all of its routers have the same.
    options: Draft<plan::Listener>,
    has_client_auth: bool,
}

/// Reads the entry points of a static part, and adds those that only routers name.
pub(super) fn read(dynamic: &Node, routers: &[Router<'_>], ledger: &mut Ledger) -> BTreeMap<String, Entry> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for (name, node) in dynamic.get("entryPoints").map_or(&[][..], Node::entries) {
        let address = node.take("address", ledger).unwrap_or_default().to_string();
        let is_tls = node.at("http.tls").is_some();
        let redirects = node.at("http.redirections.entryPoint");
        if let Some(to) = redirects {
            to.carried(ledger);
            let reason = "the redirect is answered by 308, on port 443";
            ledger.changes(to.line, reason, "nothing, unless HTTPS has another port");
        }
        if let Some(tls) = node.at("http.tls") {
            tls.carried(ledger);
        }
        let h3 = node.get("http3").filter(|h3| h3.text() != Some("false"));
        if let Some(h3) = h3 {
            h3.carried(ledger);
        }
        let bind = match address.split_once('/').map_or(address.as_str(), |(address, _)| address) {
            port if port.starts_with(':') => format!("[::]{port}"),
            address => address.to_string(),
        };
        let bind = bind.parse::<std::net::SocketAddr>().is_ok().then_some(bind);
        if bind.is_none() || address.ends_with("/udp") {
            ledger.decide(node.line, "it is not an address to listen at for HTTP", "set bind of a listener");
        }
        entries.insert(
            name.clone(),
            Entry {
                bind: bind.filter(|_| !address.ends_with("/udp")),
                is_tls,
                is_tls_by_default: is_tls,
                redirects: redirects.is_some(),
                has_h3: h3.is_some(),
                h3_port: h3.and_then(|h3| h3.get("advertisedPort")?.text()?.parse().ok()),
                middlewares: node.texts("http.middlewares", ledger),
                trusted: node.texts("forwardedHeaders.trustedIPs", ledger),
                ..Entry::default()
            },
        );
    }
    let mut next = 8080;
    for router in routers {
        for name in &router.names {
            let is_new = !entries.contains_key(name);
            let entry = entries.entry(name.clone()).or_default();
            entry.is_tls_by_default |= is_new && name == "websecure";
            entry.is_tls |= router.is_tls || entry.is_tls_by_default;
            if is_new {
                let line = router.node.get("entryPoints").map_or(router.line, |node| node.line);
                entry.bind = Some(guessed(name, &mut next, line, ledger));
            }
        }
    }
    // Two entry points at one port are one address too many.
    let mut taken: Vec<String> = Vec::new();
    for (name, entry) in &mut entries {
        let Some(bind) = &entry.bind else { continue };
        match taken.contains(bind) {
            true => entry.bind = None,
            false => taken.push(bind.clone()),
        }
        if entry.bind.is_none()
            && let Some(router) = routers.iter().find(|router| router.names.contains(name))
        {
            let reason = format!("the address of the entry point \"{name}\" is that of another one");
            ledger.decide(router.line, reason, "set bind of a listener of this name");
        }
    }
    entries
}

/// Address of an entry point that stands in a static file that is not there.
fn guessed(name: &str, next: &mut u16, line: Line, ledger: &mut Ledger) -> String {
    match name {
        "web" | "http" => "[::]:80".to_string(),
        "websecure" | "https" => "[::]:443".to_string(),
        _ => {
            let reason =
                format!("the address of the entry point \"{name}\" stands in the static file: port {next} is a guess");
            ledger.changes(line, reason, "set bind of the listener");
            *next += 1;
            format!("[::]:{}", *next - 1)
        }
    }
}

/// Options of TLS with their name that a router has.
#[derive(Clone, Copy)]
pub(super) struct Options<'n> {
    name: &'n str,
    node: Option<&'n Node>,
    line: Line,
}

/// Returns the options of a router, if it names some or the file has defaults.
pub(super) fn options<'n>(router: &Router<'n>, dynamic: &'n Node) -> Option<Options<'n>> {
    let named = router.node.at("tls.options").and_then(|node| Some((node.text()?, node.line)));
    let (name, line) = named.unwrap_or(("default", router.line));
    let bare = name.split('@').next().unwrap_or(name);
    let node = dynamic.at("tls.options").and_then(|all| all.get(bare));
    let refuses = |node: &Node| node.get("clientAuth").is_some() || node.get("sniStrict").is_some();
    node.map_or(named.is_some(), refuses).then_some(Options { name, node, line })
}

/// Puts the options of TLS that all routers of an entry point have.
pub(super) fn put_options(
    dynamic: &Node,
    routers: &[Router<'_>],
    entries: &mut BTreeMap<String, Entry>,
    ledger: &mut Ledger,
) {
    for (name, entry) in entries.iter_mut().filter(|(_, entry)| entry.is_tls) {
        let own = routers
            .iter()
            .filter(|router| router.names.contains(name) && (router.is_tls || entry.is_tls_by_default))
            .map(|router| router.node.at("tls.options").and_then(Node::text).unwrap_or("default"));
        let own: BTreeSet<&str> = own.map(|name| name.split('@').next().unwrap_or(name)).collect();
        let [only] = own.into_iter().collect::<Vec<_>>()[..] else { continue };
        let Some(node) = dynamic.at("tls.options").and_then(|all| all.get(only)) else { continue };
        match node.take("minVersion", ledger) {
            Some("VersionTLS13") => drop(entry.options.put(key!("tls.min_version"), "1.3")),
            Some(version) if version != "VersionTLS12" => {
                let reason = "the oldest version here is TLS 1.2";
                ledger.changes(node.line, reason, "nothing, unless old clients need it");
            }
            _ => {}
        }
        if node.take("sniStrict", ledger) == Some("true") {
            entry.options.put(key!("tls.unknown_name"), "reject");
        }
        for key in ["cipherSuites", "curvePreferences"] {
            if let Some(node) = node.get(key) {
                node.dropped("the ciphers are those of rustls", ledger);
            }
        }
        let mode = match node.at("clientAuth.clientAuthType").and_then(Node::text) {
            Some("RequireAndVerifyClientCert") => "required",
            Some("VerifyClientCertIfGiven") => "optional",
            _ => continue,
        };
        if let [ca] = node.texts("clientAuth.caFiles", ledger).as_slice() {
            entry.options.put(key!("tls.client_auth.mode"), mode);
            entry.options.put(key!("tls.client_auth.ca"), ca.as_str());
            entry.has_client_auth = true;
            ledger.carried(node.at("clientAuth.clientAuthType").map_or(node.line, |node| node.line));
        }
    }
}

/// Closes the routes of a router whose options of TLS refuse clients that its listeners accept.
pub(super) fn guard(
    options: Options<'_>,
    names: &[&String],
    entries: &BTreeMap<String, Entry>,
    effect: &mut Effect,
    ledger: &mut Ledger,
) {
    let has = |is: fn(&Entry) -> bool| names.iter().all(|name| entries.get(*name).is_some_and(is));
    let Some(node) = options.node else {
        effect.is_closed = true;
        let reason = format!("the options of TLS \"{}\" are not in this file: all clients are refused", options.name);
        return ledger.decide(options.line, reason, "convert the file that has them, too");
    };
    let auth = node.at("clientAuth.clientAuthType");
    if auth.is_some_and(|auth| auth.text() != Some("NoClientCert") && auth.text() != Some("RequestClientCert"))
        && !has(|entry| entry.has_client_auth)
    {
        effect.is_closed = true;
        let line = auth.map_or(node.line, |auth| auth.line);
        let reason = "certificates of clients are asked for by a listener with a single file of authorities, for all of \
                      its routes: all clients are refused";
        ledger.decide(line, reason, "tls.client_auth of a listener for these routes alone, or access of the routes");
        node.lost(reason, OPEN, ledger);
    }
    let is_strict = node.at("sniStrict").and_then(Node::text) == Some("true");
    if is_strict && !has(|entry| entry.options.has(key!("tls.unknown_name"))) {
        let reason = "clients without a known server name are refused by a listener, for all of its routes";
        ledger.decide(node.line, reason, "tls.unknown_name = \"reject\" of the listener");
    }
}

/// Writes the listeners of entry points, with their certificates.
pub(super) fn listeners(dynamic: &Node, entries: BTreeMap<String, Entry>, target: &mut Target, ledger: &mut Ledger) {
    let mut files: Vec<Value> = Vec::new();
    for certificate in dynamic.at("tls.certificates").map_or(&[][..], Node::list) {
        if let (Some(cert), Some(key)) = (certificate.take("certFile", ledger), certificate.take("keyFile", ledger)) {
            files.push(cert_files(cert, key));
        }
        certificate.dropped("certificates are chosen by the names in them", ledger);
    }
    let mut gone: Vec<String> = Vec::new();
    for (name, entry) in entries {
        let Some(bind) = entry.bind else {
            gone.push(name_of(&name));
            continue;
        };
        let mut listener = Listener { name: name_of(&name), bind: vec![bind], ..Listener::default() };
        if !entry.trusted.is_empty() {
            listener.set.put(key!("trusted_proxies"), entry.trusted);
        }
        if entry.redirects {
            listener.set.put(key!("redirect_https"), true);
        } else if entry.is_tls {
            if entry.has_client_auth && !entry.acme.is_empty() {
                // The other challenge connects without a certificate.
                target.root.put(key!("acme.challenge"), "http-01");
            }
            if !listener.certify(files.clone(), entry.acme) {
                listener.comments.push("No certificate is in the input: this one is self-signed.".to_string());
            }
            listener.set.merge(&entry.options);
            match entry.h3_port.filter(|_| entry.has_h3) {
                Some(port) => drop(listener.set.put(key!("http3.port"), port)),
                None if entry.has_h3 => drop(listener.set.put(key!("http3"), true)),
                None => {}
            }
        }
        target.listeners.push(listener);
    }
    for route in &mut target.routes {
        for cond in route.matching.conds.iter_mut().filter(|cond| cond.key == Key::Listener) {
            if let Test::OneOf(names) = &mut cond.test {
                names.retain(|name| !gone.contains(name));
            }
        }
    }
    let is_nowhere =
        |route: &Route| matches!(route.matching.find(&Key::Listener), Some(Test::OneOf(names)) if names.is_empty());
    target.routes.retain(|route| !is_nowhere(route));
    target
        .routes
        .retain(|route| !matches!(&route.action, Action::Pool(pool) if !target.pools.iter().any(|p| p.name == *pool)));
}
