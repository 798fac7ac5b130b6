//! `evenkeel sim`: reads a scenario, runs it on every core, and prints the results.

use crate::arguments::{Policies, Sim};
use crate::commands::check;
use crate::failure::{Failure, color, reason};
use crate::output::{print, print_as_it_is};
use evenkeel_config::plan::{Plan, Workers};
use evenkeel_config::{render_text, tables};
use evenkeel_sim::experiment::Experiment;
use evenkeel_sim::file::pool::{FromPool, SHARE, WORK, assumed};
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
    let plan = arguments.from.as_deref().map(configured).transpose()?;
    let pool = plan.as_ref().map(|plan| from_pool(plan, arguments)).transpose()?;
    let (name, source) = match (&arguments.scenario, &pool, &arguments.from) {
        (Some(asked), ..) => source(asked)?,
        (None, Some(pool), Some(file)) => {
            (format!("{}.toml", pool.pool.name), assumed(&pool.pool.name, &file.display().to_string(), arguments.work))
        }
        _ => return print(&list()),
    };
    if arguments.print {
        return print_as_it_is(&source).map(drop);
    }
    let mut experiment = read(&name, &source, pool.as_ref())?;
    if let Some(pool) = &pool {
        state(pool, arguments, &mut experiment);
    }
    if let Some(Policies(policies)) = &arguments.algorithms {
        experiment.set_policies(policies).map_err(|refused| {
            eprintln!("error: {refused}\nhelp: {}", refused.help());
            Failure::usage()
        })?;
    }
    if let Some(requests) = arguments.requests {
        experiment.set_requests(requests);
    }
    let count = arguments.seeds.unwrap_or(experiment.seeds);
    let seeds: Vec<u64> = (arguments.seed..).take(count as usize).collect();
    let threads = arguments.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from);
    // Hides itself if standard error is not a terminal.
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

/// Returns the name and the text of a scenario: a file if the argument looks like a path, otherwise a built-in
/// scenario.
fn source(asked: &str) -> Result<(String, String), Failure> {
    if !asked.contains('/') && Path::new(asked).extension().is_none() {
        return match builtin::find(asked) {
            Some(found) => Ok((format!("{asked}.toml"), found.text.to_string())),
            None => {
                let names: Vec<&str> = builtin::ALL.iter().map(|b| b.name).collect();
                eprintln!(
                    "error: unknown scenario \"{asked}\"\nhelp: {}",
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
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unreadable(asked, "no such file")),
        Err(error) => Err(unreadable(asked, &reason(&error))),
    }
}

fn unreadable(path: &str, why: &str) -> Failure {
    eprintln!("error: cannot read {path}: {why}");
    Failure::config()
}

/// Reads a configuration, which may name files that this machine does not have.
fn configured(file: &Path) -> Result<Plan, Failure> {
    let outcome = check::read(file);
    eprint!("{}", render_text(&outcome.diagnostics, color()));
    outcome.plan.ok_or_else(Failure::config)
}

fn from_pool<'a>(plan: &'a Plan, arguments: &Sim) -> Result<FromPool<'a>, Failure> {
    let names: Vec<&str> = plan.pools.iter().map(|pool| &*pool.name).collect();
    let pool = match &arguments.pool {
        Some(name) => {
            plan.pool(name).ok_or_else(|| (format!("unknown pool \"{name}\""), tables::suggest(name, &names)))
        }
        None if plan.pools.len() == 1 => Ok(&plan.pools[0]),
        None => Err((
            "the configuration has several pools".to_string(),
            format!("choose one with --pool: {}", names.join(", ")),
        )),
    };
    let pool = pool.map_err(|(error, help)| {
        eprintln!("error: {error}\nhelp: {help}");
        Failure::usage()
    })?;
    if pool.endpoints.is_empty() {
        eprintln!(
            "error: pool \"{}\" has no endpoints in the configuration\nhelp: discovery is not simulated; list endpoints in the file",
            pool.name
        );
        return Err(Failure::usage());
    }
    let workers = match plan.runtime.workers {
        Workers::Auto => available_parallelism().map_or(1, |cores| cores.get() as u32),
        Workers::Count(count) => count.into(),
    };
    Ok(FromPool { pool, workers, rate: arguments.rate })
}

/// Has results say where each number is from.
fn state(pool: &FromPool<'_>, arguments: &Sim, experiment: &mut Experiment) {
    let rate = arguments.rate.map(|rate| format!("{rate} requests a second, given"));
    let rest = match &arguments.scenario {
        Some(_) => format!("from the scenario: work, links{}", if rate.is_none() { ", load" } else { "" }),
        None => {
            let given = arguments.work.map_or("assumed (--work)", |_| "given");
            let work = arguments.work.unwrap_or(WORK).as_secs_f64() * 1e3;
            format!(
                "work: exponential with a mean of {work} ms, {given}; assumed: a core for each endpoint, 200 us each way{}",
                if rate.is_none() { format!(", {SHARE} of what they can do (--rate)") } else { String::new() }
            )
        }
    };
    let rate = rate.map(|rate| format!("; {rate}")).unwrap_or_default();
    experiment.summary = format!("{}\n  from the configuration: {}\n  {rest}{rate}", experiment.summary, pool.taken());
}

fn read(name: &str, source: &str, pool: Option<&FromPool<'_>>) -> Result<Experiment, Failure> {
    let outcome = file::read_with(name, source, pool);
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
