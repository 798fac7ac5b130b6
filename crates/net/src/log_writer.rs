//! Log lines on their way to a file or a logger. Each thread fills its batches, which a writer thread
//! writes, so that a slow disk or a dead logger never stops a worker.

use crate::line_file::LineFile;
use crate::line_socket::LineSocket;
pub use crate::line_socket::Logger;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Size at which a batch is handed over, in bytes; otherwise that happens each second.
const BATCH: usize = 64 * 1024;

/// Most batches that wait for the disk: 16 MiB. More are dropped and counted.
const BATCHES_WAITING_MAX: usize = 256;

/// Longest wait for unwritten lines at the end. A pipe without a reader, or a hung disk, delays neither a
/// reload nor the end of the process.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// Least time between two log messages about lost lines.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard output, unbuffered.
    Stdout,
    /// Standard error, unbuffered.
    Stderr,
    /// File to append to; created if missing.
    File(PathBuf),
    /// Logger that gets each line as a datagram.
    Logger(Logger),
}

/// Open destination of lines.
enum Out {
    File(LineFile<File>),
    Socket(LineSocket),
}

/// Handle of the writer thread, which ends when all [`Batch`]es are gone and everything is written.
#[derive(Debug)]
pub struct Writer {
    sender: SyncSender<Task>,
    what: &'static str,
    thread: JoinHandle<()>,
    /// Number of lines dropped because the queue was full.
    overrun: Arc<AtomicU64>,
}

/// Message to the writer thread.
enum Task {
    Write(Lines),
    /// Switches to another destination.
    Turn(Out),
}

/// Whole lines, with the counter for lines that cannot be written.
struct Lines {
    text: Vec<u8>,
    lost: Arc<AtomicU64>,
}

impl Out {
    /// Opens the destination. A logger need not be there yet.
    fn open(sink: &Sink) -> io::Result<Out> {
        let file = match sink {
            // Bypasses `Stdout`, which keeps bytes that it cannot write.
            Sink::Stdout => io::stdout().as_fd().try_clone_to_owned()?.into(),
            Sink::Stderr => io::stderr().as_fd().try_clone_to_owned()?.into(),
            Sink::File(path) => OpenOptions::new().create(true).append(true).open(path)?,
            Sink::Logger(logger) => return Ok(Out::Socket(LineSocket::new(logger.clone()))),
        };
        Ok(Out::File(LineFile::new(file)))
    }

    fn write(&mut self, lines: &Lines) -> Result<(), (io::Error, u64)> {
        match self {
            Out::File(file) => file.write(&lines.text, &lines.lost),
            Out::Socket(socket) => socket.write(&lines.text, &lines.lost),
        }
    }
}

/// State of the messages about lost lines.
struct Said {
    what: &'static str,
    /// Lines lost since writing last succeeded; `None` while it does.
    lost: Option<u64>,
    /// Time of the last message about that.
    at: Option<Instant>,
    overrun: Arc<AtomicU64>,
    /// Value of `overrun` at the last message about it, and its time.
    told: (u64, Option<Instant>),
}

impl Said {
    /// Logs the result of a batch if that is news.
    fn hear(&mut self, written: Result<(), (io::Error, u64)>) {
        let log = self.what;
        match (written, &mut self.lost) {
            (Ok(()), None) => {}
            (Ok(()), Some(lines)) => {
                tracing::warn!(log, lines, "writing to the log again; lines were lost");
                self.lost = None;
            }
            (Err((error, more)), None) => {
                tracing::error!(%error, log, "cannot write to the log; lines are lost until writing works again");
                (self.lost, self.at) = (Some(more), Some(Instant::now()));
            }
            (Err((error, more)), Some(lines)) => {
                *lines += more;
                if is_due(self.at) {
                    tracing::warn!(%error, log, lines, "still cannot write to the log; lines are lost");
                    self.at = Some(Instant::now());
                }
            }
        }
        let overrun = self.overrun.load(Relaxed);
        let (told, at) = self.told;
        if overrun != told && is_due(at) {
            tracing::warn!(
                log,
                lines = overrun.wrapping_sub(told),
                "destination of the log is too slow; lines were dropped"
            );
            self.told = (overrun, Some(Instant::now()));
        }
    }
}

fn is_due(said: Option<Instant>) -> bool {
    said.is_none_or(|said| said.elapsed() >= SAY_EVERY)
}

impl Writer {
    /// Opens a log. The second argument names it in messages.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(sink: &Sink, what: &'static str) -> io::Result<Writer> {
        let mut out = Out::open(sink)?;
        let (sender, tasks): (_, Receiver<Task>) = sync_channel(BATCHES_WAITING_MAX);
        let overrun = Arc::<AtomicU64>::default();
        let mut said = Said { what, lost: None, at: None, overrun: overrun.clone(), told: (0, None) };
        let write = move || {
            for task in tasks {
                match task {
                    Task::Write(lines) => said.hear(out.write(&lines)),
                    Task::Turn(to) => out = to,
                }
            }
        };
        let thread = thread::Builder::new().name(what.into()).spawn(write)?;
        Ok(Writer { sender, what, thread, overrun })
    }

    /// A batch for a thread. `dropped` counts its lines that could not be written, because the disk was
    /// full or too slow.
    pub fn batch(&self, dropped: Arc<AtomicU64>) -> Batch {
        let (sender, overrun) = (self.sender.clone(), self.overrun.clone());
        Batch { lines: Vec::with_capacity(BATCH + 4096), sender, dropped, overrun }
    }

    /// Switches to `sink` after the waiting lines are written.
    ///
    /// # Errors
    /// If it cannot be opened, or the queue is full.
    pub fn reopen(&self, sink: &Sink) -> io::Result<()> {
        let out = Out::open(sink)?;
        self.sender.try_send(Task::Turn(out)).map_err(|_| io::Error::other("the disk does not keep up"))
    }

    /// Waits until everything is written, for at most two seconds. All batches must be gone.
    #[expect(clippy::disallowed_methods, reason = "the thread that ends or reloads, which serves nothing")]
    pub fn finish(self) {
        drop(self.sender);
        let until = Instant::now() + FINISH_MAX;
        // `join` has no timeout.
        while !self.thread.is_finished() {
            if Instant::now() >= until {
                return tracing::error!(
                    log = self.what,
                    "destination of the log accepts no data; the last lines are lost"
                );
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Lines of a thread that were not handed over yet.
#[derive(Debug)]
pub struct Batch {
    lines: Vec<u8>,
    sender: SyncSender<Task>,
    dropped: Arc<AtomicU64>,
    overrun: Arc<AtomicU64>,
}

impl Batch {
    /// Adds the whole lines that `write` appends.
    #[inline]
    pub fn add_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.lines);
        if self.lines.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Adds a text of whole lines.
    pub fn add_text(&mut self, lines: &str) {
        self.add_with(|to| to.extend_from_slice(lines.as_bytes()));
    }

    /// Number of lines so far that could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// True if there are lines that the writer does not have yet.
    pub fn holds_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Hands the lines over to the writer thread.
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
            let count = memchr::memchr_iter(b'\n', &lines.text).count() as u64;
            self.dropped.fetch_add(count, Relaxed);
            self.overrun.fetch_add(count, Relaxed);
        }
    }
}

/// Hands over the last lines.
impl Drop for Batch {
    fn drop(&mut self) {
        self.hand_over();
    }
}
