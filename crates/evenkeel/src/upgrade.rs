//! Upgrade to another build without loss. The new process starts with our listening sockets and reports when it serves.
//! Only then does this process stop accepting. If the new process does not start, nothing has changed.

use crate::window::state::Left;
use evenkeel_net::inherit;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::process::{Child, Command};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

/// Time in which the other process has to serve.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time in which a process that has closed its pipe has to end.
const LEAVING: Duration = Duration::from_secs(1);

/// A process that is about to take over.
#[derive(Debug)]
pub struct Upgrade {
    child: Child,
    ready: Receiver,
    /// Bytes that it has written so far.
    said: Vec<u8>,
    until: Instant,
    /// Deadline for it to end on its own, once it has closed its pipe.
    leaves: Option<Instant>,
}

impl Upgrade {
    /// Starts the program again with the same arguments, with these sockets, as the same instance, and with the state
    /// in `left`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(instance: u64, sockets: &[(String, BorrowedFd<'_>)], left: &Left<'_>) -> io::Result<Upgrade> {
        let mut arguments = std::env::args_os();
        // Not /proc/self/exe: that is the running build, even after another build has replaced the file.
        let program = arguments.next().ok_or_else(|| io::Error::other("the path of this program is unknown"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let (ready, says): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        inherit::hand_over(&mut command, instance, sockets, &says)?;
        left.hand_over(&mut command)?;
        let child = command.spawn()?;
        Ok(Upgrade {
            child,
            ready: Receiver::from_owned_fd(ready)?,
            said: Vec::new(),
            until: Instant::now() + PATIENCE,
            leaves: None,
        })
    }

    /// Waits until the new process serves, and returns its process id. If it fails, returns the reason, and the process
    /// is gone. The future may be dropped, and the method called again.
    pub async fn serves(&mut self) -> Result<u32, String> {
        let heard = tokio::time::timeout_at(self.until, hear(&mut self.ready, &mut self.said)).await;
        if let Some(pid) = inherit::read_word(&self.said) {
            return Ok(pid);
        }
        let patience = if heard.is_ok() { LEAVING } else { Duration::ZERO };
        // Measured from the first call: this future is dropped whenever the process has something else to do.
        let leaves = *self.leaves.get_or_insert_with(|| Instant::now() + patience);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < leaves {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // If it has ended, there is nothing to kill.
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(match (heard, String::from_utf8_lossy(&self.said)) {
            (Err(_), _) => format!("it did not serve within {PATIENCE:?}"),
            (Ok(()), said) if said.is_empty() => {
                format!("it ended before it served ({status}); its log has the reason")
            }
            (Ok(()), said) => format!("it ended ({status}) without reporting that it serves; it wrote: {said}"),
        })
    }
}

/// Reads until the end of a line, up to the length limit of a word, or until the other side closes.
async fn hear(ready: &mut Receiver, said: &mut Vec<u8>) {
    while !said.ends_with(b"\n") && said.len() < inherit::WORD_MAX {
        match ready.read_buf(said).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
}
