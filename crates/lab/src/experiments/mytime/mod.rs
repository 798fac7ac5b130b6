//! MyTime experiment, after HAProxy's test of two random choices in sidecars: an application of four services on six
//! nodes, whose balancers each know only their own requests.

// Order: beside, outcome, run, balancer & system
mod balancer;
mod beside;
mod outcome;
mod run;
mod system;

use crate::balancers::{self, Running};
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::hosts::address;
use crate::load::generator::Plan;
use crate::machine;
use crate::study::{self, Meter, Options, Rounds};
use clap::{Args, FromArgMatches};
use run::Run;
use std::time::Duration;
use system::{CLIENTS, EDGE, LEVELS, SERVICES, System};

pub static EXPERIMENT: Experiment = Experiment {
    name: "mytime",
    summary: "Four Python services on six nodes behind sidecars: round robin, leastconn, random, two choices, an external balancer, shared load",
    docs: "HAProxy compared algorithms for sidecars with an application of four services (haproxytech/bench-algo-p2c): MyTime asks User and Time, \
then has Log write a line, and Log asks User and Time again; all in Python's standard library, HTTP/1.0 with a connection for each \
request and a backlog of five. Each of six nodes runs one process of every service, with a balancer beside it through which all its \
calls go out and come in; clients come through an edge balancer on leastconn. The external balancer is that at the edge: calls \
go there, one hop more, and it knows of all of them.

Here each node is a network namespace, and its processors are control groups with a quota: four, two or one for its four services \
and their balancers, always with 22 % of a processor together, so that only how many share one changes. Clients are a closed loop of \
120, each with its next request once it has the answer, and a fixed number of requests, so that a run has a finish time. Requests \
a second are those of the middle eight tenths. The peak of a process of a service is the most requests that it had at once; reported is \
the mean over those of User, Time and Log, which the algorithm under test balances.

The simulator runs the same calls on the same shares of processors, with the processor time that a request takes of each service and its \
sidecar, as measured with evenkeel's leastconn where services share nothing. Compared is each way with leastconn of the same program.

No balancer checks, retries or ejects here. The six nodes share two cores and a kernel, so requests a second of one run mean little: \
each figure is compared with another of the same round, and at equal speed: the services do the same for every request, so the CPU time \
of a request shows how fast the processors were in that run, and rates and times are scaled to equal speed \
in both. The table has the figures as they were measured.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

/// Maximum duration of a run: with random(1) some clients wait long.
const PATIENCE: Duration = Duration::from_secs(180);

fn run(options: &Options) -> Result<()> {
    let (balancers, mut versions) = balancers::find(options, &["haproxy"])?;
    let balancings = balancer::all(&balancers);
    versions.insert(0, ("python3".to_owned(), machine::version(&[child::find("python3")?], "--version")?));
    machine::allow_files(20_000);
    let requests = if options.quick { 1 } else { options.seconds() + 1 };
    let mut system = System::start()?;
    let names: Vec<String> = LEVELS
        .iter()
        .flat_map(|(level, _)| balancings.iter().map(move |one| format!("{}, {level}", one.name)))
        .collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, _| {
        system.set_level(at / balancings.len())?;
        measure(&system, system.balance(&balancings[at % balancings.len()], &balancers)?, requests)
    })?;
    drop(system);
    let beside = beside::beside(&balancings, &rounds, balancers[0].program(), u64::from(CLIENTS) * requests)?;
    study::present_beside(&outcome::found(&balancings, &names, &rounds, EXPERIMENT.docs, versions), &beside, options)
}

fn measure(system: &System, balancers: Vec<Running>, requests: u64) -> Result<Run> {
    // Reset the peaks of earlier runs.
    system.take_peaks()?;
    let (edge, sidecars) = balancers.split_last().ok_or_else(|| Error::Wrong("no balancers".into()))?;
    let pids: Vec<u32> = sidecars.iter().map(Running::pid).collect();
    let kind = |(kind, name): (usize, &&'static str)| {
        let of = |pids: &[u32]| pids.iter().copied().skip(kind).step_by(SERVICES.len()).collect::<Vec<_>>();
        (*name, [of(&system.pids()), of(&pids)].concat())
    };
    let kinds = Meter::start(SERVICES.iter().enumerate().map(kind).collect())?;
    let meter = Meter::start(vec![
        ("services", system.pids()),
        ("balancers beside services", pids.clone()),
        ("edge", vec![edge.pid()]),
        ("lab", vec![std::process::id()]),
    ])?;
    let target = format!("{}:{}/MyTime/bob", address(EDGE), balancer::inbound(3));
    let load = Plan::closed(vec![target], CLIENTS, requests).start(system.clients(), &system.file("load"))?;
    let load = load.end(PATIENCE)?;
    let mut used = meter.used()?;
    used.groups.push(("clients", Duration::from_secs_f64(load.cpu_seconds)));
    Ok(Run { load, peaks: system.take_peaks()?, used, kinds: kinds.used()? })
}
