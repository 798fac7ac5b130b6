//! How is a running evenkeel told something? Over the Unix socket of its admin, whose mode says who may.

use crate::arguments::Reload;
use crate::commands::check::read;
use crate::failure::{Failure, color, reason};
use crate::output::print;
use crate::reload::Result::{Applied, Refused};
use evenkeel_config::{Outcome, render_text};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Runs `evenkeel reload`.
pub fn reload(arguments: &Reload) -> Result<(), Failure> {
    let socket = match &arguments.config {
        Some(file) => socket_of(file)?,
        None => arguments.socket.clone(),
    };
    let failed = |why: &str| Failure::running(format!("cannot ask at {}: {why}", socket.display()));
    let answer = post(&socket, "/v1/reload").map_err(|error| failed(&reason(&error)))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|_| failed("the answer is not one of an evenkeel"))?;
    let text = answer["text"].as_str().unwrap_or_default();
    match &answer["result"] {
        result if *result == Applied.label() => print(text),
        result => {
            eprint!("{text}");
            Err(if *result == Refused.label() { Failure::config() } else { Failure::running("nothing was changed") })
        }
    }
}

/// Where the evenkeel that runs this file listens for such questions.
fn socket_of(file: &Path) -> Result<PathBuf, Failure> {
    let Outcome { plan, diagnostics } = read(file);
    let Some(plan) = plan else {
        eprint!("{}", render_text(&diagnostics, color()));
        return Err(Failure::config());
    };
    plan.admin.and_then(|admin| admin.socket).ok_or_else(|| {
        Failure::running(format!(
            "{} has no socket to ask at: add [admin] with bind = \"unix:/run/evenkeel/admin.sock\"; until then, \
             SIGHUP does the same",
            file.display()
        ))
    })
}

/// The body of the answer. It waits as long as that takes.
fn post(socket: &Path, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    write!(stream, "POST {path} HTTP/1.1\r\nhost: evenkeel\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default())
}
