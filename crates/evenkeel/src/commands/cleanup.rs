//! `evenkeel cleanup`: removes state that an evenkeel has left in the kernel.

use crate::arguments::Cleanup;
use crate::commands::check::{default_file, no_file, read};
use crate::commands::place;
use crate::failure::{Failure, color};
use crate::output::print;
use evenkeel_config::{Outcome, render_text};

/// Runs `evenkeel cleanup`.
pub fn cleanup(arguments: &Cleanup) -> Result<(), Failure> {
    let file = arguments.config.clone().map_or_else(|| default_file().ok_or_else(no_file), Ok);
    let file = file.map_err(|failure| failure.help("evenkeel cleanup --config FILE"))?;
    let Outcome { plan, diagnostics } = read(&file);
    let Some(plan) = plan else {
        eprint!("{}", render_text(&diagnostics, color()));
        return Err(Failure::config());
    };
    if let Some(pid) = place::runs(&file).filter(|_| !arguments.force) {
        let problem = format!("evenkeel runs with {}, process {pid}, and uses its rules in the kernel", file.display());
        return Err(
            Failure::running(problem).help("stop it first; it then removes its rules, unless on_exit = \"keep\"")
        );
    }
    if evenkeel_kernel::cleanup::is_in_use(&plan.kernel) && !arguments.force {
        let problem =
            format!("a running evenkeel uses the rules under the name \"{}\" in the kernel", plan.kernel.name);
        return Err(
            Failure::running(problem).help("stop it first; it then removes its rules, unless on_exit = \"keep\"")
        );
    }
    let is_used = |plane| plan.listeners.iter().any(|listener| listener.plane == plane);
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    for (plane, result) in evenkeel_kernel::cleanup::cleanup(&plan.kernel) {
        match result {
            Ok(found) => removed.extend(found.map(|found| format!("{}: removed {found}\n", plane.name()))),
            Err(fault) if is_used(plane) => failed.push(format!("{}: {fault}", plane.name())),
            // The mechanism may not exist here, and then nothing can be left of it.
            Err(fault) => eprintln!("{}: skipped: {fault}", plane.name()),
        }
    }
    if removed.is_empty() && failed.is_empty() {
        print(&format!("nothing is left under the name \"{}\"\n", plan.kernel.name))?;
    }
    print(&removed.concat())?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::running(failed.join("; ")).help("run it as root, or with the capability CAP_NET_ADMIN")),
    }
}
