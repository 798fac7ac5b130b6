//! Trial of an algorithm: a fresh proxy between the clients and the endpoints.

use super::endpoints::Endpoints;
use super::load::{self, CLIENTS};
use crate::failure::{Failure, color};
use evenkeel_balance::params::Kind;
use evenkeel_balance::picker::Algorithm;
use evenkeel_config::{Plan, parse_str, render_text};
use evenkeel_proxy::{Command, Server};
use evenkeel_runtime::{Diagnostic, StartError};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;
use std::io::{self, ErrorKind, IsTerminal};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// Tries to find a port: another process may take a free port before this process binds it.
const PORT_TRIES: usize = 20;

/// Results of one algorithm.
pub struct Trial {
    /// Row of the algorithm in the registry.
    pub algorithm: &'static Algorithm,
    /// Measurements of the clients.
    pub seen: load::Seen,
    /// Share of each endpoint in the answers, 0 to 1.
    pub shares: Vec<f64>,
}

/// Runs the trial of an algorithm.
pub fn run(
    algorithm: &'static Algorithm,
    endpoints: &Endpoints,
    requests: u64,
    limit: Duration,
) -> Result<Trial, Failure> {
    let server = start(endpoints, algorithm, "")?;
    let addr = server.addresses()[0];
    endpoints.reset();
    let bar = Progress::new(algorithm.name, requests);
    let seen = load::run(addr, CLIENTS, requests, limit, |at| bar.at(at.done));
    let seen = seen.map_err(no_loop)?;
    bar.done(&seen);
    server.command(Command::Stop);
    server.join();
    let answered: Vec<u64> = endpoints.all().iter().map(|e| e.answered()).collect();
    let all = answered.iter().sum::<u64>().max(1) as f64;
    Ok(Trial { algorithm, seen, shares: answered.into_iter().map(|n| n as f64 / all).collect() })
}

/// The failure of a load that could not begin.
pub fn no_loop(error: io::Error) -> Failure {
    Failure::running(format!("demo: cannot create an event loop: {error}"))
}

/// Starts a proxy in front of the endpoints; `more` are further keys of its pool.
pub fn start(endpoints: &Endpoints, algorithm: &Algorithm, more: &str) -> Result<Server, Failure> {
    let mut tries = PORT_TRIES;
    loop {
        let text = config(endpoints, algorithm, free_port(None)?, None);
        let plan = plan(&format!("{text}{more}"))?;
        tries -= 1;
        match Server::start(plan) {
            Err(error) if is_in_use(&error) && tries > 0 => {}
            started => return Ok(started?),
        }
    }
}

/// True if all that is wrong is that another process was faster.
fn is_in_use(StartError(why): &StartError) -> bool {
    matches!(&why[..], [Diagnostic::Listen(cannot)] if cannot.error.kind() == ErrorKind::AddrInUse)
}

/// Returns a free port of loopback: the wanted port, or a port that the kernel chooses.
pub fn free_port(wanted: Option<u16>) -> Result<u16, Failure> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| listener.local_addr());
    let found = wanted.map(bind).and_then(Result::ok).map_or_else(|| bind(0), Ok);
    found.map(|addr| addr.port()).map_err(|e| Failure::running(format!("demo: no free port on 127.0.0.1: {e}")))
}

/// The configuration of the demo, as a user would write it.
pub fn config(endpoints: &Endpoints, algorithm: &Algorithm, listen: u16, admin: Option<u16>) -> String {
    let mut text = String::new();
    if let Some(port) = admin {
        let _ = writeln!(text, "[admin]\nhttp = {{ bind = '127.0.0.1:{port}' }}");
    }
    // All clients share an address, so algorithms that hash a key need a key other than the address.
    let keyed = algorithm.params.iter().any(|p| p.name == "key" && p.kind == Kind::HashKey);
    let balance = match keyed {
        true => format!("{{ {} = {{ key = 'header:x-user' }} }}", algorithm.name),
        false => format!("'{}'", algorithm.name),
    };
    let _ = writeln!(
        text,
        "[listener.demo]\nbind = ['127.0.0.1:{listen}']\nerrors = 'detailed'\n[pool.demo]\nbalance = {balance}"
    );
    let _ = writeln!(text, "endpoints = [");
    for endpoint in endpoints.all() {
        let _ = writeln!(text, "  {{ name = '{}', addr = '{}' }},", endpoint.name, endpoint.addr);
    }
    text.push_str("]\n");
    text
}

/// The plan of such a configuration.
pub fn plan(text: &str) -> Result<Plan, Failure> {
    let outcome = parse_str("demo", text, &|_| None);
    eprint!("{}", render_text(&outcome.diagnostics, color()));
    outcome.plan.ok_or_else(Failure::config)
}

/// Progress of a trial: a bar at a terminal, a line at the end elsewhere.
struct Progress {
    name: &'static str,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(name: &'static str, requests: u64) -> Progress {
        let style = ProgressStyle::with_template("{prefix:12} [{bar:40}] {pos}/{len}  {elapsed}")
            .expect("the template is well formed")
            .progress_chars("=> ");
        let bar = || ProgressBar::new(requests).with_style(style).with_prefix(name);
        Progress { name, bar: std::io::stderr().is_terminal().then(bar) }
    }

    fn at(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    fn done(&self, seen: &load::Seen) {
        match &self.bar {
            Some(bar) => bar.abandon(),
            None => {
                let n = seen.latency_us.len() + seen.errors;
                eprintln!("{:12} {n} requests in {:.1} s", self.name, seen.wall.as_secs_f64());
            }
        }
    }
}
