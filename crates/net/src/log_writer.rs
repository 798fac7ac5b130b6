//! How do lines get into a file? Each thread fills a batch of its own; full batches go to a writer thread, so that a slow
//! disk never stops a worker.

use crate::counter::Counter;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
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
    Write(Vec<u8>),
    /// Writes there from now on.
    Turn(Box<dyn Write + Send>),
}

impl Writer {
    /// Opens the file of the log of that name for appending; without a path, standard output.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: Option<&Path>, what: &'static str) -> io::Result<Writer> {
        let mut out = open(path)?;
        let (sender, tasks): (_, Receiver<Task>) = sync_channel(BATCHES_WAITING_MAX);
        let write = move || {
            for task in tasks {
                let batch = match task {
                    Task::Write(batch) => batch,
                    Task::Turn(to) => {
                        out = to;
                        continue;
                    }
                };
                if let Err(error) = out.write_all(&batch).and_then(|()| out.flush()) {
                    tracing::error!(%error, log = what, "cannot write; lines are lost");
                }
            }
        };
        let thread = std::thread::Builder::new().name(what.into()).spawn(write)?;
        Ok(Writer { sender, thread })
    }

    /// A batch for one thread, which counts there the lines that the disk could not take.
    pub fn batch(&self, dropped: Arc<Counter>) -> Batch {
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

fn open(path: Option<&Path>) -> io::Result<Box<dyn Write + Send>> {
    Ok(match path {
        None => Box::new(io::stdout()),
        Some(path) => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
    })
}

/// The lines of one thread that were not handed over yet.
#[derive(Debug)]
pub struct Batch {
    lines: Vec<u8>,
    sender: SyncSender<Task>,
    dropped: Arc<Counter>,
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

    /// Lines so far that the disk could not take.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Gives the lines to the writer.
    #[cold]
    pub fn hand_over(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let lines = std::mem::replace(&mut self.lines, Vec::with_capacity(BATCH + 4096));
        if let Err(TrySendError::Full(Task::Write(lines)) | TrySendError::Disconnected(Task::Write(lines))) =
            self.sender.try_send(Task::Write(lines))
        {
            self.dropped.add(memchr::memchr_iter(b'\n', &lines).count() as u64);
        }
    }
}

/// The last lines are written too.
impl Drop for Batch {
    fn drop(&mut self) {
        self.hand_over();
    }
}
