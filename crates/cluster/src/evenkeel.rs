//! An evenkeel that runs in the cluster's network.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A process of evenkeel. It is killed when this is dropped.
pub struct Evenkeel {
    child: Child,
    log: PathBuf,
}

impl Evenkeel {
    /// Starts evenkeel with this configuration; the files `NAME.toml` and `NAME.log` are in `folder`.
    ///
    /// # Errors
    /// If a file cannot be written, or the program cannot be started.
    pub fn begin(program: &Path, folder: &Path, name: &str, config: &str) -> Result<Evenkeel, String> {
        let (path, log) = (folder.join(format!("{name}.toml")), folder.join(format!("{name}.log")));
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::write(&path, config).map_err(|error| failed(&path, error))?;
        let file = File::create(&log).map_err(|error| failed(&log, error))?;
        let both = file.try_clone().map_err(|error| failed(&log, error))?;
        let mut command = Command::new(program);
        command.args(["run", "--config"]).arg(&path).stdin(Stdio::null()).stdout(both).stderr(file).kill_on_drop(true);
        let child = command.spawn().map_err(|error| failed(program, error))?;
        Ok(Evenkeel { child, log })
    }

    /// Identity of the process; `None` if it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// Exit status and end of the log.
    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("evenkeel ended: {status}\n{}", self.log_end())),
            Err(error) => Err(format!("evenkeel: {error}")),
        }
    }

    /// Returns the last lines of the log, below its path.
    pub fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("{}:\n{}", self.log.display(), lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}
