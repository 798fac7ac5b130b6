//! Watched folders, of which one was touched. Only a hint to look at the files again: editors, package managers and orchestrators
//! write, rename and exchange links in every order, and only what the files say counts.

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Quiet time before the files are looked at: a change of several files takes some writes.
const QUIET: Duration = Duration::from_millis(100);

/// Writes without a pause do not hold a change back for longer than this.
const LATEST: Duration = Duration::from_secs(2);

/// Events that may change the content of a file in a folder.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Watched folders.
#[derive(Debug)]
pub struct Folders {
    inotify: Arc<OwnedFd>,
    hint: mpsc::Sender<()>,
}

/// Touches of watched folders.
#[derive(Debug)]
pub struct Touched {
    events: mpsc::Receiver<()>,
    /// Something happened, and was not told yet.
    is_touched: bool,
}

/// Watches nothing yet. Ends with the folders.
///
/// # Errors
/// The kernel has no room for another watcher, or there is none for another thread.
pub fn start() -> io::Result<(Folders, Touched)> {
    let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
    // One event that was not taken yet is as good as many.
    let (hint, events) = mpsc::channel(1);
    let (reading, sender) = (inotify.clone(), hint.downgrade());
    let read = move || {
        // What exactly it was says the content of the files.
        while rustix::io::read(&reading, &mut [0u8; 4096][..]).is_ok() {
            let Some(sender) = sender.upgrade() else { return };
            let _ = sender.try_send(());
        }
    };
    std::thread::Builder::new().name("watch".into()).spawn(read)?;
    Ok((Folders { inotify, hint }, Touched { events, is_touched: false }))
}

impl Folders {
    /// Watches these folders too, in which something may have happened already. One that is not there cannot be watched, nor one that may not be read.
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
    /// Waits until something happened in there, and then nothing for a moment. May be dropped and called again. Waits for ever when
    /// no folder is watched any more.
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
