//! What does the lab have to know of a balancer to run it?

use crate::error::{Error, Result};
use crate::procfs;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a configuration is made for.
pub struct Site<'a> {
    /// A folder of its own, for whatever it writes.
    pub folder: &'a Path,
    /// Where it listens.
    pub port: u16,
    /// The port for its statistics.
    pub admin_port: u16,
    /// The endpoints.
    pub endpoints: &'a [SocketAddr],
    /// Changes a pool that gets no requests: the weight of its only endpoint, 1 to 100.
    pub weight: u32,
    /// Where it also serves, for clients of other protocols.
    pub mixed: Option<&'a Mixed>,
}

/// HTTP/2 with and without TLS, and gRPC: what goes to `/lab.Echo/` goes to the same endpoints, over HTTP/2.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Where it speaks HTTP/2 without TLS.
    pub h2c_port: u16,
    /// Where it speaks HTTP/1.1 and HTTP/2 over TLS.
    pub tls_port: u16,
    /// The certificate alone.
    pub certificate: PathBuf,
    /// Its key alone.
    pub key: PathBuf,
    /// Both.
    pub both: PathBuf,
}

impl Site<'_> {
    /// A file of its own.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A line for each endpoint, by its number and address.
    pub(super) fn each(&self, line: impl Fn(usize, SocketAddr) -> String) -> String {
        self.endpoints.iter().enumerate().map(|(number, &address)| line(number, address)).collect()
    }
}

/// How a process is made to use a configuration that was written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// By a signal to the process that was started.
    Signal(Signal),
    /// It watches its files.
    Files,
}

/// One kind of balancer.
pub struct Kind {
    /// Its name in `--against`.
    pub name: &'static str,
    pub(super) config_name: &'static str,
    pub(super) config: fn(&Site) -> String,
    /// Files that it names, beside that.
    pub(super) more: fn(&Site) -> Vec<(&'static str, String)>,
    pub(super) arguments: fn(folder: &Path, config: &Path) -> Vec<String>,
    pub(super) version_flag: &'static str,
    /// What makes it read its configuration again.
    pub reload: Reload,
    /// Whether SIGUSR2 replaces the binary by a child of the process, which then ends.
    pub upgrades: bool,
    /// A number that changes when a new configuration is at work.
    pub(super) generation: fn(&Site, pid: u32) -> Result<u64>,
    /// How it is set up, and why, for the report.
    pub settings: &'static str,
    /// Retries so far, if it counts them.
    pub(super) retries: fn(&Site) -> Result<u64>,
}

/// For balancers that reload by starting a worker: the newest worker's process id, as ids ascend.
pub(super) fn newest_worker(_: &Site, master: u32) -> Result<u64> {
    let newest = procfs::children_of(master).into_iter().max();
    newest.map(u64::from).ok_or_else(|| Error::Wrong(format!("process {master} has no worker")))
}
