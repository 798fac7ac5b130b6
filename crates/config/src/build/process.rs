//! `[runtime]`, `[admin]` and `[telemetry]`.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::nearest::suggest;
use crate::plan::{
    AccessLog, Admin, Journal, Level, Log, LogFormat, LogTarget, Metrics, Pool, Runtime, Telemetry, Workers,
};
use crate::read::{Section, Value};
use std::path::PathBuf;

pub(super) fn runtime(root: &Section) -> Runtime {
    let runtime = root.section("runtime");
    let log = runtime.section("log");
    Runtime {
        workers: match runtime.int("workers") {
            0 => Workers::Auto,
            n => Workers::Count(u16::try_from(n).unwrap_or(u16::MAX)),
        },
        drain_timeout: runtime.duration("drain_timeout").unwrap_or_default(),
        watch: runtime.flag("watch"),
        log: Log { level: level(log.word("level")), format: format(log.word("format")) },
    }
}

fn level(word: &str) -> Level {
    match word {
        "error" => Level::Error,
        "warn" => Level::Warn,
        "debug" => Level::Debug,
        "trace" => Level::Trace,
        _ => Level::Info,
    }
}

fn format(word: &str) -> LogFormat {
    if word == "json" { LogFormat::Json } else { LogFormat::Text }
}

pub(super) fn admin(root: &Section) -> Option<Admin> {
    let admin = root.section("admin");
    let bind = match admin.section("http").formed("bind") {
        Some(Formed::Bind(bind)) => Some(bind),
        _ => None,
    };
    let socket = match admin.formed("bind") {
        Some(Formed::Socket(path)) => Some(path),
        _ => None,
    };
    (bind.is_some() || socket.is_some()).then_some(Admin { bind, socket })
}

pub(super) fn telemetry(root: &Section, pools: &[Pool], findings: &mut Findings) -> Telemetry {
    let telemetry = root.section("telemetry");
    let metrics = telemetry.section("metrics");
    let buckets = metrics.list("buckets").into_iter();
    let buckets = buckets.filter_map(|l| if let Value::Number(x) = l.value { Some((x, l.place)) } else { None });
    let buckets: Vec<_> = buckets.collect();
    if let Some(pair) = buckets.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        findings
            .add(
                Code::OutOfRange,
                pair[1].1,
                format!("\"buckets\" must ascend, but {} follows {}", pair[1].0, pair[0].0),
            )
            .help("sort them, each once");
    }
    let access_log = telemetry.set("access_log").and_then(|_| {
        let log = telemetry.section("access_log");
        Some(AccessLog { to: target(&log)?, format: format(log.word("format")) })
    });
    let journal = telemetry.set("journal").and_then(|_| journal(root, &telemetry.section("journal"), pools, findings));
    Telemetry {
        metrics: Metrics {
            path: metrics.text("path").unwrap_or_default(),
            per_endpoint: metrics.flag("per_endpoint"),
            buckets: buckets.into_iter().map(|(x, _)| x).collect(),
        },
        access_log,
        journal,
    }
}

fn target(log: &Section) -> Option<LogTarget> {
    Some(match log.text("path")?.as_str() {
        "-" | "stdout" => LogTarget::Stdout,
        path => LogTarget::File(PathBuf::from(path)),
    })
}

fn journal(root: &Section, section: &Section, pools: &[Pool], findings: &mut Findings) -> Option<Journal> {
    let (to, pool) = (target(section)?, section.text("pool")?);
    let names: Vec<&str> = pools.iter().map(|p| &*p.name).collect();
    if !names.contains(&&*pool) {
        findings
            .add(Code::UnknownPool, section.place_of("pool"), format!("there is no pool \"{pool}\""))
            .help(if names.is_empty() { "add the pool".to_string() } else { suggest(&pool, &names) });
    }
    if runtime(root).workers != Workers::Count(1) {
        let message = "\"journal\" needs one worker: the picks of several depend on each other";
        findings
            .add(Code::Contradiction, section.place_of("path"), message)
            .help("set runtime.workers = 1, or leave out \"journal\"");
    }
    Some(Journal { to, pool })
}
