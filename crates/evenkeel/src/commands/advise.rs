//! `evenkeel advise`: changes to a configuration, in order of effect.

use crate::arguments::{Advise, At, Where};
use crate::checking::changed;
use crate::commands::check;
use crate::commands::client::Client;
use crate::failure::{Failure, color, reason};
use crate::output::print;
use evenkeel_advise::inputs::Effort;
use evenkeel_advise::traffic::Traffic;
use evenkeel_advise::{Inputs, advise as advice, text};
use evenkeel_config::render_text;
use evenkeel_logs::Logs;
use evenkeel_logs::read::Source;
use evenkeel_view::Status;
use evenkeel_view::shadows::PoolShadows;
use evenkeel_whatif::record::{self, Record};
use indicatif::ProgressBar;
use std::fs;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

/// Time between two steps of the sign that it works.
const TICK: Duration = Duration::from_millis(100);

/// Runs `evenkeel advise`.
pub fn advise(arguments: &Advise) -> Result<(), Failure> {
    let file = file(arguments)?;
    let read = fs::read_to_string(&file);
    let written =
        read.map_err(|error| Failure::running(format!("cannot read {}: {}", file.display(), reason(&error))))?;
    let outcome = check::read(&file);
    eprint!("{}", render_text(&outcome.diagnostics, color()));
    let plan = outcome.plan.ok_or_else(Failure::config)?;
    let traffic = traffic(arguments)?;
    let record = record(arguments)?;
    let (status, shadows) = running(arguments)?.unzip();
    // A configuration for another machine has no patch that this machine accepts.
    let elsewhere = arguments.elsewhere || changed(&file, &written, false).is_err();
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    let name = file.display().to_string();
    let check = |text: &str| changed(&file, text, elsewhere);
    let admin = arguments.admin.as_ref().map(address);
    let inputs = Inputs {
        cores: cores as u32,
        balancers: arguments.balancers,
        work: arguments.work,
        effort: Effort { seeds: arguments.seeds, requests: arguments.requests, threads },
        traffic: traffic.as_ref(),
        record: record.as_ref(),
        status: status.as_ref(),
        shadows: shadows.as_deref().unwrap_or_default(),
        admin: admin.as_deref(),
        ..Inputs::of(&name, &written, &plan, &check)
    };
    // Hides itself if standard error is not a terminal.
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(TICK);
    let advised = advice(&inputs, &arguments.only, &|kind| bar.set_message(kind.to_string())).shown(&name);
    bar.finish_and_clear();
    let pretty = || serde_json::to_string_pretty(&advised).map(|text| text + "\n");
    match arguments.json {
        true => print(&pretty().map_err(|error| Failure::running(error.to_string()))?),
        false => print(&text::text(&advised)),
    }
}

fn file(arguments: &Advise) -> Result<PathBuf, Failure> {
    let file = arguments.config.clone().or_else(check::default_file).ok_or_else(check::no_file);
    file.map_err(|failure| failure.help("evenkeel advise -c FILE"))
}

fn traffic(arguments: &Advise) -> Result<Option<Traffic>, Failure> {
    if arguments.log.is_empty() {
        return Ok(None);
    }
    if arguments.log.iter().any(|log| log == "-") {
        let failure = Failure::usage_error("the log is read twice, which standard input cannot be");
        return Err(failure.help("write it to a file first"));
    }
    let read = Traffic::read(&arguments.log, arguments.format.as_deref());
    let traffic = read.map_err(|error| Failure::running(format!("cannot read the log: {error}")))?;
    if traffic.bad_lines > 0 {
        eprintln!("note: {} lines of the log are not requests", traffic.bad_lines);
    }
    Ok(Some(traffic))
}

/// Reads the log once more, for its replay: the latest requests are kept as they are.
fn record(arguments: &Advise) -> Result<Option<Record>, Failure> {
    if arguments.log.is_empty() {
        return Ok(None);
    }
    let sources = arguments.log.iter().map(|log| Source::of(log)).collect();
    let logs = Logs::open(sources, arguments.format.as_deref(), None);
    let logs = logs.map_err(|error| Failure::running(format!("cannot read the log: {error}")))?;
    Ok(Some(record::read(logs, |_| {})))
}

/// State of a running instance, and predictions of its shadows.
fn running(arguments: &Advise) -> Result<Option<(Status, Vec<PoolShadows>)>, Failure> {
    let Some(at) = &arguments.admin else { return Ok(None) };
    let (admin, token_file) = (Some(at.clone()), arguments.token_file.clone());
    let client = Client::new(&Where { config: None, admin, socket: None, token_file })?;
    Ok(Some((client.get("/v1/status")?, client.get("/v1/shadows")?)))
}

/// Address as the command line takes it.
fn address(at: &At) -> String {
    match at {
        At::Socket(path) => format!("unix:{}", path.display()),
        At::Address(address) => address.clone(),
    }
}
