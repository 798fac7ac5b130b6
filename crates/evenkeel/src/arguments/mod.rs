//! What can be asked for on the command line? Every subcommand with its arguments; clap makes help and errors of it.

mod asking;
mod configs;
mod offline;
mod serving;
mod steering;
mod values;

pub use asking::{Events, Explain, Shadow, Status, Tap, Top, Where};
pub use configs::{Apply, Config, ConfigDiff, ConfigPage, ConfigShow, History, Rollback};
pub use offline::{Algorithms, Replay, Sim};
pub use serving::{Check, Demo, Run};
pub use steering::{At, Drain, Reload, Reopen, Upgrade, Weight};
pub use values::{Policies, everywhere};

use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    about = "A load balancer that measures its own balance",
    after_help = "Exit codes: 0 done; 1 failed while running; 2 wrong arguments; 10 a replay or a file differs;\n\
                  78 wrong configuration.\n\
                  Try: evenkeel demo, or: evenkeel run 127.0.0.1:8081 127.0.0.1:8082"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Check(Check),
    Status(Status),
    Top(Top),
    Drain(Drain),
    /// Lets an endpoint get requests again that was drained
    Undrain(At),
    Weight(Weight),
    /// Counts an endpoint as up, whatever its checks and requests say
    Up(At),
    /// Counts an endpoint as down, whatever its checks and requests say
    Down(At),
    /// Takes `up` and `down` back: an endpoint is what its checks and requests say
    Auto(At),
    /// Ejects an endpoint for as long as outlier detection would
    Eject(At),
    /// Ends the ejection of an endpoint
    Restore(At),
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
    Algorithms(Algorithms),
    /// Prints what a configuration file can say; shows, compares and changes what a running evenkeel has in use
    Config(Config),
    /// Prints every metric with its meaning, as Markdown
    Metrics,
    /// Prints a script for a shell, by which commands, options and the names of a running evenkeel complete
    Completions {
        /// The shell
        #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
        shell: String,
    },
    /// Writes a man page of each command, for packages
    #[command(hide = true)]
    Man {
        /// The folder to write them to, which must exist
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
