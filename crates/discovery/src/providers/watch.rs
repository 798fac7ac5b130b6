//! Watches of folders with inotify. Events are only hints to read the files again: editors, package managers
//! and orchestrators write, rename and replace links in any order, and only the contents count.

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Quiet time before the files are read, since a change of several files takes some writes.
const QUIET: Duration = Duration::from_millis(100);

/// Longest delay of a change while writes continue without a pause.
const LATEST: Duration = Duration::from_secs(2);

/// Events that may change the contents of a file in a folder.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Folders watched by a single inotify instance.
#[derive(Debug)]
pub struct Folders {
    inotify: Arc<OwnedFd>,
    hint: mpsc::Sender<()>,
}

/// Receiver of events in watched folders.
#[derive(Debug)]
pub struct Touched {
    events: mpsc::Receiver<()>,
    /// True if an event was received but not reported yet.
    is_touched: bool,
}

/// Starts a watch without folders. It ends when the [`Folders`] are dropped.
///
/// # Errors
/// If the kernel refuses another inotify instance or thread.
pub fn start() -> io::Result<(Folders, Touched)> {
    let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
    // A pending event stands for any number of them.
    let (hint, events) = mpsc::channel(1);
    let (reading, sender) = (inotify.clone(), hint.downgrade());
    let read = move || {
        // The kind of event does not matter, only the contents of the files.
        while rustix::io::read(&reading, &mut [0u8; 4096][..]).is_ok() {
            let Some(sender) = sender.upgrade() else { return };
            let _ = sender.try_send(());
        }
    };
    std::thread::Builder::new().name("watch".into()).spawn(read)?;
    Ok((Folders { inotify, hint }, Touched { events, is_touched: false }))
}

impl Folders {
    /// Adds folders, and signals an event for them, because something may have happened already. Folders that
    /// do not exist or may not be read are skipped with a warning.
    pub fn add(&self, folders: &BTreeSet<PathBuf>) {
        for folder in folders {
            if let Err(error) = inotify::add_watch(&self.inotify, folder, EVENTS) {
                tracing::warn!(folder = %folder.display(), %error, "cannot watch a configuration folder");
            }
        }
        let _ = self.hint.try_send(());
    }
}

impl Touched {
    /// Waits for an event followed by a quiet moment. Cancel safe. Never returns if no folder is watched any
    /// more.
    pub async fn next(&mut self) {
        if !self.is_touched {
            if self.events.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
            self.is_touched = true;
        }
        let quiet = async { while tokio::time::timeout(QUIET, self.events.recv()).await.is_ok() {} };
        let _ = tokio::time::timeout(LATEST, quiet).await;
        self.is_touched = false;
    }
}
