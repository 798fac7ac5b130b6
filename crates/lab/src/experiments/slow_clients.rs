//! Slow-clients experiment, their cost to other clients and their memory: thousands in each state that a connection can
//! be in, beside a client that is not slow.

use crate::balancers::{self, Balancer, Front, Listener, Pool, Route, Setup, Timeouts};
use crate::child;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::http;
use crate::machine::{self, Cores};
use crate::origin::{self, Origin};
use crate::procfs::{self, Cpu};
use crate::stats::Interval;
use crate::study::grid::{self, Bench, Case, Grid, OURS, Run};
use crate::study::topology::{band, column, node};
use crate::study::{self, Claim, Finding, Found, Options, Versions};
use clap::{Args, FromArgMatches};
use evenkeel_draw::flow::{Band, Node, flow};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

pub static EXPERIMENT: Experiment = Experiment {
    name: "slow-clients",
    summary: "What thousands of slow clients cost one that is not, and the memory of a connection in each state",
    docs: "Starts evenkeel with one worker on a core of its own and opens connections that stay in one state: a head that \
never ends, a body that never comes, a response that is not read, an endpoint that thinks, or nothing at all. One more \
client asks for 1 kB over and over, before and during that. Memory is the growth of evenkeel's resident memory over the \
connections, each round in a fresh process; what the kernel holds in socket buffers and pipes is not in it. On a shared \
machine the 99th percentile moves by itself: the rounds show by how much.",
    args: |command| Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value("").hide(true)),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// States to run, by name.
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of slow connections in each state.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    connections: u64,
    /// Duration of the measurements in seconds, before and during. Defaults to 3, with --quick to 1, with --full to 8.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: Option<u64>,
}

/// State in which a client keeps its connection.
struct State {
    case: Case,
    /// Bytes that it sends; `None` if it requests 1 kB, reads it and stays.
    sends: Option<fn() -> String>,
    /// Claim on the memory per connection, and its bound in KiB.
    claim: Claim,
    kib_max: f64,
}

const HOST: &str = "Host: lab.test\r\n";

const fn state(
    name: &'static str,
    about: &'static str,
    sends: Option<fn() -> String>,
    claim: &'static str,
    kib_max: f64,
) -> State {
    let case = Case { name, about, unit: "KiB/connection", bounds: &[] };
    State { case, sends, claim: Claim::ours(claim), kib_max }
}

/// States of slow clients. The bound of each is the sum of its buffers: docs/guide/clients.md.
static STATES: &[State] = &[
    state("idle", "nothing, after a request", None, "An idle client takes at most 1.5 KiB", 1.5),
    state(
        "head-100",
        "100 bytes of a head",
        Some(|| part_of_head(100)),
        "A client within its head takes at most 2 KiB, if 100 bytes have come",
        2.0,
    ),
    state(
        "head-15k",
        "15 KiB of a head",
        Some(|| part_of_head(15 << 10)),
        "It takes at most 34 KiB, if 15 KiB have come: 2 KiB and twice what has come",
        34.0,
    ),
    state(
        "body-due",
        "a body that never comes, while the endpoint waits for it",
        Some(part_of_body),
        "A client within its body takes at most 42 KiB",
        42.0,
    ),
    state(
        "endpoint-thinks",
        "a request that the endpoint does not answer",
        Some(|| format!("GET /silent/ HTTP/1.1\r\n{HOST}\r\n")),
        "A client that waits for an endpoint takes at most 16 KiB",
        16.0,
    ),
    state(
        "not-read",
        "a response of 1 MiB that is not read",
        Some(|| format!("GET /1m HTTP/1.1\r\n{HOST}\r\n")),
        "A client that does not read takes at most 42 KiB",
        42.0,
    ),
];

const UNMOVED: Claim =
    Claim::ours("The 99th percentile of a client that is not slow is at most 1.5 times what it was without slow ones");

fn part_of_head(len: usize) -> String {
    let begin = format!("GET / HTTP/1.1\r\n{HOST}A: ");
    format!("{begin}{}", "b".repeat(len.saturating_sub(begin.len())))
}

fn part_of_body() -> String {
    format!("POST /silent/ HTTP/1.1\r\n{HOST}Content-Length: 1000000\r\n\r\n{}", "x".repeat(1000))
}

struct Slow<'s> {
    states: Vec<&'static State>,
    evenkeel: &'s Balancer,
    origin: Origin,
    silent: u16,
    core: usize,
    connections: u64,
    time: Duration,
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    let states = grid::choose(STATES, &arguments.only, |state| state.case.name)?;
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let versions = vec![evenkeel.named_version()];
    let cores = Cores::divide()?;
    // A connection to the silent endpoint has two ends in this process and two in evenkeel, which inherits the limit.
    let allowed = machine::allow_files(4 * arguments.connections + 1000);
    if allowed < 3 * arguments.connections {
        return Err(Error::Wrong(format!("only {allowed} files may be open; lower --connections")));
    }
    let cases: Vec<Case> = states.iter().map(|state| state.case).collect();
    let slow = Slow {
        states,
        evenkeel: &evenkeel,
        origin: Origin::start()?,
        silent: silent_endpoint()?,
        core: cores.proxy,
        connections: arguments.connections,
        time: Duration::from_secs(arguments.seconds.unwrap_or_else(|| options.seconds())),
    };
    let grid = Grid::run(vec![OURS.to_owned()], &cases, options.rounds(), &slow)?;
    study::present(&slow.found(&grid, versions), options)?;
    grid.check()
}

impl Slow<'_> {
    fn found(&self, grid: &Grid, versions: Versions) -> Found {
        let kept = |(state, (_, cells)): (&&State, &(Case, Vec<grid::Cell>))| {
            let what = format!("{}, KiB for each connection", state.case.name);
            Finding::at_most(state.claim, &what, Interval::of(&cells[0].figures()), state.kib_max)
        };
        let ratio = |run: &Run| Some(run.beside(DURING)? / run.beside(QUIET)?);
        let unmoved = grid.everywhere(UNMOVED, "p99 during over before", 1.5, ratio);
        let findings = self.states.iter().zip(&grid.cases).map(kept).chain([unmoved]).collect();
        let title = "What do slow clients cost?";
        Found { findings, ..grid.found(title, topology(self.connections), OURS, EXPERIMENT.docs, versions) }
    }
}

fn topology(slow: u64) -> String {
    machines(node("slow ones", slow.to_string()), 0.0)
}

/// Diagram of harmful clients beside a normal client; `failing`: share of their requests that fail.
pub(super) fn machines(harmful: Node, failing: f64) -> String {
    let columns = [
        column("clients", [node("one that asks", "1 kB, over and over"), harmful]),
        column("evenkeel", [node(OURS, "a core of its own")]),
        column("endpoints", [node("NGINX, twice", "answers"), node("silent", "accepts, says nothing")]),
    ];
    let sent = vec![band(0, 0, 0.5), Band { errors: failing, ..band(1, 0, 0.5) }];
    flow("The machines", &columns, &[sent, vec![band(0, 0, 0.5), band(0, 1, 0.5)]])
}

const QUIET: &str = "p99 before, us";
const DURING: &str = "p99 during, us";

impl Bench for Slow<'_> {
    type Kept = ();

    fn open(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    fn measure(&self, case: usize, _: usize, (): &mut ()) -> Result<Run> {
        let hour = Some(Duration::from_secs(3600));
        let mut setup = setup(&self.origin, self.silent)?;
        // No timeout ends a connection during the run.
        setup.timeouts = Timeouts { client: hour, response: hour, ..Timeouts::default() };
        let evenkeel = self.evenkeel.start(child::on_core(self.core)?, setup)?;
        let mut asking = http::connect(evenkeel.port())?;
        percentile_us(&mut asking, self.time / 4)?;
        let quiet = percentile_us(&mut asking, self.time)?;
        let before = procfs::resident_bytes(evenkeel.pid())?;
        let mut slow = Vec::new();
        for _ in 0..self.connections {
            child::go_on()?;
            let mut stream = http::connect(evenkeel.port())?;
            match self.states[case].sends {
                Some(sends) => stream.write_all(sends().as_bytes()).or_say(|| "cannot send".into())?,
                None => drop(http::get(&mut stream, "/1k", "1.1")?),
            }
            slow.push(stream);
        }
        settle(evenkeel.pid())?;
        let during = percentile_us(&mut asking, self.time)?;
        let grown = procfs::resident_bytes(evenkeel.pid())?.saturating_sub(before);
        let figure = grown as f64 / 1024.0 / slow.len() as f64;
        Ok(Run { figure, beside: vec![(QUIET, quiet), (DURING, during)], ..Run::default() })
    }
}

/// Setup with endpoints that answer, and below `/silent/` an endpoint that does not.
pub(super) fn setup(origin: &Origin, silent: u16) -> Result<Setup> {
    let pool = |name, ports: &[u16]| Pool {
        name,
        endpoints: ports.iter().copied().map(http::local).collect(),
        ..Pool::default()
    };
    Ok(Setup {
        listeners: vec![Listener::new("web", http::local(origin::free_ports()?[0]), Front::Http1)],
        routes: vec![Route::new("/", "app"), Route::new("/silent/", "silent")],
        pools: vec![pool("app", &origin.ports), pool("silent", &[silent])],
        ..Setup::default()
    })
}

/// Waits until evenkeel is idle, at most 30 s: filling the buffers of thousands of clients takes a while.
fn settle(pid: u32) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let before = Cpu::of(&[pid])?;
        child::pause(Duration::from_millis(200))?;
        if Cpu::of(&[pid])?.scheduled - before.scheduled < Duration::from_millis(10) || Instant::now() > deadline {
            return Ok(());
        }
    }
}

/// Measures the 99th percentile of a closed loop of a client, in microseconds.
pub(super) fn percentile_us(stream: &mut TcpStream, time: Duration) -> Result<f64> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let asked = Instant::now();
        http::get(stream, "/1k", "1.1")?;
        took.push(asked.elapsed());
    }
    took.sort_unstable();
    Ok(took.get(took.len() * 99 / 100).map_or(0.0, |t| t.as_secs_f64() * 1e6))
}

/// Starts an endpoint that accepts and never answers while this process runs. Returns its port.
pub(super) fn silent_endpoint() -> Result<u16> {
    let doing = || "cannot listen".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").or_say(doing)?;
    let port = listener.local_addr().or_say(doing)?.port();
    std::thread::spawn(move || {
        // Keeps the connections open.
        let _kept: Vec<TcpStream> = listener.incoming().flatten().collect();
    });
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_but_the_idle_one_is_one_that_waits() {
        for state in STATES {
            let Some(sends) = state.sends else { continue };
            let text = sends();
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            assert!(head.starts_with("GET /") || head.starts_with("POST /"), "{}", state.case.name);
            assert_eq!(body.is_empty(), !head.starts_with("POST"), "{}", state.case.name);
        }
        assert_eq!(part_of_head(100).len(), 100);
    }
}
