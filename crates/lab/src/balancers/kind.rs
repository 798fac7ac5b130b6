//! Kind of a balancer: how to configure, run, reload and query a program.

use super::setup::{Listener, Pool, Setup};
use crate::certificates::Files;
use crate::error::{Error, Result};
use crate::procfs;
use rustix::process::Signal;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kind of balancer, such as HAProxy, with everything that the lab needs to run it.
pub struct Kind {
    /// Name in `--against`.
    pub name: &'static str,
    /// Name of the program to find.
    pub(super) program: &'static str,
    /// Option that prints its version.
    pub(super) version_flag: &'static str,
    /// Writes its files, by name. The first is passed on the command line.
    pub(super) files: fn(&Site) -> Written,
    /// Builds its command line, without the program.
    pub(super) arguments: fn(&Site, config: &str) -> Vec<String>,
    /// True if its workers are children of the process that was started.
    pub(super) forks: bool,
    /// True if it can only log to a socket.
    pub(super) logs_to_socket: bool,
    /// Way to make it reload its configuration.
    pub reload: Reload,
    /// True if SIGUSR2 replaces the binary by a child of the process, which then ends.
    pub upgrades: bool,
    /// Reads a number that changes when a new configuration is in use.
    pub(super) generation: fn(&Site, pid: u32) -> Result<u64>,
    /// Reads the number of retries so far.
    pub(super) retries: fn(&Site) -> Result<u64>,
    /// Description for reports of its settings against broken endpoints.
    pub settings: &'static str,
}

/// Way to make a process use a new configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Signal to the process that was started.
    Signal(Signal),
    /// The process watches its files.
    Files,
}

/// Context in which a setup is written as files.
pub(super) struct Site<'s> {
    /// Folder of this process, for its files.
    pub folder: &'s Path,
    /// Setup that the balancer has to run.
    pub setup: &'s Setup,
    /// TCP port for access log lines of programs that do not log to files.
    pub log_port: u16,
}

impl Site<'_> {
    /// Path of a file in its own folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Path of the access log in its own folder.
    pub fn log(&self) -> PathBuf {
        self.file("access.log")
    }

    /// Groups of listeners: consecutive listeners without a separate pool together, and each with a pool alone.
    pub fn fronts(&self) -> impl Iterator<Item = &[Listener]> {
        self.setup.listeners.chunk_by(|one, next| one.pool.is_none() && next.pool.is_none())
    }

    /// Certificate of listeners with TLS.
    pub fn certificate(&self) -> Able<&Files> {
        self.setup.certificate.as_ref().ok_or(Cannot("the file has no certificate"))
    }

    /// Pool of the setup, by name.
    pub fn pool(&self, name: &str) -> Able<&Pool> {
        self.setup.pools.iter().find(|pool| pool.name == name).ok_or(Cannot("a route leads to no pool"))
    }

    /// Loopback port of its statistics.
    pub fn admin(&self) -> Result<u16> {
        self.setup.admin.ok_or_else(|| Error::Wrong("it has no port for its statistics".into()))
    }
}

/// Files by name, or the reason why there are none.
pub(super) type Written = Able<Vec<(&'static str, String)>>;

/// Part of a configuration file, or the reason why there is none.
pub(super) type Text = Able<String>;

/// Result of writing a setup: something, or the reason why the balancer cannot run it.
pub(super) type Able<T> = std::result::Result<T, Cannot>;

/// Reason why a balancer cannot run a setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cannot(pub &'static str);

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl From<Cannot> for Error {
    fn from(cannot: Cannot) -> Error {
        Error::Wrong(cannot.to_string())
    }
}

/// Generation of balancers that reload by starting a worker: the highest process id of a worker, as ids ascend.
pub(super) fn newest_worker(_: &Site, master: u32) -> Result<u64> {
    let newest = procfs::children_of(master).into_iter().max();
    newest.map(u64::from).ok_or_else(|| Error::Wrong(format!("process {master} has no worker")))
}

/// Error of balancers that neither reload nor count.
pub(super) fn counts_nothing() -> Error {
    Error::Wrong("it counts nothing".into())
}

/// Duration as configurations write it: in whole seconds or in milliseconds.
pub(super) fn time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
