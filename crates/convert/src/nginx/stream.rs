//! `stream`: TCP sessions and flows of datagrams.

use super::filters::may_refuse;
use super::lexer::Directive;
use super::listen::address;
use super::time::milliseconds;
use super::variable::{self, Scope};
use super::world::{World, Zone, group, single};
use crate::limits::put_time;
use crate::model::{Action, Cond, Draft, Key, Listener, Match, Route, cert_files};

/// Translates the servers of a `stream` block.
pub(super) fn translate<'d>(stream: &'d [Directive], world: &mut World<'d>) {
    for directive in stream {
        match directive.name() {
            "upstream" => drop(world.upstreams.insert(directive.word(1), directive)),
            "limit_conn_zone" => world.zone(directive),
            "map" => drop(world.maps.insert(directive.word(2).trim_start_matches('$'), directive)),
            _ => {}
        }
    }
    for server in stream.iter().filter(|d| d.name() == "server" && d.block.is_some()) {
        self::server(server, stream, world);
    }
}

fn server<'d>(server: &'d Directive, stream: &'d [Directive], world: &mut World<'d>) {
    world.ledger.carried(server.line);
    let levels: [&'d [Directive]; 2] = [stream, server.inner()];
    let mut listener = Listener { is_tcp: true, ..Listener::default() };
    for listen in server.inner().iter().filter(|d| d.name() == "listen") {
        match address(listen.word(1)) {
            Some(address) => {
                world.ledger.carried(listen.line);
                listener.bind.push(address);
            }
            None => {
                world.ledger.changes(listen.line, "it is not an address to listen on", "add it to bind of a listener")
            }
        }
        listener.is_udp |= listen.words.iter().any(|word| word == "udp");
        if listen.words.iter().any(|word| word == "ssl") {
            certificates(&levels, &mut listener, world);
        }
    }
    // `[::]` has both families.
    let all = listener.bind.clone();
    listener
        .bind
        .retain(|bind| !bind.strip_prefix("0.0.0.0:").is_some_and(|port| all.contains(&format!("[::]:{port}"))));
    listener.bind.dedup();
    let port = listener
        .bind
        .first()
        .and_then(|bind| bind.rsplit(':').next())
        .unwrap_or("0")
        .trim_matches(['$', '{', '}'])
        .to_string();
    listener.name = format!("{}-{port}", if listener.is_udp { "udp" } else { "tcp" });
    let others = world.target.listeners.iter().filter(|other| other.name.starts_with(&listener.name)).count();
    if others > 0 {
        listener.name = format!("{}-{}", listener.name, others + 1);
    }
    let Some(pass) = server.inner().iter().find(|d| d.name() == "proxy_pass") else {
        return world.ledger.changes(server.line, "it has no proxy_pass", "write a listener and a pool by hand");
    };
    preread(&levels, world);
    let scope = Scope::default();
    let by_map = variable::only(pass.word(1)).and_then(|name| world.maps.get(name)).copied();
    match by_map {
        Some(map) => by_name(map, pass, &mut listener, &levels, world),
        None => match world.forward("tcp", pass.word(1), &scope, pass.line) {
            Some(forward) => {
                world.ledger.carried(pass.line);
                settings(&forward.pool, &levels, &mut listener, world);
                listener.pool = Some(forward.pool);
            }
            None => world.ledger.changes(pass.line, "the endpoint comes from a variable", "write a pool by hand"),
        },
    }
    let name = listener.name.clone();
    if listener.bind.is_empty() || refuses(&levels, &mut listener, world) {
        let of = Cond::one_of(Key::Listener, [name.as_str()]);
        world.target.routes.retain(|route| !route.matching.conds.contains(&of));
    } else {
        world.target.listeners.push(listener);
    }
}

/// True if the server refuses sessions by rules that a listener does not have.
fn refuses(levels: &[&[Directive]], listener: &mut Listener, world: &mut World<'_>) -> bool {
    let mut is_refused = false;
    let mut refuse = |line, world: &mut World<'_>| {
        let reason = "sessions are not refused by this rule here: the listener is left out";
        world.ledger.decide(line, reason, "write the listener, and refuse clients by a firewall, such as nftables");
        is_refused = true;
    };
    let rules = levels.iter().rev().find(|level| level.iter().any(|d| matches!(d.name(), "allow" | "deny")));
    for rule in rules.into_iter().flat_map(|level| level.iter()) {
        match rule.name() {
            "deny" => refuse(rule.line, world),
            "allow" => world.ledger.dropped(rule.line, "it is for the rules behind it"),
            _ => {}
        }
    }
    for limit in group(levels, "limit_conn") {
        let zone = world.zones.get(&format!("limit_conn_zone:{}", limit.word(1))).cloned();
        let is_by_client = |zone: &Zone| matches!(&*zone.key, "$binary_remote_addr" | "$remote_addr");
        match (zone.filter(is_by_client), limit.word(2).parse::<u64>()) {
            (Some(zone), Ok(most)) => {
                listener.set.put(key!("limits.connections_per_address"), most);
                world.ledger.carried(zone.line);
                world.ledger.carried(limit.line);
            }
            _ => refuse(limit.line, world),
        }
    }
    for level in levels {
        for directive in level.iter().filter(|d| may_refuse(d.name(), true) || d.name() == "ssl_verify_client") {
            match directive.word(1) {
                "off" => world.ledger.carried(directive.line),
                _ if directive.name() == "limit_conn_zone" => {}
                _ => refuse(directive.line, world),
            }
        }
    }
    is_refused
}

fn preread(levels: &[&[Directive]], world: &mut World<'_>) {
    if let Some(directive) = single(levels, "ssl_preread") {
        world.ledger.dropped(directive.line, "the ClientHello is read where routes need it");
    }
}

fn certificates(levels: &[&[Directive]], listener: &mut Listener, world: &mut World<'_>) {
    for (certificate, key) in group(levels, "ssl_certificate").iter().zip(group(levels, "ssl_certificate_key")) {
        world.ledger.carried(certificate.line);
        world.ledger.carried(key.line);
        listener.set.push(key!("tls.certificates"), cert_files(certificate.word(1), key.word(1)));
    }
    if let Some(directive) = single(levels, "ssl_protocols") {
        world.ledger.dropped(directive.line, "TLS 1.2 is the oldest version that is accepted");
    }
}

/// Routes by the server name of the ClientHello.
fn by_name(map: &Directive, pass: &Directive, listener: &mut Listener, levels: &[&[Directive]], world: &mut World<'_>) {
    world.ledger.carried(map.line);
    world.ledger.carried(pass.line);
    let is_name = map.word(1) == "$ssl_preread_server_name";
    for line in map.inner() {
        let (key, value) = (line.word(0), line.word(1));
        if matches!(key, "hostnames" | "volatile") {
            world.ledger.dropped(line.line, "names are compared as hosts");
            continue;
        }
        if !is_name || key.starts_with('~') {
            let todo = "match.host of a [[route]] has names and wildcards";
            world.ledger.changes(line.line, "sessions are routed by fixed server names and wildcards only", todo);
            continue;
        }
        let Some(forward) = world.forward("tcp", value, &Scope::default(), line.line) else {
            world.ledger.changes(line.line, format!("\"{value}\" is not an endpoint"), "write a pool by hand");
            continue;
        };
        world.ledger.carried(line.line);
        settings(&forward.pool, levels, listener, world);
        if key == "default" {
            listener.pool = Some(forward.pool);
            continue;
        }
        let hosts: Vec<String> = match key.strip_prefix('.') {
            Some(domain) => vec![domain.to_string(), format!("*.{domain}")],
            None => vec![key.to_string()],
        };
        let matching =
            Match::of([Cond::one_of(Key::Listener, [listener.name.as_str()]), Cond::one_of(Key::Host, hosts)]);
        let name = format!("{}-{}", listener.name, forward.pool);
        let action = Action::Pool(forward.pool);
        world.target.routes.push(Route {
            name,
            comments: Vec::new(),
            matching,
            action,
            set: Draft::default(),
            line: line.line,
        });
    }
}

fn settings(pool: &str, levels: &[&[Directive]], listener: &mut Listener, world: &mut World<'_>) {
    let mut set = Draft::default();
    for (name, key) in [("proxy_connect_timeout", key!("timeouts.connect")), ("proxy_timeout", key!("timeouts.idle"))] {
        let Some(directive) = single(levels, name) else { continue };
        let Some(ms) = milliseconds(directive.word(1)) else {
            world.ledger.changes(directive.line, "its value was not understood", format!("set {key} of the pool"));
            continue;
        };
        world.ledger.carried(directive.line);
        match listener.is_udp && name == "proxy_timeout" {
            true => drop(put_time(&mut listener.set, key!("udp.idle"), ms)),
            false => drop(put_time(&mut set, key, ms)),
        }
    }
    if let Some(directive) = single(levels, "proxy_responses") {
        world.ledger.carried(directive.line);
        if let Ok(answers) = directive.word(1).parse::<u64>() {
            listener.set.put(key!("udp.answers"), answers);
        }
    }
    if let Some(directive) = single(levels, "proxy_protocol") {
        world.ledger.carried(directive.line);
        if directive.word(1) == "on" {
            set.put(key!("proxy_protocol"), "v1");
        }
    }
    if let Some(directive) = single(levels, "proxy_ssl") {
        world.ledger.carried(directive.line);
        if directive.word(1) == "on" {
            set.put(key!("tls.verify"), false);
            world.ledger.changes(
                directive.line,
                "certificates of endpoints are not verified, as in NGINX by default",
                "leave verify = false out of the pool if they are valid",
            );
        }
    }
    if let Some(pool) = world.target.pool(pool) {
        pool.set.merge(&set);
    }
}
