//! Interface between experiments and the command line.

use crate::error::Result;
use clap::{ArgMatches, Command};

/// Row of the registry of experiments.
pub struct Experiment {
    pub name: &'static str,
    /// Summary in a sentence, for lists.
    pub summary: &'static str,
    /// Long help: subject and method of the measurement, and the limits of the result.
    pub docs: &'static str,
    /// Adds its arguments to its subcommand.
    pub args: fn(Command) -> Command,
    /// Runs the experiment with the parsed arguments.
    pub run: fn(&ArgMatches) -> Result<()>,
}
