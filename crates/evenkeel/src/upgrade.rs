//! Upgrade to another build without loss: it is started with our listening sockets and reports when it serves, and only then do
//! we accept no more. If it does not come up, nothing has changed.

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
    /// Deadline for it to end by itself, once it has closed its pipe.
    leaves: Option<Instant>,
}

impl Upgrade {
    /// Starts the program that was started as this one, with the same arguments and these sockets, as the same instance, and with
    /// what is left to it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(instance: u64, sockets: &[(String, BorrowedFd<'_>)], left: &Left<'_>) -> io::Result<Upgrade> {
        let mut arguments = std::env::args_os();
        // Not /proc/self/exe: that is the build that runs, even where another one is in its place.
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

    /// Waits until it serves; its process id then. If it does not come to that, why, and it is gone. May be dropped and
    /// called again.
    pub async fn serves(&mut self) -> Result<u32, String> {
        let heard = tokio::time::timeout_at(self.until, hear(&mut self.ready, &mut self.said)).await;
        if let Some(pid) = inherit::read_word(&self.said) {
            return Ok(pid);
        }
        let patience = if heard.is_ok() { LEAVING } else { Duration::ZERO };
        // From the first time on: what waits here is dropped whenever something else is to be done.
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

/// Adds what comes, until that is a line, as long as a word may be, or all.
async fn hear(ready: &mut Receiver, said: &mut Vec<u8>) {
    while !said.ends_with(b"\n") && said.len() < inherit::WORD_MAX {
        match ready.read_buf(said).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
}
