//! Antagonist: a process that alternately uses all the CPU time it can get and none.

use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::rng::Rng;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::path::Path;
use std::time::{Duration, Instant};

pub const NAME: &str = "antagonist";

/// Maximum lifetime, after which it exits by itself.
const LIFE: Duration = Duration::from_secs(3600);

/// Arguments of an antagonist.
#[derive(Args, Clone, Debug)]
pub struct Antagonist {
    /// Number of threads that use CPU time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u8,
    /// Mean duration of busy and idle periods in seconds (exponential).
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub mean: f64,
    /// Seed of the durations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Antagonist {
    /// Starts an antagonist. `at`: command prefix, for a control group. `folder`: for its output.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(&self, at: Vec<String>, folder: &Path) -> Result<Child> {
        let mut command = at;
        command.extend([child::this()?, NAME.to_owned()]);
        let options =
            [("threads", self.threads.to_string()), ("mean", self.mean.to_string()), ("seed", self.seed.to_string())];
        command.extend(options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]));
        Child::spawn("an antagonist", &command, None, &folder.join("antagonist"))
    }
}

/// Adds the arguments of the subcommand.
pub fn arguments(command: Command) -> Command {
    Antagonist::augment_args(command)
}

/// Runs the subcommand until it is ended, for at most an hour.
///
/// # Errors
/// A wrong option.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let antagonist = Antagonist::from_arg_matches(matches).map_err(|error| Error::Wrong(error.to_string()))?;
    let end = Instant::now() + LIFE;
    std::thread::scope(|scope| {
        for _ in 0..antagonist.threads.max(1) {
            // All threads have the same seed, so they are busy at the same times.
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
