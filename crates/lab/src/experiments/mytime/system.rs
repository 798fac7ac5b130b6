//! Machines and processes of the application: six nodes, each a network namespace with a process of every service;
//! the CPUs of a node are control groups with a quota, which its services share or not.

use super::balancer::{Balancing, Place, outbound};
use crate::balancers::{Balancer, Running};
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::hosts::Group;
use crate::hosts::{Network, listens};
use crate::scratch::Scratch;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of concurrent clients.
pub const CLIENTS: u32 = 120;
pub const NODES: usize = 6;
/// Host number of the edge balancer and the clients.
pub const EDGE: usize = NODES + 1;
/// Services. The last digit of a service's ports is its index plus 1.
pub const SERVICES: [&str; 4] = ["time", "user", "log", "mytime"];

/// Number of CPU groups of a node for its four services; the quotas always add up to [`NODE`].
pub const LEVELS: [(&str, usize); 3] = [("no contention", 4), ("moderate contention", 2), ("high contention", 1)];

/// Quota of a node, as a share of a CPU.
pub const NODE: f64 = 0.22;
/// Period of the quota. The smallest group has 1.1 ms of it; the kernel's minimum is 1 ms.
const PERIOD: Duration = Duration::from_millis(20);
/// Maximum time to listen, or to react to a signal: all processes start at once, with little CPU time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Port of a service itself, within its node.
pub fn service_port(service: usize) -> u16 {
    12001 + service as u16
}

/// Running application. Fields are dropped in order: processes before groups, groups before nodes.
pub struct System {
    services: Vec<Service>,
    /// CPU groups by level, node and number.
    groups: Vec<Vec<Vec<Group>>>,
    network: Network,
    folder: Scratch,
    level: usize,
}

struct Service {
    node: usize,
    kind: usize,
    process: Child,
    said: PathBuf,
}

impl System {
    /// Starts every service.
    ///
    /// # Errors
    /// Namespaces or groups are not allowed, or Python is missing.
    pub fn start() -> Result<System> {
        let python = child::find("python3")?;
        let network = Network::star(EDGE)?;
        let folder = Scratch::new()?;
        let program = folder.write("service.py", include_str!("service.py"))?;
        let group = |level: usize, node: usize, core: usize| {
            Group::new(&format!("{level}-{node}-{core}"), NODE / LEVELS[level].1 as f64, PERIOD)
        };
        let node = |level: usize, node: usize| {
            (0..LEVELS[level].1).map(|core| group(level, node, core)).collect::<Result<Vec<_>>>()
        };
        let level = |level| (1..=NODES).map(|of| node(level, of)).collect::<Result<Vec<_>>>();
        let groups = (0..LEVELS.len()).map(level).collect::<Result<Vec<_>>>()?;
        let mut services = Vec::new();
        for node in 1..=NODES {
            for (kind, name) in SERVICES.iter().enumerate() {
                let said = folder.path().join(format!("{name}-{node}"));
                let users = folder.path().join(format!("users-{node}"));
                let mut command = network.at(node);
                command.extend([
                    python.clone(),
                    program.display().to_string(),
                    (*name).to_owned(),
                    service_port(kind).to_string(),
                    outbound(kind).to_string(),
                    users.display().to_string(),
                ]);
                let process = Child::spawn(name, &command, None, &said)?;
                services.push(Service { node, kind, process, said });
            }
        }
        for service in &services {
            let port = service_port(service.kind);
            service.process.await_ready(PATIENCE, |pid| listens(pid, "tcp", port))?;
        }
        let mut system = System { services, groups, network, folder, level: 0 };
        system.set_level(0)?;
        Ok(system)
    }

    /// Moves all services to the CPU groups of a level, an index in [`LEVELS`].
    ///
    /// # Errors
    /// A service has ended.
    pub fn set_level(&mut self, level: usize) -> Result<()> {
        self.level = level;
        self.services.iter().try_for_each(|service| self.group(service.node, service.kind).adopt(service.process.pid()))
    }

    fn group(&self, node: usize, kind: usize) -> &Group {
        let of_node = &self.groups[self.level][node - 1];
        &of_node[kind % of_node.len()]
    }

    /// Starts a balancer beside every service, in the CPU group of that service, and then the balancer at the edge,
    /// which has no quota.
    ///
    /// # Errors
    /// A process does not listen.
    pub fn balance(&self, balancing: &Balancing, balancers: &[Balancer]) -> Result<Vec<Running>> {
        let mut running = Vec::new();
        for node in 1..=NODES {
            for kind in 0..SERVICES.len() {
                let mut at = self.group(node, kind).within();
                at.extend(self.network.at(node));
                running.push(balancing.start(balancers, Place::Beside { kind }, at)?);
            }
        }
        running.push(balancing.start(balancers, Place::Edge, self.network.at(EDGE))?);
        running.iter().try_for_each(|one| one.await_listening(PATIENCE))?;
        Ok(running)
    }

    /// Process ids of all services.
    pub fn pids(&self) -> Vec<u32> {
        self.services.iter().map(|service| service.process.pid()).collect()
    }

    /// Command prefix that runs a program on the clients' host.
    pub fn clients(&self) -> Vec<String> {
        self.network.at(EDGE)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Reads and resets the maximum of concurrent requests of each service process, by node, then by service.
    ///
    /// # Errors
    /// A process does not answer.
    pub fn take_peaks(&self) -> Result<Vec<f64>> {
        let lines = |service: &Service| fs::read_to_string(&service.said).unwrap_or_default().matches('\n').count();
        let before: Vec<usize> = self.services.iter().map(lines).collect();
        self.services.iter().for_each(|service| service.process.signal(Signal::USR1));
        let deadline = Instant::now() + PATIENCE;
        let mut peaks = Vec::new();
        for (service, before) in self.services.iter().zip(before) {
            while lines(service) == before {
                if Instant::now() > deadline {
                    let said = service.process.last_words();
                    return Err(Error::Wrong(format!("{} does not tell its peak:\n{said}", SERVICES[service.kind])));
                }
                child::pause(Duration::from_millis(2))?;
            }
            let text = fs::read_to_string(&service.said).or_say(|| "cannot read what a service said".into())?;
            let peak = text.lines().last().and_then(|line| line.strip_prefix("peak ")?.parse().ok());
            peaks.push(peak.ok_or_else(|| Error::Wrong(format!("a service printed:\n{text}")))?);
        }
        Ok(peaks)
    }
}
