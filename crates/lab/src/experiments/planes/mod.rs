//! On which plane should load be balanced? The cloud's comparison of balancers on layers 7 and 4, as far as it can be had here: the
//! same requests directly, through proxies of HTTP, and through those of TCP.

mod beside;
mod measure;
mod outcome;

use super::protocol_cost::{self, Back, Front};
use crate::certificates::{Certificate, Certificates};
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::load::generator::Plan;
use crate::load::h2load::Streams;
use crate::load::{Answered, Load};
use crate::machine::{self, Cores};
use crate::origin::Origin;
use crate::scratch::Scratch;
use crate::study::{self, Options, Rounds, Versions};
use beside::Row;
use clap::{Args, FromArgMatches};
use measure::{Bench, CONNECTIONS, Dns};
use outcome::Measured;
use std::time::Duration;

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "planes",
    summary: "4 kB directly and through HTTP, HTTPS, HTTP/2 and TCP balancers, with a connection for each request and with kept ones",
    docs: "Cloud providers compared their balancers with those that one runs oneself: 200 connections at once, a file of 4 kB, a \
connection for each request (ab) and kept connections; requests a second. What is slower on two shared cores is mostly what uses more \
of them, so the report compares CPU time for each request: that of the balancer, and that of the whole machine. A balancer that keeps its \
connections to endpoints spares them work, which the whole shows and the balancer alone does not.

By DNS a client looks the name up for each connection, and goes to the endpoint itself: ab and wrk cannot do that, so the lab's own \
client does, and goes directly, too, to compare.

Each balancer has one worker on a core of its own, as in `proxy-cost`; two NGINX and the load share the other cores. Requests are \
counted by the endpoints, between two moments while the load goes on.

The simulator cannot know what a request costs. From the CPU time of the first round, on the balancer's core and on the others, it says \
how many requests a second these cores bring when neither waits for the other; that stands beside the rates of the further rounds.

Managed balancers cannot run here: that of layer 4 is near to none at all in the publication, that of layer 7 begins at 30 % of its \
capacity and reaches the whole in about ten minutes. Planes in the kernel are not part of evenkeel yet.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const PATH: &str = "/4k";
const PATIENCE: Duration = Duration::from_secs(60);
const DIRECT: &str = "direct";

/// How a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    /// Through a proxy of HTTP or of TCP.
    Proxy(&'static str, Front),
    /// Through evenkeel with TLS.
    Tls,
    /// Through evenkeel over HTTP/2 with TLS.
    H2,
    /// Directly, by the lab's own client, which looks the name up for each connection, at an evenkeel; or does not.
    Lab {
        resolves: bool,
    },
}

const WAYS: [(&str, Way); 11] = [
    (DIRECT, Way::Direct),
    ("evenkeel TCP", Way::Proxy("evenkeel", Front::Tcp)),
    ("haproxy TCP", Way::Proxy("haproxy", Front::Tcp)),
    ("nginx stream", Way::Proxy("nginx", Front::Tcp)),
    ("evenkeel HTTP", Way::Proxy("evenkeel", Front::PLAIN)),
    ("haproxy HTTP", Way::Proxy("haproxy", Front::PLAIN)),
    ("nginx HTTP", Way::Proxy("nginx", Front::PLAIN)),
    ("evenkeel HTTPS", Way::Tls),
    ("evenkeel HTTP/2", Way::H2),
    ("direct, the lab's client", Way::Lab { resolves: false }),
    ("evenkeel DNS, the lab's client", Way::Lab { resolves: true }),
];

const CLOSE: &str = "a connection each";
const KEPT: &str = "kept";

struct Arm {
    name: &'static str,
    way: Way,
    kept: bool,
}

fn run(options: &Options) -> Result<()> {
    options.beside(&["haproxy", "nginx"])?;
    let evenkeel = child::find_evenkeel(options.evenkeel.as_deref())?;
    let cores = Cores::divide()?;
    machine::allow_files(50_000);
    let mut names = vec!["evenkeel".to_owned()];
    names.extend(["haproxy", "nginx"].into_iter().filter(|name| options.installed(name)).map(str::to_owned));
    let proxies = protocol_cost::Proxy::find(&names, Some(evenkeel.as_ref()))?;
    let certificates = Certificates::make()?;
    let versions: Versions = proxies.iter().map(|proxy| (proxy.name.clone(), proxy.version.clone())).collect();
    let there = |way: &Way| match way {
        Way::Proxy(name, _) => proxies.iter().any(|proxy| proxy.name == *name),
        _ => true,
    };
    let arm = |kept: bool| {
        // A connection for each request is not what HTTP/2 is for, and a kept one is never looked up again.
        let fits = move |way: &Way| if kept { !matches!(way, Way::Lab { .. }) } else { *way != Way::H2 };
        let ways = WAYS.iter().filter(move |(_, way)| fits(way));
        ways.filter(|(_, way)| there(way)).map(move |&(name, way)| Arm { name, way, kept })
    };
    let arms: Vec<Arm> = arm(false).chain(arm(true)).collect();
    let names: Vec<String> =
        arms.iter().map(|arm| format!("{}, {}", arm.name, if arm.kept { KEPT } else { CLOSE })).collect();
    let origin = Origin::start()?;
    let bench = Bench { origin: &origin, cores: &cores, seconds: options.seconds() };
    let rounds = Rounds::run(&names, options.rounds(), |at, _| {
        let arm = &arms[at];
        let load = if arm.kept { Load::KeepAlive(CONNECTIONS) } else { Load::Close(CONNECTIONS) };
        let http = |port: u16| format!("http://127.0.0.1:{port}{PATH}");
        match arm.way {
            Way::Direct => {
                let url = http(origin.ports[0]);
                bench.measure(&[], |seconds| load.run_at(&url, seconds))
            }
            Way::Proxy(name, front) => {
                let proxy = proxies.iter().find(|proxy| proxy.name == name);
                let proxy = proxy.ok_or_else(|| Error::Missing(name.into()))?;
                let running = proxy.start(origin.ports, front, Back::Http1, None, cores.proxy)?;
                let url = http(running.port);
                bench.measure(&running.pids, |seconds| load.run_at(&url, seconds))
            }
            Way::Lab { resolves } => {
                let dns = resolves.then(|| Dns::start(evenkeel.clone(), origin.ports[0], cores.proxy)).transpose()?;
                let resolve = dns.as_ref().map(|dns| format!("{}/www.lab.test", dns.address));
                let pids: Vec<u32> = dns.iter().map(|dns| dns.process.pid()).collect();
                let target = format!("127.0.0.1:{}{PATH}", origin.ports[0]);
                bench.measure(&pids, |seconds| {
                    let folder = Scratch::new()?;
                    let plan = Plan::fresh(target, CONNECTIONS, seconds as f64, resolve);
                    let load = plan.start(Vec::new(), &folder.path().join("load"))?.end(PATIENCE)?;
                    match load.failures() {
                        0 => Ok(Answered { requests: load.answered, seconds: load.seconds }),
                        _ => Err(Error::Refused(format!("requests failed: {:?}", load.failed))),
                    }
                })
            }
            Way::Tls | Way::H2 => {
                let kind = Certificate::P256;
                let front = match arm.way {
                    Way::Tls => Front::Https(kind),
                    _ => Front::H2(kind),
                };
                let files = Some(certificates.of(kind));
                let running = proxies[0].start(origin.ports, front, Back::Http1, files, cores.proxy)?;
                let url = format!("https://127.0.0.1:{}{PATH}", running.port);
                let over_tls = arm.way == Way::Tls;
                bench.measure(&running.pids, |seconds| match over_tls {
                    true => load.run_at(&url, seconds),
                    false => Streams { clients: CONNECTIONS, streams: 1 }.run(&url, None, seconds),
                })
            }
        }
    })?;
    let measured = Measured { arms: &arms, names: &names, rounds: &rounds };
    let rows: Vec<Row> = arms
        .iter()
        .enumerate()
        .map(|(at, arm)| Row {
            group: if arm.kept { KEPT } else { CLOSE },
            name: arm.name,
            runs: rounds.of(at).collect(),
        })
        .collect();
    let beside = beside::beside(&rows, &evenkeel, cores.load.len())?;
    study::present_beside(&measured.found(versions), &beside, options)
}
