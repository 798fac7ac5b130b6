//! HAProxy and NGINX as processes of their own.

use super::Addresses;
use super::endpoint::Endpoints;
use crate::support::Folder;
use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Program whose fixtures are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Haproxy,
    Nginx,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
        }
    }

    /// Ending of the names of its configurations.
    pub fn end(self) -> &'static str {
        match self {
            Kind::Haproxy => "cfg",
            Kind::Nginx => "conf",
        }
    }
}

/// A running original. Killed when dropped.
pub struct Original {
    child: RefCell<Child>,
    log: PathBuf,
}

impl Original {
    /// Starts it, and waits until it accepts at all of its addresses.
    pub fn start(kind: Kind, folder: &Folder, text: &str, listens: &Addresses) -> Original {
        let program = evenkeel_peers::find(kind.name()).expect("it was looked for");
        let log = folder.0.join("original.log");
        let file = File::create(&log).expect("the folder can be written");
        let mut command = Command::new(program);
        match kind {
            Kind::Haproxy => {
                command.args(["-db", "-f", &folder.file("original.cfg", text)]);
            }
            Kind::Nginx => {
                let config = folder.file("original.conf", &runnable(text, &folder.0.display().to_string()));
                let prefix = folder.0.display().to_string();
                // A single process, so that none is left behind.
                command.args(["-p", &prefix, "-c", &config, "-e", "stderr", "-g", "daemon off; master_process off;"]);
            }
        }
        let stderr = Stdio::from(file.try_clone().expect("descriptors can be had"));
        let child = command.stdin(Stdio::null()).stdout(file).stderr(stderr).spawn().expect("it starts");
        let original = Original { child: RefCell::new(child), log };
        Endpoints::ready(listens.values().cloned(), || {
            let ended = original.child.borrow_mut().try_wait().expect("it is ours");
            assert!(ended.is_none(), "{} ended:\n{}\n{text}", kind.name(), original.said());
        });
        original
    }

    /// Text that it has written to both outputs so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A configuration that NGINX runs: blocks around snippets, and folders that it may write.
fn runnable(text: &str, folder: &str) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {folder}/{kind}; "))
        .collect();
    let has = |block: &str| text.lines().any(|line| line.trim_start().starts_with(block));
    let events = if has("events") { "" } else { "events {}\n" };
    let pid = if has("pid ") { String::new() } else { format!("pid {folder}/nginx.pid;\n") };
    match has("http {") {
        true => format!("{pid}{events}{}", text.replacen("http {", &format!("http {{ {temporary}"), 1)),
        false if has("stream {") => format!("{pid}{events}{text}"),
        false => format!("{pid}{events}http {{ {temporary}\n{text}\n}}\n"),
    }
}
