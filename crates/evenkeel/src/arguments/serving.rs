//! Arguments of commands that serve, or that inspect a configuration first: `run`, `check`, `demo`.

use crate::arguments::values::{admin, algorithm_names, endpoint, listen};
use clap::Args;
use std::path::PathBuf;

/// Run the load balancer with a configuration file, or in front of the given addresses
#[derive(Debug, Args)]
#[command(after_help = "Without addresses and -c, it reads ./evenkeel.toml, or else /etc/evenkeel/evenkeel.toml.\n\n\
                  Signals:\n  \
                  TERM, QUIT, Ctrl-C  stop accepting, finish requests for up to runtime.drain_timeout (30s), then exit; twice: exit now\n  \
                  HUP                 reload the file, like `evenkeel reload`\n  \
                  USR1                reopen logs, like `evenkeel reopen`\n  \
                  USR2                upgrade, like `evenkeel upgrade`\n\n\
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

    /// Address to listen on: IP:PORT, or :PORT for all addresses of this machine [default: :8080]
    #[arg(short, long, value_name = "ADDR", value_parser = listen, requires = "endpoints")]
    pub listen: Option<String>,

    /// The balancing algorithm, as listed by `evenkeel algorithms`
    #[arg(short, long, value_name = "NAME", value_parser = algorithm_names(), hide_possible_values = true, requires = "endpoints")]
    pub balance: Option<String>,

    /// Address of the dashboard, the API, /metrics, /livez and /readyz: IP:PORT, or :PORT for this machine only [default: :9900, if
    /// it is free]
    #[arg(long, value_name = "ADDR", value_parser = admin, requires = "endpoints")]
    pub admin: Option<String>,

    /// Listen with TLS (HTTP/2 and HTTP/1.1) and a new self-signed certificate, for trying things out
    #[arg(long, requires = "endpoints")]
    pub tls_self_signed: bool,

    /// Print the equivalent configuration file, including secrets, and exit
    #[arg(long)]
    pub print_config: bool,
}

/// Report all errors and warnings in a configuration file
#[derive(Debug, Args)]
#[command(
    after_help = "It also reports resources that `run` needs and this machine lacks: folders for logs and sockets, files with secrets,\n\
                  addresses. It binds no address, so it also works while evenkeel runs. As root or with CAP_NET_ADMIN, it also\n\
                  checks the planes of the kernel. Without FILE, it reads ./evenkeel.toml, or else /etc/evenkeel/evenkeel.toml.\n\n\
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

    /// Skip checks that depend on this machine, for files that are meant for another machine or for later
    #[arg(long)]
    pub elsewhere: bool,

    /// Also print how exactly the plane of each listener follows the algorithm of its pool, and a comparison of all planes
    #[arg(long)]
    pub planes: bool,

    /// Print a JSON array of objects {code, severity, message, file, line, col, end, help, related}; with --planes, an object
    /// that has this array as "diagnostics"
    #[arg(long)]
    pub json: bool,
}

/// Remove rules, programs and state that a stopped evenkeel left in the kernel
#[derive(Debug, Args)]
#[command(
    after_help = "Removes everything under the `name` of [kernel], of every plane, even if the configuration no longer uses it.\n\
                  Rules remain after a crash, and with on_exit = \"keep\". Needs root or CAP_NET_ADMIN. Open connections that the\n\
                  rules forward may end. Without --config, it reads ./evenkeel.toml, or else /etc/evenkeel/evenkeel.toml.\n\n\
                  Exit codes: 0 nothing is left; 1 a running evenkeel uses the rules, or the kernel refuses; 78 the configuration has\n\
                  errors."
)]
pub struct Cleanup {
    /// The configuration file; the `name` of its [kernel] selects what is removed
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Also remove rules and programs that a running evenkeel uses
    #[arg(long)]
    pub force: bool,
}

/// Compare the algorithms in one minute, with ten uneven endpoints and an outage
#[derive(Debug, Args)]
#[command(after_help = "Afterwards, it serves until Ctrl-C, so that you can look around.")]
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
