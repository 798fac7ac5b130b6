//! nginx.conf: blocks, the directives that inner blocks inherit, and their counterparts.

// Order: server & stream, pass, rules, filters, inherited, known, tree, tls, listen, world,
// upstream, variable & table, lexer, names, time
mod filters;
mod inherited;
mod known;
mod lexer;
mod listen;
mod names;
mod pass;
mod rules;
mod server;
mod stream;
mod table;
mod time;
mod tls;
mod tree;
mod upstream;
mod variable;
mod world;

use crate::ledger::Ledger;
use crate::model::Target;
use crate::template;
use evenkeel_config::Files;
use filters::OF_CACHE;
use inherited::INHERITED;
use lexer::{Directive, Reader};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use world::World;

/// Reads an nginx.conf and the files that it includes.
pub(crate) fn translate(text: &str, file: &Arc<str>, files: &dyn Files, ledger: &mut Ledger) -> Target {
    let all = Reader::new(files, ledger, file).read(text, file, 0);
    known::settle(&all, ledger);
    let http = all.iter().find(|d| d.name() == "http" && d.block.is_some());
    // A file without `http` is a snippet for the inside of `http`.
    let level = http.map_or(all.as_slice(), Directive::inner);
    let streams: Vec<&Directive> = all.iter().filter(|d| d.name() == "stream").collect();
    process(&all, ledger);
    // Inherited directives are looked up for each server, so they stand apart from the servers.
    let is_server = |directive: &&Directive| directive.name() == "server" && directive.block.is_some();
    let servers: Vec<&Directive> = level.iter().filter(is_server).collect();
    let around: Vec<Directive> = level.iter().filter(|d| !is_server(d) && d.name() != "upstream").cloned().collect();
    let mut world = World::new(level, ledger);
    server::translate(&servers, &around, &mut world);
    for stream in &streams {
        world.ledger.carried(stream.line);
        stream::translate(stream.inner(), &mut world);
    }
    let tables = std::rc::Rc::clone(&world.tables);
    let mut maps = tables.used(world.ledger);
    maps.extend(tables.tests.used_in(|| world.target.clone().into_toml()));
    world.target.maps = maps;
    logs(&all, &mut world);
    body_default(&mut world);
    if world.target.listeners.iter().any(|listener| !listener.is_tcp) && !world.target.pools.is_empty() {
        // NGINX waits this long for a response by default.
        world.target.root.put(key!("defaults.timeouts.response"), "60s");
    }
    underscores(&mut world);
    crate::limits::unshare(&mut world.target);
    leftovers(&all, &mut world);
    world.target
}

/// Blocks and lines around the servers.
fn process(all: &[Directive], ledger: &mut Ledger) {
    for directive in all {
        match directive.name() {
            "http" => ledger.carried(directive.line),
            "events" => ledger.dropped(directive.line, "the event loop needs no settings"),
            "mail" => {
                let todo = "a listener with mode = \"tcp\" for each port, if a plain balancer is enough";
                lost(directive, "mail is not proxied with its protocols", todo, ledger);
            }
            "location" => {
                let (reason, todo) =
                    ("it stands outside of a server", "convert the nginx.conf that includes this file");
                ledger.decide(directive.line, reason, todo);
                directive.inner().iter().for_each(|inner| lost(inner, reason, todo, ledger));
            }
            _ => {}
        }
    }
    blocks_of_templates(all, ledger);
}

/// Settles the contents of blocks that begin with a line of a template. The line itself has been reported.
fn blocks_of_templates(all: &[Directive], ledger: &mut Ledger) {
    for directive in all {
        if directive.name() != template::BLOCK {
            blocks_of_templates(directive.inner(), ledger);
            continue;
        }
        ledger.carried(directive.line);
        for inner in directive.inner() {
            lost(inner, "it stands in a block of a template", "render the template, and convert the result", ledger);
        }
    }
}

fn lost(directive: &Directive, reason: &str, todo: &str, ledger: &mut Ledger) {
    ledger.changes(directive.line, reason, todo);
    directive.inner().iter().for_each(|inner| lost(inner, reason, todo, ledger));
}

/// Every directive of a name, at any level.
fn everywhere<'d>(all: &'d [Directive], name: &str, found: &mut Vec<&'d Directive>) {
    for directive in all {
        if directive.name() == name {
            found.push(directive);
        }
        everywhere(directive.inner(), name, found);
    }
}

fn logs(all: &[Directive], world: &mut World<'_>) {
    let mut lines = Vec::new();
    everywhere(all, "access_log", &mut lines);
    let first = lines.iter().find(|d| d.word(1) != "off").copied();
    let all_off = first.is_none();
    for line in lines {
        let path = line.word(1);
        match (path, first) {
            ("off", _) if all_off => world.ledger.dropped(line.line, "there is no access log unless one is named"),
            ("off", _) => world.ledger.changes(
                line.line,
                "the access log is on for all requests, or for none",
                "filter where the log is read",
            ),
            (path, Some(first)) if path != first.word(1) => {
                world.ledger.changes(
                    line.line,
                    "the access log has one destination for all listeners",
                    "lines have the host and the route; split them where they are read",
                );
            }
            (path, _) => access_log(line, path, world),
        }
    }
    let mut formats = Vec::new();
    everywhere(all, "log_format", &mut formats);
    for format in formats {
        let todo = "write it as a template: telemetry.access_log.format = \"%{client} %{status} %{path}\"";
        world.ledger.changes(format.line, "the format of lines is written in another way; `combined` is used", todo);
    }
    let mut errors = Vec::new();
    everywhere(all, "error_log", &mut errors);
    for line in errors {
        world.ledger.dropped(line.line, "the log of the process is on standard error, with runtime.log.level");
    }
    let mut resolvers = Vec::new();
    everywhere(all, "resolver", &mut resolvers);
    for line in resolvers {
        resolver(line, world);
    }
}

fn access_log(line: &Directive, path: &str, world: &mut World<'_>) {
    let path = match path {
        "/dev/stdout" => "stdout".to_string(),
        "/dev/stderr" => "stderr".to_string(),
        path if path.starts_with("syslog:") => {
            match path.strip_prefix("syslog:server=").and_then(|rest| rest.split(',').next()) {
                Some(server) if server.starts_with("unix:") => format!("syslog:{}", &server[5..]),
                Some(server) if server.parse::<SocketAddr>().is_ok() => format!("syslog:udp:{server}"),
                Some(server) if server.parse::<IpAddr>().is_ok() => format!("syslog:udp:{server}:514"),
                _ => {
                    return world.ledger.changes(
                        line.line,
                        "the log needs an address to be sent to",
                        "telemetry.access_log.path = \"syslog:udp:ADDRESS:514\"",
                    );
                }
            }
        }
        path if path.contains('$') => {
            return world.ledger.changes(
                line.line,
                "the name of the log has a variable",
                "telemetry.access_log.path with a fixed name",
            );
        }
        path => path.to_string(),
    };
    world.target.root.put(key!("telemetry.access_log.path"), path);
    world.target.root.put(key!("telemetry.access_log.format"), "combined");
    world.ledger.carried(line.line);
}

fn resolver(line: &Directive, world: &mut World<'_>) {
    world.ledger.carried(line.line);
    for word in line.from(1).iter().filter(|word| !word.contains('=')) {
        let address = match (word.parse::<SocketAddr>(), word.trim_matches(['[', ']']).parse::<IpAddr>()) {
            (Ok(address), _) => address,
            (_, Ok(ip)) => SocketAddr::new(ip, 53),
            _ => {
                world.ledger.changes(
                    line.line,
                    format!("the name server {word} has no address"),
                    "write it in resolver.nameservers",
                );
                continue;
            }
        };
        match address.ip() == IpAddr::from([127, 0, 0, 11]) {
            true => world.ledger.dropped(line.line, "Docker's name server is in /etc/resolv.conf"),
            false => world.target.root.push(key!("resolver.nameservers"), address.to_string()),
        }
    }
}

/// Writes the default limit of bodies in NGINX.
fn body_default(world: &mut World<'_>) {
    let forwards = |route: &crate::model::Route| {
        matches!(route.action, crate::model::Action::Pool(_)) && !route.set.has(key!("body_max"))
    };
    if world.target.routes.iter().any(forwards) {
        world.target.root.put(key!("defaults.route.body_max"), "1MiB");
    }
}

/// Has fields with `_` in their names dropped, as by NGINX, unless a setting keeps them.
fn underscores(world: &mut World<'_>) {
    let forwards = |route: &crate::model::Route| {
        matches!(route.action, crate::model::Action::Pool(_) | crate::model::Action::Split(_))
    };
    if !world.target.routes.iter().any(forwards) {
        return;
    }
    let word = |listener: &crate::model::Listener| listener.set.text(key!("underscores")).unwrap_or("drop").to_string();
    let own: Vec<String> = world.target.listeners.iter().filter(|listener| !listener.is_tcp).map(word).collect();
    let Some(first) = own.first() else { return };
    if own.iter().all(|other| other == first) {
        world.target.listeners.iter_mut().for_each(|listener| drop(listener.set.remove(key!("underscores"))));
        if first != "keep" {
            world.target.root.put(key!("defaults.underscores"), first.as_str());
        }
    } else {
        world.target.root.put(key!("defaults.underscores"), "drop");
    }
}

/// Settles directives that have no effect in their place.
fn leftovers(all: &[Directive], world: &mut World<'_>) {
    for directive in all {
        let line = directive.line;
        if !world.ledger.is_settled(line) {
            match directive.name() {
                name if INHERITED.contains(&name) || OF_CACHE.contains(&name) => {
                    world.ledger.dropped(line, "no request that is carried over depends on it")
                }
                "proxy_cache_path" => world.ledger.dropped(line, "no location that was carried over uses it"),
                "limit_req_zone" | "limit_conn_zone" => world.ledger.dropped(line, "no location uses the zone"),
                "upstream" => {
                    world.ledger.dropped(line, "nothing that was carried over leads to it");
                    unused(directive.inner(), world);
                }
                "map" | "geo" => map(directive, world),
                "absolute_redirect" if directive.word(1) == "off" => {
                    let todo = "redirect = { to = \"/PATH\" } in the [[route]]";
                    world.ledger.changes(line, "redirects that keep the query have a scheme and a host", todo);
                }
                "server_name_in_redirect" if directive.word(1) == "on" => {
                    let todo = "host in the redirect of the [[route]]";
                    world.ledger.changes(line, "redirects have the host of the request", todo);
                }
                "port_in_redirect" | "absolute_redirect" | "server_name_in_redirect" | "default_type" => {
                    world.ledger.carried(line);
                }
                "proxy_pass" | "grpc_pass" | "if" | "return" | "rewrite" | "break" => {
                    world.ledger.dropped(line, "rules before it answer all requests")
                }
                "internal" | "valid_referers" | "satisfy" | "limit_except" => {
                    world.ledger.dropped(line, "no request that is carried over depends on it")
                }
                "server_name" | "listen" => world.ledger.dropped(line, "its server has nothing that was carried over"),
                "try_files" => world.ledger.changes(
                    line,
                    "files are not served from disk",
                    "keep a web server for them, as a pool of its own",
                ),
                "set" => world.ledger.dropped(line, "nothing that was carried over reads the variable"),
                _ => {}
            }
        }
        leftovers(directive.inner(), world);
    }
}

fn unused(all: &[Directive], world: &mut World<'_>) {
    for directive in all {
        if !world.ledger.is_settled(directive.line) {
            world.ledger.dropped(directive.line, "nothing that was carried over leads to its upstream");
        }
    }
}

fn map(directive: &Directive, world: &mut World<'_>) {
    if directive.word(1) == "$http_upgrade" {
        world.ledger.dropped(directive.line, "upgrades such as WebSockets pass by themselves");
        return directive
            .inner()
            .iter()
            .for_each(|inner| world.ledger.dropped(inner.line, "upgrades such as WebSockets pass by themselves"));
    }
    let reason = "nothing that was carried over reads the variable";
    world.ledger.dropped(directive.line, reason);
    directive
        .inner()
        .iter()
        .filter(|inner| !world.ledger.is_settled(inner.line))
        .map(|inner| inner.line)
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|line| world.ledger.dropped(line, reason));
}
