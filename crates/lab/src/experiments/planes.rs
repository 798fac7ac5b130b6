//! On which plane should load be balanced? The cloud's comparison of balancers on layers 7 and 4, as far as it can be had here: the
//! same requests directly, through proxies of HTTP, and through those of TCP.

use super::protocol_cost::{self, Certificates};
use super::proxy_cost::{self, Setup};
use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::load::generator::Plan;
use crate::load::h2load::Streams;
use crate::load::{Answered, Load};
use crate::machine::{self, Cores};
use crate::origin::{self, Origin};
use crate::procfs;
use crate::scratch::Scratch;
use crate::stats::Interval;
use crate::study::figures::{row, told};
use crate::study::{self, Claim, Finding, Found, Meter, Options, Plot, Rounds, Used, Versions};
use clap::{Args, FromArgMatches};
use evenkeel_draw::flow::{Band, Column, Node, flow};
use evenkeel_draw::intervals::{Row, intervals};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "planes",
    summary: "4 kB directly and through HTTP, HTTPS, HTTP/2 and TCP balancers, with a connection for each request and with kept ones",
    docs: "Cloud providers compared their balancers with those that one runs oneself: 200 connections at once, a file of 4 kB, a \
connection for each request (ab) and kept connections; requests a second. What is slower on two shared cores is mostly what uses more \
of them, so what is told here is CPU time: of the balancer, and of the whole machine, for each request. A balancer that keeps its \
connections to endpoints spares them work, which the whole shows and the balancer alone does not.

By DNS a client looks the name up for each connection, and goes to the endpoint itself: ab and wrk cannot do that, so the lab's own \
client does, and goes directly, too, to compare.

Each balancer has one worker on a core of its own, as in `proxy-cost`; two NGINX and the load share the other cores. Requests are \
counted by the endpoints, between two moments while the load goes on.

Managed balancers cannot run here: that of layer 4 is near to none at all in the publication, that of layer 7 begins at 30 % of its \
capacity and reaches the whole in about ten minutes. Planes in the kernel are not part of evenkeel yet.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const CONNECTIONS: u32 = 200;
const PATH: &str = "/4k";
const WARM_UP: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(60);
const DIRECT: &str = "direct";

/// How a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    /// Through a proxy of HTTP or of TCP.
    Proxy(&'static str, Setup),
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
    ("evenkeel TCP", Way::Proxy("evenkeel", Setup::Session)),
    ("haproxy TCP", Way::Proxy("haproxy", Setup::Session)),
    ("nginx stream", Way::Proxy("nginx", Setup::Session)),
    ("evenkeel HTTP", Way::Proxy("evenkeel", Setup::Plain)),
    ("haproxy HTTP", Way::Proxy("haproxy", Setup::Plain)),
    ("nginx HTTP", Way::Proxy("nginx", Setup::Plain)),
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

/// What a run came to.
struct Run {
    /// Requests a second.
    rate: f64,
    requests: f64,
    used: Used,
}

impl Run {
    /// Microseconds for each request, of a group or of the whole machine.
    fn us(&self, group: Option<&str>) -> f64 {
        let time = group.map_or(self.used.machine, |name| self.used.of(name));
        time.as_secs_f64() * 1e6 / self.requests.max(1.0)
    }
}

fn run(options: &Options) -> Result<()> {
    options.beside(&["haproxy", "nginx"])?;
    let evenkeel = child::find_evenkeel(options.evenkeel.as_deref())?;
    let cores = Cores::divide()?;
    machine::allow_files(50_000);
    let mut names = vec!["evenkeel".to_owned()];
    names.extend(["haproxy", "nginx"].into_iter().filter(|name| options.installed(name)).map(str::to_owned));
    let proxies = proxy_cost::Proxy::find(&names, true, Some(evenkeel.as_ref()))?;
    let ours = protocol_cost::Proxy::find(&["evenkeel".to_owned()], Some(evenkeel.as_ref()))?;
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
    let rounds = Rounds::run(&names, options.rounds(), |at| {
        let arm = &arms[at];
        let load = if arm.kept { Load::KeepAlive(CONNECTIONS) } else { Load::Close(CONNECTIONS) };
        let http = |port: u16| format!("http://127.0.0.1:{port}{PATH}");
        match arm.way {
            Way::Direct => {
                let url = http(origin.ports[0]);
                bench.measure(&[], |seconds| load.run_at(&url, seconds))
            }
            Way::Proxy(name, setup) => {
                let proxy = proxies.iter().find(|proxy| proxy.name == name);
                let proxy = proxy.ok_or_else(|| Error::Missing(name.into()))?;
                let running = proxy.start(origin.ports, setup, cores.proxy)?;
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
                let kind = protocol_cost::Certificate::P256;
                let front = match arm.way {
                    Way::Tls => protocol_cost::Front::Https(kind),
                    _ => protocol_cost::Front::H2(kind),
                };
                let files = Some(certificates.of(kind));
                let running = ours[0].start(origin.ports, front, protocol_cost::Back::Http1, files, cores.proxy)?;
                let url = format!("https://127.0.0.1:{}{PATH}", running.port);
                let over_tls = arm.way == Way::Tls;
                bench.measure(&running.pids, |seconds| match over_tls {
                    true => load.run_at(&url, seconds),
                    false => Streams { clients: CONNECTIONS, streams: 1 }.run(&url, None, seconds),
                })
            }
        }
    })?;
    study::present(&Measured { arms: &arms, names: &names, rounds: &rounds }.found(versions), options)
}

/// An evenkeel that answers with the addresses at which the endpoints listen.
struct Dns {
    address: SocketAddr,
    process: Child,
    _folder: Scratch,
}

impl Dns {
    fn start(evenkeel: String, port: u16, core: usize) -> Result<Dns> {
        let folder = Scratch::new()?;
        let address = http::local(origin::free_ports()?[0]);
        let endpoints = origin::ELSEWHERE.map(|ip| format!("\"{ip}:{port}\"")).join(", ");
        let text = format!(
            "version = 1\n[runtime]\nworkers = 1\n[listener.dns]\nbind = [\"{address}\"]\nmode = \"dns\"\n[listener.dns.zone]\n\
             name = \"lab.test\"\nttl = \"0s\"\nresponses_per_subnet = 0\nns = [{{ name = \"ns.lab.test\", addresses = [\"127.0.0.1\"] }}]\n\
             [listener.dns.zone.records]\nwww = {{ pool = \"web\", answers = 1 }}\n[pool.web]\nbalance = \"random\"\nendpoints = [{endpoints}]\n"
        );
        let config = folder.write("evenkeel.toml", text)?;
        let said = folder.path().join("said");
        let command = [evenkeel, "run".into(), "-c".into(), config.display().to_string()];
        let process = Child::spawn("evenkeel", &command, Some(core), &said)?;
        origin::await_listening("evenkeel", &process, address, &said)?;
        Ok(Dns { address, process, _folder: folder })
    }
}

/// What runs are measured with.
struct Bench<'b> {
    origin: &'b Origin,
    cores: &'b Cores,
    seconds: u64,
}

impl Bench<'_> {
    /// Measures between two moments while a load goes on. `load`: runs it for so many seconds, to its end.
    fn measure(&self, balancer: &[u32], load: impl FnOnce(u64) -> Result<Answered> + Send) -> Result<Run> {
        for &pid in balancer {
            self.cores.hold(pid)?;
        }
        let us = std::process::id();
        let before = procfs::children_of(us);
        let endpoints: Vec<u32> = before
            .iter()
            .copied()
            .filter(|pid| !balancer.contains(pid))
            .flat_map(|pid| procfs::children_of(pid).into_iter().filter(|pid| !balancer.contains(pid)).chain([pid]))
            .collect();
        std::thread::scope(|scope| {
            let seconds = self.seconds + 2;
            let going = scope.spawn(move || load(seconds));
            let measured = (|| {
                child::pause(WARM_UP)?;
                let load = procfs::children_of(us).into_iter().filter(|pid| !before.contains(pid)).collect();
                let groups =
                    vec![("balancer", balancer.to_vec()), ("endpoints", endpoints), ("load", load), ("lab", vec![us])];
                let (seen, from, meter) = (self.origin.seen()?, Instant::now(), Meter::start(groups)?);
                child::pause(Duration::from_secs(self.seconds))?;
                let (used, window) = (meter.used()?, from.elapsed());
                let requests = self.origin.seen()?.requests.saturating_sub(seen.requests + 1) as f64;
                Ok(Run { rate: requests / window.as_secs_f64(), requests, used })
            })();
            // What the load says of failures goes first: without it the figure would mislead.
            let ended = going.join().map_err(|_| Error::Wrong("the load panicked".into()))?;
            ended.and(measured)
        })
    }
}

const DIRECT_LESS: Claim = Claim {
    text: "A connection for each request: directly a request costs less than through HAProxy",
    source: "a cloud provider's comparison, throughput",
};
const KEEP_ALIVE: Claim = Claim {
    text: "Kept connections bring about twice as many requests through HAProxy",
    source: "a cloud provider's comparison",
};
const MANAGED: Claim = Claim {
    text: "A managed balancer of layer 4 brings as much as none, one of layer 7 less, and only after ten minutes",
    source: "a cloud provider's comparison",
};
const KERNEL: Claim = Claim {
    text: "IPVS brings more than iptables, and that more than HAProxy",
    source: "a cloud provider's comparison",
};
const OURS: [(Claim, &str, &str, bool); 6] = [
    (
        claim("evenkeel's HTTP costs less than HAProxy's, a connection for each request"),
        "evenkeel HTTP",
        "haproxy HTTP",
        false,
    ),
    (claim("evenkeel's HTTP costs less than HAProxy's, on kept connections"), "evenkeel HTTP", "haproxy HTTP", true),
    (
        claim("evenkeel's TCP costs less than HAProxy's, a connection for each request"),
        "evenkeel TCP",
        "haproxy TCP",
        false,
    ),
    (claim("evenkeel's TCP costs less than HAProxy's, on kept connections"), "evenkeel TCP", "haproxy TCP", true),
    (claim("evenkeel's HTTP costs less than NGINX's, on kept connections"), "evenkeel HTTP", "nginx HTTP", true),
    (claim("evenkeel's TCP costs less than NGINX's stream, on kept connections"), "evenkeel TCP", "nginx stream", true),
];

const fn claim(text: &'static str) -> Claim {
    Claim { text, source: "evenkeel" }
}

struct Measured<'m> {
    arms: &'m [Arm],
    names: &'m [String],
    rounds: &'m Rounds<Run>,
}

impl Measured<'_> {
    fn figures(&self, name: &str, kept: bool, figure: impl Fn(&Run) -> f64) -> Option<Vec<f64>> {
        let at = self.arms.iter().position(|arm| arm.name == name && arm.kept == kept)?;
        Some(self.rounds.figures(at, figure))
    }

    fn findings(&self) -> Vec<Finding> {
        let whole = |name, kept| self.figures(name, kept, |run| run.us(None));
        let alone = |name, kept| self.figures(name, kept, |run| run.us(Some("balancer")));
        let ratio = |of: Option<Vec<f64>>, over: Option<Vec<f64>>| Some((of?, over?));
        let judge = |claim: Claim,
                     both: Option<(Vec<f64>, Vec<f64>)>,
                     finding: &dyn Fn(Option<Interval>) -> Finding| {
            match both {
                Some((of, over)) => finding(Interval::of_ratios(&of, &over)),
                None => Finding::not_shown(claim, "one of both did not run".into()),
            }
        };
        let mut findings = vec![
            judge(DIRECT_LESS, ratio(whole(DIRECT, false), whole("haproxy HTTP", false)), &|ratio| {
                Finding::at_most(DIRECT_LESS, "CPU time of the machine, directly over through HAProxy", ratio, 1.0)
            }),
            judge(
                KEEP_ALIVE,
                ratio(
                    self.figures("haproxy HTTP", true, |run| run.rate),
                    self.figures("haproxy HTTP", false, |run| run.rate),
                ),
                &|ratio| Finding::at_least(KEEP_ALIVE, "requests a second, kept over a connection each", ratio, 1.6),
            ),
        ];
        for (claim, ours, theirs, kept) in OURS {
            findings.push(judge(claim, ratio(alone(ours, kept), alone(theirs, kept)), &|ratio| {
                Finding::at_most(claim, "CPU time of the balancer, evenkeel's over the other's", ratio, 1.0)
            }));
        }
        findings.push(Finding::not_shown(MANAGED, "managed balancers run at their providers only".into()));
        findings.push(Finding::not_shown(
            KERNEL,
            "this kernel has no IPVS, and evenkeel no plane in the kernel yet".into(),
        ));
        findings
    }

    fn found(&self, versions: Versions) -> Found {
        let header = ["", "requests/s", "balancer, CPU us/request", "endpoints", "load", "machine", "told of"];
        let mut figures = vec![header.map(str::to_owned).to_vec()];
        for (at, name) in self.names.iter().enumerate() {
            let of = |digits: usize, figure: &dyn Fn(&Run) -> f64| told(&self.rounds.figures(at, figure), digits);
            figures.push(vec![
                name.clone(),
                of(0, &|run| run.rate),
                of(1, &|run| run.us(Some("balancer"))),
                of(1, &|run| run.us(Some("endpoints"))),
                of(1, &|run| run.us(Some("load"))),
                of(1, &|run| run.us(None)),
                of(2, &|run| run.used.accounted()),
            ]);
        }
        let plot = |(kept, group): (bool, Option<&'static str>)| {
            let of = self.arms.iter().enumerate().filter(|(_, arm)| arm.kept == kept);
            let row = |(at, arm): (usize, &Arm)| {
                let colour = usize::from(!arm.name.starts_with("evenkeel"));
                row(arm.name, &self.rounds.figures(at, |run| run.us(group)), None, colour)
            };
            let rows: Vec<Row> = of.map(row).collect();
            let whose = if group.is_some() { "of the balancer" } else { "of the whole machine" };
            let how = if kept { "kept connections" } else { "a connection for each request" };
            let title = format!("CPU time {whose}, microseconds a request, {how}");
            Plot { svg: intervals(&rows, &title), title }
        };
        let of = |(at, name): (usize, &String)| {
            let run = |run: &Run| json!({ "rate": run.rate, "requests": run.requests, "cpu": run.used.json() });
            (name.clone(), self.rounds.of(at).iter().map(run).collect::<Vec<_>>().into())
        };
        let plots = [(false, Some("balancer")), (false, None), (true, Some("balancer")), (true, None)];
        Found {
            title: "On which plane should load be balanced?",
            topology: topology(),
            findings: self.findings(),
            figures,
            plots: plots.map(plot).into(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: Value::Object(self.names.iter().enumerate().map(of).collect()),
        }
    }
}

fn topology() -> String {
    let node = |name: &str, text: &str| Node { name: name.into(), text: text.into(), link: None };
    let column = |title: &str, nodes: Vec<Node>| Column { title: title.into(), nodes };
    let columns = [
        column("load", vec![node("ab, wrk, h2load", "200 connections")]),
        column("balancer", vec![node("one of several, or none", "a core of its own")]),
        column("endpoints", vec![node("NGINX 1", "4 kB"), node("NGINX 2", "4 kB")]),
    ];
    let band = |to: usize, rate: f64| Band { from: 0, to, rate, errors: 0.0 };
    flow("The machines", &columns, &[vec![band(0, 1.0)], vec![band(0, 0.5), band(1, 0.5)]])
}
