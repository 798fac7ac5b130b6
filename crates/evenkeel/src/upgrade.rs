//! How does another build take over without loss? It is started with our listening sockets and says when it serves; only
//! then do we accept no more. If it does not come up, nothing has changed.

use evenkeel_net::inherit;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::process::{Child, Command};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

/// How long the other process may take until it serves.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that is about to take over.
#[derive(Debug)]
pub struct Upgrade {
    child: Child,
    ready: Receiver,
    until: Instant,
}

impl Upgrade {
    /// Starts the program that was started as this one, with the same arguments and these sockets, as the same instance.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(instance: u64, sockets: &[(String, BorrowedFd<'_>)]) -> io::Result<Upgrade> {
        let mut arguments = std::env::args_os();
        // Not /proc/self/exe: that is the build that runs, even where another one is in its place.
        let program = arguments.next().ok_or_else(|| io::Error::other("the path of this program is not known"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let (ready, says): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        inherit::hand_over(&mut command, instance, sockets, &says)?;
        let child = command.spawn()?;
        Ok(Upgrade { child, ready: Receiver::from_owned_fd(ready)?, until: Instant::now() + PATIENCE })
    }

    /// Waits until it serves; its process id then. If it does not come to that, why, and it is gone.
    pub async fn serves(&mut self) -> Result<u32, String> {
        let heard = tokio::time::timeout_at(self.until, self.ready.read_u8()).await;
        if let Ok(Ok(_)) = heard {
            return Ok(self.child.id());
        }
        if heard.is_err() {
            // If it has just ended, there is nothing to kill.
            let _ = self.child.kill();
        }
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(match heard {
            Err(_) => format!("it did not serve within {PATIENCE:?}"),
            Ok(_) => format!("it ended before it served ({status}); it has said why"),
        })
    }
}
