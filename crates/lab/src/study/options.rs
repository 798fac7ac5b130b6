//! Command-line options that all experiments share.

use crate::error::{Error, Result};
use crate::stats::RUNS_MIN;
use clap::{Args, Command};
use std::path::PathBuf;

/// Options that every experiment has.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Balancers to compare with: haproxy, nginx, envoy; "" for none. One that is not installed is left out with a
    /// message.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "haproxy,nginx")]
    pub against: Vec<String>,
    /// Number of interleaved rounds. Defaults to 5, with --quick to 1, with --full to 11.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: Option<u16>,
    /// Run as little as possible, to check that the experiment works; its figures mean nothing.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Run more and longer rounds, for narrow intervals.
    #[arg(long)]
    full: bool,
    /// Write all runs to this file, as JSON.
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// Write a page to this file, as HTML: plots, figures, verdicts, method and all runs.
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
    /// Write the plot at the top of the page to this file, as SVG.
    #[arg(long, value_name = "PATH")]
    pub picture: Option<PathBuf>,
    /// Program of evenkeel to run. Defaults to the one beside this program.
    #[arg(long, value_name = "PATH")]
    pub evenkeel: Option<PathBuf>,
}

impl Options {
    /// Adds Envoy to the default balancers.
    pub fn with_envoy(command: Command) -> Command {
        command.mut_arg("against", |arg| arg.default_value("haproxy,nginx,envoy"))
    }

    /// Fails if a balancer is named that the experiment does not know.
    ///
    /// # Errors
    /// The text lists the known ones.
    pub fn beside(&self, known: &[&str]) -> Result<()> {
        // The default list has more than some experiments support, and an empty list has one empty name.
        let usual = ["haproxy", "nginx", ""];
        match self.against.iter().find(|name| !known.contains(&name.as_str()) && !usual.contains(&name.as_str())) {
            Some(unknown) => Err(Error::Wrong(format!("unknown balancer `{unknown}`; there are {}", known.join(", ")))),
            None => Ok(()),
        }
    }

    pub fn rounds(&self) -> usize {
        let usual = match (self.quick, self.full) {
            (true, _) => 1,
            (_, true) => 11,
            _ => 5,
        };
        self.repeat.map_or(usual, usize::from)
    }

    /// Number of rounds for parts with many runs: only as many as an interval needs, unless more are requested.
    pub fn rounds_of_many(&self) -> usize {
        let asked = self.repeat.is_some() || self.full;
        if asked { self.rounds() } else { self.rounds().min(RUNS_MIN) }
    }

    /// True if `--full` was given.
    pub fn full(&self) -> bool {
        self.full
    }

    /// Duration of each run, in seconds.
    pub fn seconds(&self) -> u64 {
        match (self.quick, self.full) {
            (true, _) => 1,
            (_, true) => 8,
            _ => 3,
        }
    }

    /// Command line as it was given.
    pub fn command(&self) -> String {
        let mut words = std::env::args();
        words.next();
        words.fold("evenkeel-lab".to_owned(), |line, word| line + " " + &word)
    }
}
