//! Which balancers are compared, and how is each told an algorithm and its endpoints? Alike in all else: connections kept, and neither
//! checks nor retries nor ejections, so that the algorithm alone decides.

mod envoy;
mod evenkeel;
mod haproxy;
mod kind;
mod nginx;

use super::{Options, Versions};
use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::hosts::listens;
use crate::machine;
use crate::procfs;
use crate::scratch::Scratch;
use kind::Kind;

pub use kind::{Algorithm, Setup};
use std::path::Path;
use std::time::{Duration, Instant};

/// Where each listens.
pub const PORT: u16 = 8000;

static KINDS: [Kind; 4] = [evenkeel::KIND, haproxy::KIND, nginx::KIND, envoy::KIND];

/// A balancer of this machine.
pub struct Balancer {
    /// Its name.
    pub name: &'static str,
    kind: &'static Kind,
    program: String,
}

/// evenkeel and those that are wanted, and their versions. One that is not installed is left out, and named on standard error.
///
/// # Errors
/// One is unknown, or evenkeel is missing.
pub fn find(options: &Options) -> Result<(Vec<Balancer>, Versions)> {
    let rivals: Vec<&str> = KINDS[1..].iter().map(|kind| kind.name).collect();
    options.beside(&rivals)?;
    let (mut balancers, mut versions) = (Vec::new(), Vec::new());
    let wanted = |kind: &&Kind| kind.name == evenkeel::KIND.name || options.installed(kind.name);
    for kind in KINDS.iter().filter(wanted) {
        let program = match kind.name == evenkeel::KIND.name {
            true => child::find_evenkeel(options.evenkeel.as_deref())?,
            false => child::find(kind.name)?,
        };
        versions.push((kind.name.to_owned(), machine::version(std::slice::from_ref(&program), kind.version_flag)?));
        balancers.push(Balancer { name: kind.name, kind, program });
    }
    Ok((balancers, versions))
}

/// A balancer that listens, until dropped.
pub struct Running {
    process: Child,
    forks: bool,
    folder: Scratch,
}

impl Running {
    /// Its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The processes that carry requests.
    pub fn pids(&self) -> Vec<u32> {
        let started = self.process.pid();
        if self.forks { procfs::children_of(started) } else { vec![started] }
    }
}

impl Balancer {
    /// Where it is.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Starts it. `at`: what stands before a command that runs where it shall.
    ///
    /// # Errors
    /// It does not listen.
    pub fn start(&self, at: Vec<String>, setup: &Setup) -> Result<Running> {
        let folder = Scratch::new()?;
        let config = folder.write(self.kind.config_name, (self.kind.config)(folder.path(), setup))?;
        let mut command = at;
        command.push(self.program.clone());
        command.extend((self.kind.arguments)(folder.path(), &config, setup));
        let process = start(self.name, &command, setup.port, folder.path())?;
        Ok(Running { process, forks: self.kind.forks, folder })
    }
}

/// Starts a process and waits until it listens.
///
/// # Errors
/// With its last words if it does not.
pub fn start(name: &str, command: &[String], port: u16, folder: &Path) -> Result<Child> {
    let said = folder.join("said");
    let process = Child::spawn(name, command, None, &said)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !listens(process.pid(), port) {
        if process.has_ended() || Instant::now() > deadline {
            return Err(Error::Wrong(format!("{name} does not listen:\n{}", child::last_words(&said))));
        }
        child::pause(Duration::from_millis(5))?;
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_names_every_endpoint_and_differs_by_algorithm() {
        let endpoints = ["198.18.2.2:8080", "198.18.3.2:8081"].map(str::to_owned);
        for kind in &KINDS {
            let texts = Algorithm::ALL.map(|algorithm| {
                let setup = Setup { algorithm, endpoints: &endpoints, workers: 2, port: 1234 };
                (kind.config)(Path::new("folder"), &setup)
            });
            for text in &texts {
                assert!(["198.18.2.2", "8080", "198.18.3.2", "8081", "1234"].iter().all(|part| text.contains(part)));
            }
            assert!(texts[0] != texts[1] && texts[1] != texts[2] && texts[0] != texts[2], "{}", kind.name);
        }
    }
}
