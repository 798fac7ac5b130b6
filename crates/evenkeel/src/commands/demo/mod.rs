//! `evenkeel demo`: each algorithm in turn, in this very proxy, in front of ten uneven endpoints and under the same
//! load. Then the proxy keeps running so that the user can look around.
//!
//! 1. [`endpoints`]: ten servers that answer after a random time.
//! 2. [`load`]: fifty clients that send their next request after each response.
//! 3. [`trial`]: an algorithm between the two.
//! 4. [`outage`]: an endpoint dies under load and comes back.
//! 5. [`screen`]: the results on one screen; [`report`]: all figures, as a table or as JSON.

// Order: screen, report, outage, trial, endpoints, load
mod endpoints;
mod load;
mod outage;
mod report;
mod screen;
mod trial;

use crate::arguments::Demo;
use crate::commands::run::{self, Origin};
use crate::failure::Failure;
use crate::output::print;
use crate::serve::Serving;
use crate::{greeting, log};
use endpoints::Endpoints;
use evenkeel_balance::algorithms;
use evenkeel_balance::picker::Algorithm;
use load::CLIENTS;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use trial::Trial;

/// All algorithms together: with the start and the outage, a minute.
const BUDGET: Duration = Duration::from_secs(50);

/// Time limit for each algorithm: round robin needs 15 s for 10,500 requests.
const TRIAL_MAX: Duration = Duration::from_secs(17);

/// Clients that send requests while the demo stays up: some 200 a second, a load that no machine notices.
const VISITORS: usize = 12;

/// Ports of the listener and of the admin afterwards, if they are free.
const PORTS: [u16; 2] = [8080, 9900];

/// Runs `evenkeel demo`.
pub fn demo(arguments: &Demo) -> Result<(), Failure> {
    let endpoints = Endpoints::start(arguments.seed)?;
    let trials = compare(&endpoints, arguments.requests)?;
    eprintln!("{:12} one endpoint is killed and revived", "outage");
    let outage = outage::run(&endpoints)?;
    if arguments.json {
        return print(&format!("{:#}\n", report::as_json(arguments, &trials, &outage)));
    }
    if arguments.details {
        print(&report::table(&trials))?;
    }
    print(&screen::screen(&trials, &outage))?;
    if arguments.once {
        return Ok(());
    }
    stay(&endpoints)
}

/// Algorithms that the demo can run: its endpoints answer no probes.
fn runnable() -> impl Iterator<Item = &'static Algorithm> {
    algorithms::ALL.iter().copied().filter(|a| !a.needs.probes)
}

fn compare(endpoints: &Endpoints, requests: u64) -> Result<Vec<Trial>, Failure> {
    let began = Instant::now();
    let left_out: Vec<&str> = algorithms::ALL.iter().filter(|a| a.needs.probes).map(|a| a.name).collect();
    eprintln!(
        "evenkeel demo: {requests} requests from {CLIENTS} clients for each algorithm, ten endpoints, all on this machine"
    );
    if !left_out.is_empty() {
        eprintln!("skipped, as the endpoints here do not respond to probes: {}", left_out.join(", "));
    }
    let mut trials = Vec::new();
    for algorithm in runnable() {
        let limit = BUDGET.saturating_sub(began.elapsed()).min(TRIAL_MAX);
        trials.push(trial::run(algorithm, endpoints, requests, limit)?);
    }
    Ok(trials)
}

/// Settings that fill the pages of the dashboard: explanations of some requests, and predictions for other algorithms.
const SHOWN: &str = "shadow = ['round_robin', 'leastconn']\n[telemetry.explain]\nsample = 0.02\n";

/// Serves with the default algorithm until the user ends it. Sends requests meanwhile, and prints suggestions.
fn stay(endpoints: &Endpoints) -> Result<(), Failure> {
    let [listen, admin] = PORTS.map(|port| trial::free_port(Some(port)).unwrap_or(port));
    let text = trial::config(endpoints, algorithms::default(), listen, Some(admin));
    let plan = trial::plan(&format!("{text}{SHOWN}"))?;
    log::start(plan.runtime.log);
    eprintln!("\nStill serving. To balance your own endpoints: evenkeel run 127.0.0.1:8081 127.0.0.1:8082");
    run::serve(plan, Origin::Demo, None, Default::default(), |serving: &Serving| {
        let plan = serving.runtime().plan();
        let addresses = plan
            .listeners
            .iter()
            .flat_map(|l| &l.bind)
            .chain(plan.admin.iter().flat_map(|a| &a.http).map(|http| &http.bind));
        let urls: Vec<String> = addresses.map(|addr| greeting::url("http", *addr, "")).collect();
        let [web, admin] = &urls[..] else { return };
        visit((Ipv4Addr::LOCALHOST, listen).into());
        let address = admin.trim_start_matches("http://");
        eprintln!(
            "{VISITORS} clients keep sending requests, so that there is something to see.\n\nTry:\n  {admin}/ in a browser: what each endpoint gets, how long it takes, and why\n  \
             for i in 1 2 3 4 5 6; do curl -s {web}/; done\n  evenkeel top --admin {address}\n  \
             curl -s {admin}/metrics | grep upstream_requests_total\n"
        );
    })
}

/// Sends requests for as long as the process runs.
fn visit(addr: SocketAddr) {
    let forever = move || load::run(addr, VISITORS, u64::MAX, Duration::from_secs(u64::from(u32::MAX)), |_| {});
    // Without a thread the demo still serves; only its dashboard stays empty.
    let _ = std::thread::Builder::new().name("visitors".into()).spawn(forever);
}
