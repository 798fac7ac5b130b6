//! The program `nft`: it applies a text as one transaction, and lists what there is as JSON.

use crate::driver::Fault;
use serde_json::Value;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Characters of an error that are kept.
const ERROR_MAX: usize = 500;

/// Applies commands, all or none.
///
/// # Errors
/// `nft` cannot be run, or refuses them.
pub fn apply(commands: &str) -> Result<(), Fault> {
    run(&["-f", "-"], commands).map(drop).map_err(|reason| Fault::new("change the rules of nftables", reason))
}

/// Tests commands against the kernel without applying them.
///
/// # Errors
/// `nft` cannot be run, or would refuse them.
pub fn check(commands: &str) -> Result<(), Fault> {
    run(&["-c", "-f", "-"], commands).map(drop).map_err(|reason| Fault::new("prepare the rules of nftables", reason))
}

/// Lists objects as JSON; `None` if they do not exist.
///
/// # Errors
/// `nft` cannot be run, or its output is not JSON.
pub fn list(of: &[&str]) -> Result<Option<Vec<Value>>, Fault> {
    let fault = |reason: String| Fault::new(format!("list {} of nftables", of.join(" ")), reason);
    let text = match run(&[&["-j", "list"], of].concat(), "") {
        Err(reason) if reason.contains("No such file or directory") => return Ok(None),
        listed => listed.map_err(fault)?,
    };
    let mut listed: Value = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
    match listed.get_mut("nftables").map(Value::take) {
        Some(Value::Array(objects)) => Ok(Some(objects)),
        _ => Err(fault("it has no objects".into())),
    }
}

/// Lists objects as text, as operators know it; empty if they do not exist.
///
/// # Errors
/// `nft` cannot be run.
pub fn text(of: &[&str]) -> Result<String, Fault> {
    match run(&[&["list"], of].concat(), "") {
        Err(reason) if reason.contains("No such file or directory") => Ok(String::new()),
        listed => listed.map_err(|reason| Fault::new(format!("list {} of nftables", of.join(" ")), reason)),
    }
}

/// True if the program exists.
pub fn exists() -> bool {
    run(&["--version"], "").is_ok()
}

fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    // Users often lack the folder in their path.
    let program = if Path::new("/usr/sbin/nft").exists() { "/usr/sbin/nft" } else { "nft" };
    let mut command = Command::new(program);
    // Errors are recognised by their text.
    command.env("LC_ALL", "C");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => "the program nft is not installed".to_owned(),
        _ => format!("nft cannot be started: {error}"),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(lines.join("; ").chars().take(ERROR_MAX).collect())
}
