//! How is each balancer of the application told what to do? The one beside a service passes what comes in to it, and spreads its calls
//! over the nodes; the one at the edge spreads what clients ask for, and, as the external balancer, the calls of all services.

use super::system::{NODES, SERVICES, service_port};
use crate::child::{self, Child};
use crate::error::Result;
use crate::hosts::address;
use crate::scratch::Scratch;
use std::fmt::Write;
use std::path::PathBuf;

/// The path of each service.
const PATHS: [&str; 4] = ["/GetTime", "/UserAttr", "/Log", "/MyTime"];

/// Where a balancer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Beside a process of this service.
    Beside {
        /// An index in [`SERVICES`].
        kind: usize,
    },
    /// Between the clients and the nodes.
    Edge,
}

impl Place {
    /// Where calls of the service come in.
    pub fn outbound(self) -> u16 {
        match self {
            Place::Beside { kind } => 22001 + kind as u16,
            Place::Edge => inbound(3),
        }
    }
}

/// Where requests for a service come in, at every node and at the edge.
pub fn inbound(kind: usize) -> u16 {
    2001 + kind as u16
}

/// Which balancer, and how it spreads.
#[derive(Clone, Debug)]
pub struct Balancing {
    /// Its name in tables.
    pub name: &'static str,
    /// `evenkeel`, else HAProxy.
    pub ours: bool,
    /// What it is called in the configuration.
    pub algorithm: &'static str,
    /// Whether the balancers beside services send calls to the one at the edge instead of spreading them.
    pub external: bool,
    /// Whether balancers know each other's load.
    pub shared: bool,
    /// The program.
    pub program: String,
}

/// A balancer, until dropped.
pub struct Running {
    /// It.
    pub process: Child,
    /// One of the ports it listens at.
    pub port: u16,
    folder: Scratch,
}

impl Running {
    /// What it said.
    pub fn said(&self) -> PathBuf {
        self.folder.path().join("said")
    }
}

impl Balancing {
    /// Starts one. `at`: what stands before a command that runs there.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, place: Place, at: Vec<String>) -> Result<Running> {
        let folder = Scratch::new()?;
        let config = match self.ours {
            true => folder.write("evenkeel.toml", self.evenkeel(place))?,
            false => folder.write("haproxy.cfg", self.haproxy(place))?,
        };
        let words: &[&str] = if self.ours { &["run", "-c"] } else { &["-db", "-f"] };
        let mut command = at;
        command.push(self.program.clone());
        command.extend(words.iter().map(|word| (*word).to_owned()));
        command.push(config.display().to_string());
        let process = Child::spawn(self.name, &command, None, &folder.path().join("said"))?;
        Ok(Running { process, port: place.outbound(), folder })
    }

    /// Where requests for a service go from there.
    fn endpoints(&self, place: Place, kind: usize) -> Vec<String> {
        let hosts = match place {
            Place::Beside { .. } if self.external => super::system::EDGE..=super::system::EDGE,
            _ => 1..=NODES,
        };
        hosts.map(|host| format!("{}:{}", address(host), inbound(kind))).collect()
    }

    /// Timeouts are those of the publication; it has neither retries to other nodes nor checks of the nodes by their neighbours.
    fn haproxy(&self, place: Place) -> String {
        let mut text = "global
  nbthread 1
  maxconn 4000
defaults
  mode http
  timeout connect 4s
  timeout queue 10s
  timeout client 20s
  timeout server 20s
  option http-buffer-request
  option tcp-smart-connect
"
        .to_owned();
        // A String takes everything.
        let mut add = |line: String| _ = writeln!(text, "{line}");
        let servers = |kind: usize| {
            let line = |(at, endpoint): (usize, String)| format!("  server srv{at} {endpoint}\n");
            self.endpoints(place, kind).into_iter().enumerate().map(line).collect::<String>()
        };
        match place {
            Place::Beside { kind } => {
                add(format!("listen inbound\n  bind 0.0.0.0:{}", inbound(kind)));
                add(format!("  server srv 127.0.0.1:{}", service_port(kind)));
                add(format!("frontend outbound\n  bind 127.0.0.1:{}", place.outbound()));
                for (name, path) in SERVICES.iter().zip(PATHS) {
                    add(format!("  use_backend {name} if {{ path_beg {path} }}"));
                }
                for (other, name) in SERVICES.iter().enumerate() {
                    add(format!("backend {name}\n  balance {}\n{}", self.algorithm, servers(other)));
                }
            }
            Place::Edge => {
                for (kind, name) in SERVICES.iter().enumerate() {
                    add(format!("listen {name}\n  bind 0.0.0.0:{}\n  balance leastconn", inbound(kind)));
                    add(format!("  http-reuse always\n{}", servers(kind)));
                }
            }
        }
        text
    }

    fn evenkeel(&self, place: Place) -> String {
        let mut text = "version = 1
[runtime]
workers = 1
[defaults.timeouts]
connect = \"4s\"
response = \"20s\"
"
        .to_owned();
        let mut add = |line: String| _ = writeln!(text, "{line}");
        let pool = |name: &str, balance: &str, endpoints: &[String], reports: bool| {
            let endpoints = endpoints.join("\", \"");
            let reports = if reports { "load_reports = { probe = \"udp\" }\n" } else { "" };
            format!(
                "[pool.{name}]\nbalance = \"{balance}\"\noutlier = \"off\"\nretry = {{ attempts = 0 }}\n{reports}endpoints = [\"{endpoints}\"]"
            )
        };
        match place {
            Place::Beside { kind } => {
                let report = if self.shared { "report_load = true\n" } else { "" };
                add(format!(
                    "[listener.inbound]\nbind = [\"0.0.0.0:{}\"]\npool = \"service\"\n{report}",
                    inbound(kind)
                ));
                add(format!("[listener.outbound]\nbind = [\"127.0.0.1:{}\"]", place.outbound()));
                for (name, path) in SERVICES.iter().zip(PATHS) {
                    add(format!(
                        "[[route]]\nmatch = {{ listener = [\"outbound\"], prefix = \"{path}\" }}\npool = \"{name}\""
                    ));
                }
                add(pool("service", "round_robin", &[format!("127.0.0.1:{}", service_port(kind))], false));
                for (other, name) in SERVICES.iter().enumerate() {
                    add(pool(name, self.algorithm, &self.endpoints(place, other), self.shared));
                }
            }
            Place::Edge => {
                for (kind, name) in SERVICES.iter().enumerate() {
                    add(format!("[listener.{name}]\nbind = [\"0.0.0.0:{}\"]\npool = \"{name}\"", inbound(kind)));
                    add(pool(name, "leastconn", &self.endpoints(place, kind), false));
                }
            }
        }
        text
    }
}

/// Every way that is compared: HAProxy's, if it is installed and `haproxy` says so, then evenkeel's.
///
/// # Errors
/// There is no evenkeel.
pub fn all(haproxy: bool, evenkeel: Option<&std::path::Path>) -> Result<Vec<Balancing>> {
    let of = |ours: bool, program: &str, rows: &[(&'static str, &'static str, bool, bool)]| {
        let row = |&(name, algorithm, external, shared): &(&'static str, &'static str, bool, bool)| Balancing {
            name,
            ours,
            algorithm,
            external,
            shared,
            program: program.to_owned(),
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    if haproxy {
        let rows = [
            ("haproxy round robin", "roundrobin", false, false),
            ("haproxy leastconn", "leastconn", false, false),
            ("haproxy random(1)", "random(1)", false, false),
            ("haproxy random(2)", "random(2)", false, false),
            ("haproxy external", "roundrobin", true, false),
        ];
        all.extend(of(false, &child::find("haproxy")?, &rows));
    }
    let rows = [
        ("evenkeel leastconn", "leastconn", false, false),
        ("evenkeel shared load", "leastconn", false, true),
        ("evenkeel external", "round_robin", true, false),
    ];
    all.extend(of(true, &child::find_evenkeel(evenkeel)?, &rows));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balancer_beside_a_service_reaches_all_nodes_or_the_external_one() {
        for ours in [false, true] {
            let of = |external: bool, place: Place| {
                let algorithm = "leastconn";
                let balancing =
                    Balancing { name: "x", ours, algorithm, external, shared: true, program: String::new() };
                if ours { balancing.evenkeel(place) } else { balancing.haproxy(place) }
            };
            let (spread, sent) = (of(false, Place::Beside { kind: 3 }), of(true, Place::Beside { kind: 3 }));
            for node in 1..=NODES {
                let user = format!("{}:2002", address(node));
                assert!(spread.contains(&user) && !sent.contains(&user) && of(true, Place::Edge).contains(&user));
            }
            assert!(sent.contains(&format!("{}:2002", address(super::super::system::EDGE))));
            assert!(spread.contains("127.0.0.1:12004") && spread.contains("127.0.0.1:22004"), "{spread}");
        }
    }
}
