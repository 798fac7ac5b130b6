//! What can be asked for on the command line? Every subcommand with its arguments; clap makes help and errors of it.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand};
use evenkeel_balance::algorithms;
use evenkeel_config::{Diagnostic, Plan};
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    about = "A load balancer that measures its own balance",
    after_help = "Exit codes: 0 done; 1 failed while running; 2 wrong arguments; 10 a replay or a file differs;\n\
                  78 wrong configuration.\n\
                  Try: evenkeel demo, or: evenkeel run 127.0.0.1:8081 127.0.0.1:8082"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Check(Check),
    Status(Status),
    Drain(Drain),
    /// Lets an endpoint get requests again that was drained
    Undrain(At),
    Weight(Weight),
    /// Counts an endpoint as up, whatever its checks and requests say
    Up(At),
    /// Counts an endpoint as down, whatever its checks and requests say
    Down(At),
    /// Takes `up` and `down` back: an endpoint is what its checks and requests say
    Auto(At),
    /// Ejects an endpoint for as long as outlier detection would
    Eject(At),
    /// Ends the ejection of an endpoint
    Restore(At),
    Events(Events),
    Tap(Tap),
    Reload(Reload),
    Reopen(Reopen),
    Upgrade(Upgrade),
    Explain(Explain),
    Shadow(Shadow),
    Replay(Replay),
    Demo(Demo),
    Sim(Sim),
    Algorithms(Algorithms),
    /// Prints what a configuration file can say
    Config(Config),
    /// Prints every metric with its meaning, as Markdown
    Metrics,
    /// Prints a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

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

/// Where the running evenkeel is
#[derive(Debug, Args)]
pub struct Where {
    /// The configuration file, whose admin.bind says where to ask
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,

    /// The Unix socket of the running evenkeel
    #[arg(long, value_name = "PATH", default_value = "/run/evenkeel/admin.sock", conflicts_with_all = ["config", "admin"])]
    pub socket: PathBuf,

    /// The address of its admin listener, IP:PORT, in the place of the socket
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,

    /// The file of the token that the listener wants
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub token_file: Option<PathBuf>,
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
    /// The configuration file, whose admin.bind says where to ask
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The Unix socket of the running evenkeel
    #[arg(long, value_name = "PATH", default_value = "/run/evenkeel/admin.sock", conflicts_with = "config")]
    pub socket: PathBuf,
}

/// Tells a running evenkeel to open its access log and its journal again, after they were moved away
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 lines go to new files; 1 one cannot be opened, and its lines go on to where they went, or the\n\
                        running one cannot be reached. SIGUSR1 does the same, without an answer."
)]
pub struct Reopen {
    /// The configuration file, whose admin.bind says where to ask
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The Unix socket of the running evenkeel
    #[arg(long, value_name = "PATH", default_value = "/run/evenkeel/admin.sock", conflicts_with = "config")]
    pub socket: PathBuf,
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

/// Says what the shadows of pools would have done
#[derive(Debug, Args)]
#[command(
    after_help = "The key `shadow` of a pool names algorithms that run beside its own and move nothing. What they cannot tell, `evenkeel \
                        sim` can."
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

/// Runs a scenario in virtual time and says which algorithm is best
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 10 a published figure or a claim of the scenario does not hold; 78 a wrong scenario file.\n\
                        Try: evenkeel sim tower-a, or: evenkeel sim tower-a --print > mine.toml"
)]
pub struct Sim {
    /// A built-in scenario, or a file of your own
    #[arg(value_name = "NAME|FILE.toml", required_unless_present_any = ["list", "schema"])]
    pub scenario: Option<String>,

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

/// What is tried.
#[derive(Clone, Debug)]
pub struct Policies(pub Vec<evenkeel_sim::Policy>);

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

#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    pub page: ConfigPage,
}

#[derive(Debug, Subcommand)]
pub enum ConfigPage {
    /// Every key: type, default, meaning; as Markdown
    Reference,
    /// The JSON Schema, for editors
    Schema,
    /// The configuration that a running evenkeel has in use, as a file would say it
    Show(Where),
    Diff(ConfigDiff),
}

/// What a reload would change: a line for each key in which a file differs from what a running evenkeel has in use
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing; 10 something; 78 the file is wrong; 1 the running one cannot be asked.")]
pub struct ConfigDiff {
    /// The file; without one, that which the running evenkeel was started with
    pub file: Option<PathBuf>,

    /// Prints JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Names as results show them, by the rules of scenario files.
fn policies(text: &str) -> Result<Policies, String> {
    evenkeel_sim::file::policies(text).map(Policies).map_err(|problem| said(&problem))
}

/// Names of the registry, so that help, completion and did-you-mean know them.
fn algorithm_names() -> PossibleValuesParser {
    algorithms::ALL.iter().map(|a| PossibleValue::new(a.name).aliases(a.aliases)).collect::<Vec<_>>().into()
}

/// What stands for the other side while one is checked: no machine has it (RFC 5737).
const NOWHERE: &str = "192.0.2.1:1";

/// An endpoint, by the rules of the configuration file.
fn endpoint(text: &str) -> Result<String, String> {
    let outcome = Plan::for_addresses(NOWHERE, &[text], None, false);
    match outcome.diagnostics.first() {
        None => Ok(text.to_string()),
        Some(_) if std::path::Path::new(text).extension().is_some_and(|e| e == "toml") => {
            Err(format!("an endpoint is HOST:PORT; for a configuration file: evenkeel run -c {text}"))
        }
        Some(problem) => Err(said(problem)),
    }
}

/// An address to listen on, by the rules of the configuration file; a port alone is that port everywhere.
fn listen(text: &str) -> Result<String, String> {
    bind(text, everywhere)
}

/// As [`listen`], but a port alone is on this machine: the admin listener answers all that reach it.
fn admin(text: &str) -> Result<String, String> {
    bind(text, |port| format!("127.0.0.1:{port}"))
}

fn bind(text: &str, alone: impl Fn(&str) -> String) -> Result<String, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    let full = if port.parse::<u16>().is_ok() { alone(port) } else { text.to_string() };
    let outcome = Plan::for_addresses(&full, &[NOWHERE], None, false);
    outcome.diagnostics.first().map_or(Ok(full), |problem| Err(said(problem)))
}

/// Every address of this machine, IPv6 and IPv4; only IPv4 where the kernel has no IPv6.
pub fn everywhere(port: &str) -> String {
    let ipv6 = std::net::UdpSocket::bind("[::]:0").is_ok();
    format!("{}:{port}", if ipv6 { "[::]" } else { "0.0.0.0" })
}

/// One line, as clap shows it behind the argument.
fn said(problem: &Diagnostic) -> String {
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{help}", problem.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_make_sense_to_clap() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_port_alone_listens_everywhere() {
        for text in [":8080", "8080"] {
            assert!(["[::]:8080", "0.0.0.0:8080"].contains(&&*listen(text).unwrap()), "{text}");
        }
        assert_eq!(listen("127.0.0.1:80").unwrap(), "127.0.0.1:80");
        assert_eq!(admin(":9900").unwrap(), "127.0.0.1:9900");
        for text in ["", ":", ":0", "0", "localhost:80", "127.0.0.1", ":65536"] {
            assert!(listen(text).is_err(), "{text}");
        }
    }
}
