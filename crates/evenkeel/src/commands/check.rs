//! Is a configuration file possible? Everything that is wrong with it, or what is in it.

use crate::arguments::Check;
use crate::failure::{Failure, color};
use crate::output::print;
use evenkeel_config::{Outcome, Plan, ThisMachine, load, render_text, to_json};
use evenkeel_tls::WithTls;
use std::path::Path;

/// Runs `evenkeel check`.
pub fn check(arguments: &Check) -> Result<(), Failure> {
    let file = arguments.file.as_ref().or(arguments.config.as_ref()).expect("clap requires one of them");
    let Outcome { plan, diagnostics } = match arguments.elsewhere {
        true => read(file),
        false => evenkeel_config::check(file, &environment, &WithTls(ThisMachine)),
    };
    if arguments.json {
        print(&format!("{:#}\n", to_json(&diagnostics)))?;
    } else {
        eprint!("{}", render_text(&diagnostics, color()));
    }
    match plan {
        None => Err(Failure::config()),
        Some(_) if arguments.json => Ok(()),
        Some(plan) => print(&format!("ok: {}\n", contents(&plan))),
    }
}

/// A file with its environment.
pub fn read(file: &Path) -> Outcome {
    load(file, &environment)
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// `1 listener, 2 routes, 1 pool, 3 endpoints`.
pub fn contents(plan: &Plan) -> String {
    let endpoints = plan.pools.iter().map(|pool| pool.endpoints.len()).sum();
    let counts = [
        (plan.listeners.len(), "listener"),
        (plan.routes.len(), "route"),
        (plan.pools.len(), "pool"),
        (endpoints, "endpoint"),
    ];
    let one = |(n, what)| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    counts.map(one).join(", ")
}
