//! Response whose body is still arriving: a fetch of the cache adds to it at the pace of the endpoint, and readers on all
//! workers read it from separate positions. Once it is whole, all of them share the body that is stored.
//!
//! A body that turns out too large to be stored is passed to the readers that it has: what all of them have read is
//! dropped, and the fetch waits for the slowest reader. A reader for which the others wait in vain is cut off.

#![expect(clippy::disallowed_types, reason = "held for a look at the newest piece, once for each piece and reader")]

use super::counts::CacheCounts;
use bytes::Bytes;
use evenkeel_balance::Instant;
use evenkeel_cache::store::Sequence;
use evenkeel_cache::stored::Stored;
use evenkeel_net::buffer::CAPACITY;
use evenkeel_net::memory::pages;
use evenkeel_wire::head::Table;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes of a piece of the body. Pieces are shared by readers; bytes behind the last piece are copied for each.
const PIECE: usize = 64 << 10;

/// Bytes that a fetch may be ahead of the fastest reader of a body that is passed. Less than a piece after some time cuts
/// a reader off for which others wait.
const AHEAD: u64 = 256 << 10;

/// Bytes that may be missing before a part that comes soon.
const NEAR: u64 = 1 << 20;

/// Response whose body is still arriving.
pub struct Growing {
    pub head: Stored,
    /// Length of the body, if the endpoint states it.
    pub length: Option<u64>,
    /// Point in the order of purges at which its request was sent.
    pub began: Sequence,
    state: Mutex<State>,
}

struct State {
    /// Pieces of the body, each with its position.
    pieces: VecDeque<(u64, Bytes)>,
    /// Bytes behind the pieces, and their position.
    tail: Vec<u8>,
    tail_at: u64,
    end: Option<End>,
    /// Trailers behind the body. They are not stored.
    trailers: Option<Table>,
    /// Readers, in the order in which they came.
    readers: BTreeMap<u64, Place>,
    came: u64,
    /// Time of the last bytes.
    last: Instant,
    /// True if the body is not stored, and no reader may join.
    is_passed: bool,
    /// True while the fetch waits for a reader of a body that is passed.
    waits: bool,
    /// Wakes the fetch when the first reader comes, the last reader leaves, or a passed body is read.
    fetch: Option<Waker>,
}

enum End {
    Whole(Bytes),
    /// The endpoint or this side has ended the body early.
    Cut,
}

#[derive(Default)]
struct Place {
    at: u64,
    until: u64,
    /// Position when the fetch began to wait.
    was_at: u64,
    waker: Option<Waker>,
}

/// Reader of a growing body, or of a part of it.
pub struct Reader {
    growing: Arc<Growing>,
    number: u64,
    at: u64,
    until: u64,
    /// Counts of the route for the bytes that are read.
    counts: Option<Arc<CacheCounts>>,
}

/// The body has ended too early, or its reader was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

impl Growing {
    pub fn new(head: Stored, length: Option<u64>, began: Sequence, now: Instant) -> Arc<Growing> {
        let state = State {
            pieces: VecDeque::new(),
            tail: Vec::with_capacity(length.unwrap_or(0).min(PIECE as u64) as usize),
            tail_at: 0,
            end: None,
            trailers: None,
            readers: BTreeMap::new(),
            came: 0,
            last: now,
            is_passed: false,
            waits: false,
            fetch: None,
        };
        Arc::new(Growing { head, length, began, state: Mutex::new(state) })
    }

    /// Adds a reader of these bytes of the body. `None` if the first of them were dropped.
    pub fn reader(self: &Arc<Growing>, bytes: std::ops::Range<u64>) -> Option<Reader> {
        let mut state = self.state();
        if state.is_passed || matches!(state.end, Some(End::Cut)) {
            return None;
        }
        let number = state.came;
        state.came += 1;
        let place = Place { at: bytes.start, until: bytes.end, ..Place::default() };
        state.readers.insert(number, place);
        Some(Reader { growing: self.clone(), number, at: bytes.start, until: bytes.end, counts: None })
    }

    /// Time since the last bytes in nanoseconds; 0 once the body is whole.
    pub fn silence_ns(&self, now: Instant) -> u64 {
        let state = self.state();
        if state.end.is_some() { 0 } else { now.since(state.last) }
    }

    /// Adds bytes at the end.
    pub fn add(&self, mut bytes: &[u8], now: Instant) {
        let mut state = self.state();
        state.last = now;
        while !bytes.is_empty() {
            if !state.pieces.is_empty() {
                let room = PIECE - state.tail.len();
                state.tail.reserve_exact(room);
            }
            let (here, behind) = bytes.split_at(bytes.len().min(PIECE - state.tail.len()));
            state.tail.extend_from_slice(here);
            bytes = behind;
            if state.tail.len() == PIECE {
                state.seal();
            }
        }
        state.wake_readers();
    }

    /// Adds trailers, which follow the last bytes.
    pub fn add_trailers(&self, trailers: Table) {
        self.state().trailers = Some(trailers);
    }

    /// Joins the pieces of the whole body. Readers continue meanwhile.
    pub fn join(&self) -> Bytes {
        let mut state = self.state();
        state.seal();
        let mut pieces: Vec<Bytes> = state.pieces.iter().map(|(_, piece)| piece.clone()).collect();
        drop(state);
        match pieces.pop() {
            Some(only) if pieces.is_empty() && only.len() < pages::PAGES_MIN => only,
            last => {
                pieces.extend(last);
                pages::joined(&pieces)
            }
        }
    }

    /// Ends the body, unless it was cut: all readers share the joined bytes from now on.
    pub fn end(&self, body: Bytes) {
        self.over(End::Whole(body));
    }

    /// Ends the body too early, unless it has ended before. Returns the number of readers that lack bytes.
    pub fn cut(&self) -> u64 {
        self.over(End::Cut)
    }

    fn over(&self, end: End) -> u64 {
        let mut state = self.state();
        if state.end.is_some() {
            return 0;
        }
        if let End::Whole(_) = end
            && !state.is_passed
        {
            state.pieces.clear();
            state.tail = Vec::new();
        }
        state.end = Some(end);
        state.wake_readers();
        state.readers.values().filter(|place| place.at < place.until).count() as u64
    }

    /// Passes the body to the readers that it has, as it is not stored.
    pub fn pass(&self) {
        self.state().is_passed = true;
    }

    /// True if it has readers. Wakes the fetch once that changes.
    pub fn has_readers(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        state.note_fetch(cx);
        !state.readers.is_empty()
    }

    /// Waits until the readers of a passed body need more; false if there are no readers. Drops what all of them have
    /// read. The slowest may lack `held_max` bytes. Returns the number of bytes that are held, too.
    pub fn poll_need(&self, cx: &Context<'_>, held_max: u64) -> Poll<(bool, u64)> {
        let mut state = self.state();
        state.note_fetch(cx);
        let (end, bounds) = (state.len(), state.bounds());
        let [slowest, fastest] = bounds.unwrap_or([end; 2]);
        while state.pieces.front().is_some_and(|(at, piece)| at + piece.len() as u64 <= slowest) {
            state.pieces.pop_front();
        }
        let waits = bounds.is_some() && (slowest + held_max <= end || fastest + AHEAD <= end);
        if waits && !std::mem::replace(&mut state.waits, true) {
            state.readers.values_mut().for_each(|place| place.was_at = place.at);
        }
        if waits {
            return Poll::Pending;
        }
        state.waits = false;
        Poll::Ready((bounds.is_some(), end - state.start()))
    }

    /// Cuts off the readers of a passed body that have taken almost nothing since the fetch began to wait, if others wait
    /// for them. Returns their number.
    pub fn cut_slow(&self) -> u64 {
        let mut state = self.state();
        let (end, before) = (state.len(), state.readers.len());
        let Some([slowest, fastest]) = state.bounds() else { return 0 };
        state.waits = false;
        if fastest + AHEAD <= end || slowest == fastest {
            return 0;
        }
        state.readers.retain(|_, place| {
            let lacks = place.at < place.until && place.at + AHEAD <= end;
            let is_slow = lacks && place.at - place.was_at < PIECE as u64;
            if is_slow && let Some(waker) = place.waker.take() {
                waker.wake();
            }
            !is_slow
        });
        (before - state.readers.len()) as u64
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Position of the first byte that is held.
    fn start(&self) -> u64 {
        self.pieces.front().map_or(self.tail_at, |(at, _)| *at)
    }

    /// Positions of the slowest and of the fastest reader that lack bytes.
    fn bounds(&self) -> Option<[u64; 2]> {
        let places = || self.readers.values().filter(|place| place.at < place.until).map(|place| place.at);
        Some([places().min()?, places().max()?])
    }

    /// Number of bytes that have arrived.
    fn len(&self) -> u64 {
        self.tail_at + self.tail.len() as u64
    }

    /// Turns the bytes behind the pieces into a piece.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let piece = Bytes::from(std::mem::take(&mut self.tail).into_boxed_slice());
            let at = self.tail_at;
            self.tail_at += piece.len() as u64;
            self.pieces.push_back((at, piece));
        }
    }

    fn note_fetch(&mut self, cx: &Context<'_>) {
        if self.fetch.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            self.fetch = Some(cx.waker().clone());
        }
    }

    /// Wakes the readers that wait. A waker only notes its task, so that the lock may be held.
    fn wake_readers(&mut self) {
        self.readers.values_mut().filter_map(|place| place.waker.take()).for_each(Waker::wake);
    }

    fn wake_fetch(&mut self) {
        if let Some(fetch) = self.fetch.take() {
            fetch.wake();
        }
    }

    /// Bytes from a position on, at most a buffer; `None` if they have not arrived.
    fn bytes_at(&self, at: u64, until: u64) -> Result<Option<Bytes>, Cut> {
        let most = (until - at).min(CAPACITY as u64) as usize;
        let some = |from: usize, len: usize| from..len.min(from + most);
        if let Some(End::Whole(body)) = &self.end
            && !self.is_passed
        {
            let from = (at as usize).min(body.len());
            return Ok(Some(body.slice(some(from, body.len()))));
        }
        if at < self.start() {
            return Err(Cut);
        }
        if at < self.tail_at {
            let index = self.pieces.partition_point(|(begin, _)| *begin <= at) - 1;
            let (begin, piece) = &self.pieces[index];
            return Ok(Some(piece.slice(some((at - begin) as usize, piece.len()))));
        }
        let from = (at - self.tail_at) as usize;
        match (self.tail.len() > from, &self.end) {
            (true, _) => Ok(Some(Bytes::copy_from_slice(&self.tail[some(from, self.tail.len())]))),
            (false, Some(End::Whole(_))) => Ok(Some(Bytes::new())),
            (false, Some(End::Cut)) => Err(Cut),
            (false, None) => Ok(None),
        }
    }
}

impl Reader {
    /// Returns the reader with counts for the bytes that it reads.
    pub fn counted(mut self, counts: &Arc<CacheCounts>) -> Reader {
        self.counts = Some(counts.clone());
        self
    }

    /// Number of bytes that the reader gets in all, if it is known. To be called before any are read.
    pub fn length(&self) -> Option<u64> {
        if self.until < u64::MAX {
            Some(self.until - self.at)
        } else {
            self.growing.length.map(|length| length - self.at)
        }
    }

    /// True if the next bytes have arrived, or come soon.
    pub fn is_near(&self) -> bool {
        let state = self.growing.state();
        self.at < state.len() + NEAR || state.end.is_some()
    }

    /// True if the reader has all bytes of a part.
    pub fn is_done(&self) -> bool {
        self.at >= self.until
    }

    /// Trailers behind the body that has ended, if the reader has all of it.
    pub fn trailers(&self) -> Option<Table> {
        if self.until == u64::MAX { self.growing.state().trailers.clone() } else { None }
    }

    /// Returns the next bytes, at most a buffer; `None` at the end.
    ///
    /// # Errors
    /// The body was cut.
    pub fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, Cut>> {
        if self.is_done() {
            return Poll::Ready(Ok(None));
        }
        let mut state = self.growing.state();
        let found = state.bytes_at(self.at, self.until);
        let Some(place) = state.readers.get_mut(&self.number) else { return Poll::Ready(Err(Cut)) };
        match found {
            Ok(Some(bytes)) if bytes.is_empty() => Poll::Ready(Ok(None)),
            Ok(Some(bytes)) => {
                self.at += bytes.len() as u64;
                place.at = self.at;
                self.counts.iter().for_each(|counts| counts.bytes.add(bytes.len() as u64));
                if state.is_passed {
                    state.wake_fetch();
                }
                Poll::Ready(Ok(Some(bytes)))
            }
            Ok(None) => {
                if place.waker.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
                    place.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Err(cut) => Poll::Ready(Err(cut)),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.growing.state();
        state.readers.remove(&self.number);
        if state.readers.is_empty() || state.is_passed {
            state.wake_fetch();
        }
    }
}

impl fmt::Debug for Growing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growing").field("length", &self.length).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("at", &self.at).field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "growing_tests.rs"]
pub(super) mod tests;
