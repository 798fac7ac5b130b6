//! How do load balancers live with endpoints that break? evenkeel, HAProxy and NGINX under the same load, in front of
//! the same endpoints, through the same faults.

mod chart;
mod conduct;
mod measure;
mod page;
mod schedule;
mod told;
mod traffic;
mod verdict;

use self::told::Told;
use crate::balancers::Balancer;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::machine::{self, Machine};
use clap::{Args, FromArgMatches};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "failure",
    summary: "Failed requests, latency and time to steer away and back while endpoints break, beside HAProxy and NGINX",
    docs: "Starts six endpoints of its own, each a process on an address of its own, that work 8 to 12 ms on a request, and \
the balancers in front of them, all at once: each lives through the very same faults, at the same moments, under the same \
requests. One endpoint at a time is killed, hung, stopped, slowed, made to err or to reset connections, and revived, \
after a schedule that the seed gives. Requests are sent at moments drawn beforehand, whatever becomes of the ones before \
(an open loop); latency counts from the moment a request was meant to be sent. A fifth are POSTs, a tenth have a \
connection of their own. Each request has a body of its own, and each answer is compared with the one it must be.

A failed GET whose answer had not begun could have been asked again elsewhere, so it is the balancer's. A failed POST \
could not, once it was sent, unless the work may be done twice. An answer that had begun cannot be mended. The three are \
counted apart.

The load is low on purpose: no balancer takes a noticeable part of a core, so that what is seen is what they decide, not \
how fast they are. Timers of clients and endpoints are exact to a millisecond or two.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

/// Endpoints behind each balancer.
const ENDPOINTS: usize = 6;

#[derive(Args, Debug)]
struct Arguments {
    /// Only these balancers.
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "evenkeel,haproxy,nginx")]
    balancers: Vec<String>,
    /// Length of the run. Below 47 s not every fault fits; 300 s give each 33 s.
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(7..=3600))]
    seconds: u64,
    /// Requests per second to each balancer.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(50..=2000))]
    rate: u32,
    /// What the schedule and the load are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write every figure to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw a page for people into this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The evenkeel to run; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

fn run(arguments: Arguments) -> Result<()> {
    let balancers = Balancer::find(&arguments.balancers, arguments.evenkeel.as_deref())?;
    machine::allow_files(20_000);
    // A file that cannot be written should be known before the run, not after.
    write(arguments.json.as_deref(), String::new)?;
    write(arguments.report.as_deref(), String::new)?;
    let length = Duration::from_secs(arguments.seconds);
    let laps = schedule::plan(arguments.seed, length, ENDPOINTS);
    let plan: Arc<[_]> = traffic::plan(arguments.seed, length, arguments.rate).into();
    let told = Told {
        experiment: EXPERIMENT.name,
        endpoints: ENDPOINTS,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        machine: Machine::this(),
        rate: arguments.rate,
        seed: arguments.seed,
        ran: conduct::conduct(&balancers, ENDPOINTS, &laps, &plan)?,
        balancers,
    };
    print!("{}", told.text());
    write(arguments.json.as_deref(), || format!("{:#}\n", told.json()))?;
    write(arguments.report.as_deref(), || page::draw(&told))
}

fn write(path: Option<&Path>, text: impl Fn() -> String) -> Result<()> {
    path.map_or(Ok(()), |path| std::fs::write(path, text()).or_say(|| format!("cannot write {}", path.display())))
}
