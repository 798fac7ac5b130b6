//! Options of the command line that all experiments share.

use crate::error::{Error, Result};
use crate::stats::RUNS_MIN;
use clap::{Args, Command};
use std::path::PathBuf;

/// Options that every experiment has.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Balancers beside evenkeel: haproxy, nginx, envoy. One that is not installed is named, and left out; "" for none.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "haproxy,nginx")]
    pub against: Vec<String>,
    /// Interleaved rounds; without it 5, with --quick 1, with --full 11.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: Option<u16>,
    /// Smallest size: shows that it runs, not what it measures.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// More and longer rounds, for narrow intervals.
    #[arg(long)]
    full: bool,
    /// File for every run, as JSON.
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// File for the page: plots, figures, verdicts, method and every run.
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
    /// File for the plot that the page opens with, as an SVG.
    #[arg(long, value_name = "PATH")]
    pub picture: Option<PathBuf>,
    /// The evenkeel to run; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    pub evenkeel: Option<PathBuf>,
}

impl Options {
    /// With Envoy among the usual balancers.
    pub fn with_envoy(command: Command) -> Command {
        command.mut_arg("against", |arg| arg.default_value("haproxy,nginx,envoy"))
    }

    /// Fails if a balancer is named that the experiment does not know.
    ///
    /// # Errors
    /// With those it knows.
    pub fn beside(&self, known: &[&str]) -> Result<()> {
        // The usual list names more than some experiments have, and an empty one has one empty name.
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

    /// Rounds of a part with many runs: no more than say something about chance, unless they are asked for.
    pub fn rounds_of_many(&self) -> usize {
        let asked = self.repeat.is_some() || self.full;
        if asked { self.rounds() } else { self.rounds().min(RUNS_MIN) }
    }

    /// True if it may take long.
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
