//! How is a running evenkeel told something? Over the Unix socket of its admin, whose mode says who may.

use crate::arguments::{Reload, Reopen};
use crate::commands::client::socket_of;
use crate::failure::{Failure, reason};
use crate::output::print;
use crate::reload::Result::{Applied, Refused};
use crate::serve::REOPENED;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Runs `evenkeel reload`.
pub fn reload(arguments: &Reload) -> Result<(), Failure> {
    let answer = ask(arguments.config.as_deref(), &arguments.socket, "/v1/reload")?;
    let text = answer["text"].as_str().unwrap_or_default();
    match &answer["result"] {
        result if *result == Applied.label() => {
            let changes = answer["changes"].as_array().into_iter().flatten().filter_map(Value::as_str);
            print(&changes.fold(text.to_owned(), |text, change| format!("{text}  {change}\n")))
        }
        result => {
            eprint!("{text}");
            Err(if *result == Refused.label() { Failure::config() } else { Failure::running("nothing was changed") })
        }
    }
}

/// Runs `evenkeel reopen`.
pub fn reopen(arguments: &Reopen) -> Result<(), Failure> {
    let answer = ask(arguments.config.as_deref(), &arguments.socket, "/v1/reopen")?;
    let text = answer["text"].as_str().unwrap_or_default();
    if answer["result"] == REOPENED {
        return print(text);
    }
    Err(Failure::running(text.trim_end()))
}

/// The answer to a change that is asked for at this path, over the socket that the file says, or else at `socket`.
fn ask(config: Option<&Path>, socket: &Path, path: &str) -> Result<Value, Failure> {
    let socket = config.map_or_else(|| Ok(socket.to_path_buf()), socket_of)?;
    let failed = |why: &str| Failure::running(format!("cannot ask at {}: {why}", socket.display()));
    let answer = post(&socket, path).map_err(|error| failed(&reason(&error)))?;
    serde_json::from_str(&answer).map_err(|_| failed("the answer is not one of an evenkeel"))
}

/// The body of the answer. It waits as long as that takes.
fn post(socket: &Path, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    write!(stream, "POST {path} HTTP/1.1\r\nhost: evenkeel\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default())
}
