//! Lines written to a file on a disk that may be full. Lines that do not fit are counted. A line that was
//! written in part is completed before anything else, so that every line of the file is whole.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A file that only ever gets whole lines.
#[derive(Debug)]
pub(crate) struct LineFile<W> {
    out: W,
    torn: Option<Torn>,
}

/// A line of which only a part is in the file.
#[derive(Debug)]
struct Torn {
    rest: Vec<u8>,
    /// Counts the line if it is never completed.
    lost: Arc<AtomicU64>,
}

impl<W: Write> LineFile<W> {
    pub(crate) fn new(out: W) -> LineFile<W> {
        LineFile { out, torn: None }
    }

    /// Writes whole lines. `lost` counts those that cannot be written.
    ///
    /// # Errors
    /// The cause, and the number of lines lost.
    pub(crate) fn write(&mut self, lines: &[u8], lost: &Arc<AtomicU64>) -> Result<(), (io::Error, u64)> {
        let fail = |error, rest| {
            let count = memchr::memchr_iter(b'\n', rest).count() as u64;
            lost.fetch_add(count, Relaxed);
            Err((error, count))
        };
        if let Err(error) = self.complete() {
            return fail(error, lines);
        }
        let (written, result) = write_some(&mut self.out, lines);
        let Err(error) = result else { return Ok(()) };
        let (done, rest) = lines.split_at(written);
        let torn = match done {
            [] | [.., b'\n'] => 0,
            _ => memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1),
        };
        if torn > 0 {
            self.torn = Some(Torn { rest: rest[..torn].to_vec(), lost: lost.clone() });
        }
        fail(error, &rest[torn..])
    }

    /// Writes the rest of a torn line.
    fn complete(&mut self) -> io::Result<()> {
        let Some(torn) = &mut self.torn else { return Ok(()) };
        let (written, result) = write_some(&mut self.out, &torn.rest);
        torn.rest.drain(..written);
        result?;
        self.torn = None;
        Ok(())
    }
}

impl<W> Drop for LineFile<W> {
    fn drop(&mut self) {
        if let Some(torn) = &self.torn {
            torn.lost.fetch_add(1, Relaxed);
        }
    }
}

/// Writes as many bytes as possible. Returns their number, and the error that prevented the rest.
fn write_some(out: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for this many more bytes.
    struct Disk {
        room: usize,
        file: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room).min(5);
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= n;
            self.file.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_whole_or_lost_and_counted_wherever_the_disk_gets_full() {
        let lines = b"first\nsecond\nthird\n";
        for room in 0..=lines.len() {
            for later in 0..=lines.len() {
                let lost = Arc::new(AtomicU64::new(0));
                let mut file = LineFile::new(Disk { room, file: Vec::new() });
                let first = file.write(lines, &lost);
                assert_eq!(first.is_ok(), room == lines.len());
                assert_eq!(first.map_or_else(|(_, count)| count, |()| 0), lost.load(Relaxed));
                file.out.room = later;
                let _ = file.write(lines, &lost);
                file.out.room = 100;
                file.write(b"last\n", &lost).expect("there is room");
                let text = String::from_utf8(file.out.file.clone()).expect("only these lines were written");
                assert!(text.ends_with("\nlast\n") || text == "last\n", "{text:?}");
                assert!(text.lines().all(|line| ["first", "second", "third", "last"].contains(&line)), "{text:?}");
                assert_eq!(text.lines().count() as u64 + lost.load(Relaxed), 7, "{text:?}");
            }
        }
    }

    #[test]
    fn a_torn_line_that_is_given_up_is_counted() {
        let lost = Arc::new(AtomicU64::new(0));
        let mut file = LineFile::new(Disk { room: 8, file: Vec::new() });
        assert!(file.write(b"first\nsecond\nthird\n", &lost).is_err());
        assert_eq!(lost.load(Relaxed), 1, "the third");
        drop(file);
        assert_eq!(lost.load(Relaxed), 2);
    }
}
