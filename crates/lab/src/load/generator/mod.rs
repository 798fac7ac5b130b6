//! Load generator that measures latency as seen by clients, in a separate process. Closed: a number of clients, each
//! of which sends its next request after the answer. Open: requests at times drawn beforehand, independent of earlier
//! requests; latency counts from the planned time.

// Order: drive, resolve, tally, ticks
mod drive;
mod resolve;
mod tally;
mod ticks;

pub use tally::Outcome;

use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::path::Path;
use std::time::Duration;

pub const NAME: &str = "load";

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Plan {
    /// Targets: address, port and path, such as 127.0.0.1:8080/x. Closed clients are assigned in turn, open requests at
    /// random.
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Closed load: number of clients.
    #[arg(long, value_name = "N", conflicts_with = "rate", required_unless_present = "rate")]
    pub clients: Option<u32>,
    /// Open load: mean requests per second, as a Poisson process.
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Use a new connection for each request.
    #[arg(long)]
    pub fresh: bool,
    /// End after this many requests per client (closed) or in total (open).
    #[arg(long, value_name = "N", conflicts_with = "seconds", required_unless_present = "seconds")]
    pub requests: Option<u64>,
    /// End after this many seconds.
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Seconds at the start that are not counted.
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub warm_up: f64,
    /// DNS server and name to look up for each connection, such as 127.0.0.1:53/www.example.com. The connection goes to
    /// the first address of the answer, at the port of the target.
    #[arg(long, value_name = "SERVER/NAME", requires = "fresh")]
    pub resolve: Option<String>,
    /// Append a number of microseconds of work to each path, exponential with this mean.
    #[arg(long, value_name = "US")]
    pub work_us: Option<f64>,
    /// Seed of times, targets and work.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Plan {
    /// Creates a closed load whose clients send this many requests each.
    pub fn closed(targets: Vec<String>, clients: u32, requests: u64) -> Plan {
        let (clients, requests) = (Some(clients), Some(requests));
        Plan {
            targets,
            clients,
            requests,
            rate: None,
            fresh: false,
            seconds: None,
            warm_up: 0.0,
            resolve: None,
            work_us: None,
            seed: 1,
        }
    }

    /// Creates an open load (a Poisson process) of some seconds after a warm-up that is not counted.
    pub fn open(targets: Vec<String>, rate: f64, seconds: f64, warm_up: f64) -> Plan {
        let (rate, seconds) = (Some(rate), Some(seconds + warm_up));
        Plan {
            targets,
            rate,
            seconds,
            warm_up,
            clients: None,
            fresh: false,
            requests: None,
            resolve: None,
            work_us: None,
            seed: 1,
        }
    }

    /// Creates a closed load of some seconds with a new connection per request. `resolve`: DNS server and name to look
    /// up for each.
    pub fn fresh(target: String, clients: u32, seconds: f64, resolve: Option<String>) -> Plan {
        let seconds = Some(seconds);
        Plan { resolve, seconds, requests: None, fresh: true, ..Plan::closed(vec![target], clients, 1) }
    }

    /// Sets the mean work of requests (exponential) and the seed.
    pub fn working(self, mean_us: f64, seed: u64) -> Plan {
        Plan { work_us: Some(mean_us), seed, ..self }
    }

    /// Command that sends the load.
    ///
    /// # Errors
    /// The system does not know the path of this program.
    fn command(&self) -> Result<Vec<String>> {
        let mut words = vec![child::this()?, NAME.to_owned()];
        let mut add = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
        };
        add("clients", self.clients.map(|n| n.to_string()));
        add("rate", self.rate.map(|n| n.to_string()));
        add("requests", self.requests.map(|n| n.to_string()));
        add("seconds", self.seconds.map(|n| n.to_string()));
        add("warm-up", Some(self.warm_up.to_string()));
        add("resolve", self.resolve.clone());
        add("work-us", self.work_us.map(|n| n.to_string()));
        add("seed", Some(self.seed.to_string()));
        words.extend(self.fresh.then(|| "--fresh".to_owned()));
        words.extend(self.targets.iter().cloned());
        Ok(words)
    }

    /// Starts the load. `at`: command prefix, for a namespace. `said`: file for its output.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(&self, at: Vec<String>, said: &Path) -> Result<Load> {
        let mut command = at;
        command.extend(self.command()?);
        Ok(Load { process: Child::spawn("the load", &command, None, said)?, said: said.to_owned() })
    }
}

pub struct Load {
    process: Child,
    said: std::path::PathBuf,
}

impl Load {
    /// Waits for its end and returns the results.
    ///
    /// # Errors
    /// The load takes longer than this, or fails.
    pub fn end(self, within: Duration) -> Result<Outcome> {
        self.process.ends(within)?;
        let text = std::fs::read_to_string(&self.said).or_say(|| format!("cannot read {}", self.said.display()))?;
        Outcome::parse(&text).ok_or_else(|| Error::Wrong(format!("the load failed:\n{}", text.trim())))
    }
}

/// Adds the arguments of the subcommand.
pub fn arguments(command: Command) -> Command {
    Plan::augment_args(command)
}

/// Runs the subcommand: sends the load and prints the results as JSON.
///
/// # Errors
/// An address is malformed, or the system refuses a timer.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let plan = Plan::from_arg_matches(matches).map_err(|error| Error::Wrong(error.to_string()))?;
    crate::machine::allow_files(20_000);
    println!("{}", drive::drive(&plan)?.json());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_the_whole_plan() {
        let targets = vec!["127.0.0.1:1/x".to_owned(), "127.0.0.1:2/x".to_owned()];
        let fresh = Plan::fresh(targets[0].clone(), 3, 5.0, Some("127.0.0.1:53/www.lab.test".into()));
        for plan in [fresh, Plan::open(targets, 12.5, 2.0, 0.5).working(1500.5, 7)] {
            let command = arguments(Command::new(NAME));
            let words = plan.command().expect("this program is known").split_off(1);
            let matches = command.try_get_matches_from(words).expect("it is understood");
            assert_eq!(Plan::from_arg_matches(&matches).expect("it is whole"), plan);
        }
    }
}
