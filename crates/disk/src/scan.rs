//! Search of the file: builds the index from its segments, the oldest first, so that purges meet the responses that
//! they cover.

use crate::file::{Ring, Wait};
use crate::index::{Added, Index, Place};
use crate::purges::Purges;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{Dropped, FRAME, Frame, Kind, PurgeRecord, ResponseRecord, Scope};
use evenkeel_cache::store::{Fate, KeyRef, Target};
use std::io;

/// Bytes that are read at once, at least.
const STEP: usize = 256 << 10;

/// Search of the segments that were there when it began.
pub struct Scan<'s> {
    pub ring: &'s Ring,
    pub index: &'s Index,
    pub purges: &'s Purges,
    /// Responses received after this moment, on the clock of the file, are left out: the wall clock was ahead when they
    /// were stored, or is behind now.
    pub now: Moment,
    /// Numbers of the segments to search, the oldest first.
    pub segments: Vec<u32>,
    pub found: u64,
    /// True if responses were left out.
    pub leaves_out: bool,
    pub broken: u64,
    /// First record behind an unreadable part. If a later record states that everything before it was on the disk for
    /// good, the part may have held a purge. Otherwise a crash may just have lost it.
    pub behind_broken: Option<u64>,
}

/// Part of a segment in memory.
struct Window<'r> {
    ring: &'r Ring,
    slot: u16,
    /// Offset in the segment at which the bytes begin.
    from: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Bytes at an offset. `None` if they are not in the segment.
    fn get(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        let end = self.ring.layout.segment;
        if offset + length as u64 > end {
            return Ok(None);
        }
        let has_them = offset >= self.from && offset + length as u64 <= self.from + self.bytes.len() as u64;
        if !has_them {
            let room = length.max(STEP).min((end - offset) as usize);
            self.bytes.resize(room, 0);
            self.from = offset;
            self.ring.read(self.slot, offset, &mut self.bytes, Wait::Allowed)?;
        }
        let start = (offset - self.from) as usize;
        Ok(Some(&self.bytes[start..start + length]))
    }
}

impl Scan<'_> {
    /// Searches all segments. `is_over` is asked between records: true ends the search.
    ///
    /// # Errors
    /// The disk fails.
    pub fn run(&mut self, is_over: impl Fn() -> bool) -> io::Result<()> {
        for epoch in self.segments.clone() {
            self.segment(epoch, &is_over)?;
        }
        self.index.is_searched();
        Ok(())
    }

    fn segment(&mut self, epoch: u32, is_over: &impl Fn() -> bool) -> io::Result<()> {
        let slot = self.ring.layout.slot(epoch);
        let mut window = Window { ring: self.ring, slot, from: 0, bytes: Vec::new() };
        // The first record belongs to the segment itself.
        let (mut offset, mut is_broken) = (FRAME as u64, false);
        while !is_over() && self.ring.epoch(slot) == epoch {
            let sequence = u64::from(epoch) << 32 | offset;
            let Some((frame, head)) = record(&mut window, offset, sequence)? else {
                is_broken = true;
                match next(&mut window, epoch, offset + 1)? {
                    Some(later) => offset = later,
                    None => return Ok(()),
                }
                continue;
            };
            if is_broken {
                self.broken += 1;
                self.behind_broken = Some(sequence);
                is_broken = false;
            }
            if frame.kind == Kind::End {
                return Ok(());
            }
            self.record(&frame, &head, Place { slot, offset: offset as u32, length: frame.record_len() as u32 });
            offset += frame.record_len();
        }
        Ok(())
    }

    fn record(&mut self, frame: &Frame, head: &[u8], place: Place) {
        match frame.kind {
            Kind::Response => {
                let Ok(record) = ResponseRecord::read(head) else { return self.broken += 1 };
                let id = self.index.id(&KeyRef::new(&record.key, record.url_len), record.stored.varying());
                if record.stored.terms.received > self.now {
                    self.leaves_out = true;
                } else if self.index.insert(id, place, None, self.ring) != Added::No {
                    self.found += 1;
                }
            }
            Kind::Dropped => {
                let Ok(dropped) = Dropped::read(head) else { return self.drop_before(frame.number) };
                let id = self.index.id(&KeyRef::new(&dropped.key, dropped.url_len), &dropped.varying);
                self.index.shard(id.url).drop_before(frame.number, Some((id.url, Some(id))), self.ring);
            }
            Kind::Purge => match PurgeRecord::read(head) {
                Ok(PurgeRecord { scope: Scope::Url(url), fate: Fate::Removed, .. }) => {
                    let url = self.index.url(&url);
                    self.index.shard(url).drop_before(frame.number, Some((url, None)), self.ring);
                }
                Ok(PurgeRecord { scope: Scope::Log(Target::All), fate: Fate::Removed, .. }) | Err(_) => {
                    self.drop_before(frame.number);
                }
                Ok(purge) => {
                    if !self.purges.found(&self.ring.clock.purge(purge), frame.number) {
                        self.drop_before(frame.number);
                    }
                }
            },
            Kind::Done => {
                if let Some(sequence) = self.behind_broken.take() {
                    self.drop_before(sequence);
                }
            }
            _ => self.drop_before(frame.number),
        }
    }

    /// Drops everything before a place of the log.
    fn drop_before(&self, sequence: u64) {
        self.index.each(|shard| shard.drop_before(sequence, None, self.ring));
    }
}

/// Returns the record at an offset, if it is whole and was written there.
fn record(window: &mut Window<'_>, offset: u64, sequence: u64) -> io::Result<Option<(Frame, Vec<u8>)>> {
    let Some(bytes) = window.get(offset, FRAME)? else { return Ok(None) };
    let bytes = bytes.try_into().expect("as many as were asked for");
    let Some(frame) = Frame::read(bytes).ok().filter(|frame| frame.number == sequence) else { return Ok(None) };
    if offset + frame.record_len() > window.ring.layout.segment {
        return Ok(None);
    }
    let head = window.get(offset + FRAME as u64, frame.head_len as usize)?.unwrap_or_default().to_vec();
    Ok(frame.check_head(&head).is_ok().then_some((frame, head)))
}

/// Returns the offset of the next record. `from` need not be the offset of a record.
fn next(window: &mut Window<'_>, epoch: u32, from: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    loop {
        let left = window.ring.layout.segment.saturating_sub(at);
        let length = left.min(STEP as u64) as usize;
        let Some(bytes) = window.get(at, length)?.filter(|_| left > FRAME as u64) else { return Ok(None) };
        let starts: Vec<u64> = memchr::memmem::find_iter(bytes, b"ekr").map(|start| at + start as u64).collect();
        for offset in starts {
            if record(window, offset, u64::from(epoch) << 32 | offset)?.is_some() {
                return Ok(Some(offset));
            }
        }
        // A frame may be cut by the end of this part.
        at += (length as u64).saturating_sub(2).max(1);
    }
}
