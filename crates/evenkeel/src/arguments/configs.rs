//! What do the commands of `config` want?

use crate::arguments::Where;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    pub page: ConfigPage,
}

#[derive(Debug, Subcommand)]
pub enum ConfigPage {
    /// Every key: type, default, meaning; as Markdown
    Reference,
    /// The JSON Schema, for editors
    Schema,
    /// The configuration that a running evenkeel has in use, as a file would say it
    Show(Where),
    Diff(ConfigDiff),
}

/// What a reload would change: a line for each key in which a file differs from what a running evenkeel has in use
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing; 10 something; 78 the file is wrong; 1 the running one cannot be asked.")]
pub struct ConfigDiff {
    /// The file; without one, that which the running evenkeel was started with
    pub file: Option<PathBuf>,

    /// Prints JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}
