//! Who asked for what, and how did it go? A JSON line for each request, written into a batch of the worker's own;
//! full batches go to a writer thread, so that a slow disk never stops a worker.

use crate::clock::CachedClock;
use crate::stats::Counter;
use evenkeel_balance::Instant;
use evenkeel_config::plan::LogTarget;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// A batch is handed over when it gets this large, or at the latest each second.
const BATCH: usize = 64 * 1024;

/// Batches that may wait for the disk: 16 MiB. More are dropped, and counted.
const BATCHES_WAITING_MAX: usize = 256;

/// The thread that writes. Ends, with everything written, when all [`Batch`]es are gone.
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
    /// Opens the target, of the log of that name.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(target: &LogTarget, what: &'static str) -> io::Result<Writer> {
        let mut out = open(target)?;
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

    /// A batch for one worker, which counts there the lines that the disk could not take.
    pub fn batch(&self, dropped: Arc<Counter>) -> Batch {
        Batch { lines: Vec::with_capacity(BATCH + 4096), sender: self.sender.clone(), dropped }
    }

    /// Opens the target again: after what waits is written, lines go there.
    ///
    /// # Errors
    /// It cannot be opened, or so much waits for the disk that this cannot.
    pub fn reopen(&self, target: &LogTarget) -> io::Result<()> {
        let out = open(target)?;
        self.sender.try_send(Task::Turn(out)).map_err(|_| io::Error::other("its disk does not keep up"))
    }

    /// Waits until all is written. All batches must be gone.
    pub fn finish(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

fn open(target: &LogTarget) -> io::Result<Box<dyn Write + Send>> {
    Ok(match target {
        LogTarget::Stdout => Box::new(io::stdout()),
        LogTarget::File(path) => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
    })
}

/// The lines of one worker that were not handed over yet.
pub struct Batch {
    lines: Vec<u8>,
    sender: SyncSender<Task>,
    dropped: Arc<Counter>,
}

/// One request, for its line. Durations in nanoseconds; `None` where that phase was not reached.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Line<'a> {
    pub began: Instant,
    pub request_id: u64,
    pub client: &'a [u8],
    /// Who connected, if that was not the client.
    pub peer: Option<&'a [u8]>,
    pub listener: &'a str,
    pub route: Option<&'a str>,
    pub pool: Option<&'a str>,
    pub endpoint: Option<&'a str>,
    pub tries: u32,
    pub proto: &'static str,
    /// Fields made by [`asked`] when the request came; empty if it could not be read.
    pub asked: &'a [u8],
    pub status: u16,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub queue_ns: u64,
    pub connect_ns: Option<u64>,
    pub ttfb_ns: Option<u64>,
    pub total_ns: u64,
    pub term: [u8; 2],
}

impl Batch {
    /// Adds a line.
    #[inline]
    pub fn add(&mut self, line: &Line<'_>, clock: &CachedClock) {
        let out = &mut self.lines;
        out.extend_from_slice(b"{\"ts\":\"");
        timestamp(out, clock.unix_ms(line.began));
        out.extend_from_slice(b"\",\"req_id\":\"");
        hex(out, line.request_id);
        out.extend_from_slice(b"\",\"client\":\"");
        out.extend_from_slice(line.client);
        out.extend_from_slice(b"\",\"peer\":");
        match line.peer {
            Some(peer) => {
                out.push(b'"');
                out.extend_from_slice(peer);
                out.push(b'"');
            }
            None => out.extend_from_slice(b"null"),
        }
        text(out, b",\"listener\":\"", line.listener.as_bytes());
        out.push(b'"');
        for (key, value) in
            [(&b",\"route\":"[..], line.route), (b",\"pool\":", line.pool), (b",\"endpoint\":", line.endpoint)]
        {
            out.extend_from_slice(key);
            match value {
                Some(value) => {
                    text(out, b"\"", value.as_bytes());
                    out.push(b'"');
                }
                None => out.extend_from_slice(b"null"),
            }
        }
        number(out, b",\"tries\":", u64::from(line.tries));
        out.extend_from_slice(b",\"proto\":\"");
        out.extend_from_slice(line.proto.as_bytes());
        out.push(b'"');
        out.extend_from_slice(if line.asked.is_empty() { UNREAD } else { line.asked });
        number(out, b",\"status\":", u64::from(line.status));
        number(out, b",\"bytes_in\":", line.bytes_in);
        number(out, b",\"bytes_out\":", line.bytes_out);
        millis(out, b",\"t_queue\":", Some(line.queue_ns));
        millis(out, b",\"t_connect\":", line.connect_ns);
        millis(out, b",\"t_ttfb\":", line.ttfb_ns);
        millis(out, b",\"t_total\":", Some(line.total_ns));
        out.extend_from_slice(b",\"term\":\"");
        out.extend_from_slice(&line.term);
        out.extend_from_slice(b"\"}\n");
        self.hand_over_if_full();
    }

    /// Adds what is text already, with the ends of its lines.
    #[inline]
    pub fn add_text(&mut self, lines: &str) {
        self.lines.extend_from_slice(lines.as_bytes());
        self.hand_over_if_full();
    }

    #[inline]
    fn hand_over_if_full(&mut self) {
        if self.lines.len() >= BATCH {
            self.hand_over();
        }
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

/// What [`asked`] would make of a request that could not be read.
const UNREAD: &[u8] = b",\"method\":null,\"host\":null,\"path\":null,\"trace_id\":null";

/// Appends the fields that only the request itself tells, while its bytes are there.
pub fn asked(out: &mut Vec<u8>, method: &str, host: &[u8], target: &str, traceparent: Option<&[u8]>) {
    text(out, b",\"method\":\"", method.as_bytes());
    text(out, b"\",\"host\":\"", host);
    text(out, b"\",\"path\":\"", target.as_bytes());
    out.extend_from_slice(b"\",\"trace_id\":");
    match traceparent.and_then(trace_id) {
        Some(id) => {
            text(out, b"\"", id);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// The same of a session, of which only the server that it asked for may be known.
pub fn asked_by_name(out: &mut Vec<u8>, host: Option<&str>) {
    let Some(host) = host else { return };
    text(out, b",\"method\":null,\"host\":\"", host.as_bytes());
    out.extend_from_slice(b"\",\"path\":null,\"trace_id\":null");
}

/// The trace id of a W3C `traceparent`: `00-<32 hex>-<16 hex>-<2 hex>`.
fn trace_id(value: &[u8]) -> Option<&[u8]> {
    let id = value.get(3..35)?;
    let fits = value.get(2) == Some(&b'-') && value.get(35) == Some(&b'-') && id.iter().all(u8::is_ascii_hexdigit);
    fits.then_some(id)
}

/// A key and a value, escaped as JSON; bytes that are not UTF-8 are taken as Latin-1, which never fails.
fn text(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(key);
    if value.iter().all(|&b| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\') {
        return out.extend_from_slice(value);
    }
    for chunk in value.utf8_chunks() {
        for &b in chunk.valid().as_bytes() {
            match b {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
                0..0x20 | 0x7f => escape(out, b),
                _ => out.push(b),
            }
        }
        chunk.invalid().iter().for_each(|&b| escape(out, b));
    }
}

fn escape(out: &mut Vec<u8>, b: u8) {
    out.extend_from_slice(b"\\u00");
    out.extend([b >> 4, b & 15].map(|d| b"0123456789abcdef"[usize::from(d)]));
}

fn number(out: &mut Vec<u8>, key: &[u8], value: u64) {
    out.extend_from_slice(key);
    digits(out, value, 1);
}

/// Milliseconds with three decimals.
fn millis(out: &mut Vec<u8>, key: &[u8], ns: Option<u64>) {
    out.extend_from_slice(key);
    let Some(ns) = ns else { return out.extend_from_slice(b"null") };
    digits(out, ns / 1_000_000, 1);
    out.push(b'.');
    digits(out, ns / 1_000 % 1_000, 3);
}

/// Decimal digits, at least `least`. By hand: `write!` costs ten times as much.
fn digits(out: &mut Vec<u8>, mut n: u64, least: usize) {
    let mut room = [b'0'; 20];
    let mut at = room.len();
    while n > 0 {
        at -= 1;
        room[at] = b'0' + (n % 10) as u8;
        n /= 10;
    }
    out.extend_from_slice(&room[at.min(room.len() - least)..]);
}

fn hex(out: &mut Vec<u8>, n: u64) {
    out.extend((0..16).rev().map(|i| b"0123456789abcdef"[(n >> (4 * i)) as usize & 15]));
}

/// RFC 3339 in UTC with milliseconds. Days to a date as in Hinnant's `civil_from_days`.
fn timestamp(out: &mut Vec<u8>, unix_ms: u64) {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    for (value, width, after) in [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (ms / 3_600_000, 2, b':'),
        (ms / 60_000 % 60, 2, b':'),
        (ms / 1000 % 60, 2, b'.'),
        (ms % 1000, 3, b'Z'),
    ] {
        digits(out, value, width);
        out.push(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_times_and_numbers() {
        assert_eq!(made(|o| timestamp(o, 0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(made(|o| timestamp(o, 1_709_251_199_999)), "2024-02-29T23:59:59.999Z");
        assert_eq!(made(|o| timestamp(o, 1_795_132_800_001)), "2026-11-20T00:00:00.001Z");
        assert_eq!(made(|o| millis(o, b"", Some(1_234_567))), "1.234");
        assert_eq!(made(|o| number(o, b"", 0)), "0");
        assert_eq!(made(|o| hex(o, 0xabc)), "0000000000000abc");
    }

    #[test]
    fn escapes_whatever_a_client_sends() {
        assert_eq!(made(|o| text(o, b"", b"a\"b\\c\x01\x7f\xff")), r#"a\"b\\c\u0001\u007f\u00ff"#);
        assert_eq!(made(|o| text(o, b"", "gr\u{f6}\u{df}e \u{8239}".as_bytes())), "gr\u{f6}\u{df}e \u{8239}");
        let trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let line = made(|o| asked(o, "GET", b"h", "/", Some(trace)));
        assert!(line.ends_with(r#""trace_id":"0af7651916cd43dd8448eb211c80319c""#), "{line}");
        assert!(made(|o| asked(o, "GET", b"h", "/", Some(b"junk"))).ends_with("null"));
    }
}
