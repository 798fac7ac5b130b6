//! What does an answer cost, in CPU time of the server? evenkeel, Knot DNS and NSD answer the same questions of the
//! same generator, in turn.

use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::machine::{Cores, Machine};
use crate::origin;
use crate::procfs::{self, Cpu};
use crate::report::table;
use crate::scratch::Scratch;
use crate::stats::Spread;
use clap::{Args, FromArgMatches};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "dns-cost",
    summary: "CPU time for each DNS query, beside Knot DNS and NSD",
    docs: "Each server answers for one zone with one worker on a core of its own, and dnsperf asks on the others as fast as \
it gets answers; servers take turns within a round. Two in three questions are for a name with addresses, of which \
evenkeel names two of three by its algorithm while the others give all three; one is for a name that does not exist. CPU \
time is that of the server's processes, system calls included; what the kernel does for it in other contexts is not in it. \
What a second worker adds, dns-scaling shows.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Rounds.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Seconds of each run.
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The evenkeel to measure; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

/// One of the servers that answer.
struct Server {
    name: &'static str,
    /// Its command. The folder has the zone and may get a file; the port is its own.
    command: fn(&Setting<'_>) -> Result<Vec<String>>,
}

/// The values for a server's command.
pub(super) struct Setting<'s> {
    pub(super) folder: &'s Scratch,
    pub(super) port: u16,
    pub(super) evenkeel: &'s str,
}

static SERVERS: &[Server] = &[
    Server { name: "evenkeel", command: |s| evenkeel(s, 1) },
    Server { name: "knot", command: knot },
    Server { name: "nsd", command: nsd },
];

const ZONE: &str = "$TTL 5\n@ SOA ns1 hostmaster 1 3600 600 86400 5\n@ NS ns1\nns1 A 127.0.0.1\n\
                    www A 10.0.0.1\nwww A 10.0.0.2\nwww A 10.0.0.3\n";

const QUESTIONS: &str = "www.gslb.example.com A\nnothing.gslb.example.com A\nwww.gslb.example.com A\n";

/// An evenkeel that answers for the zone with so many workers.
pub(super) fn evenkeel(setting: &Setting<'_>, workers: u8) -> Result<Vec<String>> {
    let text = format!(
        "[runtime]\nworkers = {workers}\n[listener.dns]\nbind = ['127.0.0.1:{}']\nmode = 'dns'\n[listener.dns.zone]\n\
         name = 'gslb.example.com'\nresponses_per_subnet = 0\nns = [{{ name = 'ns1.gslb.example.com', addresses = ['127.0.0.1'] }}]\n\
         records = {{ www = {{ pool = 'web', answers = 2 }} }}\n[pool.web]\nbalance = 'round_robin'\n\
         endpoints = ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80']\n",
        setting.port
    );
    let file = setting.folder.write("evenkeel.toml", text)?;
    Ok(words(&[setting.evenkeel, "run", "-c", &file.display().to_string()]))
}

fn knot(setting: &Setting<'_>) -> Result<Vec<String>> {
    let folder = setting.folder.path().display();
    let text = format!(
        "server:\n  listen: 127.0.0.1@{}\n  rundir: {folder}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {folder}\nzone:\n  - domain: gslb.example.com\n    file: {folder}/zone\n    storage: {folder}\n",
        setting.port
    );
    let file = setting.folder.write("knot.conf", text)?;
    Ok(words(&[&child::find("knotd")?, "-c", &file.display().to_string()]))
}

fn nsd(setting: &Setting<'_>) -> Result<Vec<String>> {
    let folder = setting.folder.path().display();
    let text = format!(
        "server:\n  ip-address: 127.0.0.1@{}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \"{folder}\"\n  \
         pidfile: \"{folder}/nsd.pid\"\n  database: \"\"\n  xfrdfile: \"{folder}/xfrd\"\n  zonelistfile: \"{folder}/zones\"\n  \
         xfrdir: \"{folder}\"\n  rrl-ratelimit: 0\n  reuseport: yes\nremote-control:\n  control-enable: no\n\
         zone:\n  name: gslb.example.com\n  zonefile: zone\n",
        setting.port
    );
    let file = setting.folder.write("nsd.conf", text)?;
    Ok(words(&[&child::find("nsd")?, "-d", "-c", &file.display().to_string()]))
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

/// One run of one server.
struct Run {
    us_per_query: f64,
    per_second: f64,
}

fn run(arguments: Arguments) -> Result<()> {
    let program = child::find_evenkeel(arguments.evenkeel.as_deref())?;
    let cores = Cores::divide()?;
    let dnsperf = child::find("dnsperf")?;
    println!("{} rounds of {} s, on {:?}", arguments.rounds, arguments.seconds, Machine::this());
    let mut runs: Vec<Vec<Run>> = SERVERS.iter().map(|_| Vec::new()).collect();
    for round in 0..arguments.rounds {
        for (server, runs) in SERVERS.iter().zip(&mut runs) {
            let run = one(server, &program, &dnsperf, &cores, arguments.seconds)?;
            println!(
                "round {round}: {}: {:.2} us of CPU a query, {:.0} queries a second",
                server.name, run.us_per_query, run.per_second
            );
            runs.push(run);
        }
    }
    let spread = |runs: &[Run], of: fn(&Run) -> f64| Spread::of(&runs.iter().map(of).collect::<Vec<_>>());
    let rows = SERVERS.iter().zip(&runs).map(|(server, runs)| {
        let cpu = spread(runs, |r| r.us_per_query).map(|s| format!("{:.2} ({:.2}..{:.2})", s.median, s.min, s.max));
        let rate = spread(runs, |r| r.per_second).map(|s| format!("{:.0} ({:.0}..{:.0})", s.median, s.min, s.max));
        vec![server.name.to_owned(), cpu.unwrap_or_default(), rate.unwrap_or_default()]
    });
    print!("\n{}", table::draw(&["server", "CPU a query, us", "queries/s"], &rows.collect::<Vec<_>>()));
    let median = |index: usize| spread(&runs[index], |r| r.us_per_query).map_or(f64::NAN, |s| s.median);
    let better = median(1).min(median(2));
    println!("evenkeel / better of knot and nsd: {:.2}", median(0) / better);
    Ok(())
}

fn one(server: &Server, program: &str, dnsperf: &str, cores: &Cores, seconds: u64) -> Result<Run> {
    let folder = Scratch::new()?;
    let questions = folder.write("questions", QUESTIONS)?;
    folder.write("zone", ZONE)?;
    let port = origin::free_ports()?[0];
    let command = (server.command)(&Setting { folder: &folder, port, evenkeel: program })?;
    let said = folder.path().join("said");
    let process = Child::spawn(server.name, &command, Some(cores.proxy), &said)?;
    origin::await_listening(server.name, &process, SocketAddr::from(([127, 0, 0, 1], port)), &said)?;
    // Servers that fork have forked once they answer.
    ask(dnsperf, &questions, port, 1)?;
    let pids: Vec<u32> = [vec![process.pid()], family(process.pid())].concat();
    pids.iter().try_for_each(|&pid| cores.hold(pid))?;
    let (before, began) = (Cpu::of(&pids)?, Instant::now());
    let answered = ask(dnsperf, &questions, port, seconds)?;
    let (used, took) = (Cpu::of(&pids)?.since(&before), began.elapsed());
    Ok(Run {
        us_per_query: used.time.as_secs_f64() * 1e6 / answered as f64,
        per_second: answered as f64 / took.as_secs_f64(),
    })
}

/// The children of a process, and theirs.
fn family(of: u32) -> Vec<u32> {
    let children = procfs::children_of(of);
    let below: Vec<u32> = children.iter().flat_map(|&child| family(child)).collect();
    [children, below].concat()
}

/// Lets the generator ask. Returns how many answers there were.
fn ask(dnsperf: &str, questions: &Path, port: u16, seconds: u64) -> Result<u64> {
    let (port, time, file) = (port.to_string(), seconds.to_string(), questions.display().to_string());
    let command = words(&[dnsperf, "-s", "127.0.0.1", "-p", &port, "-d", &file, "-l", &time, "-c", "8", "-q", "200"]);
    let said = child::output(&command, Duration::from_secs(seconds + 30))?.text;
    completed(&said).filter(|n| *n > 0).ok_or_else(|| Error::Wrong(format!("dnsperf got no answers: {said}")))
}

/// The number behind "Queries completed:".
fn completed(said: &str) -> Option<u64> {
    let rest = said.split_once("Queries completed:")?.1;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_dnsperf_says() {
        let said = "Statistics:\n\n  Queries sent:         1000\n  Queries completed:    998 (99.80%)\n";
        assert_eq!(completed(said), Some(998));
        assert_eq!(completed("nothing"), None);
    }
}
