//! Which balancers are compared, and how is each told an algorithm and its endpoints? Alike in all else: connections kept, and neither
//! checks nor retries nor ejections, so that the algorithm alone decides. Beside the HAProxy that is installed another one runs if the
//! environment names it: `HAPROXY_BIN`.

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

/// The variable with another HAProxy, and its name where it is compared.
const HAPROXY_BIN: &str = "HAPROXY_BIN";

static KINDS: [Kind; 4] = [evenkeel::KIND, haproxy::KIND, nginx::KIND, envoy::KIND];

/// A balancer of this machine.
pub struct Balancer {
    /// Its name.
    pub name: &'static str,
    kind: &'static Kind,
    program: String,
}

impl Balancer {
    /// The program that runs.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its kind, by name: two programs may be of one.
    pub fn kind(&self) -> &'static str {
        self.kind.name
    }
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
    let mut add = |name: &'static str, kind: &'static Kind, program: String| -> Result<()> {
        versions.push((name.to_owned(), machine::version(std::slice::from_ref(&program), kind.version_flag)?));
        balancers.push(Balancer { name, kind, program });
        Ok(())
    };
    for kind in KINDS.iter().filter(wanted) {
        let program = match kind.name == evenkeel::KIND.name {
            true => child::find_evenkeel(options.evenkeel.as_deref())?,
            false => child::find(kind.name)?,
        };
        add(kind.name, kind, program)?;
    }
    if options.against.iter().any(|name| name == haproxy::KIND.name)
        && let Some(program) = other_haproxy()?
    {
        add(HAPROXY_BIN, &KINDS[1], program)?;
    }
    Ok((balancers, versions))
}

/// The HAProxy that the environment names.
fn other_haproxy() -> Result<Option<String>> {
    let Some(program) = std::env::var(HAPROXY_BIN).ok().filter(|program| !program.is_empty()) else { return Ok(None) };
    match Path::new(&program).is_file() {
        true => Ok(Some(program)),
        false => Err(Error::Wrong(format!("{HAPROXY_BIN} is `{program}`, which is no file"))),
    }
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
