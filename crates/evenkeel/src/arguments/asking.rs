//! What do commands want that ask a running evenkeel?

use clap::Args;
use std::path::PathBuf;

/// Where the running evenkeel is
#[derive(Clone, Debug, Args)]
pub struct Where {
    /// The configuration file, whose admin.bind says where to ask
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,

    /// The Unix socket of the running evenkeel
    #[arg(long, value_name = "PATH", default_value = Where::SOCKET, conflicts_with_all = ["config", "admin"])]
    pub socket: PathBuf,

    /// The address of its admin listener, IP:PORT, in the place of the socket
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,

    /// The file of the token that the listener wants
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub token_file: Option<PathBuf>,
}

impl Where {
    /// Where the socket is, unless it is said.
    pub const SOCKET: &str = "/run/evenkeel/admin.sock";
}

/// Says how pools and endpoints are: state, since when, why, weight, share, latency
#[derive(Debug, Args)]
#[command(
    after_help = "Share and latency are of the last half minute to minute. Exit codes: 0 done; 1 it cannot be asked."
)]
pub struct Status {
    /// Only this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,

    /// Draws it again each second, until Ctrl-C
    #[arg(short, long, conflicts_with = "json")]
    pub watch: bool,

    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Shows in the terminal how it is doing, second by second, and steers it: overview, pools, tap
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: 1 2 3 pages, / filter, s sort, Enter more, d drain, u undrain, w weight, ? all of them, q end."
)]
pub struct Top {
    /// Begins with this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,

    #[command(flatten)]
    pub place: Where,
}

/// Says what has happened of late: changes of endpoints, orders of operators, reloads
#[derive(Debug, Args)]
pub struct Events {
    /// Goes on with what happens from now on, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,

    /// Prints a line of JSON for each
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Shows requests as they end, from now on, until Ctrl-C: their way, their times, and every try
#[derive(Debug, Args)]
#[command(after_help = "All that is said has to hold. What the reader does not take in time is dropped, and counted.")]
pub struct Tap {
    /// Those of this pool; those of all if it is not named
    pub pool: Option<String>,

    /// This part of them, at random: 0.01 is one of a hundred
    #[arg(long, value_name = "PART")]
    pub sample: Option<f64>,

    /// That came in at this listener
    #[arg(long)]
    pub listener: Option<String>,

    /// That this route took
    #[arg(long)]
    pub route: Option<String>,

    /// Of which a try went to this endpoint
    #[arg(long)]
    pub endpoint: Option<String>,

    /// With this method
    #[arg(long)]
    pub method: Option<String>,

    /// For this host, with its port if clients send one
    #[arg(long)]
    pub host: Option<String>,

    /// Whose path begins so
    #[arg(long)]
    pub path: Option<String>,

    /// Answered with this status, or with one of a class: 503 or 5xx; 0 for those that got none
    #[arg(long)]
    pub status: Option<String>,

    /// That took so many milliseconds or more
    #[arg(long, value_name = "MS")]
    pub min_ms: Option<f64>,

    /// Ends after so many
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,

    /// Prints a line of JSON for each
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Says why a request went where it went, or where one would go now
#[derive(Debug, Args)]
#[command(
    after_help = "evenkeel explain                         the requests whose picks are kept: telemetry.explain samples them\n\
                        evenkeel explain 5f0c2d9e11aa0042        one of them, by its request_id in the access log\n\
                        evenkeel explain --next shop             waits for the next request of a pool\n\
                        evenkeel explain GET http://a.test/x     which route takes it, why the others do not, and what its pool would \
                        pick now"
)]
pub struct Explain {
    /// The id of a request, or the method of one that is described
    #[arg(value_name = "REQUEST_ID|METHOD", conflicts_with = "next")]
    pub what: Option<String>,

    /// Where it would go: http://HOST/PATH
    #[arg(value_name = "URL", requires = "what")]
    pub url: Option<String>,

    /// A field that it would have, as NAME: VALUE
    #[arg(short = 'H', long = "header", value_name = "FIELD", requires = "url")]
    pub fields: Vec<String>,

    /// The listener that it would come in at [default: the first for HTTP]
    #[arg(long, value_name = "NAME", requires = "url")]
    pub listener: Option<String>,

    /// The client's address [default: 127.0.0.1]
    #[arg(long, value_name = "IP", requires = "url")]
    pub client: Option<std::net::IpAddr>,

    /// Waits for the next request of this pool
    #[arg(long, value_name = "POOL")]
    pub next: Option<String>,

    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Predicts what other algorithms would do with the latest requests
#[derive(Debug, Args)]
#[command(
    after_help = "The key `shadow` of a pool names the algorithms. Workers remember the latest requests of such a pool, and the simulator \
                  plays them again. Figures that the requests do not support are withheld, with the reason."
)]
pub struct Shadow {
    /// One pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,

    /// Prints JSON, as the API says it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}
