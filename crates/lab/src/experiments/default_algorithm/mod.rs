//! Which algorithm should be the default? The test by which HAProxy's was discussed: four servers, one of them behind a slow link;
//! what comes through by round robin, leastconn and random.

mod beside;

use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::hosts::{Network, address, gateway};
use crate::load::Load;
use crate::origin;
use crate::scratch::Scratch;
use crate::stats::{Interval, Spread};
use crate::study::balancers::{self, Algorithm, Balancer, PORT, Running, Setup};
use crate::study::{self, Claim, Finding, Found, Options, Prediction, Rounds, Versions};
use clap::{Args, FromArgMatches};
use evenkeel_draw::flow::{Band, Column, Node, flow};
use serde_json::json;
use std::time::{Duration, Instant};

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "default-algorithm",
    summary: "Round robin, leastconn and random in front of four servers, one of them behind a slow link",
    docs: "HAProxy's mailing list discussed its default algorithm by a test on machines with 64 cores and links of 25 Gbit/s: four \
servers with objects of 1 kB; when the link of one was slowed to 1 Gbit/s, round robin brought 430,000 requests a second, leastconn \
and random 1,300,000. Those figures are arithmetic: by round robin every server gets as much as the slowest takes, so what comes \
through is four times that.

Here every machine is a network namespace on one computer: a client with 64 connections that are kept (wrk), the balancer, four \
NGINX. What the balancer may send to the client is limited, so that all algorithms can reach the same rate, far below what the \
processors could; then the link of one server is slowed to 8.3 % of that (which has the published ratio), to 4.1 and to 1.5 %. \
Each figure is the rate of a run over that of the same balancer and round without a slow link, by the bytes on the client's link. All \
balancers run with one worker, without checks, \
retries and ejections: what is compared is the algorithm.

The other half of that discussion, what locks of an algorithm cost on 64 cores, cannot be shown on a few.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const SERVERS: usize = 4;
const ALGORITHMS: usize = Algorithm::ALL.len();
/// The hosts: the client is the first, the servers follow.
const CLIENT: usize = 1;
/// The server whose link is slowed.
const SLOW: usize = 2;
const SERVER_PORT: u16 = 8080;
/// Few enough that what waits at the slow link is there before TCP sends it again, at 8.3 and at 4.1 %.
const CONNECTIONS: u32 = 64;
/// Bytes a second that the client's link takes: some thousands of answers.
const CLIENT_RATE: f64 = 11e6;
/// What the slow server's link takes of the whole rate.
const SHARES: [f64; 3] = [0.083, 0.041, 0.015];
/// The same system, to simulate.
const SCENARIO: &str = include_str!("../../../scenarios/default-algorithm.toml");
/// Of each run, what is not counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the load may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

const THIRD: Claim = Claim {
    text: "One of four servers behind a link of 8.3 % of the balancer's rate: round robin brings a third of it",
    source: "HAProxy mailing list, 430,000 of 1,300,000 requests a second",
};
const WHOLE: [Claim; 2] = [
    Claim { text: "At 8.3 % leastconn brings all of it", source: "HAProxy mailing list, 1,300,000" },
    Claim { text: "At 8.3 % random brings all of it", source: "HAProxy mailing list, 1,300,000" },
];
const OURS: Claim = Claim {
    text: "evenkeel's random and leastconn bring all of it at 4.1 and 1.5 % too, as two draws are of two endpoints",
    source: "evenkeel",
};
const REPLACED: Claim = Claim {
    text: "HAProxy's random, whose two draws may be of one server, falls to at most 0.75 at 4.1 % and 0.35 at 1.5 %",
    source: "arithmetic: one of 16 pairs is the slow server twice",
};
const LOCKS: Claim = Claim {
    text: "On 64 cores leastconn and random bring more than round robin, as its lock costs 48 % of the processor",
    source: "HAProxy mailing list, 910,000 beside 1,020,000 and 1,060,000",
};

fn run(options: &Options) -> Result<()> {
    let (balancers, mut versions) = balancers::find(options)?;
    let arms: Vec<Arm> = balancers.iter().flat_map(Arm::all).collect();
    let network = Network::star(1 + SERVERS)?;
    let folder = Scratch::new()?;
    let nginx = child::find("nginx")?;
    versions.push(("wrk".into(), crate::machine::version(&[child::find("wrk")?], "-v").unwrap_or_default()));
    let servers =
        (0..SERVERS).map(|number| server(&network, &nginx, number, folder.path())).collect::<Result<Vec<_>>>()?;
    let addresses: Vec<String> = (0..SERVERS).map(|n| format!("{}:{SERVER_PORT}", address(2 + n))).collect();
    let bench = Bench { network: &network, servers: &addresses, seconds: options.seconds() };
    network.limit_to(CLIENT, Some(CLIENT_RATE))?;
    // How many bytes the servers send at the whole rate.
    let before = bench.sent_by_servers()?;
    let first = bench.run(&arms[0])?;
    let whole = first.rate * (bench.sent_by_servers()? - before) as f64 / first.answered as f64;
    // Of each balancer a run without a slow link, then every algorithm with each.
    let bases = arms.len() / ALGORITHMS;
    let base = |of: usize| format!("{} without a slow link", arms[of * ALGORITHMS].balancer.name);
    let slow =
        |share: &f64| arms.iter().map(|arm| format!("{} at {:.1} %", arm.name, share * 100.0)).collect::<Vec<_>>();
    let names: Vec<String> = (0..bases).map(base).chain(SHARES.iter().flat_map(slow)).collect();
    let rounds = Rounds::run(&names, options.rounds(), |at| {
        let (share, arm) = match at.checked_sub(bases) {
            None => (None, &arms[at * ALGORITHMS]),
            Some(at) => (Some(SHARES[at / arms.len()]), &arms[at % arms.len()]),
        };
        // A link that is limited anew keeps what waited at it, so it is first emptied.
        network.limit_from(SLOW, None)?;
        network.limit_from(SLOW, share.map(|share| share * whole))?;
        Ok(bench.run(arm)?.rate)
    })?;
    drop(servers);
    let outcome = Outcome { arms: &arms, bases, names: &names, rounds: &rounds };
    let prediction = Prediction::of(balancers[0].program(), SCENARIO, 30_000, 5)?;
    study::present_beside(&outcome.found(versions), &beside::beside(&outcome.rows(), &prediction), options)
}

/// One balancer with one algorithm.
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

    /// Starts it at the hub.
    fn start(&self, network: &Network, endpoints: &[String]) -> Result<Running> {
        let setup = Setup { algorithm: self.algorithm, endpoints, workers: 1, port: PORT };
        self.balancer.start(network.at(0), &setup)
    }
}

/// What runs are measured with.
struct Bench<'b> {
    network: &'b Network,
    servers: &'b [String],
    seconds: u64,
}

/// What one run came to.
struct Run {
    /// Answers a second, once the connections are where the algorithm brings them.
    rate: f64,
    /// Answers, from begin to end.
    answered: u64,
}

impl Bench<'_> {
    /// Counts by the bytes on the client's link: wrk's own count has the begin, in which connections still gather at the slow
    /// server, and an end.
    fn run(&self, arm: &Arm) -> Result<Run> {
        let running = arm.start(self.network, self.servers)?;
        let load = Load::KeepAlive(CONNECTIONS);
        let url = format!("http://{}:{PORT}/1k", gateway(CLIENT));
        let mut command = self.network.at(CLIENT);
        command.extend(load.command(&url, self.seconds + WARM_UP.as_secs() + 1)?);
        let said = running.folder().join("load");
        let before = self.network.sent_to(CLIENT)?;
        let client = Child::spawn("wrk", &command, None, &said)?;
        child::pause(WARM_UP)?;
        let (begin, from) = (self.network.sent_to(CLIENT)?, Instant::now());
        child::pause(Duration::from_secs(self.seconds))?;
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

/// One of the servers: NGINX with a file of 1 kB.
fn server(network: &Network, nginx: &str, number: usize, folder: &std::path::Path) -> Result<Child> {
    let folder = folder.join(format!("server-{number}"));
    let write = |name: &str, text: &[u8]| {
        std::fs::write(folder.join(name), text).map_err(|error| Error::Os(format!("cannot write {name}"), error))
    };
    std::fs::create_dir_all(&folder).map_err(|error| Error::Os("cannot make a folder".into(), error))?;
    write("1k", &origin::content(1 << 10))?;
    let text = format!(
        "{}  access_log off;\n  keepalive_requests 1000000000;\n  server {{ listen 0.0.0.0:{SERVER_PORT} backlog=4096; root {}; }}\n}}\n",
        origin::nginx_preamble(&folder),
        folder.display()
    );
    write("nginx.conf", text.as_bytes())?;
    let mut command = network.at(2 + number);
    command.extend(origin::nginx_command(nginx.to_owned(), &folder, &folder.join("nginx.conf")));
    balancers::start("a server's nginx", &command, SERVER_PORT, &folder)
}

/// What was measured.
struct Outcome<'o> {
    arms: &'o [Arm<'o>],
    /// As many runs without a slow link are the first of a round.
    bases: usize,
    names: &'o [String],
    rounds: &'o Rounds<f64>,
}

impl Outcome<'_> {
    /// What came through with a slow link, and what the same balancer let through without, by round.
    fn runs(&self, arm: usize, share: usize) -> (&[f64], &[f64]) {
        let base = arm / ALGORITHMS;
        (self.rounds.of(self.bases + share * self.arms.len() + arm), self.rounds.of(base))
    }

    fn rows(&self) -> Vec<beside::Row<'_>> {
        let each = (0..SHARES.len()).flat_map(move |share| (0..self.arms.len()).map(move |arm| (share, arm)));
        let row = |(share, at): (usize, usize)| {
            let (Arm { name, balancer, algorithm }, (runs, base)) = (&self.arms[at], self.runs(at, share));
            let through = runs.iter().zip(base).map(|(run, base)| run / base).collect();
            beside::Row { name, balancer: balancer.name, algorithm: *algorithm, share: SHARES[share], through }
        };
        each.map(row).collect()
    }

    fn interval(&self, balancer: &str, algorithm: Algorithm, share: usize) -> Option<Interval> {
        let arm = self.arms.iter().position(|arm| arm.balancer.name == balancer && arm.algorithm == algorithm)?;
        let (runs, base) = self.runs(arm, share);
        Interval::of_ratios(runs, base)
    }

    /// The figures of the one that is worst for the claim.
    fn lowest(&self, of: &[(&str, Algorithm, usize)]) -> Option<Interval> {
        let all: Option<Vec<Interval>> =
            of.iter().map(|(name, algorithm, share)| self.interval(name, *algorithm, *share)).collect();
        all?.into_iter().min_by(|a, b| a.median.total_cmp(&b.median))
    }

    fn findings(&self) -> Vec<Finding> {
        let has_haproxy = self.arms.iter().any(|arm| arm.balancer.name == "haproxy");
        let published = if has_haproxy { "haproxy" } else { "evenkeel" };
        let of = |algorithm: Algorithm, share: usize| {
            format!("{published}'s {} at {:.1} %", algorithm.name(), SHARES[share] * 100.0)
        };
        let mut findings = vec![
            Finding::near(
                THIRD,
                &of(Algorithm::RoundRobin, 0),
                self.interval(published, Algorithm::RoundRobin, 0),
                SERVERS as f64 * SHARES[0],
                0.1,
            ),
            Finding::at_least(
                WHOLE[0],
                &of(Algorithm::LeastConn, 0),
                self.interval(published, Algorithm::LeastConn, 0),
                0.95,
            ),
            Finding::at_least(
                WHOLE[1],
                &of(Algorithm::Random, 0),
                self.interval(published, Algorithm::Random, 0),
                0.95,
            ),
        ];
        let ours = [
            ("evenkeel", Algorithm::LeastConn, 1),
            ("evenkeel", Algorithm::Random, 1),
            ("evenkeel", Algorithm::LeastConn, 2),
            ("evenkeel", Algorithm::Random, 2),
        ];
        findings.push(Finding::at_least(OURS, "the lowest of the four", self.lowest(&ours), 0.95));
        findings.push(match has_haproxy {
            true => {
                let (at_4, at_1) =
                    (self.interval("haproxy", Algorithm::Random, 1), self.interval("haproxy", Algorithm::Random, 2));
                let scaled = |of: Option<Interval>, most: f64| {
                    of.map(|Interval { median, low, high }| Interval {
                        median: median / most,
                        low: low / most,
                        high: high / most,
                    })
                };
                let worst = [scaled(at_4, 0.75), scaled(at_1, 0.35)].into_iter().collect::<Option<Vec<_>>>();
                let worst = worst.and_then(|all| all.into_iter().max_by(|a, b| a.median.total_cmp(&b.median)));
                Finding::at_most(REPLACED, "what it brings over what the claim allows, the larger of both", worst, 1.0)
            }
            false => Finding::not_shown(REPLACED, "HAProxy did not run".into()),
        });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        findings.push(Finding::not_shown(LOCKS, format!("{cores} cores cannot contend for a lock as 64 do")));
        findings
    }

    fn found(&self, versions: Versions) -> Found {
        let header = ["", "8.3 %", "4.1 %", "1.5 %"].map(str::to_owned).to_vec();
        let cell = |arm: usize, share: usize| {
            let (runs, base) = self.runs(arm, share);
            let spread = Spread::of_ratios(runs, base);
            spread.map_or_else(String::new, |Spread { median, min, max }| format!("{median:.3} ({min:.3}..{max:.3})"))
        };
        let row = |(at, arm): (usize, &Arm)| {
            std::iter::once(arm.name.clone()).chain((0..SHARES.len()).map(|share| cell(at, share))).collect()
        };
        let runs: serde_json::Map<String, serde_json::Value> =
            self.names.iter().enumerate().map(|(at, name)| (name.clone(), json!(self.rounds.of(at)))).collect();
        Found {
            title: "Which algorithm should be the default?",
            topology: topology(),
            findings: self.findings(),
            figures: std::iter::once(header).chain(self.arms.iter().enumerate().map(row)).collect(),
            plots: Vec::new(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: json!({ "requests_per_second": runs }),
        }
    }
}

/// A client, the balancer and four servers; the link of one is slow.
fn topology() -> String {
    let node = |name: &str, text: &str| Node { name: name.into(), text: text.into(), link: None };
    let column = |title: &str, nodes: Vec<Node>| Column { title: title.into(), nodes };
    let servers = (0..SERVERS).map(|n| node(&format!("NGINX {n}"), if n == 0 { "1 kB, slow link" } else { "1 kB" }));
    let columns = [
        column("client", vec![node("wrk", &format!("{CONNECTIONS} connections"))]),
        column("balancer", vec![node("one of several", "its link is the limit")]),
        column("servers", servers.collect()),
    ];
    let band = |to: usize| Band { from: 0, to, rate: if to == 0 { 0.083 } else { 0.3 }, errors: 0.0 };
    flow(
        "The machines",
        &columns,
        &[vec![Band { from: 0, to: 0, rate: 1.0, errors: 0.0 }], (0..SERVERS).map(band).collect()],
    )
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
