//! What does the lab have to know of a balancer to compare its algorithms?

use std::path::Path;

/// What a configuration is made for.
pub struct Setup<'s> {
    /// How it balances.
    pub algorithm: Algorithm,
    /// Addresses with ports.
    pub endpoints: &'s [String],
    /// Threads, or processes, that carry requests.
    pub workers: usize,
    /// Where it listens.
    pub port: u16,
}

/// Algorithms, as publications call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests in flight.
    LeastConn,
    /// The better of two random ones, by requests in flight.
    Random,
    /// The better of two random ones, by Peak EWMA. Only evenkeel has it.
    PeakEwma,
}

impl Algorithm {
    /// Those that all balancers have.
    pub const ALL: [Algorithm; 3] = [Algorithm::RoundRobin, Algorithm::LeastConn, Algorithm::Random];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RoundRobin => "round robin",
            Algorithm::LeastConn => "leastconn",
            Algorithm::Random => "random",
            Algorithm::PeakEwma => "Peak EWMA",
        }
    }
}

/// One kind of balancer.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// How it is asked for its version.
    pub version_flag: &'static str,
    /// The name of its file.
    pub config_name: &'static str,
    /// Its file. The folder is for whatever it writes.
    pub config: fn(&Path, &Setup) -> String,
    /// By folder and file.
    pub arguments: fn(&Path, &Path, &Setup) -> Vec<String>,
    /// Whether its workers are children of the process that was started.
    pub forks: bool,
}
