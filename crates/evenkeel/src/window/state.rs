//! State that outlives this process: orders of operators in a file, if `runtime.state` names a file. For the process
//! that takes over, orders and configuration are in variables of its environment.

use evenkeel_config::Disk;
use evenkeel_discovery::providers::revisions::Handed;
use evenkeel_runtime::orders::Given;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Variable with the orders that the process before has left, as JSON.
const VARIABLE: &str = "EVENKEEL_ORDERS";

/// Variable with the configuration that the process before has applied, as JSON, if its file has another.
const CONFIGURATION: &str = "EVENKEEL_CONFIGURATION";

/// Rights of a new file: orders have names of operators in them.
const MODE: u32 = 0o600;

/// Limit of a variable: the kernel allows 128 KiB.
const VARIABLE_MAX: usize = 100 * 1024;

/// Orders of operators that the previous process left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Orders for endpoints and splits.
    pub given: Given,
    /// Reason why the orders of the file cannot be used, for the log and the events.
    pub lost: Option<String>,
}

/// Reads the orders: from the environment if set, as the process that this process replaces may know more than the
/// file. A truncated file, after a crash or on a full disk, is set aside: serving without orders is better than not
/// serving.
///
/// # Errors
/// The file is there and cannot be opened, or the environment is not of an evenkeel of this version.
pub fn read(file: Option<&Path>) -> io::Result<Kept> {
    if let Ok(text) = std::env::var(VARIABLE) {
        return Ok(Kept { given: parse(text.as_bytes())?, lost: None });
    }
    let Some(file) = file else { return Ok(Kept::default()) };
    match std::fs::read(file) {
        Ok(bytes) => Ok(match parse(&bytes) {
            Ok(given) => Kept { given, lost: None },
            Err(error) => Kept { given: Given::default(), lost: Some(set_aside(file, &error)) },
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kept::default()),
        Err(error) => Err(error),
    }
}

/// Renames a file that cannot be used, so that the operator still finds it after the next file is written. Returns a
/// description.
fn set_aside(file: &Path, why: &io::Error) -> String {
    let mut bad = file.as_os_str().to_owned();
    bad.push(".bad");
    let kept = match std::fs::rename(file, &bad) {
        Ok(()) => format!("it is kept as {}", Path::new(&bad).display()),
        Err(error) => format!("it cannot be renamed: {error}"),
    };
    format!("orders of operators, such as drains, are lost: {} cannot be used ({why}); {kept}", file.display())
}

fn parse(text: &[u8]) -> io::Result<Given> {
    serde_json::from_slice(text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Writes the orders to the file. A crash leaves either all of them or the previous file.
///
/// # Errors
/// Errors of the file system.
pub fn write(file: &Path, given: &Given) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(given)?;
    text.push(b'\n');
    let mode = std::fs::metadata(file).map_or(MODE, |before| before.mode());
    Disk::replace(file, &text, mode, None)
}

/// Configuration that the process before has applied, if it differs from the file.
///
/// # Errors
/// The text is not a state of an evenkeel of this version.
pub fn configuration() -> io::Result<Option<Handed>> {
    let parse =
        |text: String| serde_json::from_str(&text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
    std::env::var(CONFIGURATION).ok().map(parse).transpose()
}

/// State for a process that is about to be started.
#[derive(Debug)]
pub struct Left<'a> {
    /// Orders of operators for endpoints and splits.
    pub orders: &'a Given,
    /// Configuration, if it differs from the file.
    pub revision: Option<&'a Handed>,
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
                let why = "the running configuration is not saved, and too large to be handed over: run `evenkeel config save` or `evenkeel reload` first";
                return Err(io::Error::other(why));
            }
            command.env(CONFIGURATION, text);
        }
        if !self.orders.is_empty() {
            let text = serde_json::to_string(self.orders)?;
            if text.len() > VARIABLE_MAX {
                tracing::warn!(
                    "cannot hand over the orders of operators, as they are too many; only runtime.state keeps them"
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
    use evenkeel_runtime::orders::Order;

    #[test]
    fn what_is_written_is_read_and_what_is_broken_is_set_aside() {
        let folder = std::env::temp_dir().join(format!("evenkeel-state-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("orders.json");
        assert_eq!(read(Some(&file)).unwrap(), Kept::default());
        let mut given = Given::default();
        let order = Order { weight: Some(0), by: "uid 0".into(), ..Order::default() };
        given.endpoints.entry("shop".into()).or_default().insert("shop-1".into(), order);
        write(&file, &given).unwrap();
        assert_eq!(read(Some(&file)).unwrap(), Kept { given: given.clone(), lost: None });
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, MODE);
        let whole = std::fs::read(&file).unwrap();
        let broken: [&[u8]; 4] = [b"{\"shop\": 1}", &whole[..whole.len() / 2], b"", b"\xff\0"];
        for text in broken {
            std::fs::write(&file, text).unwrap();
            let kept = read(Some(&file)).unwrap();
            assert!(kept.given.is_empty() && kept.lost.expect("a reason").contains("orders.json.bad"));
            assert_eq!(std::fs::read(folder.join("orders.json.bad")).unwrap(), text);
            assert_eq!(read(Some(&file)).unwrap(), Kept::default(), "it is no longer there");
        }
        assert!(read(Some(&folder)).is_err(), "a folder is not a file that was cut");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(write(&file, &given).is_err());
    }
}
