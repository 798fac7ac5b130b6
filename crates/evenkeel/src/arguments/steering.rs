//! Arguments of commands that change something of a running evenkeel.

use crate::arguments::Where;
use clap::{Args, Subcommand};

/// Endpoints of a pool, by names or patterns
#[derive(Debug, Args)]
pub struct Chosen {
    /// The pool; a pattern in quotes, as 'shop-*', takes several
    #[arg(value_name = "POOL")]
    pub pool: String,

    /// The endpoint, by its name; a pattern in quotes takes several
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: String,

    /// Print the endpoint as JSON, one on each line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Pools, or endpoints of them
#[derive(Debug, Args)]
pub struct Drained {
    /// The pool; a pattern in quotes, as 'shop-*', takes several
    #[arg(value_name = "POOL")]
    pub pool: String,

    /// The endpoint, by its name; a pattern in quotes takes several [default: all of the pool]
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,

    /// Print the endpoint as JSON, one on each line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Send an endpoint, or all of a pool, no new requests until `undrain`
#[derive(Debug, Args)]
#[command(
    after_help = "Requests that are under way finish. Reloads, upgrades and, with runtime.state, restarts keep it.\n\n\
                        Examples:\n  \
                        evenkeel drain shop shop-3\n  \
                        evenkeel drain shop 'shop-1*'\n  \
                        evenkeel drain 'shop-*'             every endpoint of every pool with such a name\n\n\
                        Exit codes: 0 done; 1 no evenkeel can be asked, or it has no such endpoint."
)]
pub struct Drain {
    #[command(flatten)]
    pub at: Drained,

    /// Move sticky clients too, which otherwise stay with the endpoint
    #[arg(long)]
    pub now: bool,
}

/// Give an endpoint another weight, or the configured weight again
#[derive(Debug, Args)]
#[command(after_help = "Reloads, upgrades and, with runtime.state, restarts keep it.\n\n\
                        Examples:\n  \
                        evenkeel weight shop shop-3 50\n  \
                        evenkeel weight shop shop-3         as configured")]
pub struct Weight {
    #[command(flatten)]
    pub at: Chosen,

    /// 0 to 65535 [default: the weight of the configuration]
    #[arg(value_name = "WEIGHT", value_parser = clap::value_parser!(u32).range(0..=65_535))]
    pub weight: Option<u32>,
}

/// Show the weights of a route's split, or change them
#[derive(Debug, Args)]
#[command(
    after_help = "Pools that are not named keep their weights. Reloads, upgrades and, with runtime.state, restarts keep what was\n\
                        changed.\n\n\
                        Examples:\n  \
                        evenkeel split shop                           shows the weights\n  \
                        evenkeel split shop stable=90 canary=10\n  \
                        evenkeel split shop --configured              as configured\n\n\
                        Exit codes: 0 done; 1 no evenkeel can be asked, or it has no such split."
)]
pub struct Split {
    /// The route, by its name
    #[arg(value_name = "ROUTE")]
    pub route: String,

    /// A pool of the split and its weight, 0 to 1000000 [default: show the weights]
    #[arg(value_name = "POOL=WEIGHT", value_parser = share)]
    pub weights: Vec<(String, u32)>,

    /// Return to the weights of the configuration
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
                        start, the old one continues. SIGUSR2 does the same, without an answer.\n\n\
                        Exit codes: 0 the new process serves; 1 it does not, or no evenkeel can be asked."
)]
pub struct Upgrade {
    #[command(flatten)]
    pub place: Where,
}

/// Reload the configuration file without loss; wait until it is in use
#[derive(Debug, Args)]
#[command(after_help = "SIGHUP does the same, without an answer.\n\n\
                        Exit codes: 0 in use; 78 the configuration is wrong, and nothing changed; 1 no evenkeel can be asked, or it\n\
                        cannot use the configuration.")]
pub struct Reload {
    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Reopen the access log and the journal, after they were moved away
#[derive(Debug, Args)]
#[command(after_help = "SIGUSR1 does the same, without an answer.\n\n\
                        Exit codes: 0 lines go to new files; 1 a file cannot be opened, and its lines go where they went before, or no\n\
                        evenkeel can be asked.")]
pub struct Reopen {
    #[command(flatten)]
    pub place: Where,
}
