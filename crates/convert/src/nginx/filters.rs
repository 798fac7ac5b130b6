//! Filters of a route: fields, limits, access, authentication, timeouts, from the levels around a location.

use super::cache;
use super::lexer::Directive;
use super::time::milliseconds;
use super::variable::{self, Constants};
use super::world::{Forward, World, group, single};
use super::{compression, services};
use crate::limits::put_time;
use crate::model::{Draft, RouteKeys, Value, parse_size, size};
use crate::protection::closed_by;
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan::{self, Access, BasicAuth, Limit};

/// Statuses on which `add_header` works without `always`.
const WITHOUT_ALWAYS: &str = "without `always`, NGINX adds it to 200, 201, 204, 206, 301, 302, 303, 304, 307 and 308 only; here to every response";

/// Directives that refuse requests by rules that are not carried over.
const PROTECTIONS: [&str; 11] = [
    "auth_jwt",
    "auth_oidc",
    "auth_require",
    "auth_digest",
    "auth_gss",
    "auth_ldap",
    "auth_pam",
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "js_access",
];

/// Filters for requests of a location. `forward`: the pool that gets them, if any.
pub(super) fn read(
    levels: &[&[Directive]],
    forward: Option<&Forward>,
    constants: &Constants,
    world: &mut World<'_>,
) -> RouteKeys {
    let mut set = Draft::default();
    replaced(levels, "proxy_set_header", world);
    replaced(levels, "add_header", world);
    if let Some(forward) = forward {
        request_fields(levels, forward, constants, &mut set, world);
        timeouts(levels, &mut set, world);
        retries(levels, &mut set, world);
        for directive in group(levels, "proxy_hide_header") {
            set.push(key!("response_headers.remove"), directive.word(1));
            world.ledger.carried(directive.line);
        }
    }
    response_fields(levels, constants, &mut set, world);
    body_max(levels, &mut set, world);
    access(levels, &mut set, world);
    basic_auth(levels, &mut set, world);
    services::read(levels, constants, &mut set, world);
    for directive in PROTECTIONS.iter().filter_map(|name| single(levels, name)) {
        match directive.word(1) {
            "off" => world.ledger.carried(directive.line),
            _ => closed_by(directive.line, "its rules are not carried over", &mut set, world.ledger),
        }
    }
    if forward.is_some() {
        bandwidth(levels, &mut set, world);
    }
    compression::read(levels, &mut set, world);
    limits(levels, &mut set, world);
    if forward.is_some() {
        cache::read(levels, &mut set, world);
    }
    set
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
    constants: &Constants,
    set: &mut RouteKeys,
    world: &mut World<'_>,
) {
    let lines: Vec<&Directive> =
        group(levels, "proxy_set_header").into_iter().chain(group(levels, "grpc_set_header")).collect();
    let mut has_host = false;
    for line in lines {
        has_host |= line.word(1).eq_ignore_ascii_case("host");
        request_field(line, forward, constants, set, world);
    }
    if !has_host {
        set.put(key!("send_host"), forward.host.as_str());
    }
}

fn request_field(
    directive: &Directive,
    forward: &Forward,
    constants: &Constants,
    set: &mut RouteKeys,
    world: &mut World<'_>,
) {
    let (name, value, line) = (directive.word(1), directive.word(2), directive.line);
    let lower = name.to_ascii_lowercase();
    match (lower.as_str(), value) {
        ("host", "$http_host") => return world.ledger.dropped(line, "Host passes as it came"),
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
    match variable::read(value, constants) {
        Ok((text, false)) if lower == "host" => {
            set.put(key!("send_host"), text);
            world.ledger.carried(line);
        }
        Ok((text, has_query)) => {
            let text = if has_query { text.replace("{path}", "{path}?{query}") } else { text };
            set.insert(key!("request_headers.set"), name, text);
            world.ledger.carried(line);
        }
        Err(reason) => {
            crate::protection::withhold(name, line, &reason, set, world.ledger);
        }
    }
}

/// Sets the fields that `add_header` adds to responses.
pub(super) fn response_fields(
    levels: &[&[Directive]],
    constants: &Constants,
    set: &mut RouteKeys,
    world: &mut World<'_>,
) {
    for directive in group(levels, "add_header") {
        let (name, value, line) = (directive.word(1), directive.word(2), directive.line);
        if value == "$upstream_cache_status" {
            let reason = "responses say in Cache-Status (RFC 9211) whether they were stored, and why not";
            world.ledger.changes(line, reason, "read Cache-Status instead; the access log has `cache`");
            continue;
        }
        match variable::read(value, constants) {
            Ok((text, false)) => {
                set.insert(key!("response_headers.add"), name, text);
                match directive.word(3) == "always" {
                    true => world.ledger.carried(line),
                    false => {
                        world.ledger.changes(line, WITHOUT_ALWAYS, "nothing, unless errors must not have the field")
                    }
                }
            }
            Ok(_) => world.ledger.changes(
                line,
                "the whole target of a request is not a variable",
                format!("set {name} by hand"),
            ),
            Err(reason) => {
                let todo = match name.to_ascii_lowercase().starts_with("access-control-") {
                    true => "cors = { origins = [\"https://a.example\"] } in the [[route]]".to_string(),
                    false => format!("set {name} by hand, or in the application"),
                };
                world.ledger.changes(line, reason, todo);
            }
        }
    }
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

fn body_max(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let Some(directive) = single(levels, "client_max_body_size") else { return };
    match parse_size(directive.word(1)) {
        Some(0) => world.ledger.dropped(directive.line, "bodies have no limit unless body_max is set"),
        Some(bytes) => {
            set.put(key!("body_max"), size(bytes));
            world.ledger.carried(directive.line);
        }
        None => world.ledger.changes(directive.line, "its value was not understood", "set body_max of the [[route]]"),
    }
}

fn bandwidth(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let Some(directive) = single(levels, "limit_rate") else { return };
    match parse_size(directive.word(1)) {
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

fn access(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let is_rule = |d: &&Directive| matches!(d.name(), "allow" | "deny");
    let rules =
        levels.iter().rev().map(|level| level.iter().filter(is_rule).collect::<Vec<_>>()).find(|r| !r.is_empty());
    let Some(rules) = rules else { return };
    let mut access: Draft<Access> = Draft::default();
    let mut closed = false;
    for rule in &rules {
        world.ledger.carried(rule.line);
        match (rule.name(), rule.word(1)) {
            (_, _) if closed => world.ledger.dropped(rule.line, "NGINX never reaches it, behind a rule for all"),
            ("deny", "all") => {
                closed = true;
                if !access.has(key!("allow")) {
                    access.push(key!("deny"), "0.0.0.0/0");
                    access.push(key!("deny"), "::/0");
                }
            }
            ("allow", "all") => {
                closed = true;
                access.remove(key!("allow"));
            }
            (_, "unix:") => world.ledger.dropped(rule.line, "clients do not connect by Unix sockets"),
            ("allow", network) => access.push(key!("allow"), network),
            (_, network) => access.push(key!("deny"), network),
        }
    }
    if !closed && access.has(key!("allow")) {
        // Without `deny all`, the rest is allowed. `allow` lines then only make exceptions to `deny` lines.
        if !access.has(key!("deny")) {
            access = Draft::default();
        } else {
            access.push(key!("allow"), "0.0.0.0/0");
            access.push(key!("allow"), "::/0");
        }
    }
    if access.has(key!("allow")) && access.has(key!("deny")) {
        let reason = "NGINX takes the first network that fits, and here the longest decides";
        world.ledger.changes(rules[0].line, reason, "compare the networks that overlap");
    }
    if !access.is_empty() {
        set.put(key!("access"), access);
    }
}

fn basic_auth(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let Some(directive) = single(levels, "auth_basic") else { return };
    if directive.word(1) == "off" {
        return world.ledger.carried(directive.line);
    }
    match single(levels, "auth_basic_user_file") {
        Some(file) => {
            let auth: Draft<BasicAuth> = Draft::one(key!("file"), file.word(1)).with(key!("realm"), directive.word(1));
            // NGINX forwards the credentials too.
            set.put(key!("basic_auth"), auth.with(key!("keep"), true));
            world.ledger.carried(directive.line);
            world.ledger.changes(
                file.line,
                "hashes of MD5, SHA-1 and DES are refused: those of bcrypt, Argon2id and SHA-crypt are read",
                "run `evenkeel check`, and `htpasswd -B FILE NAME` for the users that it names",
            );
        }
        None => world.ledger.changes(
            directive.line,
            "it names no file of passwords",
            "basic_auth = { file = \"FILE\" } in the [[route]]",
        ),
    }
}

fn limits(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let mut limits: Vec<Value> = Vec::new();
    for directive in group(levels, "limit_req") {
        let parameter =
            |name: &str| directive.from(1).iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let zone = world.zones.get(&format!("limit_req_zone:{}", parameter("zone").unwrap_or_default())).cloned();
        let Some((zone, key)) = zone.and_then(|zone| Some((zone.clone(), key_of(&zone.key)?))) else {
            let todo = "limits = [{ requests = \"10/s\", key = \"client\" }] in the [[route]]";
            world.ledger.changes(
                directive.line,
                "its zone is not there, or counts by something that is not a key here",
                todo,
            );
            continue;
        };
        let (number, unit) = zone.rate.split_once("r/").unwrap_or((&zone.rate, "s"));
        let mut limit: Draft<Limit> = Draft::one(key!("requests"), format!("{number}/{unit}"));
        let burst = parameter("burst").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        // The request that is due counts, too.
        limit.put(key!("burst"), burst + 1);
        limit.put(key!("key"), key);
        limits.push(limit.into());
        world.ledger.carried(zone.line);
        world.ledger.carried(directive.line);
        let waits = burst > 0 && !directive.words.iter().any(|word| word == "nodelay");
        if waits {
            world.ledger.changes(
                directive.line,
                "requests within the burst are not delayed, but forwarded at once",
                "lower burst if endpoints need an even rate",
            );
        }
        status(levels, "limit_req_status", directive, world);
    }
    for directive in group(levels, "limit_conn") {
        let zone = world.zones.get(&format!("limit_conn_zone:{}", directive.word(1))).cloned();
        let most = directive.word(2).parse::<u64>().ok();
        match zone.and_then(|zone| Some((zone.clone(), key_of(&zone.key)?, most?))) {
            Some((zone, key, most)) => {
                limits.push(Draft::<Limit>::one(key!("in_flight"), most).with(key!("key"), key).into());
                world.ledger.carried(zone.line);
                world.ledger.carried(directive.line);
                status(levels, "limit_conn_status", directive, world);
            }
            None => {
                let todo = "limits = [{ in_flight = 20, key = \"client\" }] in the [[route]]";
                world.ledger.changes(
                    directive.line,
                    "its zone is not there, or counts by something that is not a key here",
                    todo,
                );
            }
        }
    }
    if !limits.is_empty() {
        set.put(key!("limits"), Value::List(limits));
    }
}

fn status(levels: &[&[Directive]], name: &str, of: &Directive, world: &mut World<'_>) {
    match single(levels, name) {
        Some(directive) if directive.word(1) == "429" => world.ledger.carried(directive.line),
        Some(directive) => {
            let reason = format!("too many requests are answered by 429, not by {}", directive.word(1));
            world.ledger.changes(directive.line, reason, "nothing, unless clients depend on it");
        }
        None => world.ledger.changes(
            of.line,
            "too many requests are answered by 429, and by NGINX by 503",
            "nothing, unless clients depend on it",
        ),
    }
}

fn key_of(key: &str) -> Option<String> {
    Some(match key {
        "$binary_remote_addr" | "$remote_addr" => "client".to_string(),
        "$server_name" | "$host" | "$http_host" => "route".to_string(),
        key => match key.strip_prefix('$')? {
            name if name.starts_with("http_") => format!("header:{}", variable::field_of(&name[5..])),
            name if name.starts_with("cookie_") => format!("cookie:{}", &name[7..]),
            _ => return None,
        },
    })
}
