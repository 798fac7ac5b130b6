//! State shared by the streams of a connection: the transport, the protocol engine, and the data that each stream has
//! received or has to send. Owned by one worker.

use super::arrived::Arrived;
use super::output::Output;
use super::stream::StreamHandle;
use bytes::{Buf as _, Bytes};
use evenkeel_balance::slab::{Key, SlotTable};
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::WakerSlot;
use evenkeel_net::transport::Transport;
use evenkeel_wire::h2::{Connection, Head, Malformed, NoStream, StreamId};
use evenkeel_wire::head::Table;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of unwritten output from which streams may not add more.
pub(super) const BACKLOG_MAX: usize = 64 * 1024;

/// Capacity up to which the queues of a stream keep their memory for the next stream in its slot: the first allocation
/// of a queue.
const QUEUED_KEPT: usize = 4;

/// HTTP/2 connection of a worker.
pub struct Session {
    /// Transport of the connection, plain or TLS.
    pub transport: Transport,
    pub(super) state: RefCell<State>,
    /// Received bytes of an incomplete frame, copied here so that a waiting connection holds no buffer.
    pub(super) held: RefCell<Vec<u8>>,
    /// True if `held` has complete frames, which are processed in the next turn, after other tasks had theirs.
    pub(super) is_behind: Cell<bool>,
}

/// Mutable part of a session.
pub(super) struct State {
    pub engine: Connection,
    pub streams: SlotTable<Stream>,
    /// Open streams, ordered by id.
    by_id: Vec<(StreamId, Key)>,
    /// Streams that may have something to send.
    pub ready: Vec<Key>,
    pub output: Output,
    /// Waker of the task that reads and writes.
    pub driver: Option<WakerSlot>,
    pub is_woken: bool,
    /// True once the connection has ended.
    pub is_over: bool,
    /// True if a stream waits for the backlog to be written.
    pub is_short: bool,
    /// Number of heads, pieces of data and trailers received.
    pub messages: u64,
    /// Error codes of the peer's stream resets since the last turn.
    pub resets: Vec<u32>,
    /// Interim responses dropped since the last turn.
    pub interim_dropped: u64,
    /// Wakers to wake once the state is no longer borrowed.
    late: Vec<WakerSlot>,
}

/// State of a stream. Slots are reused.
#[derive(Default)]
pub(super) struct Stream {
    pub id: StreamId,
    /// Response heads received and not yet taken.
    pub heads: VecDeque<Head>,
    /// Number of interim responses received.
    pub interim: u32,
    pub arrived: Arrived,
    /// Bytes of the windows held by the part that the task took last. Freed when it takes the next part, so that the
    /// task and this queue together hold no more than a window.
    pub in_hand: usize,
    pub trailers: Option<Table>,
    /// True once the peer has sent END_STREAM.
    pub is_received: bool,
    pub pending: Pending,
    pub last: Last,
    /// True once END_STREAM was sent.
    pub is_sent: bool,
    /// True while it is in the list of streams with something to send.
    pub is_ready: bool,
    /// True if the task waits until it can send more.
    pub wants_room: bool,
    pub lost: Option<Lost>,
    /// The rule that the peer broke, if this ended the stream.
    pub broken: Option<Malformed>,
    /// True once the task has dropped its handle.
    pub is_released: bool,
    /// Urgency, 0 (first) to 7 (RFC 9218).
    pub urgency: u8,
    pub waker: Option<WakerSlot>,
}

impl Stream {
    /// Resets a slot for the next stream. Small queues keep their memory, which nearly all streams need.
    pub fn reset(&mut self) {
        let (mut heads, mut arrived) = (std::mem::take(&mut self.heads), std::mem::take(&mut self.arrived));
        heads.clear();
        arrived.clear();
        if heads.capacity() > QUEUED_KEPT {
            heads = VecDeque::new();
        }
        if arrived.capacity() > QUEUED_KEPT {
            arrived = Arrived::default();
        }
        *self = Stream { heads, arrived, ..Stream::default() };
    }

    /// True if the stream has data, trailers or its end to send.
    pub fn has_more(&self) -> bool {
        !self.pending.filled().is_empty() || !matches!(self.last, Last::Open)
    }
}

/// Data of a stream that is not framed yet.
pub(super) enum Pending {
    Own(Buf),
    /// Part of a body that other streams may send too.
    Shared(Bytes),
}

impl Pending {
    pub fn filled(&self) -> &[u8] {
        match self {
            Pending::Own(buf) => buf.filled(),
            Pending::Shared(bytes) => bytes,
        }
    }

    /// Removes bytes from the front.
    pub fn consume(&mut self, n: usize) {
        match self {
            Pending::Own(buf) => buf.consume(n),
            Pending::Shared(bytes) => bytes.advance(n),
        }
    }
}

impl Default for Pending {
    fn default() -> Pending {
        Pending::Own(Buf::none())
    }
}

/// Continuation after a stream's pending data.
#[derive(Default)]
pub(super) enum Last {
    /// Not known yet: more data may follow.
    #[default]
    Open,
    End,
    /// Trailers follow, with END_STREAM.
    Trailers(Table),
}

/// Reason of a stream's early end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The peer reset the stream, with this code.
    Reset(u32),
    /// The peer broke a rule, so this side reset the stream.
    Broken,
    /// The peer has not processed the request: it is safe to send again (RFC 9113 section 8.7).
    Unseen,
    /// The connection ended, or this side reset the stream.
    Ended,
}

impl Session {
    /// Creates a session. `held` has the bytes that were received already.
    pub fn new(transport: Transport, engine: Connection, held: Vec<u8>) -> Session {
        transport.send_at_once();
        let state = State {
            engine,
            streams: SlotTable::new(),
            by_id: Vec::new(),
            ready: Vec::new(),
            output: Output::new(&transport),
            driver: None,
            is_woken: false,
            is_over: false,
            is_short: false,
            messages: 0,
            resets: Vec::new(),
            interim_dropped: 0,
            late: Vec::new(),
        };
        Session { transport, state: state.into(), held: held.into(), is_behind: Cell::new(false) }
    }

    /// Changes the state, then wakes the wakers that could not be woken while it was borrowed.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let changed = change(&mut state);
        if state.late.is_empty() {
            return changed;
        }
        let late = std::mem::take(&mut state.late);
        drop(state);
        late.iter().for_each(WakerSlot::wake);
        changed
    }

    /// Runs `work` with the engine, and wakes the driver to write its output.
    pub fn engine<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        self.change(|state| {
            let done = work(&mut state.engine);
            state.wake_driver();
            done
        })
    }

    /// Begins a request with this head. `ends`: neither body nor trailers follow.
    ///
    /// # Errors
    /// The connection accepts no more streams.
    pub fn open<'f>(
        self: &Rc<Session>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        ends: bool,
    ) -> Result<StreamHandle, NoStream> {
        let key = self.change(|state| {
            let id = state.engine.open(fields, ends)?;
            state.wake_driver();
            let key = state.add(id);
            state.stream(key).is_sent = ends;
            Ok(key)
        })?;
        Ok(StreamHandle::new(self.clone(), key))
    }

    /// True within an incomplete frame or head, except within a DATA frame, which is processed in parts.
    pub fn is_within_head(&self) -> bool {
        !self.held.borrow().is_empty() || self.state.borrow().engine.is_within_head()
    }

    /// Number of heads, pieces of data and trailers received so far.
    pub fn messages(&self) -> u64 {
        self.state.borrow().messages
    }

    /// Number of streams that are open or have something to send.
    pub fn streams(&self) -> usize {
        self.state.borrow().by_id.len()
    }

    /// Ends the connection: marks all streams as lost and wakes their tasks.
    pub fn end(&self) {
        self.change(|state| {
            state.is_over = true;
            // In reverse, as `settle` removes streams without a task.
            for at in (0..state.count()).rev() {
                let key = state.key(at);
                state.lose(key, Lost::Ended);
                state.settle(key);
            }
        });
    }
}

impl State {
    /// Adds a stream. Its id must be above all others, as `by_id` is sorted.
    pub fn add(&mut self, id: StreamId) -> Key {
        let (key, stream) = self.streams.occupy();
        (stream.id, stream.urgency) = (id, 3);
        self.by_id.push((id, key));
        key
    }

    /// The stream with this id, if it is open.
    pub fn find(&self, id: StreamId) -> Option<Key> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[at].1)
    }

    /// A stream that is open, or whose handle still exists.
    pub fn stream(&mut self, key: Key) -> &mut Stream {
        self.streams.at_mut(key.slot())
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// The open stream at this index, in the order of ids.
    pub fn key(&self, at: usize) -> Key {
        self.by_id[at].1
    }

    /// Removes a stream that has ended and has no handle.
    pub fn remove(&mut self, key: Key) {
        let stream = self.streams.at_mut(key.slot());
        let id = stream.id;
        let flow = stream.arrived.clear() + stream.in_hand;
        stream.reset();
        if flow > 0 {
            self.engine.consumed(id, flow);
        }
        self.streams.vacate(key.slot());
        if let Ok(at) = self.by_id.binary_search_by_key(&id, |(id, _)| *id) {
            self.by_id.remove(at);
        }
        if self.by_id.is_empty() {
            // It may be waiting for the last stream to end.
            self.wake_driver();
        }
    }

    pub fn lose(&mut self, key: Key, lost: Lost) {
        let stream = self.stream(key);
        if stream.lost.is_some() {
            return;
        }
        // Data received before can still be taken.
        stream.lost = Some(lost);
        stream.pending = Pending::default();
        self.wake(key);
    }

    /// Ends a stream early because the peer broke a rule.
    #[cold]
    pub fn lose_broken(&mut self, key: Key, why: Malformed) {
        let stream = self.stream(key);
        stream.broken.get_or_insert(why);
        self.lose(key, Lost::Broken);
    }

    /// Wakes the task of a stream.
    pub fn wake(&mut self, key: Key) {
        if let Some(waker) = self.streams.at_mut(key.slot()).waker.take() {
            waker.wake_task_or_leave(&mut self.late);
        }
    }

    /// Stores the waker of a stream's task.
    pub fn note(&mut self, key: Key, waker: WakerSlot) {
        // Dropping a foreign waker may run its code, which must not happen while the state is borrowed. It is woken
        // later instead; a spurious wake is harmless.
        if let Some(old @ WakerSlot::Other(_)) = self.streams.at_mut(key.slot()).waker.replace(waker) {
            self.late.push(old);
        }
    }

    /// Wakes the task that reads and writes.
    pub fn wake_driver(&mut self) {
        if !std::mem::replace(&mut self.is_woken, true)
            && let Some(driver) = self.driver.clone()
        {
            driver.wake_task_or_leave(&mut self.late);
        }
    }

    /// Queues a stream that has something to send, and wakes the driver.
    pub fn make_ready(&mut self, key: Key) {
        if !std::mem::replace(&mut self.stream(key).is_ready, true) {
            self.ready.push(key);
        }
        self.wake_driver();
    }

    /// Bytes of output that are not written yet.
    pub fn backlog(&mut self) -> usize {
        self.output.len(self.engine.output().len())
    }
}
