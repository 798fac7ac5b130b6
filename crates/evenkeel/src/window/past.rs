//! History of the process: its requests and events, its plan and the endpoints that it has found. The process that
//! takes over gets it in a file of memory. A successor of another version starts without it.

use evenkeel_discovery::Found;
use evenkeel_runtime::Events;
use evenkeel_view::Event;
use evenkeel_view::timeline::{Past as Requests, Timeline};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Version of the format. A change of a type in it makes another version.
const VERSION: u32 = 3;

/// Largest file that is read. History and events are bounded by number, to about half of 64 MiB; a hundred thousand endpoints take
/// some 10 MB.
const BYTES_MAX: u64 = 256 << 20;

/// History of a process, for the next one.
#[derive(Debug, Serialize, Deserialize)]
pub struct Past {
    version: u32,
    /// Sums of requests over time.
    pub timeline: Requests,
    /// The latest events, the oldest first.
    pub events: Vec<Event>,
    /// The plan that runs, as a file with its secrets, if providers other than the file have added to it.
    pub merged: Option<String>,
    /// Endpoints that sources have found.
    pub found: Vec<Found>,
}

/// The version alone, as every version has it.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Writes the history of this process to a file without a name. `None`, with a line in the log, if that fails.
pub fn leave(timeline: &Timeline, events: &Events, merged: Option<String>, found: Vec<Found>) -> Option<File> {
    let past = Past { version: VERSION, timeline: timeline.past(), events: events.since(0), merged, found };
    let left = write(&past);
    left.inspect_err(|error| tracing::warn!(%error, "cannot hand over the history of requests")).ok()
}

fn write(past: &Past) -> io::Result<File> {
    let mut file = File::from(memfd_create("evenkeel-past", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(past)?)?;
    file.rewind()?;
    Ok(file)
}

/// Reads the history of the previous process. Returns `None`, with a line in the log, if it has another version.
pub fn read(file: File) -> Option<Past> {
    let past = parse(file);
    past.inspect_err(|why| tracing::warn!("the history of the previous process is not used: {why}")).ok()
}

fn parse(file: File) -> Result<Past, String> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it has more than {} MiB", BYTES_MAX >> 20));
    }
    let wrong = |error: serde_json::Error| format!("it cannot be read: {error}");
    let Version { version } = serde_json::from_slice(&bytes).map_err(wrong)?;
    if version != VERSION {
        return Err(format!("it has version {version}, and this build reads version {VERSION}"));
    }
    serde_json::from_slice(&bytes).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::events::Kind;

    fn file(text: &str) -> File {
        let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn a_history_is_read_as_it_was_left_and_any_other_is_refused() {
        let events = Events::default();
        events.tell(Kind::Process, (None, None), "it serves".to_owned(), None);
        let left = leave(&Timeline::default(), &events, None, Vec::new()).unwrap();
        let past = parse(left).unwrap();
        assert_eq!(past.events[0].text, "it serves");
        for (text, why) in [
            ("", "cannot be read"),
            ("{\"version\":1,\"spans\":[]}", "has version 1"),
            ("{\"version\":3,\"timeline\":7}", "cannot be read"),
            ("{}", "cannot be read"),
        ] {
            assert!(parse(file(text)).unwrap_err().contains(why), "{text}");
        }
        let large = file("");
        large.set_len(BYTES_MAX + 1).unwrap();
        assert!(parse(large).unwrap_err().contains("more than 256 MiB"));
    }
}
