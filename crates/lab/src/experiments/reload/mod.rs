//! What do clients notice of a reload? A hundred of them under every kind of load that a reload might hurt, and a
//! replaced binary, beside HAProxy and NGINX.

mod conduct;
mod http2;
mod traffic;

use self::conduct::Went;
use self::traffic::{Count, KINDS, Row};
use crate::balancers::Balancer;
use crate::child;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::machine::{self, Machine};
use crate::report::table;
use clap::{Args, FromArgMatches};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "reload",
    summary: "Failed requests and dropped streams over a hundred reloads and a new binary, beside HAProxy and NGINX",
    docs: "Starts one balancer after the other in front of three endpoints, with clients that keep their connection, clients \
with a connection per request, uploads, downloads and WebSockets, over TLS too, requests over HTTP/2 and streams of gRPC, with and without \
TLS, each checked byte for byte. Then the configuration is \
rewritten a hundred times, each time with another weight in a pool that gets no requests, and the balancer told to read \
it: evenkeel and NGINX by SIGHUP, the master of HAProxy by SIGUSR2. The next reload comes when the one before is seen to \
be at work. Last, evenkeel replaces its binary (SIGUSR2). HAProxy does that with each reload, and NGINX only as a \
daemon, which the lab could not end.

HAProxy and NGINX start new processes and let the old ones live for as long as they have connections; neither is told to \
cut them short. evenkeel changes what it has. So the processes that are left and their memory are told too. A kept \
connection that is closed as the client sends its next request counts as a failed request.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Only these balancers.
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "evenkeel,haproxy,nginx")]
    balancers: Vec<String>,
    /// Reloads of each.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reloads: u32,
    /// Also write every figure to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The evenkeel to run; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

fn run(arguments: Arguments) -> Result<()> {
    let balancers = Balancer::find(&arguments.balancers, arguments.evenkeel.as_deref())?;
    machine::allow_files(20_000);
    child::adopt_orphans()?;
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let Machine { kernel, cpu, cores, commit } = Machine::this();
    println!("{command}\ncommit {commit}; Linux {kernel}; {cpu}, {cores} cores; {} reloads of each", arguments.reloads);
    let mut all = Vec::new();
    for balancer in &balancers {
        let went = conduct::conduct(balancer, arguments.reloads)?;
        println!("\n{}", text(balancer, &went));
        all.push((balancer, went));
    }
    if let Some(path) = &arguments.json {
        let machine = json!({ "kernel": kernel, "cpu": cpu, "cores": cores });
        let balancers: Vec<Value> = all.iter().map(|(balancer, went)| one_json(balancer, went)).collect();
        let report = json!({
            "experiment": EXPERIMENT.name,
            "command": command,
            "commit": commit,
            "machine": machine,
            "reloads": arguments.reloads,
            "balancers": balancers,
        });
        std::fs::write(path, format!("{report:#}\n")).or_say(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

const MIB: f64 = 1024.0 * 1024.0;

fn text(balancer: &Balancer, went: &Went) -> String {
    let upgrade = went.upgrade.as_ref();
    let rows: Vec<Vec<String>> = (0..KINDS.len())
        .map(|row| {
            let Row { name: kind, clients, .. } = KINDS[row];
            let reloads = &went.reloads[row];
            let mut cells = vec![kind.to_owned(), clients.to_string()];
            for count in [Some(reloads), upgrade.map(|counts| &counts[row])] {
                cells.extend(
                    count.map_or([String::new(), String::new()], |c| [c.done.to_string(), c.failures().to_string()]),
                );
            }
            let seen = std::iter::once(reloads).chain(upgrade.map(|counts| &counts[row]));
            let seen = seen.flat_map(|count| &count.failed).map(|(what, count)| format!("{what}: {count}"));
            cells.push(seen.collect::<Vec<_>>().join(", "));
            cells
        })
        .collect();
    let header = ["", "clients", "done", "failed", "done in upgrade", "failed in upgrade", "what clients saw"];
    let (processes, memory) = went.left;
    let slowest = went.took.last().copied().unwrap_or_default();
    format!(
        "{} ({})\n{}{}\nA reload took effect after {:.0} ms (median; slowest {:.0} ms); {} signals were lost and sent \
         again. Processes {} before, {processes} after; resident {:.0} MiB before, {:.0} MiB after.\n",
        balancer.kind.name,
        balancer.version,
        table::draw(&header, &rows),
        verdict(balancer.kind.name, went),
        went.took.get(went.took.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3,
        slowest.as_secs_f64() * 1e3,
        went.lost,
        went.before.0,
        went.before.1 as f64 / MIB,
        memory as f64 / MIB,
    )
}

/// Failed requests, then dropped streams.
fn lost(counts: &[Count; KINDS.len()]) -> [usize; 2] {
    let of = |streams: bool| {
        let rows = KINDS.iter().zip(counts).filter(|(row, _)| row.kind.is_stream() == streams);
        rows.map(|(_, count)| count.failures()).sum()
    };
    [of(false), of(true)]
}

fn verdict(name: &str, went: &Went) -> String {
    let [requests, streams] = lost(&went.reloads);
    let upgrade = went.upgrade.as_ref().map_or(String::new(), |counts| {
        let [requests, streams] = lost(counts);
        format!(" Its new binary: {requests} failed requests, {streams} dropped streams.")
    });
    format!("{name}: {} reloads, {requests} failed requests, {streams} dropped streams.{upgrade}", went.took.len())
}

fn one_json(balancer: &Balancer, went: &Went) -> Value {
    let counts = |counts: &[Count; KINDS.len()]| {
        let rows = KINDS.iter().zip(counts);
        let rows = rows.map(|(row, c)| (row.name.to_owned(), json!({ "done": c.done, "failed": c.failed })));
        Value::Object(rows.collect())
    };
    json!({
        "name": balancer.kind.name,
        "version": balancer.version,
        "reloads": counts(&went.reloads),
        "upgrade": went.upgrade.as_ref().map(counts),
        "took_effect_ms": went.took.iter().map(|time| time.as_secs_f64() * 1e3).collect::<Vec<_>>(),
        "signals_lost": went.lost,
        "processes": { "before": went.before.0, "after": went.left.0 },
        "resident_bytes": { "before": went.before.1, "after": went.left.1 },
        "verdict": verdict(balancer.kind.name, went),
    })
}
