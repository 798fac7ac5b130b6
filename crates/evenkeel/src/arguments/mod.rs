//! The command line: every subcommand with its arguments, from which clap makes help and errors.

// Order: caching, configs, offline, serving, steering, asking & values
mod asking;
mod caching;
mod configs;
mod offline;
mod serving;
mod steering;
mod values;

pub use asking::{At, Events, Explain, Ready, Shadow, Status, Tap, Top, Where};
pub use caching::{Cache, CacheOrder, CachePurge, CacheShow, CacheTop, CacheVerb, How};
pub use configs::{Apply, Config, ConfigDiff, ConfigPage, ConfigShow, History, Rollback};
pub use offline::{Advise, Algorithms, Convert, Replay, Sim, Whatif};
pub use serving::{Check, Cleanup, Demo, Run};
pub use steering::{Chosen, Drain, Drained, Endpoint, Reload, Reopen, Split, Upgrade, Verb, Weight};
pub use values::{Policies, admin_address, everywhere};

use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    about = "A load balancer that measures its own balance",
    after_help = "Examples:\n  \
                  evenkeel run 127.0.0.1:8081 127.0.0.1:8082    balance between two addresses; no file needed\n  \
                  evenkeel run -c evenkeel.toml                 run a configuration file\n  \
                  evenkeel status                               show pools and endpoints of the evenkeel on this machine\n  \
                  evenkeel demo                                 compare the algorithms in one minute\n\n\
                  Exit codes: 0 success; 1 failure; 2 wrong arguments; 10 a comparison found a difference; 78 wrong configuration."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Check(Check),
    Cleanup(Cleanup),
    Convert(Convert),
    Status(Status),
    Ready(Ready),
    Top(Top),
    Drain(Drain),
    /// End the drain of an endpoint or a whole pool: send it requests again
    Undrain(Drained),
    Weight(Weight),
    Split(Split),
    Cache(Cache),
    Endpoint(Endpoint),
    /// Same as `evenkeel endpoint up`
    #[command(hide = true)]
    Up(Chosen),
    /// Same as `evenkeel endpoint down`
    #[command(hide = true)]
    Down(Chosen),
    /// Same as `evenkeel endpoint auto`
    #[command(hide = true)]
    Auto(Chosen),
    /// Same as `evenkeel endpoint eject`
    #[command(hide = true)]
    Eject(Chosen),
    /// Same as `evenkeel endpoint restore`
    #[command(hide = true)]
    Restore(Chosen),
    Events(Events),
    Tap(Tap),
    Reload(Reload),
    Reopen(Reopen),
    Upgrade(Upgrade),
    Explain(Explain),
    Shadow(Shadow),
    Replay(Replay),
    Demo(Demo),
    Sim(Sim),
    Whatif(Whatif),
    Advise(Advise),
    Algorithms(Algorithms),
    /// Print the reference of configuration files; show, compare and change the running configuration
    Config(Config),
    /// Print every metric with its meaning, as Markdown
    Metrics,
    /// Print a completion script for a shell; it completes commands, options, and names in the running evenkeel
    Completions {
        /// The shell
        #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
        shell: String,
    },
    /// Write a man page for each command, for packages
    #[command(hide = true)]
    Man {
        /// Existing folder to write to
        folder: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_make_sense_to_clap() {
        Arguments::command().debug_assert();
    }
}
