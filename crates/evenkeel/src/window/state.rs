//! What outlives this process of what operators want? Orders in a file, if `runtime.state` names one; and for the process that takes
//! over, orders and configuration in variables of its environment.

use crate::configured::revisions::Revision;
use evenkeel_pools::orders::Given;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::Command;

/// What the process before has left, as JSON.
const VARIABLE: &str = "EVENKEEL_ORDERS";

/// The configuration that the process before has applied, if its file says another, as JSON.
const CONFIGURATION: &str = "EVENKEEL_CONFIGURATION";

/// The kernel allows 128 KiB for one variable.
const VARIABLE_MAX: usize = 100 * 1024;

/// The orders that were kept: in the environment, as the process that this one replaces may know more than the file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read(file: Option<&Path>) -> io::Result<Given> {
    if let Ok(text) = std::env::var(VARIABLE) {
        return parse(&text);
    }
    match file.map(std::fs::read_to_string) {
        None => Ok(Given::new()),
        Some(Ok(text)) => parse(&text),
        Some(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(Given::new()),
        Some(Err(error)) => Err(error),
    }
}

fn parse(text: &str) -> io::Result<Given> {
    serde_json::from_str(text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Keeps the orders in the file: all of them, or those of before.
///
/// # Errors
/// As file systems have them.
pub fn write(file: &Path, given: &Given) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut out = std::fs::File::create(&new)?;
    serde_json::to_writer_pretty(&mut out, given)?;
    out.write_all(b"\n")?;
    out.sync_all()?;
    std::fs::rename(new, file)
}

/// The configuration that the process before has applied, if that is not what the file says.
///
/// # Errors
/// It is not one of an evenkeel of this version.
pub fn configuration() -> io::Result<Option<Revision>> {
    let parse =
        |text: String| serde_json::from_str(&text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
    std::env::var(CONFIGURATION).ok().map(parse).transpose()
}

/// What is left to a process that is about to be started.
#[derive(Debug)]
pub struct Left<'a> {
    /// What operators want of endpoints.
    pub orders: &'a Given,
    /// The configuration, if it is not what the file says.
    pub revision: Option<&'a Revision>,
}

impl Left<'_> {
    /// Gives it to that process.
    ///
    /// # Errors
    /// The configuration is too large.
    pub fn hand_over(&self, command: &mut Command) -> io::Result<()> {
        command.env_remove(VARIABLE).env_remove(CONFIGURATION);
        if let Some(revision) = self.revision {
            let text = serde_json::to_string(revision)?;
            if text.len() > VARIABLE_MAX {
                let why = "the configuration that runs is in no file, and too large to be handed over: save it, or reload, before";
                return Err(io::Error::other(why));
            }
            command.env(CONFIGURATION, text);
        }
        if !self.orders.is_empty() {
            let text = serde_json::to_string(self.orders)?;
            if text.len() > VARIABLE_MAX {
                tracing::warn!(
                    "too many orders of operators for the process that takes over; only runtime.state keeps them"
                );
            } else {
                command.env(VARIABLE, text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_pools::orders::Order;

    #[test]
    fn what_is_written_is_read_and_what_is_broken_is_said() {
        let folder = std::env::temp_dir().join(format!("evenkeel-state-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("orders.json");
        assert_eq!(read(Some(&file)).unwrap(), Given::new());
        let mut given = Given::new();
        let order = Order { weight: Some(0), by: "uid 0".into(), ..Order::default() };
        given.entry("shop".into()).or_default().insert("shop-1".into(), order);
        write(&file, &given).unwrap();
        assert_eq!(read(Some(&file)).unwrap(), given);
        std::fs::write(&file, "{\"shop\": 1}").unwrap();
        assert_eq!(read(Some(&file)).unwrap_err().kind(), ErrorKind::InvalidData);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(write(&file, &given).is_err());
    }
}
