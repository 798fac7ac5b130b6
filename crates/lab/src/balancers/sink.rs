//! Sink for log lines of a proxy that writes no files. They arrive over TCP, as at a syslog daemon; a thread on the
//! load's cores reads and counts them.

use crate::error::{Result, While};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which an idle reader checks whether to end.
const GLANCE: Duration = Duration::from_millis(20);

/// A listening port and its reader.
pub struct Sink {
    /// Port for lines, framed by octet counting (RFC 6587 3.4.1).
    pub port: u16,
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<u64>>,
}

impl Sink {
    /// Opens a port and starts its reader.
    ///
    /// # Errors
    /// If the system refuses a port.
    pub fn open() -> Result<Sink> {
        let doing = || "cannot open a port for log lines".to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").or_say(doing)?;
        listener.set_nonblocking(true).or_say(doing)?;
        let port = listener.local_addr().or_say(doing)?.port();
        let closing = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&closing);
        let reader = std::thread::spawn(move || {
            let mut lines = 0;
            loop {
                match listener.accept() {
                    Ok((stream, _)) => lines += read(stream, &seen),
                    // Relaxed: nothing but the flag passes between the threads.
                    Err(_) if seen.load(Ordering::Relaxed) => return lines,
                    Err(_) => std::thread::sleep(GLANCE), // accept has no timeout
                }
            }
        });
        Ok(Sink { port, closing, reader: Some(reader) })
    }

    /// Closes it once everything is read, and returns the number of lines received.
    pub fn close(mut self) -> u64 {
        self.end()
    }

    fn end(&mut self) -> u64 {
        self.closing.store(true, Ordering::Relaxed);
        self.reader.take().map_or(0, |reader| reader.join().unwrap_or(0))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.end();
    }
}

/// Counts the lines of a connection until it ends.
fn read(mut stream: TcpStream, closing: &AtomicBool) -> u64 {
    if stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(GLANCE))).is_err() {
        return 0;
    }
    let mut frames = Frames::default();
    let mut chunk = vec![0; 256 * 1024];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return frames.whole,
            Ok(read) => frames.take(&chunk[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if closing.load(Ordering::Relaxed) {
                    return frames.whole;
                }
            }
            Err(_) => return frames.whole,
        }
    }
}

/// Counts frames of the form `LENGTH SPACE BYTES` without looking into them.
#[derive(Default)]
struct Frames {
    whole: u64,
    length: usize,
    to_skip: usize,
}

impl Frames {
    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(&byte) = bytes.first() {
            if self.to_skip > 0 {
                let skipped = self.to_skip.min(bytes.len());
                self.to_skip -= skipped;
                self.whole += u64::from(self.to_skip == 0);
                bytes = &bytes[skipped..];
                continue;
            }
            match byte {
                b'0'..=b'9' => self.length = self.length * 10 + usize::from(byte - b'0'),
                _ => self.to_skip = std::mem::take(&mut self.length),
            }
            bytes = &bytes[1..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let bytes = b"5 a b 112 twelve bytes3 end4 cut";
        for size in 1..bytes.len() {
            let mut frames = Frames::default();
            bytes.chunks(size).for_each(|chunk| frames.take(chunk));
            assert_eq!(frames.whole, 3, "in pieces of {size}");
        }
    }

    #[test]
    fn every_line_that_came_is_counted() {
        let sink = Sink::open().expect("ports are to be had");
        let mut sender = TcpStream::connect(("127.0.0.1", sink.port)).expect("it listens");
        for _ in 0..5 {
            sender.write_all(b"4 line").expect("it is read");
        }
        drop(sender);
        assert_eq!(sink.close(), 5);
    }
}
