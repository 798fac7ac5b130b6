//! What may an operator change of a running evenkeel? What counts for an endpoint, until it is taken back.

use crate::arguments::{At, Drain, Events, Reopen, Upgrade, Weight};
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::{print, print_more};
use evenkeel_view::words::{ago, escaped, unix_ms};
use evenkeel_view::{Endpoint, Event};
use hyper::Method;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Runs `evenkeel drain`.
pub fn drain(arguments: &Drain) -> Result<(), Failure> {
    let how = if arguments.now { "now" } else { "keep-sessions" };
    order(&arguments.at, &json!({ "drain": how }))
}

/// Runs `evenkeel undrain`.
pub fn undrain(at: &At) -> Result<(), Failure> {
    order(at, &json!({ "drain": null }))
}

/// Runs `evenkeel weight`.
pub fn weight(arguments: &Weight) -> Result<(), Failure> {
    order(&arguments.at, &json!({ "weight": arguments.weight }))
}

/// Runs `evenkeel up`, `down` and `auto`. `health`: up, down, or as checks say.
pub fn health(at: &At, health: Option<&str>) -> Result<(), Failure> {
    order(at, &json!({ "health": health }))
}

/// Runs `evenkeel eject` and `restore`.
pub fn eject(at: &At, out: bool) -> Result<(), Failure> {
    let path = format!("{}/{}", path(at), if out { "eject" } else { "restore" });
    done(at, &Client::new(&at.place)?.ask(&Method::POST, &path, None)?)
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

fn path(at: &At) -> String {
    format!("/v1/pools/{}/endpoints/{}", escaped(&at.pool), escaped(&at.endpoint))
}

fn order(at: &At, patch: &Value) -> Result<(), Failure> {
    done(at, &Client::new(&at.place)?.ask(&Method::PATCH, &path(at), Some(patch.to_string()))?)
}

/// Says how the endpoint is now.
fn done(at: &At, endpoint: &Endpoint) -> Result<(), Failure> {
    if at.json {
        return print(&(serde_json::to_string(endpoint).unwrap_or_default() + "\n"));
    }
    let Endpoint { name, state, reason, weight, in_flight, .. } = endpoint;
    let why = reason.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let (pool, effective) = (&at.pool, (weight.effective * 100.0).round() / 100.0);
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
