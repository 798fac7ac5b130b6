//! This program, started again in private namespaces: of processes, of mounts and, unless it joins the network of
//! another process, of network. Everything in there ends with it: the first process of a namespace takes the others
//! along, and it ends when its standard input does.

use std::env;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use tokio::sync::oneshot;

/// Variable with the folder of the cluster; set only in there.
const INSIDE: &str = "EVENKEEL_CLUSTER_INSIDE";

/// Returns the folder of the cluster if this process runs in there.
pub fn inside() -> Option<PathBuf> {
    env::var_os(INSIDE).map(PathBuf::from)
}

/// Waits until the process that started this process ends.
pub async fn released() {
    let (sender, receiver) = oneshot::channel::<()>();
    // Not a task: a read of standard input cannot be cancelled.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        drop(sender);
    });
    let _ = receiver.await;
}

pub struct Contained {
    child: Child,
}

impl Contained {
    /// Runs this program with these arguments in private namespaces, or in the network of the process `network`.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn start(folder: &Path, arguments: &[String], network: Option<u32>) -> io::Result<Contained> {
        let mut line: Vec<String> = Vec::new();
        let root = rustix::process::geteuid().is_root();
        match network {
            Some(process) => {
                line.extend(["nsenter".into(), format!("--net=/proc/{process}/ns/net")]);
                if !root {
                    line.extend([format!("--user=/proc/{process}/ns/user"), "--preserve-credentials".into()]);
                }
                line.push("unshare".into());
            }
            None => {
                line.extend(["unshare".into(), "--net".into()]);
                line.extend((!root).then(|| "--map-root-user".into()));
            }
        }
        line.extend(["--pid", "--fork", "--kill-child", "--mount-proc"].map(String::from));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).arg(env::current_exe()?).args(arguments).env(INSIDE, folder).stdin(Stdio::piped());
        Ok(Contained { child: command.spawn()? })
    }

    /// Returns the process whose network namespace it is.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it ends on its own.
    ///
    /// # Errors
    /// If the system does not know how it ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        // `Child::wait` would close its standard input.
        let input = self.child.stdin.take();
        let status = self.child.wait();
        drop(input);
        status
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
