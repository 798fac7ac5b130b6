//! Traces of connections in the format of qlog, each in a file. A separate thread writes them, as a worker must not wait for
//! a disk.

use quinn_proto::{QlogConfig, QlogStream};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes that are passed to the thread together.
const PIECE: usize = 16 << 10;

/// Most pieces that wait for the disk. Behind them, events are dropped.
const PIECES_MAX: usize = 256;

/// Folder of traces, and the room that they may take there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub folder: PathBuf,
    /// Front of the names of files.
    pub name: String,
    /// Maximum number of files in the folder, which are not replaced.
    pub files: usize,
    /// Maximum size of a file in bytes.
    pub size: usize,
}

/// Events of a trace, or its end.
enum Piece {
    Events(usize, Vec<u8>),
    End(usize),
}

/// Begins traces, up to their bounds.
pub struct Recorder {
    bounds: Bounds,
    begun: usize,
    to: SyncSender<Piece>,
}

impl Recorder {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(bounds: Bounds) -> io::Result<Recorder> {
        let (to, pieces) = sync_channel(PIECES_MAX);
        let of_thread = bounds.clone();
        std::thread::Builder::new().name("qlog".into()).spawn(move || write_all(&of_thread, &pieces))?;
        Ok(Recorder { bounds, begun: 0, to })
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Begins the trace of a connection; `None` if there are enough.
    pub fn begin(&mut self) -> Option<QlogStream> {
        if self.begun == self.bounds.files {
            return None;
        }
        self.begun += 1;
        let trace = Trace { number: self.begun, events: Vec::new(), left: self.bounds.size, to: self.to.clone() };
        let mut config = QlogConfig::default();
        config.title(Some(self.bounds.name.clone())).writer(Box::new(trace));
        config.into_stream()
    }
}

/// Writer of a trace. Whole events are dropped from the first that does not fit.
struct Trace {
    number: usize,
    events: Vec<u8>,
    left: usize,
    to: SyncSender<Piece>,
}

impl Trace {
    fn pass_on(&mut self) {
        let rest = self.events.split_off(whole(&self.events));
        let events = std::mem::replace(&mut self.events, rest);
        let fits = events.len() <= self.left;
        let cut = if fits { events.len() } else { whole(&events[..self.left]) };
        self.left = if fits { self.left - events.len() } else { 0 };
        if cut > 0 {
            // A thread that cannot keep up costs events, and never a worker's time.
            let _ = self.to.try_send(Piece::Events(self.number, events[..cut].to_vec()));
        }
    }
}

/// Length of the whole events in front. An event has no line feed inside.
fn whole(events: &[u8]) -> usize {
    events.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An error would be logged for each event.
        if self.left > 0 {
            self.events.extend_from_slice(bytes);
            if self.events.len() >= PIECE {
                self.pass_on();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on();
        Ok(())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.pass_on();
        let _ = self.to.try_send(Piece::End(self.number));
    }
}

/// Writes traces until all that could send some have ended.
fn write_all(bounds: &Bounds, pieces: &Receiver<Piece>) {
    let mut files: HashMap<usize, Option<File>> = HashMap::new();
    let mut next = 0;
    while let Ok(piece) = pieces.recv() {
        match piece {
            Piece::Events(number, events) => {
                let file = files.entry(number).or_insert_with(|| create(bounds, &mut next));
                if let Some(Err(error)) = file.as_mut().map(|file| file.write_all(&events)) {
                    tracing::warn!(%error, folder = %bounds.folder.display(), "cannot write a qlog");
                    *file = None;
                }
            }
            Piece::End(number) => drop(files.remove(&number)),
        }
    }
}

/// Creates the next file that is not there yet; `None` if there are enough.
fn create(bounds: &Bounds, next: &mut usize) -> Option<File> {
    while *next < bounds.files {
        let path = bounds.folder.join(format!("{}-{next:06}.sqlog", bounds.name));
        *next += 1;
        match open(&path) {
            Ok(file) => return Some(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "cannot create a qlog; no more are written");
                *next = bounds.files;
            }
        }
    }
    None
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_whole_events_within_its_bounds() {
        let (to, pieces) = sync_channel(PIECES_MAX);
        let mut trace = Trace { number: 1, events: Vec::new(), left: 100, to };
        for event in 0..1000 {
            trace.write_all(format!("{{\"event\":{event:04}}}\n").as_bytes()).expect("it drops what is too much");
        }
        drop(trace);
        let mut text = Vec::new();
        while let Ok(Piece::Events(1, events)) = pieces.recv() {
            text.extend(events);
        }
        assert_eq!((text.len(), text.last()), (100 / 15 * 15, Some(&b'\n')));
    }
}
