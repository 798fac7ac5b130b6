//! Protection of an Ingress: address lists, passwords, and a service that decides. Protection that cannot be kept closes the
//! Ingress, rather than leaving it open. See [`put`].

use super::annotations::Annotations;
use crate::guard::networks::{is_localhost, local};
use crate::providers::kubernetes::services::backends::{Backends, Variant, Wanted};
use crate::providers::kubernetes::services::certificates::secret_text;
use crate::providers::kubernetes::world::objects::Key;
use crate::providers::kubernetes::world::store::World;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_config::plan::{Access, BasicAuth, Cidr, ForwardAuth, PoolTls, Route, Users};
use evenkeel_config::user_list;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Annotations about passwords. Without `auth-type`, each of them shows that a protection was meant.
const OF_PASSWORDS: [&str; 3] = ["auth-secret", "auth-secret-type", "auth-realm"];

/// Annotations about an authorization service that do not change who is let in. Without `auth-url`, each of them shows
/// that a protection was meant.
const OF_SERVICE: [&str; 14] = [
    "auth-always-set-cookie",
    "auth-cache-duration",
    "auth-cache-key",
    "auth-keepalive",
    "auth-keepalive-requests",
    "auth-keepalive-share-vars",
    "auth-keepalive-timeout",
    "auth-proxy-set-headers",
    "auth-request-redirect",
    "auth-method",
    "auth-response-headers",
    "auth-signin",
    "auth-signin-redirect-param",
    "auth-snippet",
];

/// Parts of names of annotations that are about who is let in, also of those that are not known or mistyped.
const PROTECTING: [&str; 6] = ["auth", "allowlist", "blacklist", "denylist", "source-range", "whitelist"];

/// Puts the protection of an Ingress into a route. Returns the first reason to close the route, if any.
pub fn put(
    annotations: &mut Annotations<'_>,
    namespace: &str,
    world: &World,
    (backends, of): (&mut Backends<'_>, &Arc<str>),
    route: &mut Route,
) -> Option<String> {
    let mut closed = access(annotations, route);
    let why = basic_auth(annotations, namespace, world, route);
    closed = closed.or(why);
    let why = forward_auth(annotations, (world, backends), of, route);
    closed = closed.or(why);
    // An unknown annotation might keep clients out.
    for name in annotations.left().into_iter().filter(|name| PROTECTING.iter().any(|part| name.contains(part))) {
        let is_off = name == "enable-global-auth" && annotations.has(name, "false");
        if OF_SERVICE.contains(&name) || is_off {
            continue;
        }
        annotations.skip(name);
        let why = annotations.refuse(name, "this protection is not kept");
        closed = closed.or(Some(why));
    }
    if annotations.flag("ssl-passthrough") == Some(true) {
        let why = annotations.refuse("ssl-passthrough", "the endpoints would not see the TLS of clients");
        closed = closed.or(Some(why));
    }
    closed
}

/// Networks of an annotation, and why they cannot be kept.
fn networks(annotations: &mut Annotations<'_>, names: &[&str], closed: &mut Option<String>) -> Vec<Cidr> {
    let mut all = Vec::new();
    for name in names {
        let Some(list) = annotations.list(name) else { continue };
        if list.is_empty() {
            let why = annotations.refuse(name, "it has no network");
            closed.get_or_insert(why);
        }
        for text in list {
            match network(text) {
                Some(network) => all.push(network),
                None => {
                    let why = annotations.refuse(name, &format!("\"{text}\" is not a network"));
                    closed.get_or_insert(why);
                }
            }
        }
    }
    all
}

fn network(text: &str) -> Option<Cidr> {
    let (ip, prefix) = match text.split_once('/') {
        Some((ip, prefix)) => (ip, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let ip: IpAddr = ip.parse().ok()?;
    Cidr::around(ip, prefix.unwrap_or(if ip.is_ipv4() { 32 } else { 128 }))
}

fn access(annotations: &mut Annotations<'_>, route: &mut Route) -> Option<String> {
    let mut closed = None;
    let mut allow = networks(annotations, &["whitelist-source-range", "allowlist-source-range"], &mut closed);
    let mut deny = networks(annotations, &["denylist-source-range"], &mut closed);
    allow.sort_unstable();
    deny.sort_unstable();
    allow.dedup();
    deny.dedup();
    let has_allowed = !allow.is_empty();
    // NGINX denies first, and here the longest network decides.
    allow.retain(|network| !deny.iter().any(|denied| denied.contains_network(network)));
    if has_allowed && allow.is_empty() {
        return Some(annotations.refuse("denylist-source-range", "all networks that are allowed are denied, too"));
    }
    if !allow.is_empty() || !deny.is_empty() {
        route.filters.access = Some(Access { allow, deny, ..Access::default() });
    }
    closed
}

fn basic_auth(annotations: &mut Annotations<'_>, namespace: &str, world: &World, route: &mut Route) -> Option<String> {
    let secret = annotations.text("auth-secret");
    let kind = annotations.text("auth-secret-type").unwrap_or("auth-file");
    let realm = annotations.text("auth-realm").unwrap_or("Authentication Required");
    let Some(of) = annotations.text("auth-type") else {
        let name = annotations.first_of(&OF_PASSWORDS)?;
        return Some(annotations.refuse(name, "there is no auth-type, which says how clients prove who they are"));
    };
    match of {
        "basic" => {}
        other => return Some(annotations.refuse("auth-type", &format!("\"{other}\" is not supported, basic is"))),
    }
    let Some(secret) = secret else {
        return Some(annotations.refuse("auth-type", "there is no auth-secret, the Secret that holds its users"));
    };
    let key = match secret.split_once('/') {
        Some((other, _)) if other != namespace => {
            return Some(annotations.refuse("auth-secret", "a Secret of another namespace is not read"));
        }
        Some((_, name)) => Key::new(namespace, name),
        None => Key::new(namespace, secret),
    };
    match users(world, &key, kind) {
        Ok(users) => {
            let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
            let realm: String = realm.chars().filter(is_plain).take(128).collect();
            route.filters.basic_auth =
                Some(BasicAuth { users: Users::Text(users.into()), realm: realm.into(), keep: false });
            None
        }
        Err(why) => Some(annotations.refuse("auth-secret", &why)),
    }
}

/// Users of a Secret, as lines of htpasswd.
fn users(world: &World, key: &Key, kind: &str) -> Result<String, String> {
    let secret = world.secrets.get(key).ok_or_else(|| format!("Secret {key} does not exist"))?;
    let text = match kind {
        "auth-file" => secret_text(secret, "auth").ok_or_else(|| format!("Secret {key} has no auth"))?,
        "auth-map" => {
            let line = |(name, value): (&String, &String)| {
                let hash = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
                Some(format!("{name}:{}\n", hash.trim()))
            };
            secret.data.iter().filter_map(line).collect()
        }
        other => return Err(format!("a Secret of type {other} is not known, auth-file and auth-map are")),
    };
    // Empty lines are usual in Secrets that were written by hand.
    let lines: String =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    user_list(&format!("Secret {key}"), lines.as_bytes()).map(|_| lines)
}

fn forward_auth(
    annotations: &mut Annotations<'_>,
    (world, backends): (&World, &mut Backends<'_>),
    of: &Arc<str>,
    route: &mut Route,
) -> Option<String> {
    let copied = annotations.list("auth-response-headers").unwrap_or_default();
    let method = annotations.text("auth-method").unwrap_or("GET");
    let Some(url) = annotations.text("auth-url") else {
        let name = annotations.first_of(&OF_SERVICE)?;
        return Some(annotations.refuse(name, "there is no auth-url, the service that decides"));
    };
    if method != "GET" {
        annotations.ignore("auth-method", "the service is asked with GET");
    }
    if url.contains('$') {
        let why =
            "variables are not supported: name the service itself, as http://NAME.NAMESPACE.svc.cluster.local/PATH";
        return Some(annotations.refuse("auth-url", why));
    }
    let Some(Url { is_tls, host, port, path }) = Url::of(url) else {
        return Some(annotations.refuse("auth-url", &format!("\"{url}\" is not a URL of HTTP")));
    };
    if let Some(what) = here(host, &world.local_networks) {
        let why = format!("\"{host}\" is {what}; set `local_networks` of [discovery] to allow its network");
        return Some(annotations.refuse("auth-url", &why));
    }
    let mut labels = host.split('.');
    let service = match (labels.next(), labels.next(), labels.next(), labels.next()) {
        (Some(name), Some(namespace), Some("svc"), None | Some("cluster")) if !is_tls => {
            Some(Key::new(namespace, name))
        }
        _ => None,
    };
    let pool = match service {
        // Its endpoints themselves, also where the names of Services are not resolved.
        Some(key) => backends.of_port(&key, Wanted::Number(port), &Variant::default(), &[]),
        None => Ok(backends.at_host(host, port, is_tls.then(PoolTls::default), of)),
    };
    let pool = match pool {
        Ok(pool) => pool,
        Err((_, why)) => return Some(annotations.refuse("auth-url", &why)),
    };
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let (copied, odd): (Vec<&str>, Vec<&str>) = copied.into_iter().partition(is_name);
    if let Some(name) = odd.first() {
        annotations.ignore("auth-response-headers", &format!("\"{name}\" is not the name of a field"));
    }
    // As ingress-nginx does, cookies of the service go to clients, named or not.
    let is_cookie = |name: &&str| name.eq_ignore_ascii_case("set-cookie") || name.eq_ignore_ascii_case("set_cookie");
    route.filters.forward_auth = Some(ForwardAuth {
        pool,
        path: Some(path.into()),
        copy_headers: copied.into_iter().filter(|name| !is_cookie(name)).map(Arc::from).collect(),
        client_headers: vec!["Set-Cookie".into()],
        ..ForwardAuth::default()
    });
    None
}

/// Network of a host that means this machine or its links, if it is in no network that is allowed.
fn here(host: &str, allowed: &[Cidr]) -> Option<&'static str> {
    let ip: IpAddr = match is_localhost(host) {
        true => Ipv4Addr::LOCALHOST.into(),
        false => host.trim_matches(['[', ']']).parse().ok()?,
    };
    local(ip).filter(|_| !allowed.iter().any(|network| network.contains(ip)))
}

struct Url<'t> {
    is_tls: bool,
    host: &'t str,
    port: u16,
    path: String,
}

impl<'t> Url<'t> {
    fn of(text: &'t str) -> Option<Url<'t>> {
        let (is_tls, rest) = match text.split_once("://")? {
            ("http", rest) => (false, rest),
            ("https", rest) => (true, rest),
            _ => return None,
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':');
        let is_target = path.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
        if authority.is_empty() || !authority.chars().all(is_host) || !is_target {
            return None;
        }
        let (host, port) = match authority.rsplit_once(':').filter(|_| !authority.ends_with(']')) {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
            None => (authority, if is_tls { 443 } else { 80 }),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Url { is_tls, host, port, path })
    }
}
