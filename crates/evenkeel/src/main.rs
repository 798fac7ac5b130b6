//! evenkeel: a load balancer that measures its own balance. The command line; each subcommand has a file.
#![forbid(unsafe_code)]

mod algorithms;
mod answers;
mod arguments;
mod ask;
mod check;
mod demo;
mod failure;
mod greeting;
mod log;
mod lost;
mod notify;
mod output;
mod reach;
mod reference;
mod reload;
mod replay;
mod run;
mod serve;
mod signals;
mod sim;
mod source;
mod upgrade;
mod watch;
mod watchdog;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Smaller idle connections and faster small allocations than the allocator of glibc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(run) => run::run(&run),
        Command::Reload(reload) => ask::reload(&reload),
        Command::Check(check) => check::check(&check),
        Command::Replay(replay) => replay::replay(&replay),
        Command::Demo(demo) => demo::demo(&demo),
        Command::Sim(sim) => sim::sim(&sim),
        Command::Algorithms(list) => algorithms::list(&list),
        Command::Config(page) => reference::config(&page),
        Command::Metrics => reference::metrics(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "evenkeel", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
