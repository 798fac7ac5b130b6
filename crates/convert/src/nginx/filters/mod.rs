//! Filters of a route: fields, limits, access, authentication, timeouts, from the levels around a location.

// Order: access, cache, compression, limits, services

mod access;
mod cache;
mod compression;
mod limits;
mod services;

pub(super) use access::may_refuse;
pub(super) use cache::NAMES as OF_CACHE;
pub(super) use limits::read as read_limits;
pub(super) use services::asked;

use crate::ledger::Line;
use crate::limits::put_time;
use crate::model::{Draft, Entries, RouteKeys, Value, parse_size, size};
use crate::nginx::lexer::Directive;
use crate::nginx::time::milliseconds;
use crate::nginx::variable::{self, Scope};
use crate::nginx::world::{Forward, World, group, single};
use crate::protection::closed_by;
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan;

/// Statuses on which `add_header` works without `always`.
const WITHOUT_ALWAYS: [i64; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Filters for requests of a location. `forward`: the pool that gets them, if any.
pub(super) fn read(
    levels: &[&[Directive]],
    forward: Option<&Forward>,
    scope: &Scope,
    world: &mut World<'_>,
) -> RouteKeys {
    let mut set = Draft::default();
    replaced(levels, "proxy_set_header", world);
    if let Some(forward) = forward {
        request_fields(levels, forward, scope, &mut set, world);
        timeouts(levels, &mut set, world);
        retries(levels, &mut set, world);
        for directive in group(levels, "proxy_hide_header") {
            set.push(key!("response_headers.remove"), directive.word(1));
            world.ledger.carried(directive.line);
        }
    }
    response_fields(levels, scope, &mut set, world);
    match forward {
        Some(_) => body_max(levels, &mut set, world),
        None => bodies_of_own(levels, world),
    }
    refusals(levels, scope, &mut set, world);
    services::mirrors(levels, scope, &mut set, world);
    if forward.is_some() {
        bandwidth(levels, scope, &mut set, world);
        unchanged(levels, world);
    }
    compression::read(levels, &mut set, world);
    limits::read(levels, scope, &mut set, world);
    if forward.is_some() {
        cache::read(levels, &mut set, world);
    }
    set
}

/// Keys by which a route refuses clients.
const GUARDS: [KeyOf<plan::Route>; 5] =
    [key!("access"), key!("basic_auth"), key!("forward_auth"), key!("jwt"), key!("limits")];

fn refusals(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    access::addresses(levels, set, world);
    access::basic_auth(levels, scope, set, world);
    services::auth(levels, scope, set, world);
    access::protections(levels, set, world);
}

/// Refusals of a location with these levels, for requests that it passes on to another location.
pub(super) fn guards(levels: &[&[Directive]], scope: &Scope, world: &mut World<'_>) -> RouteKeys {
    let mut set = Draft::default();
    refusals(levels, scope, &mut set, world);
    limits::read(levels, scope, &mut set, world);
    set
}

/// Adds the refusals of the location before to those of a route. Where both have a refusal of a kind, the route is closed.
pub(super) fn guard(guards: &RouteKeys, line: Line, set: &mut RouteKeys, world: &mut World<'_>) {
    let mut both = false;
    for key in GUARDS {
        match (guards.get(key), set.get(key)) {
            (Some(value), None) => drop(set.put(key, value.clone())),
            (Some(value), Some(own)) => both |= value != own,
            (None, _) => {}
        }
    }
    if both {
        closed_by(line, "the locations before and behind it both refuse clients", set, world.ledger);
    }
}

/// Notes lines that change responses of endpoints in a way that is not carried over.
fn unchanged(levels: &[&[Directive]], world: &mut World<'_>) {
    for (name, reason) in [
        ("charset", "responses of endpoints keep their type without a charset"),
        ("proxy_redirect", "Location of responses passes as the endpoint sends it"),
    ] {
        for directive in group(levels, name) {
            match directive.word(1) {
                "off" => world.ledger.carried(directive.line),
                _ => world.ledger.changes(directive.line, reason, "have the application send what clients need"),
            }
        }
    }
}

/// Notes lines of outer levels that lines of an inner level replace.
fn replaced(levels: &[&[Directive]], name: &str, world: &mut World<'_>) {
    let Some(inner) = group(levels, name).first().map(|d| d.line) else { return };
    for outer in levels.iter().flat_map(|level| level.iter()).filter(|d| d.name() == name) {
        if !group(levels, name).iter().any(|used| used.line == outer.line) {
            let reason =
                format!("it does not hold where {} has lines of its own, as in NGINX", world.ledger.place(inner));
            world.ledger.dropped(outer.line, reason);
        }
    }
}

fn request_fields(
    levels: &[&[Directive]],
    forward: &Forward,
    scope: &Scope,
    set: &mut RouteKeys,
    world: &mut World<'_>,
) {
    let lines: Vec<&Directive> =
        group(levels, "proxy_set_header").into_iter().chain(group(levels, "grpc_set_header")).collect();
    let mut has_host = false;
    for line in lines {
        has_host |= line.word(1).eq_ignore_ascii_case("host");
        request_field(line, forward, scope, set, world);
    }
    if !has_host {
        set.put(key!("send_host"), forward.host.as_str());
    }
}

fn request_field(directive: &Directive, forward: &Forward, scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    let (name, value, line) = (directive.word(1), directive.word(2), directive.line);
    let lower = name.to_ascii_lowercase();
    match (lower.as_str(), value) {
        ("host", "$http_host") => {
            return world.ledger.dropped(line, "Host passes as it came");
        }
        ("host", "$host" | "$host:$server_port" | "$http_host:$server_port") => {
            return world
                .ledger
                .dropped(line, "Host passes as it came: with the port and in the case that the client wrote");
        }
        ("host", "$proxy_host") => {
            set.put(key!("send_host"), forward.host.as_str());
            return world.ledger.carried(line);
        }
        ("x-forwarded-for", "$proxy_add_x_forwarded_for") => {
            world.ledger.changes(line, crate::report::FORWARDED, crate::report::TRUSTED);
            return world.ledger.dropped(line, "X-Forwarded-For is always set");
        }
        ("x-forwarded-for", "$remote_addr") => {
            return world.ledger.dropped(line, "X-Forwarded-For is always set");
        }
        ("x-forwarded-proto", "$scheme") => {
            return world.ledger.dropped(line, "X-Forwarded-Proto is always set");
        }
        ("x-forwarded-host", "$host" | "$http_host") => {
            return world.ledger.dropped(line, "X-Forwarded-Host is always set");
        }
        ("upgrade" | "connection", _) => {
            return world
                .ledger
                .dropped(line, "upgrades such as WebSockets pass by themselves, and connections are kept");
        }
        ("content-length" | "transfer-encoding" | "te" | "trailer" | "keep-alive" | "proxy-connection", _) => {
            return world.ledger.changes(line, format!("{name} steers the message, and cannot be set"), "leave it out");
        }
        ("accept-encoding", "") => {
            set.push(key!("request_headers.remove"), name);
            return world.ledger.carried(line);
        }
        (_, "") => {
            set.push(key!("request_headers.remove"), name);
            return world.ledger.carried(line);
        }
        _ => {}
    }
    match variable::read(value, scope) {
        Ok(text) if lower == "host" && !text.contains('{') => {
            set.put(key!("send_host"), text);
            world.ledger.carried(line);
        }
        Ok(_) if lower == "host" => {
            let todo = "send_host = \"NAME\" in the [[route]], if the name is fixed";
            world.ledger.changes(line, "Host is the client's, the endpoint's or fixed", todo);
        }
        Ok(text) => {
            // A second line of a name is sent beside the first.
            let has = matches!(set.get(key!("request_headers.set")), Some(Value::Table(fields))
                if fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
            match has {
                true => add(set, key!("request_headers.add"), name, text),
                false => drop(set.insert(key!("request_headers.set"), name, text)),
            }
            world.ledger.carried(line);
        }
        Err(reason) => {
            crate::protection::withhold(name, line, &reason, set, world.ledger);
        }
    }
}

/// Adds a field, which may have several values.
fn add(set: &mut RouteKeys, key: KeyOf<plan::Route>, name: &str, text: String) {
    let before = match set.get(key) {
        Some(Value::Table(fields)) => fields.get(name).cloned(),
        _ => None,
    };
    let value: Value = match before {
        None => text.into(),
        Some(Value::List(mut list)) => {
            list.push(text.into());
            Value::List(list)
        }
        Some(one) => Value::List(vec![one, text.into()]),
    };
    set.insert(key, name, value);
}

/// Sets the fields that `add_header` adds to responses, of some statuses or of all.
pub(super) fn response_fields(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    replaced(levels, "add_header", world);
    let mut usual = Entries::default();
    for directive in group(levels, "add_header") {
        let (name, value, line) = (directive.word(1), directive.word(2), directive.line);
        if value.contains("$request_method") && !group(levels, "error_page").is_empty() {
            let reason = "an error page is asked for by GET, which `$request_method` of its response is here";
            world.ledger.changes(line, reason, "nothing, unless clients read the field of errors");
        }
        if value == "$upstream_cache_status" {
            let reason = "responses say in Cache-Status (RFC 9211) whether they were stored, and why not";
            world.ledger.changes(line, reason, "read Cache-Status instead; the access log has `cache`");
            continue;
        }
        match variable::read(value, scope) {
            Ok(text) if text.is_empty() => world.ledger.dropped(line, "a field without a value is not sent"),
            Ok(text) if directive.word(3) == "always" => {
                add(set, key!("response_headers.add"), name, text);
                world.ledger.carried(line);
            }
            Ok(text) => {
                match usual.get(name).cloned() {
                    None => drop(usual.set(name, text)),
                    Some(Value::List(mut list)) => {
                        list.push(text.into());
                        usual.set(name, Value::List(list));
                    }
                    Some(one) => drop(usual.set(name, Value::List(vec![one, text.into()]))),
                }
                world.ledger.carried(line);
            }
            Err(reason) => {
                let todo = match name.to_ascii_lowercase().starts_with("access-control-") {
                    true => "cors = { origins = [\"https://a.example\"] } in the [[route]]".to_string(),
                    false => format!("set {name} by hand, or in the application"),
                };
                world.ledger.changes(line, reason, todo);
            }
        }
    }
    let expiry = expiry(levels, world);
    if expiry.is_some() || !usual.is_empty() {
        let when = Entries::one("status", Value::List(WITHOUT_ALWAYS.iter().map(|n| Value::Int(*n as u64)).collect()));
        let mut edit = Entries::one("when", when);
        if let Some(Expiry { lasts, ends }) = expiry {
            let mut fields = Entries::one("Cache-Control", lasts);
            match ends {
                Some(ends) => drop(fields.set("Expires", ends)),
                None => drop(edit.set("remove", Value::List(vec!["Expires".into()]))),
            }
            edit.set("set", fields);
        }
        if !usual.is_empty() {
            edit.set("add", usual);
        }
        set.put(key!("response_headers.edits"), Value::List(vec![edit.into()]));
    }
}

/// Values of two fields of responses.
struct Expiry {
    lasts: String,
    /// For Expires, if it is the same at any time.
    ends: Option<&'static str>,
}

/// Reads `expires`, which has the same statuses as `add_header` without `always`.
fn expiry(levels: &[&[Directive]], world: &mut World<'_>) -> Option<Expiry> {
    let directive = single(levels, "expires")?;
    let (word, line) = (directive.word(1), directive.line);
    let fixed = |lasts: &str, ends| Some(Expiry { lasts: lasts.into(), ends: Some(ends) });
    let expiry = match word {
        _ if directive.from(1).len() > 1 => None,
        "off" => {
            world.ledger.carried(line);
            return None;
        }
        "epoch" => fixed("no-cache", "Thu, 01 Jan 1970 00:00:01 GMT"),
        "max" => fixed("max-age=315360000", "Thu, 31 Dec 2037 23:55:55 GMT"),
        _ => {
            let lasts = match word.strip_prefix('-') {
                Some(past) => milliseconds(past).map(|_| "no-cache".to_string()),
                None => milliseconds(word).map(|ms| format!("max-age={}", ms / 1000)),
            };
            lasts.map(|lasts| Expiry { lasts, ends: None })
        }
    };
    match &expiry {
        None => {
            let reason = "its time is not the same for all responses";
            world.ledger.changes(line, reason, "set Cache-Control in response_headers, or in the application");
        }
        Some(Expiry { ends: Some(_), .. }) => world.ledger.carried(line),
        Some(_) => {
            let reason = "responses have Cache-Control without an Expires, which would say the same";
            world.ledger.changes(line, reason, "nothing, unless a client knows HTTP/1.0 alone");
        }
    }
    expiry
}

fn timeouts(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let keys: [(&str, &[KeyOf<plan::Route>]); 4] = [
        ("proxy_connect_timeout", &[key!("timeouts.connect")]),
        ("grpc_connect_timeout", &[key!("timeouts.connect")]),
        ("proxy_read_timeout", &[key!("timeouts.response"), key!("timeouts.idle")]),
        ("grpc_read_timeout", &[key!("timeouts.response"), key!("timeouts.idle")]),
    ];
    for (name, keys) in keys {
        let Some(directive) = single(levels, name) else { continue };
        let Some(ms) = milliseconds(directive.word(1)) else {
            world.ledger.changes(directive.line, "its value was not understood", format!("set {}", keys[0]));
            continue;
        };
        world.ledger.carried(directive.line);
        for key in keys {
            if let Some(note) = put_time(set, *key, ms) {
                world.ledger.changes(directive.line, format!("{key}: {note}"), "nothing, unless the limit is reached");
            }
        }
    }
}

fn retries(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    for name in ["proxy_next_upstream", "grpc_next_upstream"] {
        let Some(directive) = single(levels, name) else { continue };
        world.ledger.carried(directive.line);
        let mut on: Vec<Value> = Vec::new();
        for word in directive.from(1) {
            match word.as_str() {
                "off" => drop(set.put(key!("retry.attempts"), 0)),
                "error" => on.extend(["connect".into(), "reset".into()]),
                "timeout" => on.push("timeout".into()),
                "invalid_header" => on.push("reset".into()),
                "non_idempotent" => drop(set.put(key!("retry.non_idempotent"), true)),
                status => match status.strip_prefix("http_").and_then(|n| n.parse::<u64>().ok()) {
                    Some(status) => on.push(status.into()),
                    None => world.ledger.changes(
                        directive.line,
                        format!("`{status}` is not a condition of retries"),
                        "see retry.on",
                    ),
                },
            }
        }
        let mut unique: Vec<Value> = Vec::new();
        on.into_iter().for_each(|value| {
            if !unique.contains(&value) {
                unique.push(value)
            }
        });
        if unique.contains(&"timeout".into()) && !set.has(key!("retry.try_timeout")) {
            // Without a time for each try, no try times out.
            let ms = single(levels, "proxy_read_timeout").and_then(|d| milliseconds(d.word(1))).unwrap_or(60_000);
            put_time(set, key!("retry.try_timeout"), ms);
        }
        if !unique.is_empty() {
            set.put(key!("retry.on"), Value::List(unique));
        }
    }
    if let Some(directive) = single(levels, "proxy_next_upstream_tries") {
        world.ledger.carried(directive.line);
        match directive.word(1).parse::<u64>() {
            Ok(tries) if tries > 0 => drop(set.put(key!("retry.attempts"), (tries - 1).min(10))),
            _ => world.ledger.changes(
                directive.line,
                "the number of tries has a bound",
                "set retry.attempts, at most 10",
            ),
        }
    }
    if let Some(directive) = single(levels, "proxy_next_upstream_timeout") {
        world.ledger.changes(
            directive.line,
            "tries have no time limit together",
            "set timeouts.request for the whole request",
        );
    }
}

/// Settles the limit of bodies where no endpoint gets them.
pub(super) fn bodies_of_own(levels: &[&[Directive]], world: &mut World<'_>) {
    if let Some(directive) = single(levels, "client_max_body_size").filter(|d| !world.ledger.is_settled(d.line)) {
        world.ledger.dropped(directive.line, "bodies of requests that no endpoint gets are not read");
    }
}

fn body_max(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let Some(directive) = single(levels, "client_max_body_size") else { return };
    match parse_size(directive.word(1)) {
        Some(0) => {
            set.put(key!("body_max"), "off");
            world.ledger.carried(directive.line);
        }
        Some(bytes) => {
            set.put(key!("body_max"), size(bytes));
            world.ledger.carried(directive.line);
        }
        None => world.ledger.decide(
            directive.line,
            "its value was not understood: bodies may have 1 MiB",
            "set body_max of the [[route]]",
        ),
    }
}

fn bandwidth(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    // `set $limit_rate` wins over the directive.
    let is_set = |d: &&Directive| d.name() == "set" && d.word(1) == "$limit_rate";
    let line = levels.iter().rev().find_map(|level| level.iter().rev().find(is_set));
    let value = scope.value("limit_rate").map(str::to_string);
    let (directive, rate) = match (value, line.or_else(|| single(levels, "limit_rate"))) {
        (Some(rate), Some(directive)) => (directive, rate),
        (None, Some(directive)) if directive.name() == "limit_rate" => (directive, directive.word(1).to_string()),
        _ => return,
    };
    match parse_size(&rate) {
        Some(0) => world.ledger.carried(directive.line),
        Some(bytes) => {
            set.put(key!("bandwidth"), size(bytes.max(1024)));
            world.ledger.changes(
                directive.line,
                "the rate is that of a connection with all its streams; NGINX has it for each request",
                "nothing, or a higher rate for HTTP/2",
            );
        }
        None => world.ledger.changes(
            directive.line,
            "the rate has a variable",
            "bandwidth = \"1MB\" in the [[route]], and a route for each rate",
        ),
    }
}
