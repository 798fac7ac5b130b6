//! Who asked for what, and how did it go? A JSON line for each request, written into a batch of the worker's own.

mod backwards;
mod front;
mod line;

pub use line::{Line, NOWHERE, Named, asked, asked_by_name, quoted};

use evenkeel_net::clock::CachedClock;
use evenkeel_net::log_writer::Batch;
use front::Front;

/// The access log of one worker.
pub struct AccessLog {
    batch: Batch,
    front: Front,
}

impl AccessLog {
    /// One whose lines go to this batch.
    pub fn new(batch: Batch) -> AccessLog {
        AccessLog { batch, front: Front::default() }
    }

    /// Adds a line.
    pub fn add(&mut self, line: &Line<'_>, clock: &CachedClock) {
        self.front.set(clock.unix_ms(line.began), line.request_id);
        self.batch.add_with(|lines| line.write(&self.front, lines));
    }

    /// Gives the lines so far to the writer.
    pub fn hand_over(&mut self) {
        self.batch.hand_over();
    }
}
