//! Which streams are open, and which were a moment ago? What comes for a stream that has ended depends on how it did (RFC 9113
//! section 5.1).

use super::flow::Window;
use super::{MAX, StreamId};
use std::collections::VecDeque;

/// One stream, while one of its sides is open.
#[derive(Debug)]
pub struct Stream {
    pub id: StreamId,
    /// What this side may send.
    pub room: i64,
    /// What the peer may.
    pub window: Window,
    /// The peer may send more.
    pub receives: bool,
    /// This side may.
    pub sends: bool,
    /// What its fields say is to come of its body.
    pub left: Option<u64>,
    /// Its final head has come: fields that come now are trailers.
    pub has_head: bool,
    /// What this side asked for.
    pub asked: Asked,
    /// The time at which it began, in nanoseconds.
    pub began: u64,
}

/// Whether a response has a body depends on its request (RFC 9110 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its fields say how long it is.
    Usual,
    /// It has none, whatever its fields say.
    Head,
    /// If it succeeds, what follows is a tunnel.
    Connect,
}

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides have said all.
    Done,
    /// The peer has reset it.
    ByPeer,
    /// This side has, and the peer may not know yet.
    Here,
}

/// Streams that both sides have ended, or the peer: to tell the peer more exactly what is wrong with what it sends then.
const ENDED_MAX: usize = 64;

/// Streams that were reset here. The peer may send for them for a round trip more, so that others must not push them out.
const HERE_MAX: usize = 256;

/// The streams of a connection.
#[derive(Debug, Default)]
pub struct Streams {
    /// By number, ascending: they are added at the end.
    open: Vec<Stream>,
    ended: VecDeque<(StreamId, End)>,
    here: VecDeque<StreamId>,
    /// True if the list `here` was full once.
    has_forgotten: bool,
}

impl Streams {
    #[inline]
    pub fn get(&mut self, id: StreamId) -> Option<&mut Stream> {
        let at = self.find(id)?;
        Some(&mut self.open[at])
    }

    #[inline]
    pub fn room(&self, id: StreamId) -> i64 {
        self.find(id).map_or(0, |at| self.open[at].room)
    }

    #[inline]
    fn find(&self, id: StreamId) -> Option<usize> {
        // Few are open, and the newest are asked for most.
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

    /// Ends a stream; whether it was open.
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

    /// The peer ends a stream; whether it was open. Behind that it may send nothing more, also where this side was first.
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

    /// True if a stream of which nothing is known may be one that was reset here.
    pub fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// How a stream has ended, if that is still known.
    pub fn ended(&self, id: StreamId) -> Option<End> {
        if self.here.contains(&id) {
            return Some(End::Here);
        }
        self.ended.iter().rfind(|(ended, _)| *ended == id).map(|(_, end)| *end)
    }

    /// The peer knows now that its windows are smaller by so much than it believed.
    pub fn shrink_windows(&mut self, n: u32) {
        self.open.iter_mut().for_each(|stream| stream.window.shrink(n));
    }

    /// Changes what this side may send on each; `false` if that is too much.
    pub fn change_windows(&mut self, by: i64) -> bool {
        self.open.iter_mut().all(|stream| {
            stream.room += by;
            stream.room <= i64::from(MAX)
        })
    }

    /// Ends those above a number.
    pub fn end_above(&mut self, last: StreamId) {
        while let Some(stream) = self.open.last()
            && stream.id > last
        {
            let id = stream.id;
            self.end(id, End::ByPeer);
        }
    }
}
