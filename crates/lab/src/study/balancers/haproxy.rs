//! How is HAProxy set up where algorithms are compared?

use super::kind::{Algorithm, Kind, Setup};
use std::path::Path;

pub const KIND: Kind = Kind {
    name: "haproxy",
    version_flag: "-v",
    config_name: "haproxy.cfg",
    config,
    // In the foreground, without a master.
    arguments: |_, config, _| vec!["-db".into(), "-f".into(), config.display().to_string()],
    forks: false,
};

fn config(_: &Path, setup: &Setup) -> String {
    let algorithm = match setup.algorithm {
        Algorithm::RoundRobin => "roundrobin",
        Algorithm::LeastConn => "leastconn",
        Algorithm::Random | Algorithm::PeakEwma => "random(2)",
    };
    let server = |(at, endpoint): (usize, &String)| format!("  server s{at} {endpoint}\n");
    let servers: String = setup.endpoints.iter().enumerate().map(server).collect();
    format!(
        "global
  nbthread {}
  maxconn 4000
defaults
  mode http
  timeout connect 60s
  timeout client 60s
  timeout server 60s
  http-reuse always
  retries 0
frontend web
  bind 0.0.0.0:{} backlog 4096
  default_backend app
backend app
  balance {algorithm}
{servers}",
        setup.workers, setup.port
    )
}
