//! Failure experiment: evenkeel and other balancers under the same load, in front of the same failing endpoints.

// Order: outcome, conduct, measure, schedule, traffic
mod conduct;
mod measure;
mod outcome;
mod schedule;
mod traffic;

use self::conduct::Stage;
use self::outcome::Measured;
use self::schedule::{FAULTS, Fault, LAP_MIN, LEAD_IN};
use crate::balancers::{self, RIVALS};
use crate::certificates::Certificates;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::hosts::Loopback;
use crate::machine;
use crate::progress::Progress;
use crate::study::{self, Options, Rounds};
use clap::{Args, FromArgMatches};
use std::sync::Arc;
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "failure",
    summary: "Failed requests, latency and time to steer away and back while endpoints break, flap, vanish and lose packets",
    docs: "Starts six endpoints of its own, each a process on an address of its own, that work 8 to 12 ms on a request, and \
the balancers in front of them, all at once: each lives through the very same faults, at the same moments, under the same \
requests. One endpoint at a time is killed, hung, stopped, slowed, made to err or to reset connections, to flap, to vanish from the \
network or to lose packets, and mended, after a schedule that the seed gives. A round is a run with a seed of its own.

Requests are sent at moments drawn beforehand, whatever becomes of the ones before (an open loop); latency counts from the moment a \
request was meant to be sent. Of ten, four go over HTTP/1.1, two over HTTP/1.1 and TLS, two over HTTP/2 and TLS, and two are calls of \
gRPC, which balancers pass on over HTTP/2 to the same endpoints. A fifth of the others are POSTs, a tenth have a connection of their own. \
Each request has a body of its own, and each answer is compared with the one it must be.

A failed GET whose answer had not begun could have been asked again elsewhere, so it is the balancer's. A failed POST or call of gRPC \
could not, once it was sent, unless the work may be done twice, or the endpoint says that it is unavailable. An answer that had begun \
cannot be mended. They are counted apart. \"Hurt until\" is the time from the fault to the last request that failed because of it or took \
over 50 ms, of those that reached the endpoint, if it can tell; \"share back\" from its end to the first second in which the endpoint got \
80 % of a fair share. Beside the others, evenkeel may fail no request more, may take a tenth of a second longer to steer away, as the \
endpoint gets a request every 24 ms, and 5 % more at the 99th percentile.

The load is low on purpose: no balancer takes a noticeable part of a core, so that what is seen is what they decide, not \
how fast they are. Timers of clients and endpoints are exact to a millisecond or two. Packets are dropped in a network namespace of the \
lab's own, by nftables, which takes root; without, those faults are left out.",
    args: |command| Options::with_envoy(Arguments::augment_args(command)),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

/// Endpoints behind each balancer.
const ENDPOINTS: u8 = 6;

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Duration of a run in seconds. Defaults to 160, with --quick to 62, with --full to 300. Each fault takes at least
    /// 5 s; faults that do not fit are left out.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(7..=3600))]
    seconds: Option<u64>,
    /// Requests per second to each balancer.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(50..=2000))]
    rate: u32,
    /// Seed of schedule and load in the first round; each further round uses the next number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    fn length(&self) -> Duration {
        let usual = match (self.study.quick, self.study.full()) {
            (true, _) => LEAD_IN + LAP_MIN * FAULTS.len() as u32,
            (_, true) => Duration::from_secs(300),
            _ => Duration::from_secs(160),
        };
        self.seconds.map_or(usual, Duration::from_secs)
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    let (balancers, versions) = balancers::find(options, &RIVALS)?;
    machine::allow_files(20_000);
    let certificates = Certificates::make()?;
    let network = Loopback::enter();
    let faults: Vec<&'static Fault> = FAULTS.iter().filter(|fault| network.is_ok() || !fault.drops_packets()).collect();
    let left_out = network.as_ref().err().map(|error| {
        let names: Vec<&str> = FAULTS.iter().filter(|fault| fault.drops_packets()).map(|fault| fault.name).collect();
        eprintln!("left out: {}: {error}", names.join(", "));
        error.to_string()
    });
    let (length, progress, rounds) = (arguments.length(), Progress::new(), options.rounds());
    let names = ["all balancers at once".to_owned()];
    let rounds = Rounds::run(&names, rounds, |_, round| {
        let seed = arguments.seed + round as u64;
        let stage = Stage {
            balancers: &balancers,
            endpoints: ENDPOINTS,
            network: network.as_ref().ok(),
            certificates: &certificates,
            round: (round, rounds),
            progress: &progress,
        };
        let laps = schedule::plan(seed, length, usize::from(ENDPOINTS), &faults);
        let plan: Arc<[_]> = traffic::plan(seed, length, arguments.rate).into();
        stage.conduct(seed, &laps, &plan)
    })?;
    let ran: Vec<_> = rounds.of(0).collect();
    let measured = Measured { balancers: &balancers, rounds: &ran, left_out, rate: arguments.rate };
    let found = study::Found { failed: rounds.failed(), ..measured.found(versions) };
    study::present(&found, options)
}
