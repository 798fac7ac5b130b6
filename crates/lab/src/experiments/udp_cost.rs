//! CPU cost of a datagram through evenkeel and through NGINX's stream module, in alternating rounds.

use crate::balancers::{self, Algorithm, Balancer, Front, Listener, Pool, Running, STREAM_MODULE, Setup, Timeouts};
use crate::child;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::http;
use crate::machine::Cores;
use crate::procfs::Cpu;
use crate::study::grid::{self, Bench, Bound, Case, Grid, OURS, Run};
use crate::study::topology::{column, even, node};
use crate::study::{self, Found, Meter, Options, Versions};
use clap::{Args, FromArgMatches};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub static EXPERIMENT: Experiment = Experiment {
    name: "udp-cost",
    summary: "CPU time per datagram of 200 bytes through evenkeel and through NGINX's stream module",
    docs: "Each proxy has one worker on a core of its own before two endpoints that send back what they get. Up to 64 clients send \
at once and wait for their answers: one datagram each, or a burst. The figure is the CPU time of the proxy's processes over \
the datagrams that it passed on, those of both directions. Datagrams that do not come back in time are counted and are in no \
figure. Over loopback nothing is joined on the way in unless its sender joined it, which these clients do not. Clients and endpoints \
are this program.",
    args: |command| {
        let help = "Proxies beside evenkeel: nginx. One that is not installed is named, and left out";
        Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value("nginx").help(help))
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
    /// Loads to run, by name.
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
    /// Further evenkeel binaries to measure, to compare versions.
    #[arg(long, value_name = "PATH")]
    also: Vec<PathBuf>,
}

/// Load: number of clients, and of datagrams that each sends before it waits.
struct Load {
    case: Case,
    clients: usize,
    burst: usize,
}

const fn load(name: &'static str, about: &'static str, clients: usize, burst: usize, bounds: &'static [Bound]) -> Load {
    Load { case: Case { name, about, unit: "CPU us/datagram", bounds }, clients, burst }
}

const NGINX: &[&str] = &["nginx"];

static LOADS: &[Load] = &[
    load(
        "one-each",
        "64 clients, a datagram each at a time",
        64,
        1,
        &[Bound::new("64 clients, a datagram each: evenkeel's CPU time is at most 0.7 of NGINX's", NGINX, 0.7)],
    ),
    // No larger bursts than the socket buffers of all parties hold.
    load(
        "bursts-of-8",
        "16 clients, bursts of 8",
        16,
        8,
        &[Bound::new("16 clients, bursts of 8: evenkeel's CPU time is at most 0.7 of NGINX's", NGINX, 0.7)],
    ),
    load(
        "bursts-of-32",
        "1 client, bursts of 32",
        1,
        32,
        &[Bound::new("1 client, bursts of 32: evenkeel's CPU time is at most 0.7 of NGINX's", NGINX, 0.7)],
    ),
];

const LEN: usize = 200;

/// Time after which an answer counts as lost.
const WAIT: Duration = Duration::from_millis(200);

/// State of the measurement: all proxies run all the time, a single proxy is loaded at a time.
struct Costs {
    loads: Vec<&'static Load>,
    proxies: Vec<Running>,
    time: Duration,
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    if let Some(unknown) = options.against.iter().find(|name| !NGINX.contains(&name.as_str()) && !name.is_empty()) {
        return Err(Error::Wrong(format!("unknown proxy `{unknown}`; there is nginx")));
    }
    let (balancers, mut versions) = balancers::find(options, NGINX)?;
    if balancers.len() > 1 && !Path::new(STREAM_MODULE).exists() {
        return Err(Error::Missing("NGINX's stream module (libnginx-mod-stream)".into()));
    }
    let mut named: Vec<_> = balancers.into_iter().map(|balancer| (balancer.name.to_owned(), balancer)).collect();
    for (at, path) in arguments.also.iter().enumerate() {
        let (name, balancer) = (format!("{OURS} {}", at + 2), balancers::find_evenkeel(Some(path))?);
        versions.insert(at + 1, (name.clone(), balancer.named_version().1));
        named.insert(at + 1, (name, balancer));
    }
    let loads = grid::choose(LOADS, &arguments.only, |load| load.case.name)?;
    let cores = Cores::divide()?;
    let endpoints = [endpoint()?, endpoint()?];
    let proxies = named.iter().map(|(_, one)| start(one, endpoints, cores.proxy)).collect::<Result<Vec<_>>>()?;
    let names = named.into_iter().map(|(name, _)| name).collect();
    let cases: Vec<Case> = loads.iter().map(|load| load.case).collect();
    let time = Duration::from_secs(arguments.seconds.unwrap_or_else(|| options.seconds()));
    let grid = Grid::run(names, &cases, options.rounds(), &Costs { loads, proxies, time })?;
    study::present(&found(&grid, versions), options)?;
    grid.check()
}

fn found(grid: &Grid, versions: Versions) -> Found {
    let topology = even(&[
        column("clients", [node("the lab", "datagrams of 200 bytes")]),
        column("proxy", [node("one of several", "a core of its own")]),
        column("endpoints", (1..=2).map(|n| node(format!("endpoint {n}"), "sends back"))),
    ]);
    grid.found("What does a datagram cost?", topology, "nginx", EXPERIMENT.docs, versions)
}

impl Bench for Costs {
    type Kept = ();

    fn open(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    fn measure(&self, case: usize, proxy: usize, (): &mut ()) -> Result<Run> {
        round(self.loads[case], &self.proxies[proxy], self.time)
    }
}

/// Starts a proxy that forwards datagrams.
fn start(balancer: &Balancer, endpoints: [u16; 2], core: usize) -> Result<Running> {
    let setup = Setup {
        listeners: vec![Listener::to("app", "app", http::local(open()?.1), Front::Udp)],
        pools: vec![Pool {
            name: "app",
            endpoints: endpoints.map(http::local).to_vec(),
            algorithm: Algorithm::Random,
            ..Pool::default()
        }],
        timeouts: Timeouts { idle: Duration::from_secs(30), ..Timeouts::default() },
        ..Setup::default()
    };
    balancer.start(child::on_core(core)?, setup)
}

/// Measures CPU time per forwarded datagram, and the number of lost datagrams.
fn round(load: &Load, proxy: &Running, time: Duration) -> Result<Run> {
    let clients = (0..load.clients).map(|_| client(proxy.port())).collect::<Result<Vec<_>>>()?;
    // Create the flows before the measurement.
    exchange(&clients, 1);
    let meter = Meter::start(vec![("clients and endpoints", vec![std::process::id()])])?;
    let (before, began) = (Cpu::of(&proxy.pids())?, Instant::now());
    let (mut answered, mut lost) = (0, 0);
    while began.elapsed() < time {
        child::go_on()?;
        let back = exchange(&clients, load.burst);
        answered += back;
        lost += (load.clients * load.burst) as u64 - back;
    }
    let (own, took, mut used) = (Cpu::of(&proxy.pids())?.since(&before), began.elapsed(), meter.used()?);
    if answered < 1000 {
        return Err(Error::Refused(format!("only {answered} datagrams came back")));
    }
    used.groups.push(("proxy", own.time));
    Ok(Run {
        // Each answered datagram was forwarded twice: there and back.
        figure: own.time.as_secs_f64() * 1e6 / (2 * answered) as f64,
        beside: vec![("exchanges/s", answered as f64 / took.as_secs_f64()), ("lost", lost as f64)],
        used: Some(used),
        ..Run::default()
    })
}

/// Lets each client send a burst and wait for the answers. Returns their number.
fn exchange(clients: &[UdpSocket], burst: usize) -> u64 {
    let mut back = 0;
    for client in clients {
        // A datagram that cannot be sent counts as lost.
        (0..burst).for_each(|_| _ = client.send(&[7; LEN]));
    }
    for client in clients {
        back += (0..burst).map_while(|_| client.recv(&mut [0; LEN]).ok()).filter(|len| *len == LEN).count() as u64;
    }
    back
}

/// Binds a UDP socket and returns it with its port. A port that is free for TCP need not be free for UDP.
fn open() -> Result<(UdpSocket, u16)> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_say(|| "cannot bind a socket".into())?;
    let port = socket.local_addr().or_say(|| "cannot read a port".into())?.port();
    Ok((socket, port))
}

fn client(port: u16) -> Result<UdpSocket> {
    let (socket, _) = open()?;
    socket.connect(("127.0.0.1", port)).or_say(|| format!("cannot connect to port {port}"))?;
    socket.set_read_timeout(Some(WAIT)).or_say(|| "cannot set a timeout".into())?;
    Ok(socket)
}

/// Starts an echo endpoint that lives as long as this process. Returns its port.
fn endpoint() -> Result<u16> {
    let (socket, port) = open()?;
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        loop {
            // An error here is about a proxy that has ended; the next datagram is from another proxy.
            if let Ok((len, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..len], from);
            }
        }
    });
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back_and_what_is_lost_is_seen() {
        let clients = [client(endpoint().expect("a port")).expect("a client")];
        assert_eq!(exchange(&clients, 5), 5);
        let silent = UdpSocket::bind("127.0.0.1:0").and_then(|s| Ok((s.local_addr()?.port(), s))).expect("a port");
        assert_eq!(exchange(&[client(silent.0).expect("a client")], 1), 0);
    }
}
