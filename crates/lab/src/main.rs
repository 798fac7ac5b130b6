//! What does happen? Runs evenkeel and its rivals as processes, loads them over sockets and says what it cost.
//!
//! Read `experiments/mod.rs` first: the registry from which the subcommands are made.

#![forbid(unsafe_code)]

mod child;
mod error;
mod evenkeel;
mod experiments;
mod http;
mod load;
mod machine;
mod origin;
mod procfs;
mod scratch;
mod stats;
mod strace;
mod table;

use clap::Command;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut command = Command::new("evenkeel-lab")
        .about("Live experiments: evenkeel beside its rivals, with sockets and processes")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true);
    for experiment in experiments::ALL {
        let sub = Command::new(experiment.name).about(experiment.summary).long_about(experiment.docs);
        command = command.subcommand((experiment.args)(sub));
    }
    let matches = command.get_matches();
    let (name, matches) = matches.subcommand().expect("clap requires a subcommand");
    let experiment = experiments::ALL.iter().find(|e| e.name == name).expect("clap knows only rows of the registry");
    match child::watch_for_signals().and_then(|()| (experiment.run)(matches)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
