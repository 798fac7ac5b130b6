//! Reload experiment, the effect of reloads on clients: a hundred reloads and a replaced binary, under every kind of
//! load that they might disturb.

// Order: outcome, conduct, traffic
mod conduct;
mod outcome;
mod traffic;

use self::outcome::Measured;
use crate::balancers::{self, RIVALS};
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::machine;
use crate::study::{self, Options, Rounds};
use clap::{Args, FromArgMatches};

pub static EXPERIMENT: Experiment = Experiment {
    name: "reload",
    summary: "Failed requests and dropped streams over a hundred reloads and a new binary",
    docs: "Starts one balancer after the other in front of three endpoints, with clients that keep their connection, clients \
with a connection per request, uploads, downloads and WebSockets, over TLS too, requests over HTTP/2 and streams of gRPC, with and without \
TLS, each checked byte for byte, and requests and downloads over HTTP/3 for balancers that speak it, whose lengths are checked. Then the configuration is \
rewritten a hundred times, each time with another weight in a pool that gets no requests, and the balancer made to read \
it: evenkeel and NGINX by SIGHUP, the master of HAProxy by SIGUSR2, and Envoy by the file itself, which it watches. The next reload comes \
when the one before is seen to be at work. Last, evenkeel replaces its binary (SIGUSR2). HAProxy does that with each reload, NGINX only \
as a daemon, which the lab could not end, and Envoy with a parent process of its own.

HAProxy and NGINX start new processes and let the old ones live for as long as they have connections; neither is asked to \
cut them short. evenkeel and Envoy change what they have. So the processes that are left and their memory are reported, too. A kept \
connection that is closed as the client sends its next request counts as a failed request.",
    args: |command| Options::with_envoy(Arguments::augment_args(command)),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Reloads of each balancer in a round. Defaults to 100, with --quick to 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reloads: Option<u32>,
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    let (balancers, versions) = balancers::find(options, &RIVALS)?;
    machine::allow_files(20_000);
    child::adopt_orphans()?;
    let reloads = arguments.reloads.unwrap_or(if options.quick { 3 } else { 100 });
    let names: Vec<String> = balancers.iter().map(|balancer| balancer.name.to_owned()).collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, _| conduct::conduct(&balancers[at], reloads))?;
    study::present(&Measured { balancers: &balancers, rounds: &rounds, reloads }.found(versions), options)
}
