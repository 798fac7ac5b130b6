//! What does a proxied request cost? CPU time, syscalls and idle memory of evenkeel, HAProxy and NGINX, each with one
//! worker on a core of its own, in front of the same endpoints.

mod case;
mod measure;
mod proxy;
mod report;
mod sink;

use self::case::Case;
use self::measure::Effort;
use self::report::Report;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::machine::{self, Cores, Machine};
use crate::origin::Origin;
use clap::{ArgMatches, Args, FromArgMatches};
use std::path::PathBuf;

pub use self::case::Setup;
pub use self::proxy::Proxy;

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "proxy-cost",
    summary: "CPU time, syscalls and idle memory per request, beside HAProxy and NGINX",
    docs: "Starts each proxy with one worker, pinned to one core, in front of the same two endpoints; load generators and \
endpoints have the other cores. Each is set up at its best and checked to pass answers on byte for byte. CPU time per \
request is user plus system time of the proxy's worker over the requests answered: on a busy machine it holds within a \
few percent, while requests per second do not hold at all and only inform. The loop is closed, so nothing here says \
anything of latency.

HAProxy cannot write an access log to a file: it keeps a ring that it sends over TCP to the lab, the cheapest way it \
has that loses no line. NGINX and evenkeel write a file through a buffer.

HAPROXY_BIN, a command of several words if need be, measures another HAProxy beside the installed one.",
    args: Arguments::augment_args,
    run: |matches| parsed(matches).and_then(|arguments| run(arguments, case::ALL, false)),
};

/// The row of the registry for sessions over TCP.
pub static SESSIONS: Experiment = Experiment {
    name: "l4-cost",
    summary: "CPU time, syscalls and idle memory of TCP sessions, beside HAProxy and NGINX",
    docs: "As proxy-cost, but the proxies pass connections on without reading what is in them: evenkeel with mode = \
\"tcp\", HAProxy with mode tcp (haproxy-splice: with splice-response), NGINX with its \
stream module. The clients and the endpoints still speak HTTP, so that the same load generators count exchanges.

`bare` is no proxy but a relay of the lab's own that makes the calls of a session and does nothing else: what it costs is \
the kernel's, and how far a proxy can be below another on this machine.",
    args: Arguments::augment_args,
    run: |matches| parsed(matches).and_then(|arguments| run(arguments, case::SESSIONS, true)),
};

fn parsed(matches: &ArgMatches) -> Result<Arguments> {
    Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string()))
}

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

/// `sessions`: the proxies pass on sessions, not requests.
fn run(arguments: Arguments, all: &'static [Case], sessions: bool) -> Result<()> {
    if arguments.list {
        let rows: Vec<Vec<String>> = all.iter().map(|case| vec![case.name.into(), case.about.into()]).collect();
        print!("{}", crate::report::table::draw(&["case", "what happens"], &rows));
        return Ok(());
    }
    let cases = choose(all, &arguments.only)?;
    let cores = Cores::divide()?;
    machine::allow_files(50_000);
    let proxies = Proxy::find(&arguments.proxies, sessions, arguments.evenkeel.as_deref())?;
    let effort = Effort { rounds: arguments.rounds.into(), seconds: arguments.seconds, core: cores.proxy };
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut report = Report {
        experiment: EXPERIMENT.name,
        command,
        machine: Machine::this(),
        cores,
        effort,
        proxies: &proxies,
        cases: Vec::new(),
    };
    print!("{}", report.header());
    let origin = Origin::start()?;
    for case in cases {
        let cells = measure::case(case, &proxies, &origin, effort)?;
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

#[cfg(test)]
mod tests {
    use super::case::ALL;
    use super::choose;

    #[test]
    fn only_the_cases_named_run_in_the_order_of_the_table() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            choose(ALL, &only).map(|cases| cases.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["1m", "keep-alive"]).expect("both are there"), ["keep-alive", "1m"]);
        assert!(names(&["1mb"]).expect_err("there is none").to_string().contains("1mb"));
        assert_eq!(names(&[]).expect("all are there").len(), ALL.len());
    }
}
