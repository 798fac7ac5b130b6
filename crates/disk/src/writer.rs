//! Writer of the log, which owns the newest segment and reclaims the oldest.

use crate::failure::Failure;
use crate::file::{Ring, Wait};
use crate::index::{Added, Id, Place};
use crate::purges::Effect;
use crate::queue::{Ticket, Work};
use crate::response::{plain_body, read};
use crate::shared::Shared;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{Dropped, FRAME, Frame, Kind, ResponseRecord};
use evenkeel_cache::store::Item;
use evenkeel_cache::stored::Stored;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Writer of the newest segment.
pub struct Writer<'s> {
    shared: &'s Shared,
    ring: &'s Ring,
    /// Number of the segment; 0 until something is written.
    epoch: u32,
    /// Number of the newest segment that was there before.
    last: u32,
    offset: u64,
    /// True if the next segment is reclaimed.
    is_next_free: bool,
}

impl<'s> Writer<'s> {
    /// Creates a writer that continues behind the existing segments.
    pub fn new(shared: &'s Shared, ring: &'s Ring) -> Writer<'s> {
        let last = ring.segments().last().copied().unwrap_or_default();
        Writer { shared, ring, epoch: 0, last, offset: ring.layout.segment, is_next_free: false }
    }

    /// Writes waiting work until the queue is closed and empty.
    ///
    /// # Errors
    /// The disk fails.
    pub fn run(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::of("write to", &self.ring.path, &error);
        while let Some(work) = self.shared.queue.take() {
            let mut work = work.into_iter().peekable();
            let mut tickets = Vec::new();
            while let Some(next) = work.next() {
                let written = self.work(next, &mut tickets);
                let is_due = !tickets.is_empty() && !matches!(work.peek(), Some(Work::Purge(..)));
                let synced = written.and_then(|()| if is_due { self.sync() } else { Ok(()) });
                if let Err(error) = synced {
                    let failure = failed(error);
                    // Before tickets end: their result depends on whether the file could be erased.
                    self.shared.fail(&failure);
                    let left = work.filter_map(|work| match work {
                        Work::Purge(_, _, ticket) => ticket,
                        _ => None,
                    });
                    tickets.into_iter().chain(left).for_each(|ticket| ticket.end(self.shared.erased(&failure)));
                    return Err(failure);
                }
                if is_due {
                    tickets.drain(..).for_each(|ticket: Arc<Ticket>| ticket.end(Ok(())));
                }
            }
        }
        self.sync()
            .and_then(|()| self.seal())
            .and_then(|()| self.ring.sync())
            .map_err(|error| Failure::of("write to", &self.ring.path, &error))
    }

    fn work(&mut self, work: Work, tickets: &mut Vec<Arc<Ticket>>) -> io::Result<()> {
        match work {
            Work::Response(item, turn) => {
                let bytes = item.object.weight();
                let written = self.response(&item, turn);
                self.shared.queue.written(bytes);
                written
            }
            Work::Purge(purge, number, ticket) => {
                tickets.extend(ticket);
                if let (Some((sequence, _)), Some(number)) =
                    (self.append(Kind::Purge, &self.ring.clock.purge_of_file(&purge).write(), &[])?, number)
                {
                    self.shared.purges.written(number, sequence);
                }
                Ok(())
            }
            Work::Dropped(dropped) => self.append(Kind::Dropped, &dropped.write(), &[]).map(|_| ()),
        }
    }

    fn response(&mut self, item: &Item<Stored>, turn: u64) -> io::Result<()> {
        let stored = item.object.head();
        let head = self.head(&item.key, item.url_len, stored, item.stale_from, item.hits);
        let id = self.shared.index.id(&item.key(), stored.varying());
        let is_added = match self.append(Kind::Response, &head, item.object.body())? {
            Some((_, place)) => self.index((id, place, turn), &item.key, item.url_len, stored)?,
            None => {
                self.shared.index.shard(id.url).give_up(&id, turn);
                false
            }
        };
        self.shared.counts.dropped.add(u64::from(!is_added));
        self.reclaim_next()
    }

    /// Head of the record of a response.
    fn head(&self, key: &[u8], url_len: usize, stored: &Stored, stale_from: Option<Moment>, hits: u32) -> Vec<u8> {
        let clock = self.ring.clock;
        let stale_from = stale_from.map(|at| clock.of_file(at));
        ResponseRecord::write(key, url_len, &clock.response_of_file(stored), stale_from, hits)
    }

    /// Adds a written response to the index. A response that the index rejects or replaces is also dropped in the log.
    /// Nothing else would drop it there, as later drops are only logged for responses in the index.
    fn index(
        &mut self,
        (id, place, turn): (Id, Place, u64),
        key: &[u8],
        url_len: usize,
        stored: &Stored,
    ) -> io::Result<bool> {
        let added = self.shared.index.insert(id, place, Some(turn), self.ring);
        match added {
            Added::Yes => {}
            Added::No => self.dropped(key, url_len, stored)?,
            Added::Instead(place) => {
                let sequence = self.ring.sequence(place.slot, place.offset);
                if let Ok(Some((other, _))) = read(self.ring, place, sequence, plain_body, Wait::Allowed) {
                    self.dropped(&other.key, other.url_len, &other.stored)?;
                }
            }
        }
        Ok(added != Added::No)
    }

    fn dropped(&mut self, key: &[u8], url_len: usize, stored: &Stored) -> io::Result<()> {
        let dropped = Dropped { key: key.into(), url_len, varying: stored.varying().into() };
        self.append(Kind::Dropped, &dropped.write(), &[]).map(|_| ())
    }

    /// Writes a record, and returns its place in the log and in the file. `None` if it is larger than a segment.
    fn append(&mut self, kind: Kind, head: &[u8], body: &[u8]) -> io::Result<Option<(u64, Place)>> {
        let length = (FRAME + head.len() + body.len()) as u64;
        if length > self.ring.layout.record_max() {
            return Ok(None);
        }
        // At the end there is room for a last frame.
        if self.offset + length + FRAME as u64 > self.ring.layout.segment {
            self.next_segment()?;
        }
        let sequence = u64::from(self.epoch) << 32 | self.offset;
        let Some(frame) = Frame::of(kind, sequence, head, body) else { return Ok(None) };
        let (slot, offset) = (self.ring.layout.slot(self.epoch), self.offset);
        let mut bytes = Vec::with_capacity(length as usize);
        bytes.extend_from_slice(&frame.bytes());
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(body);
        self.ring.write(slot, offset, &bytes)?;
        self.offset += length;
        if kind == Kind::Response {
            self.shared.counts.writes.add(1);
        }
        self.shared.counts.written_bytes.add(length);
        Ok(Some((sequence, Place { slot, offset: offset as u32, length: length as u32 })))
    }

    /// Waits until everything is on the disk for good, and states it in the log.
    fn sync(&mut self) -> io::Result<()> {
        self.ring.write_anchor()?;
        self.ring.sync()?;
        if self.epoch > 0 {
            self.append(Kind::Done, &[], &[])?;
        }
        Ok(())
    }

    /// Ends the segment: no further record of it follows.
    fn seal(&mut self) -> io::Result<()> {
        let sequence = u64::from(self.epoch) << 32 | self.offset;
        match Frame::of(Kind::End, sequence, &[], &[]).filter(|_| self.epoch > 0) {
            Some(frame) => self.ring.write(self.ring.layout.slot(self.epoch), self.offset, &frame.bytes()),
            None => Ok(()),
        }
    }

    fn next_segment(&mut self) -> io::Result<()> {
        self.seal()?;
        let epoch = self.epoch.max(self.last).checked_add(1).ok_or_else(|| io::Error::other("no number is left"))?;
        let slot = self.ring.layout.slot(epoch);
        if self.ring.epoch(slot) != 0 {
            self.take_out(slot)?;
            self.forget_purges();
        }
        let frame = Frame::of(Kind::Segment, u64::from(epoch) << 32, &[], &[]);
        self.ring.write(slot, 0, &frame.map(|frame| frame.bytes()).unwrap_or_default())?;
        self.ring.write_anchor()?;
        self.ring.set_epoch(slot, epoch);
        (self.epoch, self.offset, self.is_next_free) = (epoch, FRAME as u64, false);
        Ok(())
    }

    /// Reclaims the next segment once the current segment is half full, and writes its used responses again.
    fn reclaim_next(&mut self) -> io::Result<()> {
        let segment = self.ring.layout.segment;
        if self.is_next_free || self.offset < segment / 2 {
            return Ok(());
        }
        self.is_next_free = true;
        let slot = self.ring.layout.slot(self.epoch + 1);
        let epoch = self.ring.epoch(slot);
        if epoch == 0 {
            return Ok(());
        }
        // Only the first used responses are kept, to leave room for others. In the next segment they would overwrite
        // the records that are read here.
        let (mut room, own) = (segment / 4, self.epoch);
        for (id, place, turn) in self.take_out(slot)? {
            let length = u64::from(place.length);
            let fits = length <= room && self.offset + length + 2 * FRAME as u64 <= segment && self.epoch == own;
            let written = if fits { self.write_again((slot, epoch), id, place, turn)? } else { None };
            match written {
                Some(length) => room = room.saturating_sub(length),
                None => _ = self.shared.index.shard(id.url).give_up(&id, turn),
            }
        }
        self.forget_purges();
        Ok(())
    }

    /// Removes a segment from the index and the file, and returns its used responses. A later search must not find it,
    /// as drops are logged only for responses in the index.
    fn take_out(&self, slot: u16) -> io::Result<Vec<(Id, Place, u64)>> {
        self.ring.set_epoch(slot, 0);
        self.ring.write(slot, 0, &[0; FRAME])?;
        let mut used = Vec::new();
        let mut count = 0;
        self.shared.index.each(|shard| count += shard.take_segment(slot, &mut used));
        self.shared.is_full.store(count > 0, Ordering::Relaxed);
        Ok(used)
    }

    /// Forgets purges of reclaimed segments. To be called after their responses were written again, as a purge may
    /// cover these.
    fn forget_purges(&self) {
        let oldest = self.ring.segments().first().copied().unwrap_or_default();
        self.shared.purges.forget_before(u64::from(oldest) << 32);
    }

    /// Writes a response of a reclaimed segment again, and returns its length. `None` if it is purged or damaged.
    fn write_again(&mut self, from: (u16, u32), id: Id, place: Place, turn: u64) -> io::Result<Option<u64>> {
        let sequence = u64::from(from.1) << 32 | u64::from(place.offset);
        let Ok(Some((record, body))) = read(self.ring, place, sequence, plain_body, Wait::Allowed) else {
            self.shared.counts.errors.add(1);
            return Ok(None);
        };
        let Effect::Holds(stale_from) = self.shared.purges.effect(&record, sequence) else { return Ok(None) };
        let head = self.head(&record.key, record.url_len, &record.stored, stale_from, record.hits);
        let Some((_, place)) = self.append(Kind::Response, &head, &body)? else { return Ok(None) };
        self.index((id, place, turn), &record.key, record.url_len, &record.stored)?;
        self.shared.counts.rewrites.add(1);
        Ok(Some(place.length.into()))
    }
}
