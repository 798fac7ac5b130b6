//! Planes experiment, after a cloud provider's comparison of layer 7 and layer 4 balancers as far as it can run here:
//! the same requests directly, through HTTP proxies, and through TCP proxies.

// Order: beside, kernel, outcome, measure
mod beside;
mod kernel;
mod measure;
mod outcome;

use super::protocol_cost::proxy;
use crate::balancers::{self, Algorithm, Back, Balancer, Front, Listener, Pool, Running, Setup, Zone};
use crate::certificates::{Certificate, Certificates};
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::load::generator::Plan;
use crate::load::h2load::Streams;
use crate::load::{Answered, Load};
use crate::machine::{self, Cores};
use crate::origin::{self, Origin};
use crate::scratch::Scratch;
use crate::study::grid;
use crate::study::{self, Comparison, Found, Options, Rounds};
use beside::Row;
use clap::{Args, FromArgMatches};
use measure::{Bench, CONNECTIONS};
use outcome::Measured;
use std::net::SocketAddr;
use std::time::Duration;

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

The simulator cannot know what a request costs. From the CPU time of the first round, on the balancer's core and on the others, it \
computes how many requests a second these cores serve when neither waits for the other; that stands beside the rates of the further rounds.

Managed balancers cannot run here: that of layer 4 is near to none at all in the publication, that of layer 7 begins at 30 % of its \
capacity and reaches the whole in about ten minutes.

Planes in the kernel run in network namespaces: a client, the balancer and four endpoints, NGINX with 4 kB, joined by cables. ab sends \
from 50 clients. What connect() balances is sent from the balancer's own namespace, as is `direct`; all else comes through a cable, as does \
`direct, routed`. Nothing is pinned. The CPU time of ab, of the balancer, of the endpoints and of the kernel's threads for soft interrupts \
(ksoftirqd) is counted by process, with the soft interrupts that interrupt them. Beside it is the time of the whole machine by /proc/stat, \
less that of all other processes: the two differ by soft interrupts on an idle core or in other processes. These parts need root.

With one endpoint of four at 40 Mbit/s it counts how many requests a second are left, and with one that refuses, its share of 40 \
connects that are held.",
    args: |command| Arguments::augment_args(command),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Parts to run: proxies, kernel, degraded. Defaults to all.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
}

/// Parts, in the order of the help.
static PARTS: [&str; 3] = ["proxies", "kernel", "degraded"];

const PATH: &str = "/4k";
const PATIENCE: Duration = Duration::from_secs(60);
const DIRECT: &str = "direct";

/// Way of a request to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    /// Through an HTTP or TCP proxy.
    Proxy(&'static str, Front),
    /// Directly, by the lab's own client, which may look the name up at an evenkeel for each connection.
    Lab {
        resolves: bool,
    },
}

const WAYS: [(&str, Way); 11] = [
    (DIRECT, Way::Direct),
    ("evenkeel TCP", Way::Proxy("evenkeel", Front::Tcp)),
    ("haproxy TCP", Way::Proxy("haproxy", Front::Tcp)),
    ("nginx stream", Way::Proxy("nginx", Front::Tcp)),
    ("evenkeel HTTP", Way::Proxy("evenkeel", Front::Http1)),
    ("haproxy HTTP", Way::Proxy("haproxy", Front::Http1)),
    ("nginx HTTP", Way::Proxy("nginx", Front::Http1)),
    ("evenkeel HTTPS", Way::Proxy("evenkeel", Front::Https)),
    ("evenkeel HTTP/2", Way::Proxy("evenkeel", Front::H2)),
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

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    let parts = grid::choose(&PARTS, &arguments.only, |part| part)?;
    let has = |part: &str| parts.iter().any(|of| **of == part);
    let (proxies, versions) = balancers::find(options, &["haproxy", "nginx"])?;
    machine::allow_files(50_000);
    // First, as the other part leaves a core to the balancer.
    let mut of_kernel = Found::default();
    if has("kernel") || has("degraded") {
        kernel::measure((has("kernel"), has("degraded")), &proxies, options, &mut of_kernel)?;
    }
    let (mut found, beside) = match has("proxies") {
        true => on_loopback(options, &proxies)?,
        false => (outcome::none(), Comparison::default()),
    };
    found.versions = versions;
    found.add(of_kernel);
    study::present_beside(&found, &beside, options)
}

/// Measures the cost of proxies on loopback, and directly.
fn on_loopback(options: &Options, proxies: &[Balancer]) -> Result<(Found, Comparison)> {
    let evenkeel = &proxies[0];
    let cores = Cores::divide()?;
    let certificates = Certificates::make()?;
    let there = |way: &Way| match way {
        Way::Proxy(name, _) => proxies.iter().any(|proxy| proxy.name == *name),
        _ => true,
    };
    let arm = |kept: bool| {
        // HTTP/2 is not meant for a connection per request, and a kept connection is never looked up again.
        let fits = move |way: &Way| {
            if kept { !matches!(way, Way::Lab { .. }) } else { !matches!(way, Way::Proxy(_, Front::H2)) }
        };
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
        match arm.way {
            Way::Direct => {
                let url = proxy::url(Front::Http1, origin.ports[0], PATH);
                bench.measure(&[], |seconds| load.run_at(&url, seconds))
            }
            Way::Proxy(name, front) => {
                let proxy = proxies.iter().find(|proxy| proxy.name == name);
                let proxy = proxy.ok_or_else(|| Error::Missing(name.into()))?;
                let certificate = Some(certificates.of(Certificate::P256).clone());
                let setup = Setup { certificate, ..proxy::setup(front, Back::Http1, origin.ports)? };
                let running = proxy::start(proxy, setup, cores.proxy)?;
                let url = proxy::url(front, running.port(), PATH);
                bench.measure(&running.pids(), |seconds| match front {
                    Front::H2 => Streams { clients: CONNECTIONS, streams: 1 }.run(&url, None, seconds),
                    _ => load.run_at(&url, seconds),
                })
            }
            Way::Lab { resolves } => {
                let dns = resolves.then(|| dns(evenkeel, origin.ports[0], cores.proxy)).transpose()?;
                let resolve = dns.as_ref().map(|dns| format!("127.0.0.1:{}/www.lab.test", dns.port()));
                let pids: Vec<u32> = dns.iter().map(Running::pid).collect();
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
    let beside = beside::beside(&rows, evenkeel.program(), cores.load.len())?;
    Ok((measured.found(), beside))
}

/// Starts an evenkeel on a core that answers DNS queries with the addresses of the endpoints.
fn dns(evenkeel: &Balancer, port: u16, core: usize) -> Result<Running> {
    let zone = Zone { name: "lab.test", ttl: Some("0s"), answers: 1 };
    let bind = http::local(origin::free_ports()?[0]);
    let endpoints = origin::ELSEWHERE.map(|ip| SocketAddr::from((ip, port))).to_vec();
    let setup = Setup {
        listeners: vec![Listener::to("web", "dns", bind, Front::Dns(zone))],
        pools: vec![Pool { name: "web", endpoints, algorithm: Algorithm::Random, ..Pool::default() }],
        ..Setup::default()
    };
    evenkeel.start(child::on_core(core)?, setup)
}
