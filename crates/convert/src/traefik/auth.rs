//! `basicAuth`, `digestAuth` and `forwardAuth`: passwords and permission of routes. Where they are not carried over,
//! routes are closed.

use super::effect::{Effect, add, close};
use super::service;
use crate::ledger::Ledger;
use crate::model::{Draft, Pool, Target, name_of};
use crate::protection::{READ, user};
use crate::tree::Node;
use evenkeel_config::plan::{BasicAuth, ForwardAuth, PoolTls};

/// Settings of `forwardAuth` that change requests to the service or to endpoints.
const DECISIVE: [&str; 2] = ["authResponseHeadersRegex", "forwardBody"];

/// Reads `basicAuth` with its users.
pub(super) fn passwords(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    let file = node.take("usersFile", ledger).map(|file| {
        ledger.changes(
            node.line,
            "hashes of MD5 and SHA-1 are refused: those of bcrypt, Argon2id and SHA-crypt are read",
            "run `evenkeel check`, and `htpasswd -B FILE NAME` for the users that it names",
        );
        file.to_string()
    });
    let mut users = Vec::new();
    for (line, text) in node.get("users").map(Node::leaf_texts).into_iter().flatten() {
        // Dollars are doubled in compose files, and users separated by commas in labels.
        for one in text.split(',') {
            let one = one.trim().replace("$$", "$");
            let (name, hash) = one.split_once(':').unwrap_or((&one, ""));
            let is_whole = !hash.starts_with("$2") || hash.len() == 60;
            match is_whole && READ.iter().any(|start| hash.starts_with(start)) && !name.contains('{') {
                true => users.push(one.clone()),
                false => user(line, name, hash, "the users of basic_auth", ledger),
            }
        }
    }
    if file.is_none() && users.is_empty() {
        return close(node, "none of its users is read", effect, ledger);
    }
    if let Some(node) = node.get("users") {
        node.carried(ledger);
    }
    let keeps = node.take("removeHeader", ledger) != Some("true");
    let mut auth: Draft<BasicAuth> = match file {
        Some(file) => Draft::one(key!("file"), file),
        None => Draft::one(key!("users"), users.join("\n")),
    };
    if keeps {
        auth.put(key!("keep"), true);
    }
    auth.put(key!("realm"), node.take("realm", ledger).filter(|realm| realm.is_ascii()).unwrap_or("traefik"));
    if let Some(field) = node.take("headerField", ledger) {
        effect.set.insert(key!("request_headers.set"), field, "{user}");
    }
    add(Draft::one(key!("basic_auth"), auth), node, effect, ledger);
    node.lost("passwords have no such setting", "see basic_auth of the [[route]]", ledger);
}

/// Closes the routes of `digestAuth`, which has no counterpart.
pub(super) fn digests(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    close(node, "digests of passwords are not verified", effect, ledger);
}

/// Reads `forwardAuth`. The pool of the service is made if it is not there.
pub(super) fn service(name: &str, node: &Node, effect: &mut Effect, target: &mut Target, ledger: &mut Ledger) {
    let address = node.take("address", ledger).unwrap_or_default();
    let Some((scheme @ ("http" | "https"), rest)) = address.split_once("://") else {
        return close(node, "the address of the service is not a URL", effect, ledger);
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.~?=&%:[]".contains(&b));
    if authority.is_empty() || !is_plain(authority) || !is_plain(path) {
        return close(node, "the address of the service cannot be written", effect, ledger);
    }
    let decisive = DECISIVE.into_iter().find(|key| node.at(key).is_some_and(|node| node.text() != Some("false")));
    if let Some(key) = decisive {
        return close(node, &format!("`{key}` has no counterpart"), effect, ledger);
    }
    let mut pool = Pool { name: name_of(name), ..Pool::default() };
    service::endpoint(&format!("{scheme}://{authority}"), node, &mut pool, ledger);
    if scheme == "https" {
        tls(node, &mut pool, ledger);
    }
    // Without a path, Traefik asks for `/`.
    let mut auth: Draft<ForwardAuth> =
        Draft::one(key!("pool"), pool_of(pool, target)).with(key!("path"), if path.is_empty() { "/" } else { path });
    for (key, list) in [("authResponseHeaders", key!("copy_headers")), ("authRequestHeaders", key!("request_headers"))]
    {
        let names = node.texts(key, ledger);
        // Clients keep cookies, and endpoints have no use for them.
        let is_cookie = |name: &String| key == "authResponseHeaders" && name.eq_ignore_ascii_case("set-cookie");
        let (cookies, names): (Vec<String>, Vec<String>) = names.into_iter().partition(is_cookie);
        if !cookies.is_empty() {
            auth.put(key!("client_headers"), cookies);
        }
        if !names.is_empty() {
            auth.put(list, names);
        }
    }
    if !auth.has(key!("request_headers")) {
        ledger.changes(
            node.line,
            "Traefik sends every field to the service; here it gets Cookie, Authorization and X-Forwarded-*",
            "forward_auth.request_headers lists further fields that the service reads",
        );
    }
    if node.take("trustForwardHeader", ledger) == Some("true") {
        let reason = "X-Forwarded-* of clients never reach the service";
        ledger.changes(node.line, reason, "trusted_proxies of the listener, if a proxy in front sends them");
    }
    add(Draft::one(key!("forward_auth"), auth), node, effect, ledger);
    node.lost("there is no such setting of the service", "see forward_auth of the [[route]]", ledger);
}

fn tls(node: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let Some(tls) = node.get("tls") else { return };
    if let Some(ca) = tls.take("ca", ledger) {
        pool.set.put(key!("tls"), Draft::<PoolTls>::one(key!("ca"), ca));
    }
    if tls.take("insecureSkipVerify", ledger) == Some("true") {
        pool.set.put(key!("tls"), Draft::<PoolTls>::one(key!("verify"), false));
    }
}

/// Returns the name of an equal pool, or adds this pool.
fn pool_of(mut pool: Pool, target: &mut Target) -> String {
    let base = pool.name.clone();
    let names = [base.clone()].into_iter().chain((2..).map(|number| format!("{base}-{number}")));
    for name in names {
        match target.pools.iter().find(|other| other.name == name) {
            Some(other) if other.endpoints == pool.endpoints && other.set == pool.set => return name,
            Some(_) => {}
            None => {
                pool.name.clone_from(&name);
                target.pools.push(pool);
                return name;
            }
        }
    }
    base
}
