//! How is a running evenkeel given another configuration? By its file, by another one, or by one that ran before.

use crate::arguments::{Apply, History, Reload, Rollback, Where};
use crate::commands::client::Client;
use crate::failure::{Failure, reason};
use crate::output::{print, table};
use evenkeel_view::config::{Config, Outcome, Revision};
use evenkeel_view::words::{ago, unix_ms};
use hyper::Method;
use serde_json::json;
use std::fs;
use std::time::SystemTime;

/// Runs `evenkeel reload`.
pub fn reload(arguments: &Reload) -> Result<(), Failure> {
    done(&Client::new(&arguments.place)?.ask(&Method::POST, "/v1/reload", None)?, arguments.json)
}

/// Runs `evenkeel config apply`.
pub fn apply(arguments: &Apply) -> Result<(), Failure> {
    let file = &arguments.file;
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::running(format!("cannot read {}: {}", file.display(), reason(&error))))?;
    let client = Client::new(&arguments.place)?;
    let running: Config = client.get("/v1/config")?;
    let path = if arguments.dry_run { "/v1/config?dry_run=true" } else { "/v1/config" };
    done(&client.propose(path, running.running.generation, text)?, arguments.json)?;
    if arguments.save { saved(&client, arguments.json) } else { Ok(()) }
}

/// Runs `evenkeel config rollback`.
pub fn rollback(arguments: &Rollback) -> Result<(), Failure> {
    let client = Client::new(&arguments.place)?;
    let body = json!({ "generation": arguments.generation }).to_string();
    done(&client.ask(&Method::POST, "/v1/config/rollback", Some(body))?, arguments.json)?;
    if arguments.save { saved(&client, arguments.json) } else { Ok(()) }
}

/// Runs `evenkeel config save`.
pub fn save(place: &Where) -> Result<(), Failure> {
    saved(&Client::new(place)?, false)
}

fn saved(client: &Client, json: bool) -> Result<(), Failure> {
    done(&client.ask(&Method::POST, "/v1/config/save", None)?, json)
}

/// Says what became of it.
fn done(outcome: &Outcome, json: bool) -> Result<(), Failure> {
    if json {
        return print(&(serde_json::to_string(outcome).unwrap_or_default() + "\n"));
    }
    let checked = outcome.result == "checked";
    let mut text = outcome.text.clone();
    match outcome.changes.len() {
        0 if checked => text += "it would change nothing\n",
        _ if checked => text += "it would change:\n",
        _ => {}
    }
    outcome.changes.iter().for_each(|change| text += &format!("  {change}\n"));
    print(&text)
}

/// Runs `evenkeel config history`.
pub fn history(arguments: &History) -> Result<(), Failure> {
    let client = Client::new(&arguments.place)?;
    let revisions: Vec<Revision> = client.get("/v1/config/history")?;
    if arguments.json {
        return print(&(serde_json::to_string(&revisions).unwrap_or_default() + "\n"));
    }
    let now_ms = unix_ms(SystemTime::now());
    let row = |one: &Revision| {
        let mut changes = one.changes.first().cloned().unwrap_or_default();
        if one.changes.len() > 1 {
            changes += &format!("; and {} more", one.changes.len() - 1);
        }
        let since = format!("{} ago", ago(now_ms.saturating_sub(one.since_ms)));
        vec![one.generation.to_string(), since, one.how.clone(), one.by.clone(), changes]
    };
    let rows: Vec<_> = revisions.iter().map(row).collect();
    print(&table(&["GENERATION", "SINCE", "HOW", "BY", "CHANGES"], &rows))
}
