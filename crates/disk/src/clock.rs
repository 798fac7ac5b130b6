//! Clock of the file, for the moments of its records.
//!
//! The clock continues from process to process, while the clock of the machine begins anew with each start. The file has an anchor: a moment on its clock, and the times of the other two clocks at that moment. Within a run of the
//! machine, both differ by the same time for ever. After a new start only the wall clock shows the time since then.

use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::record::{FRAME, Frame, Kind, PurgeRecord, ResponseRecord};
use evenkeel_cache::stored::Stored;
use std::borrow::Cow;

/// Length of an anchor in bytes: a frame, and the state of the clocks.
pub const ANCHOR: usize = FRAME + HEAD;

/// Number of the run, difference of the clocks, wall clock.
const HEAD: usize = 16 + 8 + 8;

/// Clocks that a process has, and the run of the machine in which they are valid.
pub struct Clock {
    /// The present moment, on the clock of the machine.
    pub now: Box<dyn Fn() -> Moment + Send + Sync>,
    /// The present time by the wall clock.
    pub wall: Box<dyn Fn() -> Date + Send + Sync>,
    /// Number of the run of the machine: moments of different runs cannot be compared.
    pub boot: [u8; 16],
}

/// Clock of a file for this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileClock {
    /// Milliseconds by which moments of the process are later than those of the file.
    ahead: i64,
}

impl FileClock {
    /// Continues the clock of a file from its anchor. `None` if the bytes are not an anchor.
    pub fn after(anchor: &[u8; ANCHOR], clock: &Clock) -> Option<FileClock> {
        let (frame, head) = anchor.split_first_chunk()?;
        let frame = Frame::read(frame).ok().filter(|frame| frame.kind == Kind::Clock)?;
        frame.check_head(head).ok()?;
        let (boot, rest) = head.split_first_chunk::<16>()?;
        let (ahead, wall) = rest.split_first_chunk()?;
        let (ahead, wall) = (i64::from_le_bytes(*ahead), u64::from_le_bytes(*wall.first_chunk()?));
        if *boot == clock.boot {
            return Some(FileClock { ahead });
        }
        let since = (clock.wall)().0.cast_signed().wrapping_sub(wall.cast_signed());
        let now = Moment(frame.number).shifted(since);
        Some(FileClock { ahead: (clock.now)().0.cast_signed().wrapping_sub(now.0.cast_signed()) })
    }

    /// Returns the anchor of the present moment.
    pub fn anchor(self, clock: &Clock) -> Vec<u8> {
        let now = self.of_file((clock.now)());
        let ahead = self.ahead.to_le_bytes();
        let head = [&clock.boot[..], &ahead, &(clock.wall)().0.to_le_bytes()].concat();
        let frame = Frame::of(Kind::Clock, now.0, &head, &[]).expect("the head is short");
        [&frame.bytes()[..], &head].concat()
    }

    /// Moment of the process, on the clock of the file.
    pub fn of_file(self, at: Moment) -> Moment {
        at.shifted(self.ahead.saturating_neg())
    }

    /// Response as its record has it.
    pub fn response_of_file(self, stored: &Stored) -> Cow<'_, Stored> {
        match self.ahead {
            0 => Cow::Borrowed(stored),
            ahead => Cow::Owned(stored.clone().shifted(ahead.saturating_neg())),
        }
    }

    /// Purge as its record has it.
    pub fn purge_of_file(self, purge: &PurgeRecord) -> PurgeRecord {
        PurgeRecord { at: self.of_file(purge.at), ..purge.clone() }
    }

    /// Response with the moments of this process.
    pub fn response(self, record: ResponseRecord) -> ResponseRecord {
        let stale_from = record.stale_from.map(|at| at.shifted(self.ahead));
        ResponseRecord { stored: record.stored.shifted(self.ahead), stale_from, ..record }
    }

    /// Purge with the moments of this process.
    pub fn purge(self, purge: PurgeRecord) -> PurgeRecord {
        PurgeRecord { at: purge.at.shifted(self.ahead), ..purge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn clock(now: u64, wall: u64, boot: u8) -> Clock {
        Clock { now: Box::new(move || Moment(now)), wall: Box::new(move || Date(wall)), boot: [boot; 16] }
    }

    #[test]
    fn a_file_ages_by_the_clock_of_the_machine_and_over_a_new_start_by_the_wall_clock() {
        let first = clock(10 * HOUR, 1000 * HOUR, 1);
        let file = FileClock::default();
        let anchor: [u8; ANCHOR] = file.anchor(&first).try_into().expect("its length");
        let now = |clock: &Clock| {
            let known = FileClock::after(&anchor, clock).expect("an anchor");
            known.of_file((clock.now)()).0
        };
        // An hour later, whatever the wall clock shows.
        for wall in [0, 1001, 5000] {
            assert_eq!(now(&clock(11 * HOUR, wall * HOUR, 1)), 11 * HOUR, "{wall}");
        }
        // The machine was started again: its clock counts anew.
        assert_eq!(now(&clock(HOUR, 1003 * HOUR, 2)), 13 * HOUR);
        let next = FileClock::after(&anchor, &clock(HOUR, 1003 * HOUR, 2)).expect("an anchor");
        let anchor: [u8; ANCHOR] = next.anchor(&clock(2 * HOUR, 0, 2)).try_into().expect("its length");
        let again = FileClock::after(&anchor, &clock(3 * HOUR, 7, 2)).expect("an anchor");
        assert_eq!((again, again.of_file(Moment(3 * HOUR)).0), (next, 15 * HOUR));
        let mut broken = anchor;
        broken[FRAME] ^= 1;
        assert_eq!(FileClock::after(&broken, &first), None);
        assert_eq!(FileClock::after(&[0; ANCHOR], &first), None);
    }
}
