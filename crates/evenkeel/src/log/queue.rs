//! Lines on their way to standard error. A thread writes them, so that a pipe without a reader holds up no other
//! thread. Lines that find the queue full are dropped and counted; a line in the log states their number once there is
//! room again. The lock of the queue is held while a line is copied, and never during a write.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that may wait: some thousand lines.
const WAITING_MAX: usize = 1 << 20;

/// The queue of this process, once its log has started.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Lines dropped since the start.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Queue of lines to be written.
#[derive(Clone, Debug, Default)]
pub struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// Notified when there is a line to be written, and when all are.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<u8>,
    /// True while the thread writes what it has taken.
    is_writing: bool,
    /// Lines that found no room and that the log has not stated yet.
    dropped: u64,
}

impl Queue {
    /// A queue whose lines a thread writes to `out`.
    ///
    /// # Errors
    /// The thread cannot be made.
    pub fn start(mut out: impl Write + Send + 'static) -> io::Result<Queue> {
        let queue = Queue::default();
        let taken = queue.clone();
        let write = move || {
            let mut lines = Vec::new();
            loop {
                taken.take(&mut lines);
                // Nothing can be stated of an error here.
                let _ = out.write_all(&lines).and_then(|()| out.flush());
            }
        };
        std::thread::Builder::new().name("log".into()).spawn(write)?;
        Ok(queue)
    }

    /// The queue of standard error.
    ///
    /// # Errors
    /// The thread cannot be made, or there are no descriptors.
    pub fn of_stderr() -> io::Result<Queue> {
        // Not by way of `Stderr`, whose lock others would wait for.
        let queue = Queue::start(File::from(io::stderr().as_fd().try_clone_to_owned()?))?;
        Ok(QUEUE.get_or_init(|| queue).clone())
    }

    /// Waits until there are lines, and takes all of them.
    fn take(&self, taken: &mut Vec<u8>) {
        taken.clear();
        let mut lines = self.lines();
        lines.is_writing = false;
        self.0.changed.notify_all();
        while lines.waiting.is_empty() && lines.dropped == 0 {
            lines = self.0.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut lines.waiting, taken);
        lines.is_writing = true;
        let dropped = std::mem::take(&mut lines.dropped);
        drop(lines);
        if dropped > 0 {
            let pid = std::process::id();
            taken.extend_from_slice(
                format!("[{pid}] {dropped} lines of this log were dropped: nothing has read standard error\n")
                    .as_bytes(),
            );
        }
    }

    /// Adds whole lines, unless too much waits.
    fn push(&self, text: &[u8]) {
        let mut lines = self.lines();
        if lines.waiting.len() + text.len() > WAITING_MAX {
            lines.dropped += 1;
            DROPPED.fetch_add(1, Relaxed);
            return;
        }
        lines.waiting.extend_from_slice(text);
        drop(lines);
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written, for so long at most.
    fn finish(&self, limit: Duration) {
        let waits = |lines: &mut Lines| lines.is_writing || !lines.waiting.is_empty();
        drop(self.0.changed.wait_timeout_while(self.lines(), limit, waits));
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writer of the log: each event is a single write.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes text to standard error: behind the lines of the log, once that has started.
pub fn print(text: &str) {
    match QUEUE.get() {
        Some(queue) => queue.push(text.as_bytes()),
        None => eprint!("{text}"),
    }
}

/// Waits until the log is written, for a second at most.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.finish(Duration::from_secs(1));
    }
}

/// Lines dropped, as a metric.
#[derive(Debug)]
pub struct Dropped;

impl Collector for Dropped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Lines of the process log that were dropped because nothing read standard error";
        let lines = encoder.encode_descriptor("evenkeel_log_lines_dropped", help, None, MetricType::Counter)?;
        ConstCounter::new(DROPPED.load(Relaxed)).encode(lines)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Writes to a channel, and before that waits for a word.
    struct Gated {
        gate: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.gate.recv();
            let _ = self.written.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nothing_takes_are_dropped_and_counted_and_hold_up_nothing() {
        let ((open, gate), (written, lines)) = (channel(), channel());
        let queue = Queue::start(Gated { gate, written }).unwrap();
        let line = "x".repeat(WAITING_MAX / 4 - 1) + "\n";
        queue.push(b"first\n");
        // It is being written; of the others four fit.
        while !queue.lines().is_writing {
            std::thread::yield_now();
        }
        (0..7).for_each(|_| queue.push(line.as_bytes()));
        queue.finish(Duration::ZERO);
        assert_eq!(queue.lines().dropped, 3);
        drop(open);
        assert_eq!(lines.recv().unwrap(), "first\n");
        let rest = lines.recv().unwrap();
        assert_eq!(rest.matches('\n').count(), 5);
        assert!(rest.contains(" 3 lines of this log were dropped"), "{}", &rest[rest.len() - 200..]);
        queue.finish(Duration::from_secs(30));
        assert!(queue.lines().waiting.is_empty());
    }
}
