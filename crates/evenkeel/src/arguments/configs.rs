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
    Show(ConfigShow),
    Diff(ConfigDiff),
    Apply(Apply),
    Rollback(Rollback),
    History(History),
    /// Writes what a running evenkeel has in use to the file that it was started with
    Save(Where),
}

/// The configuration that a running evenkeel has in use, as a file would say it: with what it includes, and asterisks for secrets
#[derive(Debug, Args)]
pub struct ConfigShow {
    /// An earlier one, of `config history`
    pub generation: Option<u64>,

    /// As it was written, without what it includes
    #[arg(long)]
    pub source: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Has a running evenkeel use another file, without loss: all of it or nothing
#[derive(Debug, Args)]
#[command(
    after_help = "The file that it was started with stays as it is, and counts again after a reload or a restart; --save writes it. Paths in\n\
                  FILE are relative to the folder of that file. An upgrade keeps what was applied. Exit codes: 0 it is in use; 78 it is wrong,\n\
                  and the running one goes on with what it had; 1 the running one cannot be asked, or cannot do what the file says."
)]
pub struct Apply {
    /// The file
    pub file: PathBuf,

    /// Says what would change, or what is wrong, and changes nothing
    #[arg(long, conflicts_with = "save")]
    pub dry_run: bool,

    /// Writes it to the file that the running evenkeel was started with
    #[arg(long)]
    pub save: bool,

    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Has a running evenkeel use an earlier configuration again, without loss
#[derive(Debug, Args)]
#[command(
    after_help = "The last ten are kept; an upgrade or a restart forgets those before. Exit codes: 0 it is in use; 1 it cannot be asked, or has no\n\
                  such one."
)]
pub struct Rollback {
    /// Which one, of `config history` [default: the one before]
    pub generation: Option<u64>,

    /// Writes it to the file that the running evenkeel was started with
    #[arg(long)]
    pub save: bool,

    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// The configurations that a running evenkeel had, the latest first: since when, how, who asked, and what changed
#[derive(Debug, Args)]
pub struct History {
    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
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
