//! Arguments of commands that serve, or look at what would be served: `run`, `check`, `demo`.

use crate::arguments::values::{admin, algorithm_names, endpoint, listen};
use clap::Args;
use std::path::PathBuf;

/// Run the load balancer, from a configuration file or for the addresses given
#[derive(Debug, Args)]
#[command(after_help = "Without addresses and -c it takes ./evenkeel.toml, or else /etc/evenkeel/evenkeel.toml.\n\n\
                  Signals:\n  \
                  TERM, QUIT, Ctrl-C  stop accepting, finish requests for up to runtime.drain_timeout (30s), then exit; twice: exit now\n  \
                  HUP                 reload the file, as `evenkeel reload`\n  \
                  USR1                reopen logs, as `evenkeel reopen`\n  \
                  USR2                upgrade, as `evenkeel upgrade`\n\n\
                  Examples:\n  \
                  evenkeel run 127.0.0.1:8081 127.0.0.1:8082\n  \
                  evenkeel run 10.0.0.1:80 10.0.0.2:80 --listen :80 --balance leastconn\n  \
                  evenkeel run 127.0.0.1:8081 --print-config > evenkeel.toml")]
pub struct Run {
    /// Endpoints to balance over, each as HOST:PORT
    #[arg(value_name = "ADDR", value_parser = endpoint)]
    pub endpoints: Vec<String>,

    /// The configuration file
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["endpoints", "listen", "balance", "admin", "tls_self_signed"])]
    pub config: Option<PathBuf>,

    /// Address to listen on: IP:PORT, or :PORT for every address of this machine [default: :8080]
    #[arg(short, long, value_name = "ADDR", value_parser = listen, requires = "endpoints")]
    pub listen: Option<String>,

    /// The balancing algorithm, as listed by `evenkeel algorithms`
    #[arg(short, long, value_name = "NAME", value_parser = algorithm_names(), hide_possible_values = true, requires = "endpoints")]
    pub balance: Option<String>,

    /// Address of the dashboard, the API, /metrics, /livez and /readyz: IP:PORT, or :PORT for this machine alone [default: :9900, if
    /// it is free]
    #[arg(long, value_name = "ADDR", value_parser = admin, requires = "endpoints")]
    pub admin: Option<String>,

    /// Listen with TLS (HTTP/2 and HTTP/1.1) and a self-signed certificate that is made at the start, for trying things out
    #[arg(long, requires = "endpoints")]
    pub tls_self_signed: bool,

    /// Print the equivalent configuration file, secrets included, and exit
    #[arg(long)]
    pub print_config: bool,
}

/// Report all errors and warnings of a configuration file
#[derive(Debug, Args)]
#[command(
    after_help = "It also reports what `run` would miss on this machine: folders of logs and sockets, files of secrets, addresses.\n\
                  It binds no address, so it works beside a running evenkeel. Planes of the kernel are asked, as root or with\n\
                  CAP_NET_ADMIN. Without FILE it takes ./evenkeel.toml, or else\n\
                  /etc/evenkeel/evenkeel.toml.\n\n\
                  Examples:\n  \
                  evenkeel check evenkeel.toml\n  \
                  evenkeel check evenkeel.toml --planes\n  \
                  envsubst < template.toml | evenkeel check - --elsewhere\n\n\
                  Exit codes: 0 no error; 78 errors."
)]
pub struct Check {
    /// The configuration file; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The configuration file, as for `run`
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,

    /// Skip checks that depend on this machine: the file is for another machine, or for later
    #[arg(long)]
    pub elsewhere: bool,

    /// Also print the properties of each pool's algorithm that the plane of the listener keeps, and all planes side by side
    #[arg(long)]
    pub planes: bool,

    /// Print a JSON array of objects {code, severity, message, file, line, col, end, help, related}; with --planes an object with
    /// it, as "diagnostics"
    #[arg(long)]
    pub json: bool,
}

/// Remove rules, programs and their state that a stopped evenkeel has left in the kernel
#[derive(Debug, Args)]
#[command(
    after_help = "Everything under the `name` of [kernel] goes, of each plane, whether or not the configuration still uses it. A\n\
                  crash leaves it, and so does on_exit = \"keep\". It needs root, or CAP_NET_ADMIN. Open connections that go by it\n\
                  may end. Without --config it takes ./evenkeel.toml, or else /etc/evenkeel/evenkeel.toml.\n\n\
                  Exit codes: 0 nothing is left; 1 an evenkeel runs with it, or the kernel refuses; 78 the configuration is wrong."
)]
pub struct Cleanup {
    /// The configuration file; everything under the name of its [kernel] is removed
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Also remove rules and programs that a running evenkeel uses
    #[arg(long)]
    pub force: bool,
}

/// Compare the algorithms over ten uneven endpoints, one of which dies, in a minute
#[derive(Debug, Args)]
#[command(after_help = "Afterwards it keeps serving until Ctrl-C, so that you can look around.")]
pub struct Demo {
    /// Exit after the comparison
    #[arg(long)]
    pub once: bool,

    /// Also print all percentiles and shares, and how to read them
    #[arg(long, conflicts_with = "json")]
    pub details: bool,

    /// Print the results as JSON and exit
    #[arg(long)]
    pub json: bool,

    /// Seed of the latencies of the endpoints
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Number of requests for each algorithm
    #[arg(long, hide = true, default_value_t = 10_500, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    pub requests: u64,
}
