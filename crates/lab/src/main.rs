//! Live experiments on the cost and behaviour of load balancers: runs evenkeel and its rivals as processes, loads them
//! over sockets and reports the figures.
//!
//! Read `experiments/mod.rs` first: the registry from which the subcommands are made.

#![forbid(unsafe_code)]

// Order: experiments, experiment, setups, balancers, study, load, client, worker, timed, endpoint, bare, strace,
// certificates, origin, hosts, machine, procfs, child, scratch, wire, http, stats, rng, report, progress, clock,
// error, requirements
mod balancers;
mod bare;
mod certificates;
mod child;
mod client;
mod clock;
mod endpoint;
mod error;
mod experiment;
mod experiments;
mod hosts;
mod http;
mod load;
mod machine;
mod origin;
mod procfs;
mod progress;
mod report;
mod requirements;
mod rng;
mod scratch;
mod setups;
mod stats;
mod strace;
mod study;
mod timed;
mod wire;
mod worker;

use clap::{Arg, ArgAction, Command};
use experiments::protocol_cost;
use hosts::antagonist;
use load::generator;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut command = Command::new("evenkeel-lab")
        .about("Live experiments: evenkeel beside its rivals, with sockets and processes")
        .version(env!("CARGO_PKG_VERSION"))
        .arg(
            Arg::new("list")
                .long("list")
                .action(ArgAction::SetTrue)
                .help("Names every experiment, and what it answers"),
        )
        .after_help("Exit status: 0, 1 if an experiment fails, 77 if it cannot run here: it needs root, or a program that is missing.")
        .args_conflicts_with_subcommands(true)
        .arg_required_else_help(true);
    for experiment in experiments::ALL {
        // Shared options set an about text, so set the experiment's last.
        let sub = (experiment.args)(Command::new(experiment.name));
        command = command.subcommand(sub.about(experiment.summary).long_about(experiment.docs));
    }
    // Hidden subcommands: experiments start endpoints and a relay with them.
    command = command.subcommand(endpoint::arguments(Command::new("endpoint")).hide(true));
    command = command.subcommand(bare::arguments(Command::new(bare::NAME)).hide(true));
    command = command.subcommand(generator::arguments(Command::new(generator::NAME)).hide(true));
    command = command.subcommand(antagonist::arguments(Command::new(antagonist::NAME)).hide(true));
    command = command.subcommand(worker::arguments(Command::new(worker::NAME)).hide(true));
    let grpc = Command::new(protocol_cost::ENDPOINT).hide(true);
    command = command.subcommand(protocol_cost::endpoint_arguments(grpc));
    let matches = command.get_matches();
    let Some((name, matches)) = matches.subcommand() else {
        let line = |experiment: &&experiment::Experiment| format!("{:<18} {}", experiment.name, experiment.summary);
        println!("{}", experiments::ALL.iter().map(line).collect::<Vec<_>>().join("\n"));
        return ExitCode::SUCCESS;
    };
    match name {
        "endpoint" => return exit_code(endpoint::run(matches)),
        bare::NAME => return exit_code(bare::run(matches)),
        generator::NAME => return exit_code(generator::run(matches)),
        antagonist::NAME => return exit_code(antagonist::run(matches)),
        worker::NAME => return exit_code(worker::run(matches)),
        protocol_cost::ENDPOINT => return exit_code(protocol_cost::run_endpoint(matches)),
        _ => {}
    }
    let experiment = experiments::ALL.iter().find(|e| e.name == name).expect("clap knows only rows of the registry");
    if let Err(error) = hosts::sweep() {
        eprintln!("warning: {error}");
    }
    exit_code(child::watch_for_signals().and_then(|()| (experiment.run)(matches)))
}

fn exit_code(done: error::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cannot_run = error.cannot_run();
            eprintln!("{}: {error}", if cannot_run { "cannot run here" } else { "error" });
            if cannot_run { ExitCode::from(requirements::CANNOT_RUN) } else { ExitCode::FAILURE }
        }
    }
}
