//! What do HTTP/2, gRPC and TLS cost? CPU time and idle memory of evenkeel, HAProxy, NGINX and Envoy, each with one worker
//! on a core of its own, in front of the same endpoints.

mod case;
mod certificates;
mod grpc;
mod idle;
mod measure;
mod proxy;
mod report;
mod rivals;

use self::case::Case;
use self::measure::{Effort, Endpoints};
use self::report::Report;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::machine::{self, Cores, Machine};
use crate::origin::Origin;
use crate::report::table;
use clap::{ArgMatches, Args, FromArgMatches};
use std::path::PathBuf;

pub use self::case::{Back, Certificate, Front};
pub use self::certificates::Certificates;
pub use self::proxy::Proxy;

pub use self::grpc::{NAME as ENDPOINT, arguments as endpoint_arguments, run as run_endpoint};

/// The row of the registry for HTTP/2 and gRPC.
pub static H2: Experiment = Experiment {
    name: "h2-cost",
    summary: "CPU time per request of HTTP/2 and gRPC, and idle memory, beside HAProxy, NGINX and Envoy",
    docs: "As proxy-cost: each proxy has one worker on one core, load and endpoints have the others, and what is compared is \
the CPU time of the proxy's processes over the requests answered. The load is h2load's. Endpoints are an NGINX that speaks \
HTTP/1.1 and HTTP/2, and one of the lab's own for gRPC. Before it is measured, each proxy must pass answers on byte for byte, \
in the protocol meant.

A proxy that is not installed, that cannot do what a case asks for, or that fails in it, has its reason where its figure \
would be. `scripts/setup.sh bench` installs Envoy.",
    args: Arguments::augment_args,
    run: |matches| run("h2-cost", parsed(matches)?, case::H2),
};

/// The row of the registry for TLS.
pub static TLS: Experiment = Experiment {
    name: "tls-cost",
    summary: "CPU time of handshakes and of HTTPS, and idle memory, beside HAProxy, NGINX and Envoy",
    docs: "As h2-cost. Handshakes are made by clients of the lab's own, which offer X25519 first, as every proxy here can do it, and know whether a session was \
resumed: in the cases of full handshakes none may be, and where tickets are meant, all but the first of each client must be. \
On kept connections the load is wrk's. The certificates are made at the start.

A connection for each request includes connecting and closing: the time is that of the whole, not of the handshake alone.",
    args: Arguments::augment_args,
    run: |matches| run("tls-cost", parsed(matches)?, case::TLS),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Only these cases.
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
    /// Only these proxies; without it, all that the experiment knows.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    proxies: Vec<String>,
    /// Runs of each cell. The ratios of five spread by a tenth on a busy machine.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// Seconds of load in each run.
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Also write every figure to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The evenkeel to measure; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
    /// Name the cases and end.
    #[arg(long)]
    list: bool,
}

fn parsed(matches: &ArgMatches) -> Result<Arguments> {
    Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string()))
}

fn run(name: &'static str, arguments: Arguments, all: &'static [Case]) -> Result<()> {
    if arguments.list {
        let rows: Vec<Vec<String>> = all.iter().map(|case| vec![case.name.into(), case.about.into()]).collect();
        print!("{}", table::draw(&["case", "what happens"], &rows));
        return Ok(());
    }
    let cases = choose(all, &arguments.only)?;
    let cores = Cores::divide()?;
    machine::allow_files(50_000);
    let proxies = Proxy::find(&arguments.proxies, arguments.evenkeel.as_deref())?;
    let effort = Effort { rounds: arguments.rounds.into(), seconds: arguments.seconds, core: cores.proxy };
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut report = Report {
        experiment: name,
        command,
        machine: Machine::this(),
        cores,
        effort,
        proxies: &proxies,
        cases: Vec::new(),
    };
    print!("{}", report.header());
    let certificates = Certificates::make()?;
    let endpoints = Endpoints { files: Origin::start()?, grpc: grpc::Endpoint::start()? };
    for case in cases {
        let cells = measure::case(case, &proxies, &endpoints, &certificates, effort)?;
        print!("\n{}", report.table(case, &cells));
        report.cases.push((case, cells));
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{:#}\n", report.json())).or_say(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn choose(all: &'static [Case], only: &[String]) -> Result<Vec<&'static Case>> {
    if let Some(unknown) = only.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        let known: Vec<&str> = all.iter().map(|case| case.name).collect();
        return Err(Error::Wrong(format!("unknown case `{unknown}`; there are {}", known.join(", "))));
    }
    Ok(all.iter().filter(|case| only.is_empty() || only.iter().any(|name| name == case.name)).collect())
}
