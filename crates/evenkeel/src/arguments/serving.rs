//! What do commands want that serve, or say what would be served: `run`, `check`, `demo`?

use crate::arguments::values::{admin, algorithm_names, endpoint, listen};
use clap::Args;
use std::path::PathBuf;

/// Balances, from a configuration file or straight to addresses
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM, SIGQUIT or Ctrl-C: accept no more, finish what runs for up to runtime.drain_timeout (30s), \
                        then end. A second one ends at once."
)]
pub struct Run {
    /// Endpoints to balance over, each HOST:PORT
    #[arg(value_name = "ADDR", required_unless_present = "config", value_parser = endpoint)]
    pub endpoints: Vec<String>,

    /// The configuration file; everything else is in it then
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["endpoints", "listen", "balance", "admin", "tls_self_signed"])]
    pub config: Option<PathBuf>,

    /// Where to listen: IP:PORT, or :PORT for every address of this machine [default: :8080]
    #[arg(short, long, value_name = "ADDR", value_parser = listen)]
    pub listen: Option<String>,

    /// How an endpoint is chosen; `evenkeel algorithms` tells them apart
    #[arg(short, long, value_name = "NAME", value_parser = algorithm_names(), hide_possible_values = true)]
    pub balance: Option<String>,

    /// Where to serve /metrics, /livez and /readyz: IP:PORT, or :PORT for this machine alone; nowhere if left out
    #[arg(long, value_name = "ADDR", value_parser = admin)]
    pub admin: Option<String>,

    /// Speaks TLS (HTTP/2 and HTTP/1.1) with a certificate that is made at the start and that no client knows, to try it out
    #[arg(long)]
    pub tls_self_signed: bool,

    /// Prints the equivalent configuration file and ends
    #[arg(long)]
    pub print_config: bool,
}

/// Says everything that is wrong with a configuration file; exits with 0 or 78
#[derive(Debug, Args)]
#[command(
    after_help = "Also what `run` would not find on this machine: folders of logs and sockets, files of secrets, addresses.\n\
                        Nothing that listens is bound, so that it can be asked beside a running one."
)]
pub struct Check {
    /// The configuration file
    #[arg(value_name = "FILE", required_unless_present = "config")]
    pub file: Option<PathBuf>,

    /// The configuration file, as `run` takes it
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,

    /// The file is for another machine, or for later: what this one has now is not looked at
    #[arg(long)]
    pub elsewhere: bool,

    /// Prints an array of objects {code, severity, message, file, line, col, end, help, related}
    #[arg(long)]
    pub json: bool,
}

/// Compares the algorithms in front of ten uneven endpoints and kills one of them, in a minute
#[derive(Debug, Args)]
#[command(after_help = "Afterwards it keeps serving, so that you can look around, until Ctrl-C.")]
pub struct Demo {
    /// Ends after the comparison
    #[arg(long)]
    pub once: bool,

    /// Also prints all percentiles and shares, and how to read them
    #[arg(long, conflicts_with = "json")]
    pub details: bool,

    /// Prints the results as JSON, and ends
    #[arg(long)]
    pub json: bool,

    /// What the latencies of the endpoints are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Requests for each algorithm
    #[arg(long, hide = true, default_value_t = 10_500, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    pub requests: u64,
}
