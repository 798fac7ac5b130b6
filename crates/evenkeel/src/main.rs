//! evenkeel: a load balancer that measures its own balance. The command line; each subcommand has a file in `commands`.
#![forbid(unsafe_code)]

// Order: commands & greeting, arguments, output, reach, serve, asked_at, signals, watchdog, notify, offered,
// upgrade, window, advising, predictions, checking, planes, registry, asked, configured, in_use, traces, failure & log
mod advising;
mod arguments;
mod asked;
mod asked_at;
mod checking;
mod commands;
mod configured;
mod failure;
mod greeting;
mod in_use;
mod log;
mod notify;
mod offered;
mod output;
mod planes;
mod predictions;
mod reach;
mod registry;
mod serve;
mod signals;
mod traces;
mod upgrade;
mod watchdog;
mod window;

use arguments::{Arguments, Command, Verb};
use clap::Parser;
use commands::{
    advise, algorithms, cache, check, cleanup, completing, configure, convert, demo, explain, manual, reference,
    replay, run, sim, status, steer, tap, top, whatif,
};
use std::process::ExitCode;

/// Smaller idle connections and faster small allocations than the allocator of glibc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    completing::complete();
    let done = match Arguments::parse().command {
        Command::Run(run) => run::run(&run),
        Command::Status(arguments) => status::status(&arguments),
        Command::Ready(arguments) => status::ready(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Drain(arguments) => steer::drain(&arguments),
        Command::Undrain(at) => steer::undrain(&at),
        Command::Weight(arguments) => steer::weight(&arguments),
        Command::Split(arguments) => steer::split(&arguments),
        Command::Cache(arguments) => cache::cache(&arguments),
        Command::Endpoint(endpoint) => steer::endpoint(&endpoint.verb),
        Command::Up(at) => steer::endpoint(&Verb::Up(at)),
        Command::Down(at) => steer::endpoint(&Verb::Down(at)),
        Command::Auto(at) => steer::endpoint(&Verb::Auto(at)),
        Command::Eject(at) => steer::endpoint(&Verb::Eject(at)),
        Command::Restore(at) => steer::endpoint(&Verb::Restore(at)),
        Command::Events(arguments) => steer::events(&arguments),
        Command::Tap(arguments) => tap::tap(&arguments),
        Command::Upgrade(arguments) => steer::upgrade(&arguments),
        Command::Reload(reload) => configure::reload(&reload),
        Command::Reopen(reopen) => steer::reopen(&reopen),
        Command::Check(check) => check::check(&check),
        Command::Cleanup(arguments) => cleanup::cleanup(&arguments),
        Command::Convert(arguments) => convert::convert(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Shadow(arguments) => explain::shadow(&arguments),
        Command::Replay(replay) => replay::replay(&replay),
        Command::Demo(demo) => demo::demo(&demo),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Sim(sim) => sim::sim(&sim),
        Command::Whatif(arguments) => whatif::whatif(&arguments),
        Command::Algorithms(list) => algorithms::list(&list),
        Command::Config(page) => reference::config(&page),
        Command::Metrics => reference::metrics(),
        Command::Completions { shell } => completing::completions(&shell),
        Command::Man { folder } => manual::write(&folder),
    };
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    };
    log::queue::finish();
    code
}
