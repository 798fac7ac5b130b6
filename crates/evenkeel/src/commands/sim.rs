//! What would happen? Reads a scenario, runs it on every core, and says what came out.

use crate::arguments::{Policies, Sim};
use crate::failure::{Failure, color, reason};
use crate::output::{print, print_as_it_is};
use evenkeel_config::render_text;
use evenkeel_sim::experiment::Experiment;
use evenkeel_sim::{builtin, file, json, report, text, verdict};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::available_parallelism;

/// Runs `evenkeel sim`.
pub fn sim(arguments: &Sim) -> Result<(), Failure> {
    if arguments.schema {
        return print(&format!("{:#}\n", file::schema()));
    }
    let Some(asked) = &arguments.scenario else { return print(&list()) };
    let (name, source) = source(asked)?;
    if arguments.print {
        return print_as_it_is(&source).map(drop);
    }
    let mut experiment = read(&name, &source)?;
    if let Some(Policies(policies)) = &arguments.algorithms {
        experiment.set_policies(policies);
    }
    if let Some(requests) = arguments.requests {
        experiment.set_requests(requests);
    }
    let count = arguments.seeds.unwrap_or(experiment.seeds);
    let seeds: Vec<u64> = (arguments.seed..).take(count as usize).collect();
    let threads = arguments.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from);
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::new(0).with_style(style());
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let results = experiment.run(&seeds, threads, &progress).map_err(|wrong| Failure::running(wrong.to_string()))?;
    bar.finish_and_clear();
    if let Some(path) = &arguments.report {
        write(path, &report::page(&experiment, &results))?;
    }
    match arguments.json {
        true => print(&format!("{:#}\n", json::json(&experiment, &results)))?,
        false => print(&text::text(&experiment, &results))?,
    }
    if verdict::all_well(&experiment, &results) { Ok(()) } else { Err(Failure::otherwise()) }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The name and the text of what was asked for: a file if it looks like one, or else a built-in.
fn source(asked: &str) -> Result<(String, String), Failure> {
    if !asked.contains('/') && Path::new(asked).extension().is_none() {
        return match builtin::find(asked) {
            Some(found) => Ok((format!("{asked}.toml"), found.text.to_string())),
            None => {
                let names: Vec<&str> = builtin::ALL.iter().map(|b| b.name).collect();
                eprintln!(
                    "error: no scenario is named \"{asked}\"\nhelp: {}",
                    evenkeel_config::tables::suggest(asked, &names)
                );
                Err(Failure::usage())
            }
        };
    }
    match fs::read(asked) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok((asked.to_string(), text)),
            Err(_) => Err(unreadable(asked, "it is not UTF-8")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unreadable(asked, "there is no such file")),
        Err(error) => Err(unreadable(asked, &reason(&error))),
    }
}

fn unreadable(path: &str, why: &str) -> Failure {
    eprintln!("error: cannot read {path}: {why}");
    Failure::config()
}

fn read(name: &str, source: &str) -> Result<Experiment, Failure> {
    let outcome = file::read(name, source);
    eprint!("{}", render_text(&outcome.diagnostics, color()));
    outcome.experiment.ok_or_else(Failure::config)
}

fn list() -> String {
    let line = |b: &builtin::Builtin| {
        let summary = file::read(b.name, b.text).experiment.map(|e| e.summary).unwrap_or_default();
        format!("{:14} {summary}\n", b.name)
    };
    builtin::ALL.iter().map(line).collect()
}

fn write(path: &Path, page: &str) -> Result<(), Failure> {
    fs::write(path, page)
        .map_err(|error| Failure::running(format!("cannot write {}: {}", path.display(), reason(&error))))
}
