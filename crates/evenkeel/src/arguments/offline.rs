//! Arguments of commands that need no running evenkeel: `convert`, `sim`, `whatif`, `advise`, `algorithms`, `replay`.

use crate::arguments::asking::At;
use crate::arguments::values::{
    Policies, admin_address, algorithm_names, factor, kinds_of_advice, percentile, plane, policies, rate, time,
};
use clap::Args;
use evenkeel_sim::planes::PlaneCost;
use std::path::PathBuf;
use std::time::Duration;

/// Convert a configuration of HAProxy, NGINX, Traefik, Caddy or Envoy, and report every line that is not carried over
#[derive(Debug, Args)]
#[command(
    after_help = "Prints the configuration, and writes a report to standard error. The report has three lists: what you must decide, what\n\
                  changes, and what is harmless, each reason once with its lines and a remedy. At the end, the output is checked.\n\
                  Included files are read relative to FILE.\n\n\
                  --against compares the conversion with the running original: it starts the conversion in this process, sends the same\n\
                  requests to both, taken from the words of FILE, and prints the differences. Only GET and HEAD are sent. Both forward\n\
                  them to the endpoints, and the conversion checks the health of the endpoints meanwhile.\n\n\
                  Examples:\n  \
                  evenkeel convert /etc/haproxy/haproxy.cfg > evenkeel.toml\n  \
                  evenkeel convert /etc/nginx/nginx.conf --report report.txt | evenkeel check -\n  \
                  evenkeel convert /etc/nginx/nginx.conf --against http://127.0.0.1:80\n\n\
                  Exit codes: 0 all of it is carried over, or no request differs; 10 with changes, or differing requests; 1 FILE cannot be\n\
                  read, or the check of the output finds errors; 2 the format of FILE is not recognised."
)]
pub struct Convert {
    /// The configuration file, or files and folders of Traefik; - reads standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The program that FILE configures [default: recognised from its name and text]
    #[arg(long, value_name = "PROGRAM", value_parser = ["haproxy", "nginx", "traefik", "caddy", "envoy"])]
    pub from: Option<String>,

    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub report: Option<PathBuf>,

    /// Compare the conversion with the original that runs at this address, by requests that change nothing
    #[arg(long, value_name = "URL", conflicts_with = "report")]
    pub against: Option<String>,

    /// Print a JSON object with the configuration and the lists, or with the differences
    #[arg(long)]
    pub json: bool,
}

/// Simulate a scenario in virtual time and rank the algorithms
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  evenkeel sim tower-a                             a built-in scenario; --list shows all\n  \
                  evenkeel sim tower-a --print > mine.toml         a template for your own scenario\n  \
                  evenkeel sim --from evenkeel.toml --pool web     your pool with each algorithm\n\n\
                  Exit codes: 0 success; 10 a published figure or a claim of the scenario does not hold; 78 the scenario file has errors.")]
pub struct Sim {
    /// A built-in scenario, or a scenario file
    #[arg(value_name = "NAME|FILE.toml", required_unless_present_any = ["list", "schema", "from"])]
    pub scenario: Option<String>,

    /// Simulate a pool of this configuration: its endpoints, weights, limits, algorithm, load reports, queue, retries and ejection
    #[arg(long, value_name = "CONFIG.toml", conflicts_with_all = ["list", "schema"])]
    pub from: Option<PathBuf>,

    /// The pool to simulate, if the configuration has several
    #[arg(long, value_name = "NAME", requires = "from")]
    pub pool: Option<String>,

    /// Requests per second [default: from the scenario, or 70 % of the capacity of the endpoints]
    #[arg(long, value_name = "N", requires = "from", value_parser = rate)]
    pub rate: Option<f64>,

    /// Mean service time of a request, without a scenario [default: 10ms]
    #[arg(long, value_name = "TIME", requires = "from", conflicts_with = "scenario", value_parser = time)]
    pub work: Option<Duration>,

    /// List the built-in scenarios
    #[arg(long, conflicts_with_all = ["scenario", "print", "json", "report"])]
    pub list: bool,

    /// Compare these algorithms, named as in the results: leastconn,random{draws=3},jsq(2),central-queue
    #[arg(short, long, value_name = "NAMES", value_parser = policies)]
    pub algorithms: Option<Policies>,

    /// Number of runs per algorithm; more runs separate algorithms that are close
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,

    /// The first seed; further runs count up from it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1 << 53))]
    pub seed: u64,

    /// Requests per run, for scenarios that end after a number of requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub requests: Option<u64>,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Print all results as JSON, including each seed
    #[arg(long)]
    pub json: bool,

    /// Write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Print the scenario file and exit
    #[arg(long, conflicts_with_all = ["json", "report"])]
    pub print: bool,

    /// Print the JSON Schema of scenario files, for editors, and exit
    #[arg(long, conflicts_with_all = ["scenario", "list", "print", "json", "report"])]
    pub schema: bool,
}

/// Answer how the traffic of an access log would have done with another algorithm, load, or other endpoints
#[derive(Debug, Args)]
#[command(
    after_help = "Reads logs of evenkeel, HAProxy, NGINX, Envoy, Traefik, Caddy and ALB. It rebuilds the requests that were in flight, fits\n\
                  models of the endpoints to the first part of the log, and runs them on the rest. Where they do not reproduce it, or the\n\
                  log is of a kind that cannot answer, it refuses and says why.\n\n\
                  Examples:\n  \
                  evenkeel whatif haproxy.log --balance leastconn           every algorithm instead of leastconn\n  \
                  evenkeel whatif access.jsonl --from evenkeel.toml --pool web --load 1.5\n  \
                  zcat access.log.1.gz | evenkeel whatif - --remove 10.0.0.7:80\n\n\
                  Exit codes: 0 an answer; 10 the log cannot answer; 1 it cannot be read; 78 the configuration has errors."
)]
pub struct Whatif {
    /// The logs, plain or compressed (gz, zst); - reads standard input
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,

    /// The format of the logs: a name, or the text of a format as that program has it [default: found by the lines]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,

    /// The configuration that was in force: algorithm, endpoints, weights, workers
    #[arg(long, value_name = "CONFIG.toml")]
    pub from: Option<PathBuf>,

    /// The pool, backend or cluster to look at, if the logs have several
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,

    /// The algorithm that was in force [default: from --from, or found by the picks]
    #[arg(long, value_name = "NAME", value_parser = policies)]
    pub balance: Option<Policies>,

    /// Algorithms to try, separated by commas: leastconn,random{draws=3}; may be repeated [default: all that need no key]
    #[arg(long = "try", value_name = "NAMES", value_parser = policies)]
    pub tried: Vec<Policies>,

    /// Try them at this multiple of the load
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub load: f64,

    /// Try them with this many balancers that share nothing
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub balancers: u32,

    /// Try them with this many more endpoints, each like the median endpoint of the log
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub add: u32,

    /// Try them with the added endpoints joining while the others serve, with slow start of this time and without; answers are of
    /// that time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub slow_start: Option<Duration>,

    /// Try them without this endpoint; may be repeated
    #[arg(long, value_name = "ENDPOINT")]
    pub remove: Vec<String>,

    /// Try them with this endpoint slower: ENDPOINT=2 doubles its work; may be repeated
    #[arg(long, value_name = "ENDPOINT=FACTOR")]
    pub slow: Vec<String>,

    /// Try them with at most this many tries after the first [default: as in the log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10))]
    pub retries: Option<u32>,

    /// Try them with at most this many requests at each endpoint; the rest waits in a queue
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue: Option<u32>,

    /// Try them with a second copy of requests that take longer than this percentile, for 5 % of them
    #[arg(long, value_name = "P50..P99", value_parser = percentile)]
    pub hedge: Option<f64>,

    /// Try them on this plane, if each request has a connection of its own: ebpf, nftables, http or tcp
    #[arg(long, value_name = "PLANE", value_parser = plane)]
    pub plane: Option<&'static PlaneCost>,

    /// Endpoints answer probes of their load, as prequal wants [default: by load_reports in --from]
    #[arg(long)]
    pub probes: bool,

    /// Number of worlds that the answers are over; more narrow the intervals
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub worlds: u32,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Advise on a configuration: changes in order of effect, with their evidence and a patch
#[derive(Debug, Args)]
#[command(
    after_help = "Advice is derived from simulations of the pools and from the measured costs of planes; with --log also from the requests of an\n\
                  access log, as `evenkeel whatif` replays them, and with --admin from the state of a running instance. Each patch is a difference to the configuration that\n\
                  `evenkeel check` accepts. \"leave it\" means that no change was better than noise.\n\n\
                  Examples:\n  \
                  evenkeel advise -c evenkeel.toml\n  \
                  evenkeel advise -c evenkeel.toml --log /var/log/evenkeel/access.jsonl --admin :9900\n  \
                  evenkeel advise -c evenkeel.toml --only algorithm --work 3ms\n  \
                  evenkeel advise -c evenkeel.toml --json\n\n\
                  Exit codes: 0 success; 78 the configuration has errors."
)]
pub struct Advise {
    /// The configuration [default: evenkeel.toml, else /etc/evenkeel/evenkeel.toml]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Read the traffic from this access log, plain or compressed (gz, zst); may be repeated
    #[arg(long, value_name = "LOG")]
    pub log: Vec<String>,

    /// The format of the log [default: found by its lines]
    #[arg(long, value_name = "FORMAT", requires = "log")]
    pub format: Option<String>,

    /// Ask the evenkeel at this address for its state and shadows: unix:PATH, HOST:PORT, :PORT or http://HOST:PORT
    #[arg(long, value_name = "ADDR", value_parser = admin_address)]
    pub admin: Option<At>,

    /// Read the token for HOST:PORT from this file [env: EVENKEEL_TOKEN, the token itself]
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub token_file: Option<PathBuf>,

    /// Give only advice of this kind. May be repeated
    #[arg(long, value_name = "KIND", value_parser = kinds_of_advice())]
    pub only: Vec<String>,

    /// Number of evenkeels that share the endpoints
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub balancers: u32,

    /// Mean service time of a request [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub work: Option<Duration>,

    /// Number of runs of each simulation; more runs find smaller differences
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub seeds: u32,

    /// Requests per run
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub requests: u64,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Check patches without this machine: files and addresses may be missing here
    #[arg(long)]
    pub elsewhere: bool,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// List the balancing algorithms, or describe one
#[derive(Debug, Args)]
pub struct Algorithms {
    /// The algorithm to describe: when to use it, its parameters, its source
    #[arg(value_name = "NAME", value_parser = algorithm_names(), hide_possible_values = true)]
    pub name: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Replay the picks in a journal that telemetry.journal wrote, and compare them with the recorded picks
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all picks are the same; 10 a pick differs; 1 the files are not a journal, or cannot be compared."
)]
pub struct Replay {
    /// The journal, or the parts of a rotated journal in order
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Show the comparison at this pick, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub explain: Option<u64>,
}
