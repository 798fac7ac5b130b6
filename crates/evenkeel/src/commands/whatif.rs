//! `evenkeel whatif`: reads access logs, and answers how their traffic would have done otherwise, or refuses.

use crate::arguments::Whatif;
use crate::commands::check;
use crate::failure::{Failure, color, reason};
use crate::output::print;
use evenkeel_balance::slow_start;
use evenkeel_config::plan::{Plan, Pool, Probe, Workers};
use evenkeel_config::{render_text, tables};
use evenkeel_logs::Logs;
use evenkeel_logs::read::Source;
use evenkeel_whatif::policy::Candidate;
use evenkeel_whatif::question::{Conditions, Join};
use evenkeel_whatif::record::{self, Record};
use evenkeel_whatif::traffic::{Member, Traffic};
use evenkeel_whatif::{Asked, find, json, report, text};
use indicatif::{ProgressBar, ProgressStyle};
use std::thread::available_parallelism;
use std::time::Duration;

/// Runs `evenkeel whatif`.
pub fn whatif(arguments: &Whatif) -> Result<(), Failure> {
    let plan = arguments.from.as_deref().map(|file| {
        let outcome = check::read(file);
        eprint!("{}", render_text(&outcome.diagnostics, color()));
        outcome.plan.ok_or_else(Failure::config)
    });
    let plan = plan.transpose()?;
    let sources = arguments.logs.iter().map(|log| Source::of(&log.to_string_lossy())).collect();
    let opened = Logs::open(sources, arguments.format.as_deref(), None);
    let opened = opened.map_err(|error| Failure::running(format!("cannot read the log: {error}")))?;
    // Hides itself if standard error is not a terminal.
    let bar = ProgressBar::new(1_000).with_style(style());
    let record = record::read(opened, |part| bar.set_position((part * 1_000.0) as u64));
    bar.finish_and_clear();
    say(&record);
    let pool = pool(&record, arguments)?;
    let configured = plan.as_ref().map(|plan| configured(plan, &record.pools[pool], arguments)).transpose()?;
    let in_force = arguments.balance.as_ref().and_then(|given| given.0.first()).and_then(Candidate::of);
    let from_plan = configured.map(|pool| pool.balance.clone());
    let from_plan = from_plan.map(evenkeel_sim::Policy::algorithm);
    let asked = Asked {
        pool,
        members: configured.map(members),
        workers: plan.as_ref().map_or(1, workers),
        answers_probes: arguments.probes || configured.is_some_and(answers_probes),
        in_force: in_force.or(from_plan.as_ref().and_then(Candidate::of)),
        policies: arguments.tried.iter().flat_map(|given| &given.0).filter_map(Candidate::of).collect(),
        conditions: &|traffic| conditions(arguments, traffic),
        worlds: arguments.worlds as usize,
        seed: 1,
        threads: arguments.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from),
    };
    let bar = ProgressBar::new(0).with_style(style());
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let found = find(&record, &asked, &progress)
        .map_err(|why| Failure::running(why).help("endpoints are named as in the log"))?;
    bar.finish_and_clear();
    if let Some(path) = &arguments.report {
        let written = std::fs::write(path, report::page(&found));
        written.map_err(|error| Failure::running(format!("cannot write {}: {}", path.display(), reason(&error))))?;
    }
    match arguments.json {
        true => print(&format!("{:#}\n", json::json(&found)))?,
        false => print(&text::text(&found))?,
    }
    if found.doubts.is_empty() { Ok(()) } else { Err(Failure::otherwise()) }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:40} {percent} %, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Says what was read, and what was not.
fn say(record: &Record) {
    let report = &record.report;
    eprintln!("{} lines as {}: {} requests", report.lines, record.format, report.coverage.requests);
    if let Some(ambiguity) = &record.ambiguity {
        eprintln!("note: {ambiguity}; --format names it");
    }
    if report.bad_lines() > 0 {
        let first = report
            .bad
            .first()
            .map(|bad| format!("; the first is {} line {}: {}", record.files[bad.file], bad.line, bad.excerpt));
        eprintln!("warning: {} lines are not requests{}", report.bad_lines(), first.unwrap_or_default());
    }
    for cut in &report.cut {
        eprintln!("warning: {} ends early: {}", record.files[cut.file], cut.error);
    }
    if record.untimed > 0 {
        eprintln!("warning: {} requests lack an endpoint's time", record.untimed);
    }
    let kept: u64 = record.rows.len() as u64;
    let all: u64 = record.counts.iter().sum();
    if kept < all {
        eprintln!("note: the latest {kept} of {all} requests are used");
    }
}

/// Index of the pool in the record.
fn pool(record: &Record, arguments: &Whatif) -> Result<usize, Failure> {
    let used: Vec<usize> =
        (0..record.pools.len()).filter(|&at| record.counts.get(at).is_some_and(|&n| n > 0)).collect();
    let names: Vec<&str> = used.iter().map(|&at| &*record.pools[at]).collect();
    match (&arguments.pool, &used[..]) {
        (Some(name), _) if names.contains(&&**name) => {
            Ok(used[names.iter().position(|other| other == name).unwrap_or_default()])
        }
        // Logs of some programs have no pools.
        (_, &[only]) if arguments.pool.is_none() || record.pools[only].is_empty() => Ok(only),
        (Some(name), _) => {
            let failure = Failure::running(format!("the log has no requests of pool \"{name}\""));
            Err(failure.help(tables::suggest(name, &names)))
        }
        (None, []) => Err(Failure::running("the log has no requests with an endpoint").help(
            record.lacks.iter().find_map(|lack| lack.add).unwrap_or("log the endpoint of each request, and its times"),
        )),
        (None, _) => {
            Err(Failure::running("the log has several pools")
                .help(format!("choose one with --pool: {}", names.join(", "))))
        }
    }
}

/// Pool of the configuration that a pool of the log is.
fn configured<'a>(plan: &'a Plan, logged: &str, arguments: &Whatif) -> Result<&'a Pool, Failure> {
    let name = arguments.pool.as_deref().unwrap_or(logged);
    let names: Vec<&str> = plan.pools.iter().map(|pool| &*pool.name).collect();
    match (plan.pool(name), &plan.pools[..]) {
        (Some(pool), _) => Ok(pool),
        (None, [only]) if name.is_empty() => Ok(only),
        (None, _) => {
            let failure = Failure::running(format!("the configuration has no pool \"{name}\""));
            Err(failure.help(tables::suggest(name, &names)))
        }
    }
}

fn members(pool: &Pool) -> Vec<Member> {
    let member = |endpoint: &evenkeel_config::plan::Endpoint| {
        let (name, address) = (endpoint.name.to_string(), endpoint.addr.to_string());
        let names = if name == address { vec![name] } else { vec![name, address] };
        Member { names, weight: endpoint.weight.into(), in_flight_max: pool.limits.requests_per_endpoint }
    };
    pool.endpoints.iter().filter(|endpoint| endpoint.weight > 0 && !endpoint.drain).map(member).collect()
}

fn answers_probes(pool: &Pool) -> bool {
    pool.load_reports.as_ref().is_some_and(|reports| reports.probe != Probe::Off)
}

fn workers(plan: &Plan) -> u32 {
    match plan.runtime.workers {
        Workers::Auto => available_parallelism().map_or(1, |cores| cores.get() as u32),
        Workers::Count(count) => count.into(),
    }
}

fn conditions(arguments: &Whatif, traffic: &Traffic) -> Result<Conditions, String> {
    let member = |name: &str| {
        let at = traffic.names.iter().position(|other| other == name);
        at.ok_or_else(|| format!("no endpoint of the pool is \"{name}\"; it has {}", traffic.names.join(", ")))
    };
    let slowed = |text: &String| {
        let (name, factor) = text.rsplit_once('=').ok_or_else(|| format!("--slow {text}: write ENDPOINT=FACTOR"))?;
        let factor: f64 = factor.parse().map_err(|_| format!("--slow {text}: \"{factor}\" is not a number"))?;
        if !(0.01..=100.0).contains(&factor) {
            return Err(format!("--slow {text}: the factor must be from 0.01 to 100"));
        }
        Ok((member(name)?, factor))
    };
    let removed: Vec<usize> = arguments.remove.iter().map(|name| member(name)).collect::<Result<_, _>>()?;
    if removed.len() >= traffic.names.len() + arguments.add as usize {
        return Err("--remove leaves no endpoint".to_string());
    }
    if arguments.slow_start.is_some() && arguments.add == 0 {
        return Err("--slow-start is about endpoints that join: say how many with --add".to_string());
    }
    let ramp = |window: Duration| slow_start::Settings {
        window_ns: window.as_nanos() as u64,
        // Defaults of the configuration.
        aggression: 1.0,
        min_weight: 0.1,
    };
    let join = arguments.slow_start.map(|window| Join { ramp: ramp(window), is_slow: true });
    Ok(Conditions {
        load: arguments.load,
        balancers: arguments.balancers,
        added: arguments.add,
        removed,
        slowed: arguments.slow.iter().map(slowed).collect::<Result<_, _>>()?,
        retries: arguments.retries,
        queue: arguments.queue,
        hedge: arguments.hedge,
        plane: arguments.plane,
        join,
    })
}
