//! Arguments of commands that change something of a running evenkeel.

use crate::arguments::Where;
use clap::{Args, Subcommand};

/// Endpoints of a pool, by names or patterns
#[derive(Debug, Args)]
pub struct Chosen {
    /// The pool, or a quoted pattern for several, such as 'shop-*'
    #[arg(value_name = "POOL")]
    pub pool: String,

    /// Name of the endpoint, or a quoted pattern for several
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: String,

    /// Print each endpoint as JSON, one per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Pools, or endpoints of them
#[derive(Debug, Args)]
pub struct Drained {
    /// The pool, or a quoted pattern for several, such as 'shop-*'
    #[arg(value_name = "POOL")]
    pub pool: String,

    /// Name of the endpoint, or a quoted pattern for several [default: all endpoints of the pool]
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,

    /// Print each endpoint as JSON, one per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Stop sending new requests to an endpoint or a whole pool, until `undrain`
#[derive(Debug, Args)]
#[command(
    after_help = "Requests in flight finish. The drain survives reloads, upgrades and, with runtime.state, restarts.\n\n\
                        Examples:\n  \
                        evenkeel drain shop shop-3\n  \
                        evenkeel drain shop 'shop-1*'\n  \
                        evenkeel drain 'shop-*'             all endpoints of all matching pools\n\n\
                        Exit codes: 0 success; 1 no evenkeel can be reached, or it has no such endpoint."
)]
pub struct Drain {
    #[command(flatten)]
    pub at: Drained,

    /// Also move sticky clients, which otherwise stay with the endpoint
    #[arg(long)]
    pub now: bool,
}

/// Set the weight of an endpoint, or restore the configured weight
#[derive(Debug, Args)]
#[command(after_help = "The weight survives reloads, upgrades and, with runtime.state, restarts.\n\n\
                        Examples:\n  \
                        evenkeel weight shop shop-3 50\n  \
                        evenkeel weight shop shop-3         restores the configured weight")]
pub struct Weight {
    #[command(flatten)]
    pub at: Chosen,

    /// 0 to 65535 [default: the configured weight]
    #[arg(value_name = "WEIGHT", value_parser = clap::value_parser!(u32).range(0..=65_535))]
    pub weight: Option<u32>,
}

/// Show or change the weights of a route's split
#[derive(Debug, Args)]
#[command(
    after_help = "Pools that are not named keep their weights. Changes survive reloads, upgrades and, with runtime.state,\n\
                        restarts.\n\n\
                        Examples:\n  \
                        evenkeel split shop                           shows the weights\n  \
                        evenkeel split shop stable=90 canary=10\n  \
                        evenkeel split shop --configured              restores the configured weights\n\n\
                        Exit codes: 0 success; 1 no evenkeel can be reached, or it has no such split."
)]
pub struct Split {
    /// Name of the route
    #[arg(value_name = "ROUTE")]
    pub route: String,

    /// A pool of the split and its weight, 0 to 1000000 [default: show the weights]
    #[arg(value_name = "POOL=WEIGHT", value_parser = share)]
    pub weights: Vec<(String, u32)>,

    /// Restore the configured weights
    #[arg(long, conflicts_with = "weights")]
    pub configured: bool,

    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Reads `POOL=WEIGHT`.
fn share(text: &str) -> Result<(String, u32), String> {
    let (pool, weight) = text.rsplit_once('=').ok_or("write POOL=WEIGHT, such as canary=10")?;
    match weight.parse() {
        Ok(weight @ 0..=1_000_000) if !pool.is_empty() => Ok((pool.to_owned(), weight)),
        _ => Err(format!("write a pool and a weight of 0 to 1000000, such as {pool}=10")),
    }
}

/// Override the results of checks and requests for an endpoint
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        evenkeel endpoint down shop shop-3\n  \
                        evenkeel endpoint auto shop '*'")]
pub struct Endpoint {
    #[command(subcommand)]
    pub verb: Verb,
}

/// Verb of `evenkeel endpoint`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Count it as healthy, regardless of its checks and requests
    Up(Chosen),
    /// Count it as unhealthy, regardless of its checks and requests
    Down(Chosen),
    /// End `up` and `down`: its checks and requests decide
    Auto(Chosen),
    /// Eject it for as long as outlier detection would
    Eject(Chosen),
    /// End its ejection, so that it gets requests again
    Restore(Chosen),
}

/// Start a new process and hand over to it without loss; wait until it serves
#[derive(Debug, Args)]
#[command(
    after_help = "The new process gets the listening sockets, the changes of operators, and the history of requests. If it does not\n\
                        start, the old one continues. SIGUSR2 does the same, but reports nothing.\n\n\
                        Exit codes: 0 the new process serves; 1 it does not, or no evenkeel can be reached."
)]
pub struct Upgrade {
    #[command(flatten)]
    pub place: Where,
}

/// Reload the configuration file without loss; wait until it is in use
#[derive(Debug, Args)]
#[command(after_help = "SIGHUP does the same, but reports nothing.\n\n\
                        Exit codes: 0 in use; 78 the configuration has errors, and nothing changed; 1 no evenkeel can be reached, or it\n\
                        cannot use the configuration.")]
pub struct Reload {
    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Reopen the access log and the journal after their files were renamed
#[derive(Debug, Args)]
#[command(after_help = "SIGUSR1 does the same, but reports nothing.\n\n\
                        Exit codes: 0 reopened; 1 a file cannot be opened, and the old file stays in use, or no evenkeel can be\n\
                        reached.")]
pub struct Reopen {
    #[command(flatten)]
    pub place: Where,
}
