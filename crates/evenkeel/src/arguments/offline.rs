//! What do commands want that need no running evenkeel: `sim`, `algorithms`, `replay`?

use crate::arguments::values::{Policies, algorithm_names, policies, rate, time};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Runs a scenario in virtual time and says which algorithm is best
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 10 a published figure or a claim of the scenario does not hold; 78 a wrong scenario file.\n\
                        Try: evenkeel sim tower-a, or: evenkeel sim tower-a --print > mine.toml, or: evenkeel sim --from evenkeel.toml --pool web"
)]
pub struct Sim {
    /// A built-in scenario, or a file of your own
    #[arg(value_name = "NAME|FILE.toml", required_unless_present_any = ["list", "schema", "from"])]
    pub scenario: Option<String>,

    /// Puts a pool of this configuration in front: endpoints, weights, limits, algorithm, load reports, queue, tries, ejection
    #[arg(long, value_name = "CONFIG.toml", conflicts_with_all = ["list", "schema"])]
    pub from: Option<PathBuf>,

    /// Which pool, if the configuration has several
    #[arg(long, value_name = "NAME", requires = "from")]
    pub pool: Option<String>,

    /// Requests a second, instead of those of the scenario, or of 0.7 of what the endpoints can do
    #[arg(long, value_name = "N", requires = "from", value_parser = rate)]
    pub rate: Option<f64>,

    /// Mean work of a request, where no scenario has it [default: 10ms]
    #[arg(long, value_name = "TIME", requires = "from", conflicts_with = "scenario", value_parser = time)]
    pub work: Option<Duration>,

    /// Lists the built-in scenarios
    #[arg(long, conflicts_with_all = ["scenario", "print", "json", "report"])]
    pub list: bool,

    /// Tries these instead, as results name them: leastconn,random{draws=3},jsq(2),central-queue
    #[arg(short, long, value_name = "NAMES", value_parser = policies)]
    pub algorithms: Option<Policies>,

    /// Runs of each algorithm; more tell closer ones apart
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,

    /// The first seed; the others follow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1 << 53))]
    pub seed: u64,

    /// Requests of each run, where the scenario counts them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub requests: Option<u64>,

    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Prints everything as JSON, also by seed
    #[arg(long)]
    pub json: bool,

    /// Writes a page with plots, which needs no other file
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Prints the scenario's file and ends
    #[arg(long, conflicts_with_all = ["json", "report"])]
    pub print: bool,

    /// Prints the JSON Schema of such files, for editors, and ends
    #[arg(long, conflicts_with_all = ["scenario", "list", "print", "json", "report"])]
    pub schema: bool,
}

/// Lists the balancing algorithms, or explains one
#[derive(Debug, Args)]
pub struct Algorithms {
    /// Explains this one: when to use it, its parameters, its source
    #[arg(value_name = "NAME", value_parser = algorithm_names(), hide_possible_values = true)]
    pub name: Option<String>,

    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

/// Makes the picks of a running evenkeel again, from the journal that telemetry.journal wrote
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every pick was the same; 10 one was not; 1 the files are no journal, or cannot be \
                        compared."
)]
pub struct Replay {
    /// The file; after it was moved away and opened again, its parts in order
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Says what was compared at the pick of this number, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub explain: Option<u64>,
}
