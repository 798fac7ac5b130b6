//! How do lines get into a file? Each thread fills a batch of its own; full batches go to a writer thread, so that a slow
//! disk never stops a worker.

use crate::line_file::LineFile;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// A batch is handed over when it gets this large, or at the latest each second.
const BATCH: usize = 64 * 1024;

/// Batches that may wait for the disk: 16 MiB. More are dropped, and counted.
const BATCHES_WAITING_MAX: usize = 256;

/// The thread that writes. Ends, with everything written, when all [`Batch`]es are gone.
#[derive(Debug)]
pub struct Writer {
    sender: SyncSender<Task>,
    thread: JoinHandle<()>,
}

/// What the thread is given.
enum Task {
    Write(Lines),
    /// Writes there from now on.
    Turn(File),
}

/// Whole lines, and where they are counted if they cannot be written.
struct Lines {
    text: Vec<u8>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Opens the file of the log of that name for appending; without a path, standard output.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: Option<&Path>, what: &'static str) -> io::Result<Writer> {
        let mut out = LineFile::new(open(path)?);
        let (sender, tasks): (_, Receiver<Task>) = sync_channel(BATCHES_WAITING_MAX);
        let write = move || {
            // Since it was possible to write.
            let mut lost = None;
            for task in tasks {
                let Lines { text, lost: counter } = match task {
                    Task::Write(lines) => lines,
                    Task::Turn(to) => {
                        out = LineFile::new(to);
                        continue;
                    }
                };
                match (out.write(&text, &counter), &mut lost) {
                    (Ok(()), None) => {}
                    (Ok(()), Some(lines)) => {
                        tracing::warn!(log = what, lines, "can write again; lines were lost");
                        lost = None;
                    }
                    (Err((error, more)), None) => {
                        tracing::error!(%error, log = what, "cannot write; lines are lost until it is possible again");
                        lost = Some(more);
                    }
                    (Err((_, more)), Some(lines)) => *lines += more,
                }
            }
        };
        let thread = std::thread::Builder::new().name(what.into()).spawn(write)?;
        Ok(Writer { sender, thread })
    }

    /// A batch for one thread. `dropped` counts its lines that could not be written: the disk was full, or too slow.
    pub fn batch(&self, dropped: Arc<AtomicU64>) -> Batch {
        Batch { lines: Vec::with_capacity(BATCH + 4096), sender: self.sender.clone(), dropped }
    }

    /// Opens the file again: after what waits is written, lines go there.
    ///
    /// # Errors
    /// It cannot be opened, or so much waits for the disk that this cannot.
    pub fn reopen(&self, path: Option<&Path>) -> io::Result<()> {
        let out = open(path)?;
        self.sender.try_send(Task::Turn(out)).map_err(|_| io::Error::other("its disk does not keep up"))
    }

    /// Waits until all is written. All batches must be gone.
    pub fn finish(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

fn open(path: Option<&Path>) -> io::Result<File> {
    match path {
        // Not by way of `Stdout`, which keeps what it cannot write.
        None => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        Some(path) => OpenOptions::new().create(true).append(true).open(path),
    }
}

/// The lines of one thread that were not handed over yet.
#[derive(Debug)]
pub struct Batch {
    lines: Vec<u8>,
    sender: SyncSender<Task>,
    dropped: Arc<AtomicU64>,
}

impl Batch {
    /// Adds what `write` appends: whole lines.
    #[inline]
    pub fn add_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.lines);
        if self.lines.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Adds text: whole lines.
    pub fn add_text(&mut self, lines: &str) {
        self.add_with(|to| to.extend_from_slice(lines.as_bytes()));
    }

    /// Lines so far that could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Gives the lines to the writer.
    #[cold]
    pub fn hand_over(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let text = std::mem::replace(&mut self.lines, Vec::with_capacity(BATCH + 4096));
        let task = Task::Write(Lines { text, lost: self.dropped.clone() });
        if let Err(TrySendError::Full(Task::Write(lines)) | TrySendError::Disconnected(Task::Write(lines))) =
            self.sender.try_send(task)
        {
            self.dropped.fetch_add(memchr::memchr_iter(b'\n', &lines.text).count() as u64, Relaxed);
        }
    }
}

/// The last lines are written too.
impl Drop for Batch {
    fn drop(&mut self) {
        self.hand_over();
    }
}
