//! How is evenkeel set up where algorithms are compared?

use super::kind::{Algorithm, Kind, Setup};
use std::path::Path;

pub const KIND: Kind = Kind {
    name: "evenkeel",
    version_flag: "--version",
    config_name: "evenkeel.toml",
    config,
    arguments: |_, config, _| vec!["run".into(), "-c".into(), config.display().to_string()],
    forks: false,
};

fn config(_: &Path, setup: &Setup) -> String {
    let algorithm = match setup.algorithm {
        Algorithm::RoundRobin => "round_robin",
        Algorithm::LeastConn => "leastconn",
        Algorithm::Random => "random",
        Algorithm::PeakEwma => "peak_ewma",
    };
    format!(
        "version = 1
[runtime]
workers = {}
[defaults.timeouts]
response = \"60s\"
[listener.web]
bind = [\"0.0.0.0:{}\"]
pool = \"app\"
[pool.app]
balance = \"{algorithm}\"
outlier = \"off\"
retry = {{ attempts = 0 }}
endpoints = [\"{}\"]
",
        setup.workers,
        setup.port,
        setup.endpoints.join("\", \"")
    )
}
