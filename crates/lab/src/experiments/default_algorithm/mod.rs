//! Default-algorithm experiment, after the discussion of HAProxy's default: throughput of round robin, leastconn and
//! random with four servers, the last behind a slow link; and the cost of picking.

// Order: outcome, beside, picking, known
mod known;
mod outcome;
mod picking;

mod beside;

use crate::balancers::{self, Algorithm, Balancer, OTHER, Running, Setup};
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::hosts::{Network, address, gateway};
use crate::load::Load;
use crate::origin;
use crate::scratch::Scratch;
use crate::study::{self, Options, Prediction, Rounds};
use clap::{Args, FromArgMatches};
use outcome::Outcome;
use picking::Picking;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

pub static EXPERIMENT: Experiment = Experiment {
    name: "default-algorithm",
    summary: "Round robin, leastconn and random in front of four servers, one of them behind a slow link; and what picking costs",
    docs: "HAProxy's mailing list discussed its default algorithm by a test on machines with 64 cores and links of 25 Gbit/s: four \
servers with objects of 1 kB; when the link of one was slowed to 1 Gbit/s, round robin brought 430,000 requests a second, leastconn \
and random 1,300,000. Those figures are arithmetic: by round robin every server gets as much as the slowest takes, so what comes \
through is four times that.

Here every machine is a network namespace on one computer: a client with 64 connections that are kept (wrk), the balancer, four \
NGINX. What the balancer may send to the client is limited, so that all algorithms can reach the same rate, far below what the \
processors could; then the link of one server is slowed to 8.3 % of that (which has the published ratio), to 4.1 and to 1.5 %. \
Each figure is the rate of a run over that of the same balancer and round without a slow link, by the bytes on the client's link. \
All balancers run with one worker, without checks, retries and ejections: what is compared is the algorithm.

The other half of that discussion is what picking costs, with its locks: on 64 cores 48 % of the processor by round robin, 14 % by \
leastconn, 1 % by random. For that all machines are one, at full speed: wrk, the balancer with 1, 2, 4, 8 and 16 workers (and as \
many as there are cores, if there are more; with --quick only one and the most), four NGINX over loopback. perf samples the \
balancer with its stacks. Of evenkeel a sample is picking if a function of the algorithms, of their parts or of the set of \
endpoints is on its stack, by the line tables, since most are inlined; beside that stands all of its balancing crate, with what is \
measured of each request. Of HAProxy it is picking if one of its algorithms, assign_server or sess_change_server is: that keeps \
the counts and the order by which leastconn picks. Locks spin within these functions, so they are in; time that the kernel spends \
on waiting for a lock (futex) is counted apart. Debian's NGINX is stripped, so its share is unknown. \
More workers than cores take turns, so they rarely meet at a lock: two cores show what picking costs, not what contention would. \
With 32 cores or more the published figures are judged, too.

HAPROXY_BIN in the environment names another HAProxy, to run beside the one that is installed.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const SERVERS: usize = 4;
const ALGORITHMS: usize = Algorithm::ALL.len();
/// Host number of the client; the servers follow.
const CLIENT: usize = 1;
/// Host number of the server with the slow link.
const SLOW: usize = 2;
const SERVER_PORT: u16 = 8080;
/// Port of the balancer at the hub.
const PORT: u16 = 8000;
/// Connections of the client: few enough that bytes queued at the slow link arrive before TCP retransmits them, at 8.3
/// and 4.1 %.
const CONNECTIONS: u32 = 64;
/// Rate of the client's link in bytes per second: several thousand answers.
const CLIENT_RATE: f64 = 11e6;
/// Share of the whole rate that the slow server's link can carry.
const SHARES: [f64; 3] = [0.083, 0.041, 0.015];
/// Scenario of the same system.
const SCENARIO: &str = include_str!("../../../scenarios/default-algorithm.toml");
/// Excluded start of each run, until connections have settled on servers; and the excluded end.
const WARM_UP: Duration = Duration::from_secs(1);
const END: Duration = Duration::from_millis(300);
/// Maximum time for the load to end.
const PATIENCE: Duration = Duration::from_secs(20);

fn run(options: &Options) -> Result<()> {
    let (balancers, mut versions) = balancers::find(options, &["haproxy", OTHER, "nginx", "envoy"])?;
    let arms: Vec<Arm> = balancers.iter().flat_map(Arm::all).collect();
    let network = Network::star(1 + SERVERS)?;
    let folder = Scratch::new()?;
    versions.push(("wrk".into(), crate::machine::version(&[child::find("wrk")?], "-v").unwrap_or_default()));
    let servers = (0..SERVERS).map(|number| server(&network, number, folder.path())).collect::<Result<Vec<_>>>()?;
    let addresses: Vec<SocketAddr> = (0..SERVERS).map(|n| SocketAddr::from((address(2 + n), SERVER_PORT))).collect();
    let bench = Bench { network: &network, servers: &addresses, seconds: options.seconds().max(2) };
    network.limit_to(CLIENT, Some(CLIENT_RATE))?;
    // Bytes per second that the servers send at the full rate.
    let before = bench.sent_by_servers()?;
    let first = bench.run(&arms[0])?;
    let whole = first.rate * (bench.sent_by_servers()? - before) as f64 / first.answered as f64;
    // A run per balancer without a slow link, then every algorithm at each share.
    let bases = arms.len() / ALGORITHMS;
    let base = |of: usize| format!("{} without a slow link", arms[of * ALGORITHMS].balancer.name);
    let slow =
        |share: &f64| arms.iter().map(|arm| format!("{} at {:.1} %", arm.name, share * 100.0)).collect::<Vec<_>>();
    let names: Vec<String> = (0..bases).map(base).chain(SHARES.iter().flat_map(slow)).collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, _| {
        let (share, arm) = match at.checked_sub(bases) {
            None => (None, &arms[at * ALGORITHMS]),
            Some(at) => (Some(SHARES[at / arms.len()]), &arms[at % arms.len()]),
        };
        // A link whose limit changes keeps its queue, so the limit is removed first.
        network.limit_from(SLOW, None)?;
        network.limit_from(SLOW, share.map(|share| share * whole))?;
        Ok(bench.run(arm)?.rate)
    })?;
    drop(servers);
    drop(network);
    let picking = Picking::measure(&balancers, options)?;
    let outcome = Outcome { arms: &arms, bases, rounds: &rounds, picking: &picking };
    let prediction = Prediction::of(balancers[0].program(), SCENARIO, 30_000, 5)?;
    study::present_beside(&outcome.found(versions), &beside::beside(&outcome.rows(), &prediction), options)
}

/// Balancer with an algorithm.
struct Arm<'b> {
    name: String,
    balancer: &'b Balancer,
    algorithm: Algorithm,
}

impl Arm<'_> {
    fn all(balancer: &Balancer) -> impl Iterator<Item = Arm<'_>> {
        let arm =
            |algorithm: Algorithm| Arm { name: format!("{} {}", balancer.name, algorithm.name()), balancer, algorithm };
        Algorithm::ALL.into_iter().map(arm)
    }

    /// Starts the balancer at the hub.
    fn start(&self, network: &Network, endpoints: &[SocketAddr]) -> Result<Running> {
        let bind = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        self.balancer.start(network.at(0), Setup::of_algorithm(self.algorithm, endpoints, bind))
    }
}

struct Bench<'b> {
    network: &'b Network,
    servers: &'b [SocketAddr],
    /// Duration of a run, including warm-up and end.
    seconds: u64,
}

struct Run {
    /// Answers per second, once the connections have settled.
    rate: f64,
    /// Number of answers in the whole run.
    answered: u64,
}

impl Bench<'_> {
    /// Measures by bytes on the client's link: wrk's own count includes the start, in which connections still gather at
    /// the slow server, and the end.
    fn run(&self, arm: &Arm) -> Result<Run> {
        let running = arm.start(self.network, self.servers)?;
        let load = Load::KeepAlive(CONNECTIONS);
        let url = format!("http://{}:{PORT}/1k", gateway(CLIENT));
        let mut command = self.network.at(CLIENT);
        command.extend(load.command(&url, self.seconds)?);
        let said = running.folder().join("load");
        let before = self.network.sent_to(CLIENT)?;
        let client = Child::spawn("wrk", &command, None, &said)?;
        child::pause(WARM_UP)?;
        let (begin, from) = (self.network.sent_to(CLIENT)?, Instant::now());
        child::pause(Duration::from_secs(self.seconds) - WARM_UP - END)?;
        let (end, window) = (self.network.sent_to(CLIENT)?, from.elapsed());
        client.ends(PATIENCE)?;
        let text = std::fs::read_to_string(&said).or_say(|| "cannot read what wrk said".into())?;
        let answered = load.answered(&text)?.requests;
        let bytes = (self.network.sent_to(CLIENT)? - before) as f64 / answered as f64;
        Ok(Run { rate: (end - begin) as f64 / bytes / window.as_secs_f64(), answered })
    }

    fn sent_by_servers(&self) -> Result<u64> {
        (2..2 + SERVERS).map(|host| self.network.sent_by(host)).sum()
    }
}

/// Starts a server: NGINX with a file of 1 kB.
fn server(network: &Network, number: usize, folder: &std::path::Path) -> Result<Child> {
    let folder = folder.join(format!("server-{number}"));
    std::fs::create_dir_all(&folder).or_say(|| "cannot make a folder".into())?;
    std::fs::write(folder.join("1k"), origin::content(1 << 10)).or_say(|| "cannot write 1k".into())?;
    let lines = format!("  server {{ listen 0.0.0.0:{SERVER_PORT} backlog=4096; root {}; }}\n", folder.display());
    origin::start_nginx(network.at(2 + number), &folder, 1, &lines, SERVER_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::Load;

    #[test]
    fn the_scenario_is_the_same_system() {
        let points = read(SCENARIO);
        assert_eq!((points.len(), points[0].label.as_str()), (1 + SHARES.len(), "no slow link"));
        for (at, point) in points.iter().enumerate() {
            let [clients, web] = &point.scenario.services[..] else { panic!("two services") };
            assert!(matches!(point.scenario.load, Load::Closed { users, .. } if users == CONNECTIONS));
            assert_eq!((clients.servers[0].bandwidth, web.servers.len()), (CLIENT_RATE, SERVERS));
            let slow: Vec<f64> = web.servers.iter().map(|server| server.bandwidth).filter(|rate| *rate > 0.0).collect();
            match at.checked_sub(1) {
                None => assert!(slow.is_empty()),
                Some(share) => {
                    assert_eq!(point.label, format!("{:.1} %", SHARES[share] * 100.0));
                    assert_eq!(slow, [SHARES[share] * CLIENT_RATE]);
                }
            }
        }
    }
}
