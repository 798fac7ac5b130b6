//! Open streams, and those that have ended recently. The treatment of a late frame depends on how its stream ended (RFC
//! 9113 section 5.1).

use super::flow::Window;
use super::{MAX, StreamId};
use crate::multiplexed::body::{Asked, Rest};
use std::collections::VecDeque;

/// A stream with at least one open side.
#[derive(Debug)]
pub struct Stream {
    pub id: StreamId,
    /// Bytes that this side may send.
    pub room: i64,
    /// Window for data from the peer.
    pub window: Window,
    /// True if the peer may send more.
    pub receives: bool,
    /// True if this side may send more.
    pub sends: bool,
    /// Bytes of the body that are still to come.
    pub rest: Rest,
    /// True once the final head has arrived: further fields are trailers.
    pub has_head: bool,
    /// Kind of the request that this side sent.
    pub asked: Asked,
    /// Time at which it began, nanoseconds.
    pub began: u64,
}

/// Way in which a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides have sent everything.
    Done,
    /// The peer has reset the stream.
    ByPeer,
    /// This side has reset the stream, and the peer may not know yet.
    Here,
}

/// Most remembered streams that ended on both sides or by the peer. They only serve to name the peer's fault more
/// exactly.
const ENDED_MAX: usize = 64;

/// Most remembered streams that were reset here. The peer may send on them for another round trip, so streams that
/// ended otherwise must not evict them.
const HERE_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Streams {
    /// Ascending by number, as streams are added at the end.
    open: Vec<Stream>,
    ended: VecDeque<(StreamId, End)>,
    here: VecDeque<StreamId>,
    /// True once the list `here` has overflowed.
    has_forgotten: bool,
}

impl Streams {
    #[inline]
    pub fn get(&mut self, id: StreamId) -> Option<&mut Stream> {
        let at = self.find(id)?;
        Some(&mut self.open[at])
    }

    /// Streams on which this side may send bytes, by their own windows.
    pub fn with_room(&self) -> impl Iterator<Item = StreamId> {
        self.open.iter().filter(|stream| stream.sends && stream.room > 0).map(|stream| stream.id)
    }

    #[inline]
    pub fn room(&self, id: StreamId) -> i64 {
        self.find(id).map_or(0, |at| self.open[at].room)
    }

    #[inline]
    fn find(&self, id: StreamId) -> Option<usize> {
        // Few are open, and the newest are used the most.
        if self.open.len() <= 8 {
            return self.open.iter().rposition(|stream| stream.id == id);
        }
        self.open.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn add(&mut self, stream: Stream) {
        self.open.push(stream);
    }

    /// Ends a stream. Returns true if it was open.
    pub fn end(&mut self, id: StreamId, end: End) -> bool {
        let Some(at) = self.find(id) else { return false };
        self.open.remove(at);
        self.remember(id, end);
        true
    }

    /// Remembers the end of a stream that is not open.
    pub fn remember(&mut self, id: StreamId, end: End) {
        if end == End::Here {
            if self.here.len() >= HERE_MAX {
                self.here.pop_front();
                self.has_forgotten = true;
            }
            return self.here.push_back(id);
        }
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((id, end));
    }

    /// Ends a stream that the peer has reset. Returns true if it was open. The peer may send nothing more on it, even
    /// if this side has reset it first.
    pub fn end_by_peer(&mut self, id: StreamId) -> bool {
        if self.end(id, End::ByPeer) {
            return true;
        }
        if let Some(at) = self.here.iter().rposition(|reset| *reset == id) {
            self.here.remove(at);
            self.remember(id, End::ByPeer);
        }
        false
    }

    /// True if an unknown stream may have been reset here.
    pub fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// Way in which a stream has ended; `None` if that is no longer known.
    pub fn ended(&self, id: StreamId) -> Option<End> {
        if self.here.contains(&id) {
            return Some(End::Here);
        }
        self.ended.iter().rfind(|(ended, _)| *ended == id).map(|(_, end)| *end)
    }

    /// Shrinks the windows of all streams by `n`, as the peer now knows that they are smaller than it believed.
    pub fn shrink_windows(&mut self, n: u32) {
        self.open.iter_mut().for_each(|stream| stream.window.shrink(n));
    }

    /// Changes the bytes that this side may send on each stream. False if a window exceeds the maximum.
    pub fn change_windows(&mut self, by: i64) -> bool {
        self.open.iter_mut().all(|stream| {
            stream.room += by;
            stream.room <= i64::from(MAX)
        })
    }

    /// Ends the streams above `last`.
    pub fn end_above(&mut self, last: StreamId) {
        while let Some(stream) = self.open.last()
            && stream.id > last
        {
            let id = stream.id;
            self.end(id, End::ByPeer);
        }
    }
}
