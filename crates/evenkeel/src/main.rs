//! evenkeel: a load balancer that measures its own balance. The command line; each subcommand has a file in `commands`.
#![forbid(unsafe_code)]

mod answers;
mod arguments;
mod commands;
mod failure;
mod greeting;
mod log;
mod lost;
mod notify;
mod output;
mod reach;
mod reload;
mod serve;
mod signals;
mod source;
mod upgrade;
mod watch;
mod watchdog;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use commands::{algorithms, ask, check, demo, reference, replay, run, sim};
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
