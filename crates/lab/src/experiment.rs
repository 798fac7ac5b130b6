//! What does the command line know of an experiment?

use crate::error::Result;
use clap::{ArgMatches, Command};

/// One row of the registry.
pub struct Experiment {
    /// Its subcommand.
    pub name: &'static str,
    /// One sentence for lists.
    pub summary: &'static str,
    /// What is measured, how, and what that does not say.
    pub docs: &'static str,
    /// Adds its arguments to its subcommand.
    pub args: fn(Command) -> Command,
    /// Runs it.
    pub run: fn(&ArgMatches) -> Result<()>,
}
