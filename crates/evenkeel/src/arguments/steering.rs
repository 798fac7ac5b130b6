//! What do commands want that change something of a running evenkeel?

use crate::arguments::Where;
use clap::Args;

/// An endpoint of a running evenkeel
#[derive(Debug, Args)]
pub struct At {
    /// The pool
    #[arg(value_name = "POOL")]
    pub pool: String,

    /// The endpoint, by its name
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: String,

    /// Prints the endpoint as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Sends an endpoint no new requests, over reloads and upgrades, until `undrain`
#[derive(Debug, Args)]
#[command(
    after_help = "Requests that run go on. Exit codes: 0 done; 1 it cannot be asked, or there is no such endpoint."
)]
pub struct Drain {
    #[command(flatten)]
    pub at: At,

    /// Its sticky clients go elsewhere too
    #[arg(long)]
    pub now: bool,
}

/// Gives an endpoint another weight, over reloads and upgrades, until it is taken back
#[derive(Debug, Args)]
pub struct Weight {
    #[command(flatten)]
    pub at: At,

    /// 0 to 65535; left out, that of the configuration again
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65_535))]
    pub weight: Option<u32>,
}

/// Has the program start again and take over without loss, and waits until it serves
#[derive(Debug, Args)]
pub struct Upgrade {
    #[command(flatten)]
    pub place: Where,
}

/// Tells a running evenkeel to read its configuration again, and waits until that is in use
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it is in use; 78 it is wrong, and the running one goes on with what it had; 1 the \
                        running one cannot be reached, or cannot do what the configuration says."
)]
pub struct Reload {
    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Tells a running evenkeel to open its access log and its journal again, after they were moved away
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 lines go to new files; 1 one cannot be opened, and its lines go on to where they went, or the\n\
                        running one cannot be reached. SIGUSR1 does the same, without an answer."
)]
pub struct Reopen {
    #[command(flatten)]
    pub place: Where,
}
