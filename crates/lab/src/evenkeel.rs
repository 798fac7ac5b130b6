//! How is an evenkeel started with a configuration of an experiment's own?

use crate::child::Child;
use crate::error::Result;
use crate::origin;
use crate::scratch::Scratch;
use std::net::SocketAddr;

/// An evenkeel that listens, until dropped.
pub struct Running {
    /// Where.
    pub port: u16,
    /// The process.
    pub pid: u32,
    _process: Child,
    _folder: Scratch,
}

/// Starts `program`, on a core if given, with a configuration in which `$PORT` stands for a free port.
///
/// # Errors
/// If it does not come up: with its last words.
pub fn start(program: &str, config: &str, core: Option<usize>) -> Result<Running> {
    let folder = Scratch::new()?;
    let port = origin::free_ports()?[0];
    let config = folder.write("evenkeel.toml", config.replace("$PORT", &port.to_string()))?;
    let said = folder.path().join("said");
    let command = [program, "run", "-c", &config.display().to_string()].map(str::to_owned);
    let process = Child::spawn("evenkeel", &command, core, &said)?;
    origin::await_listening("evenkeel", &process, SocketAddr::from(([127, 0, 0, 1], port)), &said)?;
    Ok(Running { port, pid: process.pid(), _process: process, _folder: folder })
}

/// A configuration for one beside an application, that reports its load.
pub fn beside(application: SocketAddr) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"127.0.0.1:$PORT\"]\nreport_load = true\n\
         [pool.app]\noutlier = \"off\"\nretry = {{ attempts = 0 }}\nendpoints = [\"{application}\"]\n"
    )
}

/// A configuration for one in front of applications with an evenkeel beside each. `pool`: how it balances.
pub fn in_front(sidecars: &[Running], pool: &str) -> String {
    let endpoints: Vec<String> = sidecars.iter().map(|sidecar| format!("\"127.0.0.1:{}\"", sidecar.port)).collect();
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"127.0.0.1:$PORT\"]\n\
         [pool.app]\n{pool}\noutlier = \"off\"\nretry = {{ attempts = 0 }}\nendpoints = [{}]\n",
        endpoints.join(", ")
    )
}
