//! Commands that show the configuration of a running evenkeel, and compare it with a file.

use crate::arguments::{ConfigDiff, ConfigShow};
use crate::checking::environment;
use crate::commands::check::{DEFAULTS, default_file, read};
use crate::commands::client::Client;
use crate::failure::{Failure, color};
use crate::output::{print, print_as_it_is};
use evenkeel_config::{Disk, Outcome, Plan, changes, parse_str, places, render_text};
use evenkeel_view::config::Config;
use serde_json::json;
use std::path::PathBuf;

/// Runs `evenkeel config show`.
pub fn show(arguments: &ConfigShow) -> Result<(), Failure> {
    if arguments.places {
        return with_places(arguments.place.config.as_ref());
    }
    let path = arguments.generation.map_or("/v1/config".to_owned(), |number| format!("/v1/config/history/{number}"));
    let config: Config = Client::new(&arguments.place)?.get(&path)?;
    match arguments.source {
        false => print(&config.text),
        true => {
            let refused = || {
                Failure::running("only clients that may change the configuration can read its source")
                    .help("give the token of admin.http.write_token: --token-file FILE")
            };
            print_as_it_is(&config.source.ok_or_else(refused)?).map(drop)
        }
    }
}

/// Prints the keys of a file with their places.
fn with_places(file: Option<&PathBuf>) -> Result<(), Failure> {
    let file = file.cloned().map_or_else(|| default_file().ok_or_else(no_file), Ok)?;
    match places(&Disk, &file, &environment) {
        Ok(text) => print(&text),
        Err(diagnostics) => {
            eprint!("{}", render_text(&diagnostics, color()));
            Err(Failure::config())
        }
    }
}

/// Runs `evenkeel config diff`.
pub fn diff(arguments: &ConfigDiff) -> Result<(), Failure> {
    let running: Config = Client::new(&arguments.place)?.get("/v1/config")?;
    let file = arguments.file.clone().or_else(|| running.running.file.map(PathBuf::from));
    let file =
        file.ok_or_else(|| Failure::running("evenkeel was started without a file; give a file to compare with"))?;
    let Outcome { plan, diagnostics } = read(&file);
    let Some(wanted) = plan else {
        eprint!("{}", render_text(&diagnostics, color()));
        return Err(Failure::config());
    };
    let now = parse_str("the running configuration", &running.text, &|_| None);
    let now = now.plan.ok_or_else(|| {
        Failure::running("cannot read the running configuration: it is from another version of evenkeel")
    })?;
    let mut lines = changes(&now, &wanted);
    lines.retain(|line| !is_of_discovery(line, &wanted));
    if arguments.json {
        print(&format!("{}\n", json!({ "generation": running.running.generation, "changes": lines })))?;
    } else {
        print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    }
    if lines.is_empty() { Ok(()) } else { Err(Failure::otherwise()) }
}

/// Failure of a command that found no default file.
fn no_file() -> Failure {
    let [here, installed] = DEFAULTS;
    Failure::usage_error(format!("no configuration file: none is given, and neither ./{here} nor {installed} exists"))
        .help("give a file: -c FILE")
}

/// True if a line is only about an endpoint that no file lists because it was discovered.
fn is_of_discovery(line: &str, wanted: &Plan) -> bool {
    let discovering = wanted.pools.iter().filter(|pool| pool.discover.is_some());
    let mut left = discovering.filter_map(|pool| line.strip_prefix(&format!("pool {}: endpoint ", pool.name)));
    left.any(|left| left.ends_with(" removed"))
}
