//! Commands that change endpoints of a running evenkeel, start its successor, open its logs again, or print its events.

use crate::arguments::{Chosen, Drain, Drained, Events, Reopen, Split as Arguments, Upgrade, Verb, Weight};
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::{print, print_more, table};
use evenkeel_config::wildcard::matches;
use evenkeel_view::served::{Action, Route, Split};
use evenkeel_view::words::{ago, escaped, unix_ms};
use evenkeel_view::{Endpoint, Event, Pool};
use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Runs `evenkeel drain`.
pub fn drain(arguments: &Drain) -> Result<(), Failure> {
    let how = if arguments.now { "now" } else { "keep-sessions" };
    let Drained { pool, endpoint, json, place } = &arguments.at;
    let client = Client::new(place)?;
    let drained = order(&client, (pool, endpoint.as_deref()), *json, &json!({ "drain": how }))?;
    let mut pools: Vec<&str> = drained.iter().map(|(pool, _)| pool.as_str()).collect();
    pools.dedup();
    for name in pools {
        let pool: Pool = client.get(&format!("/v1/pools/{}", escaped(name)))?;
        let is_drained = |endpoint: &Endpoint| endpoint.order.as_ref().is_some_and(|order| order.drain.is_some());
        if !pool.endpoints.is_empty() && pool.endpoints.iter().all(is_drained) {
            let routes: Vec<Route> = client.get("/v1/routes")?;
            eprintln!("note: all endpoints of pool \"{name}\" are drained: {}", consequences(name, &routes));
        }
    }
    Ok(())
}

/// Describes where requests of a pool go whose endpoints are all drained.
fn consequences(pool: &str, routes: &[Route]) -> String {
    let (mut moved, mut refused) = (Vec::new(), Vec::new());
    for route in routes {
        match &route.action {
            Action::Split(split) if split.pools.iter().any(|share| share.pool == pool && share.drained) => {
                let others = split.pools.iter().filter(|share| share.share > 0.0).map(|share| share.pool.as_str());
                let others = others.collect::<Vec<_>>().join(", ");
                moved.push(format!("the split of route \"{}\" sends its share to {others}", route.name));
            }
            action if action.pools().iter().any(|(name, _)| *name == pool) => {
                refused.push(format!("route \"{}\"", route.name));
            }
            _ => {}
        }
    }
    match (moved.is_empty(), refused.is_empty()) {
        (true, _) => "the pool serves no new requests until an endpoint is undrained".to_owned(),
        (false, true) => moved.join("; "),
        (false, false) => format!("{}; the pool serves no new requests of {}", moved.join("; "), refused.join(", ")),
    }
}

/// Runs `evenkeel undrain`.
pub fn undrain(Drained { pool, endpoint, json, place }: &Drained) -> Result<(), Failure> {
    order(&Client::new(place)?, (pool, endpoint.as_deref()), *json, &json!({ "drain": null })).map(drop)
}

/// Runs `evenkeel weight`.
pub fn weight(arguments: &Weight) -> Result<(), Failure> {
    order_chosen(&arguments.at, &json!({ "weight": arguments.weight }))
}

/// Runs `evenkeel split`.
pub fn split(Arguments { route, weights, configured, json, place }: &Arguments) -> Result<(), Failure> {
    let path = format!("/v1/routes/{}/split", escaped(route));
    let change = match (weights.is_empty(), configured) {
        (_, true) => Some(json!({ "weights": null })),
        (false, false) => Some(json!({ "weights": weights.iter().cloned().collect::<BTreeMap<String, u32>>() })),
        (true, false) => None,
    };
    let method = if change.is_some() { Method::PATCH } else { Method::GET };
    let text = Client::new(place)?.text(&method, &path, change.map(|change| change.to_string()))?;
    if *json {
        return print(&(text + "\n"));
    }
    let split: Split =
        serde_json::from_str(&text).map_err(|error| Failure::running(format!("cannot read the response: {error}")))?;
    print(&shares(&split, unix_ms(SystemTime::now())))
}

/// Formats a split as a table of its pools.
fn shares(split: &Split, now_ms: u64) -> String {
    let row = |pool: &evenkeel_view::served::Share| {
        let weight = match pool.weight == pool.configured {
            true => pool.weight.to_string(),
            false => format!("{} (configured {})", pool.weight, pool.configured),
        };
        let drained = if pool.drained { " (drained)" } else { "" };
        vec![pool.pool.clone(), weight, format!("{:.1}%{drained}", pool.share * 100.0)]
    };
    let rows: Vec<Vec<String>> = split.pools.iter().map(row).collect();
    let order = split
        .order
        .as_ref()
        .map(|order| format!("weights set by {}, {} ago\n", order.by, ago(now_ms.saturating_sub(order.at_ms))));
    table(&["POOL", "WEIGHT", "SHARE"], &rows) + &order.unwrap_or_default()
}

/// Runs `evenkeel endpoint`, and its verbs by themselves.
pub fn endpoint(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Up(chosen) => order_chosen(chosen, &json!({ "health": "up" })),
        Verb::Down(chosen) => order_chosen(chosen, &json!({ "health": "down" })),
        Verb::Auto(chosen) => order_chosen(chosen, &json!({ "health": null })),
        Verb::Eject(chosen) => eject(chosen, "eject"),
        Verb::Restore(chosen) => eject(chosen, "restore"),
    }
}

fn eject(Chosen { pool, endpoint, json, place }: &Chosen, verb: &str) -> Result<(), Failure> {
    let client = Client::new(place)?;
    for (pool, endpoint) in chosen(&client, pool, Some(endpoint))? {
        done(&pool, *json, &client.ask(&Method::POST, &format!("{}/{verb}", path(&pool, &endpoint)), None)?)?;
    }
    Ok(())
}

/// Runs `evenkeel events`.
pub fn events(arguments: &Events) -> Result<(), Failure> {
    let client = Client::new(&arguments.place)?;
    let show = |event: &Event| match arguments.json {
        true => serde_json::to_string(event).unwrap_or_default() + "\n",
        false => line(event, unix_ms(SystemTime::now())),
    };
    if arguments.follow {
        return client.follow("/v1/events", |data| {
            serde_json::from_str(data).map_or(true, |event| print_more(&show(&event)).unwrap_or(false))
        });
    }
    let events: Vec<Event> = client.get("/v1/events")?;
    print(&events.iter().map(show).collect::<String>())
}

/// Runs `evenkeel upgrade`.
pub fn upgrade(arguments: &Upgrade) -> Result<(), Failure> {
    let said: String = Client::new(&arguments.place)?.ask(&Method::POST, "/v1/upgrade", None)?;
    print(&format!("{said}\n"))
}

/// Runs `evenkeel reopen`.
pub fn reopen(arguments: &Reopen) -> Result<(), Failure> {
    let said: String = Client::new(&arguments.place)?.ask(&Method::POST, "/v1/reopen", None)?;
    print(&format!("{said}\n"))
}

fn path(pool: &str, endpoint: &str) -> String {
    format!("/v1/pools/{}/endpoints/{}", escaped(pool), escaped(endpoint))
}

fn order_chosen(Chosen { pool, endpoint, json, place }: &Chosen, patch: &Value) -> Result<(), Failure> {
    order(&Client::new(place)?, (pool, Some(endpoint)), *json, patch).map(drop)
}

/// Changes the endpoints that are meant, prints each, and returns the names of their pools and theirs.
fn order(
    client: &Client,
    (pool, endpoint): (&str, Option<&str>),
    json: bool,
    patch: &Value,
) -> Result<Vec<(String, String)>, Failure> {
    let all = chosen(client, pool, endpoint)?;
    for (pool, endpoint) in &all {
        done(pool, json, &client.ask(&Method::PATCH, &path(pool, endpoint), Some(patch.to_string()))?)?;
    }
    Ok(all)
}

/// The pools and endpoints that two words of a command line name.
fn chosen(client: &Client, pool: &str, endpoint: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
    let is_pattern = |word: &str| word.contains(['*', '?']);
    if let Some(endpoint) = endpoint.filter(|endpoint| !is_pattern(pool) && !is_pattern(endpoint)) {
        // The process names those that there are.
        return Ok(vec![(pool.to_owned(), endpoint.to_owned())]);
    }
    let pools: Vec<Pool> = client.get("/v1/pools")?;
    let endpoints = |pool: &Pool, wanted: &str| -> Vec<(String, String)> {
        let names = pool.endpoints.iter().map(|endpoint| &endpoint.name);
        names.filter(|name| matches(wanted, name)).map(|name| (pool.name.clone(), name.clone())).collect()
    };
    let named: Vec<&Pool> = pools.iter().filter(|known| matches(pool, &known.name)).collect();
    let found: Vec<_> = named.iter().flat_map(|named| endpoints(named, endpoint.unwrap_or("*"))).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names = |of: &[&str]| of.iter().take(20).copied().collect::<Vec<_>>().join(", ");
    if let ([first, ..], wanted) = (&named[..], endpoint.unwrap_or("*")) {
        let known: Vec<&str> = first.endpoints.iter().map(|endpoint| &*endpoint.name).collect();
        let problem = format!("no endpoint of pool \"{}\" matches \"{wanted}\"", first.name);
        return Err(match known.is_empty() {
            true => Failure::running(format!("pool \"{}\" has no endpoints", first.name)),
            false => Failure::running(format!("{problem}; endpoints: {}", names(&known))),
        });
    }
    let known: Vec<&str> = pools.iter().map(|pool| &*pool.name).collect();
    let failure = Failure::running(format!("unknown pool \"{pool}\"; pools: {}", names(&known)));
    Err(match pools.iter().find(|known| !endpoints(known, pool).is_empty()) {
        Some(of) => failure.help(format!("pool \"{}\" has matching endpoints: write {} '{pool}'", of.name, of.name)),
        None => failure,
    })
}

/// Prints the state of an endpoint.
fn done(pool: &str, json: bool, endpoint: &Endpoint) -> Result<(), Failure> {
    if json {
        return print(&(serde_json::to_string(endpoint).unwrap_or_default() + "\n"));
    }
    let Endpoint { name, state, reason, weight, in_flight, .. } = endpoint;
    let why = reason.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let effective = (weight.effective * 100.0).round() / 100.0;
    print(&format!(
        "{pool}  {name}  {state}{why}  weight {} -> {effective}  in flight {in_flight}\n",
        weight.configured
    ))
}

fn line(event: &Event, now_ms: u64) -> String {
    let by = event.by.as_ref().map_or(String::new(), |by| format!(" ({by})"));
    let (since, about) = (ago(now_ms.saturating_sub(event.at_ms)), event.about("  "));
    format!("{since:>7} ago  {about}  {}{by}\n", event.text)
}
