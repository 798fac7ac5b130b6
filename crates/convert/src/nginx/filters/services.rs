//! `auth_request` and `mirror`: sub-requests to a location, which become keys of a route with a pool.

use crate::ledger::Line;
use crate::model::{Draft, RouteKeys, Value};
use crate::nginx::lexer::Directive;
use crate::nginx::tree::Tree;
use crate::nginx::variable::Scope;
use crate::nginx::world::{World, group, single, split_uri};
use crate::protection::{close, closed_by};
use evenkeel_config::plan::{ForwardAuth, Mirror};
use std::collections::BTreeMap;

/// Locations of a server that sub-requests lead to, by their paths.
pub(in crate::nginx) fn asked<'d>(levels: &[&'d [Directive]], tree: &Tree<'d>) -> BTreeMap<&'d str, &'d Directive> {
    fn paths<'d>(level: &'d [Directive], is_server: bool, all: &mut Vec<&'d str>) {
        for directive in level {
            if matches!(directive.name(), "auth_request" | "mirror") && directive.word(1) != "off" {
                all.push(directive.word(1));
            }
            if is_server {
                paths(directive.inner(), true, all);
            }
        }
    }
    let mut all = Vec::new();
    for (depth, level) in levels.iter().enumerate() {
        paths(level, depth + 1 == levels.len(), &mut all);
    }
    all.into_iter().filter_map(|path| Some((path, tree.at(path)?.directive))).collect()
}

/// Variables from which a service learns which request it decides about.
const OF_THE_REQUEST: [&str; 5] = ["$request_uri", "$uri", "$document_uri", "$request_method", "$args"];

/// Adds `forward_auth` for a location with these levels.
pub(in crate::nginx) fn auth(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    if let Some(directive) = single(levels, "auth_request") {
        match directive.word(1) {
            "off" => world.ledger.carried(directive.line),
            _ => auth_request(directive, levels, scope, set, world),
        }
    }
}

/// Adds `mirror` for a location with these levels.
pub(in crate::nginx) fn mirrors(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    if let [directive, others @ ..] = &group(levels, "mirror")[..] {
        match directive.word(1) {
            "off" => world.ledger.carried(directive.line),
            _ => mirror(directive, scope, set, world),
        }
        for other in others {
            world.ledger.changes(
                other.line,
                "only the first mirror is carried over",
                "mirror of the [[route]], which takes several",
            );
        }
    }
    for directive in group(levels, "mirror_request_body") {
        match directive.word(1) {
            "off" => world.ledger.changes(
                directive.line,
                "bodies up to mirror.body_max are copied, and requests with longer ones are not",
                "have the shadow ignore bodies",
            ),
            _ => world.ledger.dropped(directive.line, "bodies up to mirror.body_max are copied"),
        }
    }
}

fn auth_request(
    directive: &Directive,
    levels: &[&[Directive]],
    scope: &Scope,
    set: &mut RouteKeys,
    world: &mut World<'_>,
) {
    let Some((pass, pool, uri)) = service(directive, scope, world) else {
        let reason = "the location that it names does not lead to one pool";
        return closed_by(directive.line, reason, set, world.ledger);
    };
    let path = if uri.is_empty() { directive.word(1) } else { uri };
    if path.contains('$') {
        return closed_by(directive.line, "the path of the service has a variable", set, world.ledger);
    }
    let mut auth: Draft<ForwardAuth> = Draft::one(key!("pool"), pool).with(key!("path"), path);
    let copied = copied(levels, world);
    if !copied.is_empty() {
        auth = auth.with(key!("copy_headers"), Value::List(copied));
    }
    set.put(key!("forward_auth"), auth);
    world.ledger.carried(pass);
    if let Some(field) = decisive(world.services.get(directive.word(1)).copied()) {
        // Without the field, the service might decide about another request.
        close(set);
        world.ledger.decide(
            field.line,
            format!(
                "the service reads the request from {}, which it does not get: all clients are refused",
                field.word(1)
            ),
            "have it read X-Forwarded-Uri and X-Forwarded-Method, and then take access out of the [[route]]",
        );
    }
    world.ledger.changes(
        directive.line,
        "NGINX sends every field to the service, and makes 500 of answers but 2xx, 401 and 403; here it gets Cookie, \
         Authorization and X-Forwarded-*, and every answer but 2xx goes to the client",
        "forward_auth.request_headers lists further fields that the service reads",
    );
}

/// The line of a service that sends it the path or the method of the request under a name that evenkeel does not send.
fn decisive(location: Option<&Directive>) -> Option<&Directive> {
    location?.inner().iter().find(|inner| {
        inner.name() == "proxy_set_header"
            && !matches!(inner.word(1).to_ascii_lowercase().as_str(), "x-forwarded-uri" | "x-forwarded-method")
            && OF_THE_REQUEST.iter().any(|variable| inner.word(2).contains(variable))
    })
}

/// Names of fields that `auth_request_set` takes from the response, and `proxy_set_header` sends under the same name.
fn copied(levels: &[&[Directive]], world: &mut World<'_>) -> Vec<Value> {
    let mut names = Vec::new();
    for directive in group(levels, "auth_request_set") {
        let (variable, value) = (directive.word(1), directive.word(2));
        let from = value.strip_prefix("$upstream_http_").map(|name| name.replace('_', "-"));
        let sent = group(levels, "proxy_set_header").into_iter().find(|field| {
            field.word(2) == variable && from.as_ref().is_some_and(|from| field.word(1).eq_ignore_ascii_case(from))
        });
        match sent {
            Some(field) => {
                names.push(field.word(1).into());
                world.ledger.carried(directive.line);
                world.ledger.dropped_instead(field.line, "forward_auth.copy_headers sends it");
            }
            None => world.ledger.changes(
                directive.line,
                "fields of the service's answer reach endpoints under their own names only",
                "forward_auth.copy_headers in the [[route]], if the endpoint reads the field",
            ),
        }
    }
    names
}

fn mirror(directive: &Directive, scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    let todo = "mirror = { pool = \"shadow\" } in the [[route]]";
    match service(directive, scope, world) {
        Some((pass, pool, "$request_uri")) => {
            set.put(key!("mirror"), Draft::<Mirror>::one(key!("pool"), pool));
            world.ledger.carried(pass);
            world.ledger.carried(directive.line);
        }
        Some(_) => world.ledger.changes(directive.line, "a copy has the path that the endpoint gets", todo),
        None => {
            world.ledger.changes(directive.line, "the location that it names does not lead to one pool", todo);
        }
    }
}

/// The line of the `proxy_pass` of a service, its pool, and the part of its URL behind the host.
fn service<'d>(directive: &Directive, scope: &Scope, world: &mut World<'d>) -> Option<(Line, String, &'d str)> {
    let location = *world.services.get(directive.word(1))?;
    // Rules may refuse the sub-request, or change its path.
    if location.inner().iter().any(|inner| matches!(inner.name(), "if" | "return" | "rewrite")) {
        return None;
    }
    let pass = location.inner().iter().find(|inner| inner.name() == "proxy_pass")?;
    let (scheme, rest) = pass.word(1).split_once("://")?;
    let (authority, uri) = split_uri(rest);
    let forward = world.forward(scheme, authority, scope, pass.line)?;
    settle(location, world);
    Some((pass.line, forward.pool, uri))
}

/// Settles the directives of a location that only sub-requests take.
fn settle(location: &Directive, world: &mut World<'_>) {
    if !location.inner().iter().any(|inner| inner.name() == "internal") {
        return;
    }
    world.ledger.carried(location.line);
    for inner in location.inner() {
        match (inner.name(), inner.word(1).to_ascii_lowercase().as_str(), inner.word(2)) {
            ("proxy_pass", ..) => {}
            ("internal", ..) => {
                world.ledger.dropped_instead(inner.line, "clients cannot send the requests that evenkeel sends itself");
            }
            ("proxy_pass_request_body", "off", _) | ("proxy_set_header", "content-length", "") => {
                world.ledger.dropped_instead(inner.line, "a service that decides gets no body");
            }
            ("proxy_set_header", name, _) => world.ledger.changes(
                inner.line,
                format!(
                    "the service gets X-Forwarded-Method, -Proto, -Host, -Uri and -For, and not {name} from this line"
                ),
                "have the service read these",
            ),
            _ if !world.ledger.is_settled(inner.line) => world.ledger.changes(
                inner.line,
                "requests that evenkeel sends itself have no such setting",
                "set it in the pool, if it has such a key",
            ),
            _ => {}
        }
    }
}
