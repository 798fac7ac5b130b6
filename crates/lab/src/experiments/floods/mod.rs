//! Floods experiment, the cost of attackers to other clients: HTTP/2 frame floods, and TLS handshakes
//! that never complete, beside a well-behaved client.

// Order: attacker, attacks
mod attacker;
mod attacks;

use super::slow_clients::{machines, percentile_us, setup, silent_endpoint};
use crate::balancers::{self, Balancer, Front, Listener, Running};
use crate::certificates::{Certificate, Certificates};
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::machine::{self, Cores};
use crate::origin::{self, Origin};
use crate::procfs;
use crate::stats::{Interval, Spread};
use crate::study::grid::{Bench, Case, Grid, OURS, Run};
use crate::study::topology::node;
use crate::study::{self, Claim, Finding, Found, Options, Versions};
use attacker::Attackers;
use attacks::Attack;
use clap::{Args, FromArgMatches};
use serde_json::json;
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "floods",
    summary: "What attackers over HTTP/2 and TLS cost another client, and the memory of an attacking connection",
    docs: "Starts evenkeel with one worker on a core of its own. A client asks for 1 kB over HTTP/1.1, over and over, in turns \
alone and beside attackers, who use what the client leaves of the core of the load: rapid resets, floods of each kind of frame, heads without an end, heads \
that unpack to many megabytes, windows that stay closed, responses that are not read, handshakes that stay half. An attacker \
whose connection is ended opens the next one at once. Told are the client's 99th percentile beside that of its quiet turns, the \
growth of evenkeel's resident memory for each attacking connection, how many connections were ended, and by how much the counter \
moved that is to show the attack.",
    args: |command| Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value("").hide(true)),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Run only attacks whose name contains any of these words.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of concurrent attacking connections.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// Duration of a turn in seconds. Defaults to 3, with --quick to 1, with --full to 8.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: Option<u64>,
}

const QUIET: &str = "p99 quiet, us";
const BESIDE: &str = "p99 beside it, us";
const KIB: &str = "KiB/connection";
const OPENED: &str = "opened";
const ENDED: &str = "ended";
const COUNTED: &str = "counted";

const UNMOVED: Claim =
    Claim::ours("The 99th percentile of a client beside any attack is at most twice that of its quiet turns");
const SMALL: Claim = Claim::ours("An attacking connection takes at most 6 MiB of memory, whatever the attack");
const ALL_COUNTED: Claim = Claim::ours("Each attack moves the counter that is to show it");
const ALL_ENDED: Claim = Claim::ours("Of each flood, connections are ended");

struct Attacked {
    attacks: Vec<&'static Attack>,
    balancer: Balancer,
    origin: Origin,
    silent: u16,
    /// Certificates, if an attack needs them.
    certificates: Option<Certificates>,
    core: usize,
    connections: u64,
    time: Duration,
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    let balancer = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let versions = vec![balancer.named_version()];
    let cores = Cores::divide()?;
    machine::allow_files(4 * arguments.connections + 1000);
    let wanted =
        |attack: &&Attack| arguments.only.is_empty() || arguments.only.iter().any(|word| attack.name.contains(&**word));
    let attacks: Vec<&'static Attack> = attacks::ALL.iter().filter(wanted).collect();
    if attacks.is_empty() {
        let names: Vec<&str> = attacks::ALL.iter().map(|attack| attack.name).collect();
        return Err(Error::Wrong(format!("--only leaves no attack; there are: {}", names.join(", "))));
    }
    let (origin, silent) = (Origin::start()?, silent_endpoint()?);
    let preferred = prefer_the_client();
    let certificates = attacks.iter().any(|attack| attack.tls).then(Certificates::make).transpose()?;
    let case =
        |attack: &&Attack| Case { name: attack.name, about: attack.about(), unit: "of the quiet p99", bounds: &[] };
    let cases: Vec<Case> = attacks.iter().map(case).collect();
    let time = Duration::from_secs(arguments.seconds.unwrap_or_else(|| options.seconds()));
    let connections = arguments.connections;
    let bench = Attacked { attacks, balancer, origin, silent, certificates, core: cores.proxy, connections, time };
    let grid = Grid::run(vec![OURS.to_owned()], &cases, options.rounds(), &bench)?;
    let mut found = found(&grid, connections, versions);
    if !preferred {
        let waits =
            "chrt could not give the client its core first: the figures include how long it waits for the attackers.";
        eprintln!("warning: {waits}");
        found.method.push(waits.into());
    }
    study::present(&found, options)?;
    grid.check()
}

fn found(grid: &Grid, connections: u64, versions: Versions) -> Found {
    let ends = |run: &Run| if run.more["floods"] == true { run.beside(ENDED) } else { None };
    let findings = vec![
        grid.everywhere(UNMOVED, "p99 beside the attack over quiet", 2.0, |run| Some(run.figure)),
        grid.everywhere(SMALL, "KiB for each attacking connection", 6.0 * 1024.0, |run| run.beside(KIB)),
        least(grid, ALL_COUNTED, "counted", |run| run.beside(COUNTED)),
        least(grid, ALL_ENDED, "connections ended", ends),
    ];
    let title = "What do attackers cost the others?";
    Found { findings, ..grid.found(title, topology(connections), OURS, EXPERIMENT.docs, versions) }
}

/// Finding for a claim that a figure is at least 1 in every case, judged where it is smallest.
fn least(grid: &Grid, claim: Claim, what: &str, figure: impl Fn(&Run) -> Option<f64>) -> Finding {
    let of = grid.cases.iter().filter_map(|(case, cells)| {
        let runs: Vec<f64> = cells[0].runs.iter().filter_map(&figure).collect();
        Some((case.name, Spread::of(&runs)?.median, runs))
    });
    match of.min_by(|one, other| one.1.total_cmp(&other.1)) {
        Some((name, _, runs)) => {
            Finding::at_least(claim, &format!("{what}, where it is least ({name})"), Interval::of(&runs), 1.0)
        }
        None => Finding::not_shown(claim, format!("{what}: no such attack was chosen")),
    }
}

fn topology(attackers: u64) -> String {
    machines(node("attackers", format!("{attackers} connections")), 1.0)
}

/// Running evenkeel that is attacked in every round, with its ports.
struct Kept {
    evenkeel: Running,
    port: u16,
    admin: u16,
}

impl Bench for Attacked {
    type Kept = Kept;

    fn open(&self, case: usize, _: usize) -> Result<Kept> {
        let attack = self.attacks[case];
        let [tls_port, admin] = origin::free_ports()?;
        let mut setup = setup(&self.origin, self.silent)?;
        setup.admin = Some(admin);
        setup.listeners[0].front = Front::H2c;
        if attack.tls {
            setup.certificate = self.certificates.as_ref().map(|files| files.of(Certificate::P256).clone());
            setup.listeners.push(Listener::new("tls", http::local(tls_port), Front::H2));
        }
        let evenkeel = self.balancer.start(child::on_core(self.core)?, setup)?;
        let port = if attack.tls { tls_port } else { evenkeel.port() };
        Ok(Kept { evenkeel, port, admin })
    }

    /// Measures a quiet turn, then a turn during the attack.
    fn measure(&self, case: usize, _: usize, kept: &mut Kept) -> Result<Run> {
        let (attack, pid) = (self.attacks[case], kept.evenkeel.pid());
        let mut asking = http::connect(kept.evenkeel.port())?;
        percentile_us(&mut asking, self.time / 4)?;
        let quiet = percentile_us(&mut asking, self.time)?;
        let (memory, counted) = (procfs::resident_bytes(pid)?, counter(kept.admin, attack)?);
        let attackers = Attackers::start(attack, kept.port, self.connections);
        let beside = percentile_us(&mut asking, self.time);
        let grown = procfs::resident_bytes(pid)?.saturating_sub(memory);
        let moved = counter(kept.admin, attack)? - counted;
        let met = attackers.met();
        attackers.stop();
        let beside = beside?;
        // A new client must still be served.
        http::get(&mut http::connect(kept.evenkeel.port())?, "/1k", "1.1")?;
        let figures = vec![
            (QUIET, quiet),
            (BESIDE, beside),
            (KIB, grown as f64 / 1024.0 / self.connections as f64),
            (OPENED, met.opened as f64),
            (ENDED, met.cut as f64),
            (COUNTED, moved),
        ];
        let more = json!({ "floods": attack.again.is_some() });
        Ok(Run { figure: beside / quiet, beside: figures, more, ..Run::default() })
    }
}

/// Gives this thread, the client, and the endpoint real-time priority over the attackers on the same cores. Threads
/// started later have normal priority. Returns true on success.
fn prefer_the_client() -> bool {
    let Ok(chrt) = child::find("chrt") else { return false };
    let nginx = procfs::children_of(std::process::id());
    let workers = nginx.iter().flat_map(|&pid| procfs::children_of(pid));
    let preferred: Vec<u32> = nginx.iter().copied().chain(workers).chain([std::process::id()]).collect();
    let first = |pid: u32| {
        let command = ["--reset-on-fork", "--fifo", "--pid", "10"].map(str::to_owned);
        let command = [vec![chrt.clone()], command.to_vec(), vec![pid.to_string()]].concat();
        child::output(&command, Duration::from_secs(10)).is_ok_and(|output| output.success)
    };
    preferred.into_iter().all(first)
}

/// Sum of the series that count an attack.
fn counter(admin: u16, attack: &Attack) -> Result<f64> {
    let metrics = http::get(&mut http::connect(admin)?, "/metrics", "1.1")?;
    Ok(sum(&String::from_utf8_lossy(&metrics), attack.counted))
}

fn sum(metrics: &str, (name, labels): (&str, &[&str])) -> f64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| rest.starts_with(['{', ' ']));
    let lines = lines.filter(|rest| labels.iter().all(|label| rest.contains(label)));
    lines.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn series_of_an_attack_are_added() {
        let metrics = "x_total{kind=\"a\",l=\"1\"} 3\nx_total{kind=\"b\",l=\"1\"} 4\nx_total_more{kind=\"a\"} 9\nx_total{kind=\"a\"} 1\ny 5\n";
        assert_eq!(sum(metrics, ("x_total", &["\"a\""])), 4.0);
        assert_eq!(sum(metrics, ("x_total", &[])), 8.0);
        assert_eq!(sum(metrics, ("y", &[])), 5.0);
    }
}
