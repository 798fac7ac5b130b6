//! Commands that give a running evenkeel another configuration: its file again, another file, or a former
//! configuration.

use crate::arguments::{Apply, History, Reload, Rollback, Where};
use crate::commands::check::STDIN;
use crate::commands::client::{Client, Renamed};
use crate::failure::{Failure, reason};
use crate::output::{print, table};
use evenkeel_view::config::{Config, Outcome, Revision};
use evenkeel_view::words::{ago, unix_ms};
use hyper::Method;
use serde_json::json;
use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

/// Runs `evenkeel reload`.
pub fn reload(arguments: &Reload) -> Result<(), Failure> {
    done(&Client::new(&arguments.place)?.ask(&Method::POST, "/v1/reload", None)?, arguments.json)
}

/// Runs `evenkeel config apply`.
pub fn apply(arguments: &Apply) -> Result<(), Failure> {
    let (text, name) = text(&arguments.file)?;
    let client = Client::new(&arguments.place)?;
    let running = client.get::<Config>("/v1/config")?.running;
    let path = if arguments.dry_run { "/v1/config?dry_run=true" } else { "/v1/config" };
    // The process reads the text as if it were in its own file.
    let names = Renamed { from: running.file.unwrap_or_else(|| "(typed)".to_owned()), to: name };
    let mut outcome: Outcome = client.propose(path, running.generation, text, names.clone())?;
    outcome.text = names.text(&outcome.text);
    for diagnostic in outcome.diagnostics.iter_mut().filter(|diagnostic| diagnostic.file == names.from) {
        diagnostic.file.clone_from(&names.to);
    }
    done(&outcome, arguments.json)?;
    if arguments.save { saved(&client, arguments.json) } else { Ok(()) }
}

/// The text of a file, or of standard input for `-`, and its name.
fn text(file: &Path) -> Result<(String, String), Failure> {
    let (read, name) = match file.as_os_str() == "-" {
        true => (io::read_to_string(io::stdin()), STDIN.to_owned()),
        false => (fs::read_to_string(file), file.display().to_string()),
    };
    let text = read.map_err(|error| Failure::running(format!("cannot read {name}: {}", reason(&error))))?;
    Ok((text, name))
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

/// Prints the outcome of a change.
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
