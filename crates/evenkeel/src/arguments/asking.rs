//! Arguments of commands that ask a running evenkeel.

use crate::arguments::values::admin_address;
use clap::Args;
use std::path::PathBuf;

/// The running evenkeel to ask
#[derive(Clone, Debug, Default, Args)]
pub struct Where {
    /// Ask the evenkeel that runs with this configuration file
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,

    /// Ask the evenkeel at this address: unix:PATH, HOST:PORT, :PORT or http://HOST:PORT [default: the evenkeel on this machine;
    /// env: EVENKEEL_ADMIN]
    #[arg(long, value_name = "ADDR", value_parser = admin_address)]
    pub admin: Option<At>,

    /// Unix socket of the running evenkeel, the same as --admin unix:PATH
    #[arg(long, value_name = "PATH", hide = true, conflicts_with_all = ["config", "admin"])]
    pub socket: Option<PathBuf>,

    /// Read the token for HOST:PORT from this file; without it, a terminal prompts for a token that is needed [env:
    /// EVENKEEL_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Address of the admin of a running evenkeel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// Absolute path of a Unix socket.
    Socket(PathBuf),
    /// Host and port of a listener for HTTP.
    Address(String),
}

/// Show pools and endpoints: state with age and reason, weight, share of requests, latency
#[derive(Debug, Args)]
#[command(after_help = "Shares and latencies cover the last 30 to 60 seconds.\n\n\
                        Exit codes: 0 success; 1 no evenkeel can be reached, or it has no such pool.")]
pub struct Status {
    /// Show only this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,

    /// Show routes instead: match, action, filters, and traffic of the last five seconds
    #[arg(long, conflicts_with = "pool")]
    pub routes: bool,

    /// Refresh every second, until Ctrl-C
    #[arg(short, long, conflicts_with = "json")]
    pub watch: bool,

    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Check that a running evenkeel is ready for clients, for health checks and scripts
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 ready; 1 not ready, with the reasons, or no evenkeel can be reached.")]
pub struct Ready {
    /// Print a line now and at each change, until standard output is closed: ready, or not ready with the reasons
    #[arg(short, long)]
    pub follow: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Watch and change a running evenkeel in the terminal: overview, pools, live requests, routes
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: 1 2 3 4 pages, / filter, s sort, Enter details, d drain, u undrain, w weight, ? all keys, q quit."
)]
pub struct Top {
    /// Start with this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,

    #[command(flatten)]
    pub place: Where,
}

/// List recent events: state changes of endpoints, changes by operators, reloads
#[derive(Debug, Args)]
pub struct Events {
    /// Keep printing new events, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,

    /// Print each event as JSON, one per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Print requests as they finish: route, pool, endpoint, times of the phases, and every try
#[derive(Debug, Args)]
#[command(
    after_help = "Prints the requests that match all options. If they finish faster than they are read, some are dropped and \
                        counted.\n\n\
                        Examples:\n  \
                        evenkeel tap shop --status 5xx            failed requests of a pool\n  \
                        evenkeel tap --path /cart --min-ms 500    slow requests below a path\n  \
                        evenkeel tap --sample 0.01                one request in a hundred"
)]
pub struct Tap {
    /// Only requests of this pool
    pub pool: Option<String>,

    /// Only this fraction of the requests, chosen at random: 0.01 is one in a hundred
    #[arg(long, value_name = "FRACTION")]
    pub sample: Option<f64>,

    /// Only requests to this listener
    #[arg(long, value_name = "NAME")]
    pub listener: Option<String>,

    /// Only requests of this route
    #[arg(long, value_name = "NAME")]
    pub route: Option<String>,

    /// Only requests with a try at this endpoint
    #[arg(long, value_name = "NAME")]
    pub endpoint: Option<String>,

    /// Only requests with this method
    #[arg(long)]
    pub method: Option<String>,

    /// Only requests for this host, with the port if clients send one
    #[arg(long)]
    pub host: Option<String>,

    /// Only requests with this path prefix
    #[arg(long, value_name = "PREFIX")]
    pub path: Option<String>,

    /// Only responses with this status or class: 503, 5xx; 0 for requests without a response
    #[arg(long)]
    pub status: Option<String>,

    /// Only requests that took this many milliseconds or more
    #[arg(long, value_name = "MS")]
    pub min_ms: Option<f64>,

    /// Stop after this many requests
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,

    /// Print each request as JSON, one per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Explain why a request went to its endpoint, or where a request would go now
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        evenkeel explain                           recent requests with recorded picks; see telemetry.explain\n  \
                        evenkeel explain 5f0c2d9e11aa0042          a request by its request_id in the access log\n  \
                        evenkeel explain --next shop               the next request of a pool\n  \
                        evenkeel explain --listener db             rules, entries and counts of a listener in the kernel\n  \
                        evenkeel explain GET http://a.test/x       the route of this request, why other routes do not match, and \
                        the pick of the pool or the filter that responds")]
pub struct Explain {
    /// ID of a finished request, or method of a hypothetical request
    #[arg(value_name = "REQUEST_ID|METHOD", conflicts_with = "next")]
    pub what: Option<String>,

    /// URL of the hypothetical request: http://HOST/PATH
    #[arg(value_name = "URL", requires = "what")]
    pub url: Option<String>,

    /// Add a header field to the hypothetical request, as NAME: VALUE
    #[arg(short = 'H', long = "header", value_name = "FIELD", requires = "url")]
    pub fields: Vec<String>,

    /// Listener that receives the request [default: the first for HTTP]; without a request, a listener that the kernel forwards for
    #[arg(long, value_name = "NAME", conflicts_with = "next")]
    pub listener: Option<String>,

    /// Client address [default: 127.0.0.1]
    #[arg(long, value_name = "IP", requires = "url")]
    pub client: Option<std::net::IpAddr>,

    /// Wait for the next request of this pool
    #[arg(long, value_name = "POOL")]
    pub next: Option<String>,

    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Predict the latencies of other algorithms from recent requests
#[derive(Debug, Args)]
#[command(
    after_help = "The key `shadow` of a pool lists the algorithms. Workers keep the recent requests of the pool, and the \
                        simulator replays them. Figures that these requests do not support are omitted, with the reason."
)]
pub struct Shadow {
    /// Only this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,

    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}
