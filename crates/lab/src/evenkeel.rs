//! Which evenkeel is looked at, and how is it started with a configuration of an experiment's own?

use crate::child::Child;
use crate::error::{Error, Result};
use crate::origin;
use crate::scratch::Scratch;
use std::env;
use std::path::Path;

/// The program: the one given, or the one beside this program.
///
/// # Errors
/// If it is not there.
pub fn path(given: Option<&Path>) -> Result<String> {
    let beside = || env::current_exe().ok().map(|lab| lab.with_file_name("evenkeel"));
    let path = given.map(Path::to_path_buf).or_else(beside).unwrap_or_default();
    if path.is_file() {
        return Ok(path.display().to_string());
    }
    Err(Error::Wrong(format!(
        "there is no evenkeel at `{}`; build it with `cargo build --release`, or give --evenkeel PATH",
        path.display()
    )))
}

/// An evenkeel that listens, until dropped.
pub struct Running {
    /// Where.
    pub port: u16,
    /// The process.
    pub pid: u32,
    _process: Child,
    _folder: Scratch,
}

/// Starts `program` on a core, with a configuration in which `$PORT` stands for a free port.
///
/// # Errors
/// If it does not come up: with its last words.
pub fn start(program: &str, config: &str, core: usize) -> Result<Running> {
    let folder = Scratch::new()?;
    let port = origin::free_ports()?[0];
    let config = folder.write("evenkeel.toml", config.replace("$PORT", &port.to_string()))?;
    let said = folder.path().join("said");
    let command = [program, "run", "-c", &config.display().to_string()].map(str::to_owned);
    let process = Child::spawn("evenkeel", &command, Some(core), &said)?;
    origin::await_listening("evenkeel", &process, port, &said)?;
    Ok(Running { port, pid: process.pid(), _process: process, _folder: folder })
}
