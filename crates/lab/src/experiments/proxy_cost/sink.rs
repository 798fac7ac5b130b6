//! Where do the log lines of a proxy that writes no files go? To a datagram socket, as to a syslog daemon; a thread on
//! the load's cores reads and counts them.

use crate::error::{Result, While};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// An open socket and its reader.
pub struct Sink {
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<u64>>,
}

impl Sink {
    /// Opens one at `path`.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn open(path: &Path) -> Result<Sink> {
        let doing = || format!("cannot open a log socket at {}", path.display());
        let socket = UnixDatagram::bind(path).or_say(doing)?;
        socket.set_read_timeout(Some(Duration::from_millis(50))).or_say(doing)?;
        let closing = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&closing);
        let reader = std::thread::spawn(move || {
            let mut line = [0; 2048];
            let mut lines = 0;
            loop {
                match socket.recv(&mut line) {
                    Ok(_) => lines += 1,
                    // Relaxed: nothing but the flag passes between the threads. Looked at only when nothing waits.
                    Err(_) if seen.load(Ordering::Relaxed) => return lines,
                    Err(_) => {}
                }
            }
        });
        Ok(Sink { closing, reader: Some(reader) })
    }

    /// Closes it and gives the number of lines that came.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn every_line_that_came_is_counted() {
        let scratch = Scratch::new().expect("the temporary folder can be written");
        let path = scratch.path().join("log");
        let sink = Sink::open(&path).expect("it can hold a socket");
        let sender = UnixDatagram::unbound().expect("sockets are to be had");
        for _ in 0..5 {
            sender.send_to(b"line", &path).expect("it is read");
        }
        assert_eq!(sink.close(), 5);
    }
}
