//! `limit_req` and `limit_conn`: limits of a route, which all locations with the same zone share.

use crate::ledger::Line;
use crate::model::{Draft, RouteKeys, Value, name_of};
use crate::nginx::lexer::Directive;
use crate::nginx::variable::{self, Scope};
use crate::nginx::world::{World, Zone, group, single};
use crate::protection::closed_by;
use evenkeel_config::plan::{Limit, Map};
use std::collections::BTreeMap;

const ANOTHER_KEY: &str = "another key of the limit";

/// Adds the limits of a location with these levels.
pub(in crate::nginx) fn read(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    let mut limits: Vec<Value> = Vec::new();
    for directive in group(levels, "limit_req").into_iter().chain(group(levels, "limit_conn")) {
        let is_rate = directive.name() == "limit_req";
        let dry = if is_rate { "limit_req_dry_run" } else { "limit_conn_dry_run" };
        if let Some(dry) = single(levels, dry).filter(|d| d.word(1) == "on") {
            world.ledger.changes(
                dry.line,
                "a limit without an effect is not carried over",
                "limits = [...] in the [[route]], once it should have one",
            );
            world.ledger.dropped(directive.line, "it only counts");
            continue;
        }
        let parameter =
            |name: &str| directive.from(1).iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let name = if is_rate { parameter("zone").unwrap_or_default() } else { directive.word(1) };
        let zone = world.zones.get(&format!("{}_zone:{name}", directive.name())).cloned();
        let own = match is_rate {
            true => Some(parameter("burst").map_or(0, |n| n.parse::<u64>().unwrap_or(0))),
            false => directive.word(2).parse::<u64>().ok(),
        };
        let limit = zone.as_ref().and_then(|zone| amount(zone, zone.least?, is_rate));
        let (Some(zone), Some(own), Some(limit)) = (zone, own, limit) else {
            closed_by(directive.line, "its zone or its amount is not known", set, world.ledger);
            continue;
        };
        world.ledger.carried(zone.line);
        world.ledger.carried(directive.line);
        let Some(key) = key_of(&zone, directive, scope, world) else {
            world.ledger.dropped(directive.line, "its key is empty, so that no request counts");
            continue;
        };
        // A constant key is the same for all requests of a server.
        let of = variable::constant(&zone.key, scope).map_or(name.to_string(), |text| format!("{name}-{text}"));
        let limit = limit.with(key!("key"), key.as_str());
        limits.push(shared(&of, limit, &zone, directive.line, world).into());
        if zone.least.is_some_and(|least| own > least) {
            let reason = "all locations with its zone have the smallest of their amounts, which refuses more requests";
            world.ledger.decide(directive.line, reason, "a larger amount in the limit, or a limit of its own");
        }
        let waits = is_rate && own > 0 && !directive.words.iter().any(|word| word == "nodelay");
        if waits {
            world.ledger.changes(
                directive.line,
                "requests within the burst are not delayed, but forwarded at once",
                "lower burst if endpoints need an even rate",
            );
        }
        status(levels, if is_rate { "limit_req_status" } else { "limit_conn_status" }, directive, world);
    }
    if !limits.is_empty() {
        set.put(key!("limits"), Value::List(limits));
    }
}

/// The limit of a zone for a burst, or for a number of requests in flight, without its key. `None` if its rate is not known.
fn amount(zone: &Zone, most: u64, is_rate: bool) -> Option<Draft<Limit>> {
    if !is_rate {
        return (most > 0).then(|| Draft::one(key!("in_flight"), most));
    }
    let (number, unit) = zone.rate.split_once("r/").filter(|(_, unit)| matches!(*unit, "s" | "m"))?;
    let number = number.parse::<u64>().ok().filter(|number| *number > 0)?;
    // The request that is due counts, too.
    Some(Draft::one(key!("requests"), format!("{number}/{unit}")).with(key!("burst"), (most + 1).min(1_000_000)))
}

/// Name of the limit that all locations with a zone, or with a zone and a constant key, share. Keys that differ between
/// locations would be counted apart, and let more requests through: such a limit gets the key that all of them have in common.
fn shared(of: &str, limit: Draft<Limit>, zone: &Zone, line: Line, world: &mut World<'_>) -> String {
    let is_rate = limit.has(key!("requests"));
    let is_same = |name: &str, other: &Draft<Limit>, users: &BTreeMap<String, String>| {
        other.has(key!("requests")) == is_rate && users.get(name).is_some_and(|user| user == of)
    };
    if let Some((name, other)) =
        world.target.limits.iter_mut().find(|(name, other)| is_same(name, other, &world.limits))
    {
        if *other != limit {
            let common = common_key(zone);
            other.put(key!("key"), common);
            if limit.text(key!("key")) != Some(common) {
                world.ledger.decide(line, coarser(common, zone), ANOTHER_KEY);
            }
        }
        return name.clone();
    }
    let base = name_of(of).replace('.', "-");
    let mut names = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}-{number}")));
    let is_free = |name: &String| world.target.limits.iter().all(|(other, _)| other != name);
    let name = names.find(is_free).unwrap_or(base);
    world.limits.insert(name.clone(), of.to_string());
    world.target.limits.push((name.clone(), limit));
    name
}

/// Key by which requests are counted where that of a zone has no counterpart, or several.
fn common_key(zone: &Zone) -> &'static str {
    if zone.key.contains("remote_addr") { "client" } else { "route" }
}

fn coarser(key: &str, zone: &Zone) -> String {
    format!("requests are counted by \"{key}\", not by `{}`, which refuses more of them", zone.key)
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

/// Key of the requests that share the limit of a zone; `None` if no request counts. A key without a counterpart becomes a
/// key that refuses more.
fn key_of(zone: &Zone, directive: &Directive, scope: &Scope, world: &mut World<'_>) -> Option<String> {
    if matches!(&*zone.key, "$binary_remote_addr" | "$remote_addr") {
        return Some("client".to_string());
    }
    if let Some(name) = variable::only(&zone.key) {
        let tables = std::rc::Rc::clone(&world.tables);
        if let Some((text, lines)) = tables.only_text(name).filter(|(text, _)| *text != zone.key) {
            lines.iter().for_each(|line| world.ledger.carried(*line));
            let reason = format!("requests for which `{}` is empty are counted, too", zone.key);
            let todo = "a [[route]] without the limit, with client in its match, for those that are exempt";
            world.ledger.decide(directive.line, reason, todo);
            return key_of(&Zone { key: text.to_string(), ..zone.clone() }, directive, scope, world);
        }
        if let Some(field) = name.strip_prefix("http_").filter(|field| *field != "host") {
            return Some(format!("header:{}", variable::field_of(field)));
        }
        if let Some(cookie) = name.strip_prefix("cookie_") {
            return Some(format!("cookie:{cookie}"));
        }
    }
    // A client chooses the port and the case of a host, and the spelling of a path.
    let is_chosen = ["host", "$uri", "${uri", "$document_uri"].iter().any(|part| zone.key.contains(part));
    match variable::read(&zone.key, scope).ok().filter(|_| !is_chosen) {
        Some(text) if text.is_empty() => None,
        Some(text) if text.contains('{') => {
            let mut map: Draft<Map> = Draft::one(key!("from"), text.as_str()).with(key!("default"), text.as_str());
            map.insert(key!("rows"), "-", "-");
            Some(format!("map:{}", world.tables.tests.name("limit", &map)))
        }
        Some(_) => Some("route".to_string()),
        None => {
            let key = common_key(zone);
            world.ledger.decide(directive.line, coarser(key, zone), ANOTHER_KEY);
            Some(key.to_string())
        }
    }
}
