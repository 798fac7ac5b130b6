//! Arguments of the subcommands of `evenkeel config`.

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
    /// Print every key with its type, default and meaning, as Markdown
    Reference,
    /// Print the JSON Schema of configuration files, for editors
    Schema,
    Show(ConfigShow),
    Diff(ConfigDiff),
    Apply(Apply),
    Rollback(Rollback),
    History(History),
    /// Write the running configuration to the file that evenkeel was started with
    Save(Where),
}

/// Print the running configuration as a single file: with included files, and asterisks for secrets
#[derive(Debug, Args)]
pub struct ConfigShow {
    /// An earlier generation, as listed by `config history`
    pub generation: Option<u64>,

    /// Print the text as it was written, without included files
    #[arg(long)]
    pub source: bool,

    /// Print the file as it is on disk now, with included files, and after each key the file and line that set it
    #[arg(long, conflicts_with_all = ["generation", "source", "admin"])]
    pub places: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Switch to another configuration without loss; keep the running configuration if the other has errors
#[derive(Debug, Args)]
#[command(
    after_help = "Without --save, the file that evenkeel was started with does not change, and a reload or restart returns to it.\n\
                        Relative paths in FILE start at the folder of that file. An upgrade keeps the applied configuration.\n\n\
                        Examples:\n  \
                        evenkeel config apply new.toml --dry-run\n  \
                        evenkeel config apply new.toml --save\n\n\
                        Exit codes: 0 in use; 78 the configuration has errors, and nothing changed; 1 no evenkeel can be reached, or it\n\
                        cannot use the configuration."
)]
pub struct Apply {
    /// The configuration file; - reads standard input
    pub file: PathBuf,

    /// Print the changes or the errors, and change nothing
    #[arg(long, conflicts_with = "save")]
    pub dry_run: bool,

    /// Also write the configuration to the file that evenkeel was started with
    #[arg(long)]
    pub save: bool,

    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Switch back to an earlier configuration, without loss
#[derive(Debug, Args)]
#[command(after_help = "The last ten configurations are kept until an upgrade or a restart.\n\n\
                        Exit codes: 0 in use; 1 no evenkeel can be reached, or it has no such generation.")]
pub struct Rollback {
    /// The generation, as listed by `config history` [default: the previous generation]
    pub generation: Option<u64>,

    /// Also write the configuration to the file that evenkeel was started with
    #[arg(long)]
    pub save: bool,

    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// List recent configurations, newest first: time, origin, user and changes
#[derive(Debug, Args)]
pub struct History {
    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Print the differences between the running configuration and a file, one key per line
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no difference; 10 a difference; 78 the file has errors; 1 no evenkeel can be reached."
)]
pub struct ConfigDiff {
    /// The file to compare with [default: the file that evenkeel was started with]
    pub file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}
