//! The row of a balancer: what the lab knows of a program to set it up, to run it, and to ask it how it is.

use super::setup::{Listener, Pool, Setup};
use crate::certificates::Files;
use crate::error::{Error, Result};
use crate::procfs;
use rustix::process::Signal;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kind of balancer, such as HAProxy, with what the lab needs to run one.
pub struct Kind {
    /// Name in `--against`.
    pub name: &'static str,
    /// The program to be searched for.
    pub(super) program: &'static str,
    /// The option that prints its version.
    pub(super) version_flag: &'static str,
    /// Its files by name. The first is that of its command line.
    pub(super) files: fn(&Site) -> Written,
    /// Its command line, without the program.
    pub(super) arguments: fn(&Site, config: &str) -> Vec<String>,
    /// True if its workers are children of the process that was started.
    pub(super) forks: bool,
    /// True if it can only log to a socket.
    pub(super) logs_to_socket: bool,
    /// The way to have it read its configuration again.
    pub reload: Reload,
    /// True if SIGUSR2 replaces the binary by a child of the process, which then ends.
    pub upgrades: bool,
    /// A number that changes when a new configuration is at work.
    pub(super) generation: fn(&Site, pid: u32) -> Result<u64>,
    /// Reads the number of retries so far.
    pub(super) retries: fn(&Site) -> Result<u64>,
    /// Its settings against broken endpoints, and why, for reports.
    pub settings: &'static str,
}

/// The way to have a process use a configuration that was written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// By a signal to the process that was started.
    Signal(Signal),
    /// The process watches its files.
    Files,
}

/// The place for which a setup is written down.
pub(super) struct Site<'s> {
    /// A folder of its own, for whatever it writes.
    pub folder: &'s Path,
    /// Setup that the balancer has to run.
    pub setup: &'s Setup,
    /// The port to which programs that write no files send lines of the access log.
    pub log_port: u16,
}

impl Site<'_> {
    /// Path of a file in its own folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The file of the access log.
    pub fn log(&self) -> PathBuf {
        self.file("access.log")
    }

    /// Listeners that go together: all those that have no pool of their own, if they follow each other, or one that has.
    pub fn fronts(&self) -> impl Iterator<Item = &[Listener]> {
        self.setup.listeners.chunk_by(|one, next| one.pool.is_none() && next.pool.is_none())
    }

    /// The certificate of listeners with TLS.
    pub fn certificate(&self) -> Able<&Files> {
        self.setup.certificate.as_ref().ok_or(Cannot("the file has no certificate"))
    }

    /// Pool of the setup, by name.
    pub fn pool(&self, name: &str) -> Able<&Pool> {
        self.setup.pools.iter().find(|pool| pool.name == name).ok_or(Cannot("a route leads to no pool"))
    }

    /// The port for its statistics.
    pub fn admin(&self) -> Result<u16> {
        self.setup.admin.ok_or_else(|| Error::Wrong("it has no port for its statistics".into()))
    }
}

/// Files by name, or why there are none.
pub(super) type Written = Able<Vec<(&'static str, String)>>;

/// Part of a configuration file, or the reason why there is none.
pub(super) type Text = Able<String>;

/// Something that a balancer can do, or why it cannot.
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

/// For balancers that reload by starting a worker: the newest worker's process id, as ids ascend.
pub(super) fn newest_worker(_: &Site, master: u32) -> Result<u64> {
    let newest = procfs::children_of(master).into_iter().max();
    newest.map(u64::from).ok_or_else(|| Error::Wrong(format!("process {master} has no worker")))
}

/// For balancers that neither reload nor count.
pub(super) fn counts_nothing() -> Error {
    Error::Wrong("it counts nothing".into())
}

/// A time as configurations have it, in whole seconds or in milliseconds.
pub(super) fn time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
