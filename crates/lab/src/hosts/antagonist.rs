//! Antagonist: a process that alternately uses all the CPU time it can get and none.

use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::rng::Rng;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::path::Path;
use std::time::{Duration, Instant};

pub const NAME: &str = "antagonist";

/// Time after which it exits by itself, whatever happens to the experiment.
const LIFE: Duration = Duration::from_secs(3600);

/// Arguments of an antagonist.
#[derive(Args, Clone, Debug)]
pub struct Antagonist {
    /// Number of threads that use CPU time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u8,
    /// Seconds of each while, on average (exponential).
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub mean: f64,
    /// Seed of the durations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Antagonist {
    /// Starts it. `at`: what stands before a command that runs where it shall. `folder`: for what it says.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, at: Vec<String>, folder: &Path) -> Result<Child> {
        let mut command = at;
        command.extend([child::this()?, NAME.to_owned()]);
        let options =
            [("threads", self.threads.to_string()), ("mean", self.mean.to_string()), ("seed", self.seed.to_string())];
        command.extend(options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]));
        Child::spawn("an antagonist", &command, None, &folder.join("antagonist"))
    }
}

/// The arguments of the subcommand.
pub fn arguments(command: Command) -> Command {
    Antagonist::augment_args(command)
}

/// The subcommand: runs until it is ended.
///
/// # Errors
/// A wrong option.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let antagonist = Antagonist::from_arg_matches(matches).map_err(|error| Error::Wrong(error.to_string()))?;
    let end = Instant::now() + LIFE;
    std::thread::scope(|scope| {
        for _ in 0..antagonist.threads.max(1) {
            // All of them at the same moments.
            scope.spawn(|| work(&antagonist, end));
        }
    });
    Ok(())
}

fn work(antagonist: &Antagonist, end: Instant) {
    let mut rng = Rng::new(antagonist.seed);
    let mut until = Instant::now();
    for busy in (rng.below(2)..).map(|turn| turn % 2 == 0) {
        until += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() * antagonist.mean.max(0.001));
        match busy {
            true => {
                while Instant::now() < until {
                    std::hint::black_box((0..10_000_u64).fold(1, |hash, n| std::hint::black_box(hash ^ n)));
                }
            }
            false => std::thread::sleep(until.saturating_duration_since(Instant::now())),
        }
        if Instant::now() > end {
            return;
        }
    }
}
