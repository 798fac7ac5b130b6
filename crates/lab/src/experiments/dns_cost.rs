//! CPU cost of a DNS answer: evenkeel, Knot DNS and NSD answer the same queries of the same generator, in turn.

use crate::balancers::{self, Algorithm, Balancer, Front, Listener, Pool, Setup, Zone};
use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::machine::{self, Cores};
use crate::origin;
use crate::procfs::{self, Cpu};
use crate::scratch::Scratch;
use crate::study::grid::{Bench, Bound, Case, Grid, Run};
use crate::study::topology::{column, even, node};
use crate::study::{self, Found, Meter, Options, Versions};
use clap::{Args, FromArgMatches};
use std::any::Any;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

pub static EXPERIMENT: Experiment = Experiment {
    name: "dns-cost",
    summary: "CPU time for each DNS query, beside Knot DNS and NSD",
    docs: "Each server answers for one zone with one worker on a core of its own, and dnsperf asks on the others as fast as \
it gets answers; servers take turns within a round. Two in three questions are for a name with addresses, of which \
evenkeel names two of three by its algorithm while the others give all three; one is for a name that does not exist. CPU \
time is that of the server's processes, system calls included; what the kernel does for it in other contexts is not in it. \
What a second worker adds, dns-scaling shows.",
    args: |command| {
        let help = "Servers beside evenkeel, of knot and nsd. One that is not installed is named, and left out";
        Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value("knot,nsd").help(help))
    },
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Duration of a run in seconds. Defaults to 3, with --quick to 1, with --full to 8.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: Option<u64>,
}

/// DNS server to compare evenkeel with.
struct Server {
    name: &'static str,
    program: &'static str,
    version_flag: &'static str,
    /// Builds its command. The folder has the zone file, and may get a configuration.
    command: fn(folder: &Scratch, port: u16) -> Result<Vec<String>>,
}

static SERVERS: &[Server] = &[
    Server { name: "knot", program: "knotd", version_flag: "--version", command: knot },
    Server { name: "nsd", program: "nsd", version_flag: "-v", command: nsd },
];

const ZONE: &str = "$TTL 5\n@ SOA ns1 hostmaster 1 3600 600 86400 5\n@ NS ns1\nns1 A 127.0.0.1\n\
                    www A 10.0.0.1\nwww A 10.0.0.2\nwww A 10.0.0.3\n";

const QUESTIONS: &str = "www.gslb.example.com A\nnothing.gslb.example.com A\nwww.gslb.example.com A\n";

/// Setup of evenkeel for the zone, with this number of workers.
pub(super) fn setup(workers: usize, port: u16) -> Setup {
    let zone = Zone { name: "gslb.example.com", ttl: None, answers: 2 };
    let endpoints = [1, 2, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 80))).to_vec();
    Setup {
        workers,
        listeners: vec![Listener::to("web", "dns", http::local(port), Front::Dns(zone))],
        pools: vec![Pool { name: "web", endpoints, algorithm: Algorithm::RoundRobin, ..Pool::default() }],
        ..Setup::default()
    }
}

fn knot(scratch: &Scratch, port: u16) -> Result<Vec<String>> {
    let folder = scratch.path().display();
    let text = format!(
        "server:\n  listen: 127.0.0.1@{port}\n  rundir: {folder}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {folder}\nzone:\n  - domain: gslb.example.com\n    file: {folder}/zone\n    storage: {folder}\n"
    );
    let file = scratch.write("knot.conf", text)?;
    Ok(words(&[&child::find("knotd")?, "-c", &file.display().to_string()]))
}

fn nsd(scratch: &Scratch, port: u16) -> Result<Vec<String>> {
    let folder = scratch.path().display();
    let text = format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \"{folder}\"\n  \
         pidfile: \"{folder}/nsd.pid\"\n  database: \"\"\n  xfrdfile: \"{folder}/xfrd\"\n  zonelistfile: \"{folder}/zones\"\n  \
         xfrdir: \"{folder}\"\n  rrl-ratelimit: 0\n  reuseport: yes\nremote-control:\n  control-enable: no\n\
         zone:\n  name: gslb.example.com\n  zonefile: zone\n"
    );
    let file = scratch.write("nsd.conf", text)?;
    Ok(words(&[&child::find("nsd")?, "-d", "-c", &file.display().to_string()]))
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

static QUERIES: Case = Case {
    name: "queries",
    about: "two of three questions are for a name with addresses, one is for a name that does not exist (dnsperf)",
    unit: "CPU us/query",
    bounds: &[Bound::new(
        "evenkeel's CPU time per query is at most that of the less of Knot's and NSD's",
        &["knot", "nsd"],
        1.0,
    )],
};

/// State of the measurement.
struct Costs {
    evenkeel: Balancer,
    servers: Vec<&'static Server>,
    dnsperf: String,
    cores: Cores,
    seconds: u64,
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    let known = |name: &String| name.is_empty() || SERVERS.iter().any(|server| server.name == name);
    if let Some(unknown) = options.against.iter().find(|name| !known(name)) {
        return Err(Error::Wrong(format!("unknown server `{unknown}`; there are knot, nsd")));
    }
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let (mut servers, mut versions) = (Vec::new(), vec![evenkeel.named_version()]);
    for server in SERVERS.iter().filter(|server| options.against.iter().any(|name| name == server.name)) {
        match child::find(server.program) {
            Ok(program) => {
                versions.push((server.name.to_owned(), machine::version(&[program], server.version_flag)?));
                servers.push(server);
            }
            Err(error) => eprintln!("left out: {error}"),
        }
    }
    let seconds = arguments.seconds.unwrap_or_else(|| options.seconds());
    let names = versions.iter().map(|(name, _)| name.clone()).collect();
    let costs = Costs { servers, evenkeel, dnsperf: child::find("dnsperf")?, cores: Cores::divide()?, seconds };
    let grid = Grid::run(names, &[QUERIES], options.rounds(), &costs)?;
    study::present(&found(&grid, versions), options)?;
    grid.check()
}

fn found(grid: &Grid, versions: Versions) -> Found {
    let topology = even(&[
        column("clients", [node("dnsperf", "the other cores")]),
        column("server", [node("one of several", "a core of its own")]),
    ]);
    grid.found("What does an answer of DNS cost?", topology, "knot", EXPERIMENT.docs, versions)
}

impl Bench for Costs {
    type Kept = ();

    fn open(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    /// Starts a server and measures a run of it.
    fn measure(&self, _: usize, server: usize, (): &mut ()) -> Result<Run> {
        let folder = Scratch::new()?;
        let questions = folder.write("questions", QUESTIONS)?;
        folder.write("zone", ZONE)?;
        let port = origin::free_ports()?[0];
        let (pid, _process): (u32, Box<dyn Any>) = match server.checked_sub(1) {
            None => {
                let running = self.evenkeel.start(child::on_core(self.cores.proxy)?, setup(1, port))?;
                (running.pid(), Box::new(running))
            }
            Some(at) => {
                let (name, command) = (self.servers[at].name, (self.servers[at].command)(&folder, port)?);
                let (core, said) = (Some(self.cores.proxy), folder.path().join("said"));
                let process = Child::start(name, &command, core, &said, |_| http::accepts(http::local(port)))?;
                (process.pid(), Box::new(process))
            }
        };
        // Once they answer, servers that fork have done so.
        ask(&self.dnsperf, &questions, port, 1)?;
        let pids: Vec<u32> = [vec![pid], family(pid)].concat();
        pids.iter().try_for_each(|&pid| self.cores.hold(pid))?;
        let meter = Meter::start(vec![("lab", vec![std::process::id()])])?;
        let (before, ended, began) = (Cpu::of(&pids)?, procfs::ended_children()?, Instant::now());
        let answered = ask(&self.dnsperf, &questions, port, self.seconds)?;
        let (own, took, mut used) = (Cpu::of(&pids)?.since(&before), began.elapsed(), meter.used()?);
        used.groups.push(("server", own.time));
        used.groups.push(("load", procfs::ended_children()?.saturating_sub(ended)));
        Ok(Run {
            figure: own.time.as_secs_f64() * 1e6 / answered as f64,
            beside: vec![("queries/s", answered as f64 / took.as_secs_f64())],
            used: Some(used),
            ..Run::default()
        })
    }
}

/// All descendants of a process.
fn family(of: u32) -> Vec<u32> {
    let children = procfs::children_of(of);
    let below: Vec<u32> = children.iter().flat_map(|&child| family(child)).collect();
    [children, below].concat()
}

/// Runs dnsperf and returns the number of answers.
fn ask(dnsperf: &str, questions: &Path, port: u16, seconds: u64) -> Result<u64> {
    let (port, time, file) = (port.to_string(), seconds.to_string(), questions.display().to_string());
    let command = words(&[dnsperf, "-s", "127.0.0.1", "-p", &port, "-d", &file, "-l", &time, "-c", "8", "-q", "200"]);
    let said = child::output(&command, Duration::from_secs(seconds + 30))?.text;
    completed(&said).filter(|n| *n > 0).ok_or_else(|| Error::Wrong(format!("dnsperf got no answers: {said}")))
}

/// Parses the number after "Queries completed:".
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
