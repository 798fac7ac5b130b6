//! What does the lab have to know of a proxy to run it?

use crate::experiments::protocol_cost::case::{Back, Front};
use crate::experiments::protocol_cost::certificates::Files;
use std::path::Path;

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
}

/// One kind of proxy.
pub struct Kind {
    /// Its name in `--proxies`.
    pub name: &'static str,
    /// The file of its configuration.
    pub config_name: &'static str,
    /// Its configuration.
    pub config: fn(&Site) -> String,
    /// Its command line.
    pub arguments: fn(program: String, folder: &Path, config: &Path) -> Vec<String>,
    /// What makes it print its version.
    pub version_flag: &'static str,
    /// Whether its workers are children of the process that was started.
    pub forks: bool,
    /// Why it cannot pass on to such endpoints, if it cannot.
    pub cannot: fn(Back) -> Option<&'static str>,
}
