//! What does the lab have to know of a proxy to run it?

use crate::certificates::Files;
use crate::experiments::protocol_cost::cases::{Back, Front};
use std::path::{Path, PathBuf};

/// What a configuration is made for.
pub struct Site<'a> {
    /// A folder of its own, for whatever it writes.
    pub folder: &'a Path,
    /// Where it listens.
    pub port: u16,
    /// The endpoints.
    pub endpoints: [u16; 2],
    /// What clients speak.
    pub front: Front,
    /// What endpoints speak.
    pub back: Back,
    /// The certificate, if clients speak TLS.
    pub certificate: Option<&'a Files>,
    /// The port to which proxies that write no files send lines of the access log.
    pub log_port: u16,
}

impl Site<'_> {
    /// The file of the access log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("access.log")
    }
}

/// One kind of proxy.
pub struct Kind {
    /// Its name in `--against`.
    pub name: &'static str,
    /// The program to be searched for.
    pub program: &'static str,
    /// The file of its configuration.
    pub config_name: &'static str,
    /// Its configuration.
    pub config: fn(&Site) -> String,
    /// Its command line. The program may be of several words.
    pub arguments: fn(program: &[String], folder: &Path, config: &Path) -> Vec<String>,
    /// What makes it print its version.
    pub version_flag: &'static str,
    /// Whether its workers are children of the process that was started.
    pub forks: bool,
    /// Whether it can only log to a socket.
    pub logs_to_socket: bool,
    /// Why it cannot stand between such clients and such endpoints, if it cannot.
    pub cannot: fn(Front, Back) -> Option<&'static str>,
}

/// A command with more words.
pub fn and(command: &[String], more: &[&str]) -> Vec<String> {
    command.iter().cloned().chain(more.iter().map(|&word| word.to_owned())).collect()
}
