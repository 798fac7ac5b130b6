//! State shared by the streams of a connection: its transport, the protocol engine, and what each stream
//! has received and has to send. All of it belongs to one worker.

use super::arrived::Arrived;
use super::stream::StreamHandle;
use evenkeel_balance::slab::{Key, SlotTable};
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::WakerSlot;
use evenkeel_net::transport::Transport;
use evenkeel_wire::h2::{Connection, Head, Malformed, NoStream, StreamId};
use evenkeel_wire::head::Table;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes that wait to be written, beyond which no stream adds to them.
pub(super) const BACKLOG_MAX: usize = 64 * 1024;

/// Heads or pieces of data for which a stream that has ended keeps room: the first that a queue takes.
const QUEUED_KEPT: usize = 4;

/// HTTP/2 connection of one worker.
pub struct Session {
    /// Transport of the connection, plain or TLS.
    pub transport: Transport,
    pub(super) state: RefCell<State>,
    /// Bytes that came, and are less than a frame: a connection that waits holds no buffer.
    pub(super) held: RefCell<Vec<u8>>,
    /// There is more in `held` than the rest of a frame: its turn comes when others have had theirs.
    pub(super) is_behind: Cell<bool>,
}

/// Mutable part of a session.
pub(super) struct State {
    pub engine: Connection,
    pub streams: SlotTable<Stream>,
    /// The streams that are open, by number.
    by_id: Vec<(StreamId, Key)>,
    /// Streams that may have something to send.
    pub ready: Vec<Key>,
    /// Bytes of the engine's output that were written.
    pub written: usize,
    /// The task that reads and writes.
    pub driver: Option<WakerSlot>,
    pub is_woken: bool,
    /// The connection is no more.
    pub is_over: bool,
    /// A stream waits until something was written.
    pub is_short: bool,
    /// Heads, pieces of data and trailers that have come.
    pub messages: u64,
    /// The codes by which the peer has reset streams since this was last taken.
    pub resets: Vec<u32>,
    /// Interim heads that were dropped since this was last taken.
    pub interim_dropped: u64,
    /// Wakers to wake once the state is no longer borrowed.
    late: Vec<WakerSlot>,
}

/// State of a stream. Slots are reused.
#[derive(Default)]
pub(super) struct Stream {
    pub id: StreamId,
    /// Heads of responses that came.
    pub heads: VecDeque<Head>,
    /// Number of interim responses received.
    pub interim: u32,
    pub arrived: Arrived,
    /// Bytes of the windows that are taken by the part that its task has in hand: free when the task takes the next part, so that
    /// the task and this side together hold no more than a window.
    pub in_hand: usize,
    pub trailers: Option<Table>,
    /// The peer sends nothing more.
    pub is_received: bool,
    pub pending: Buf,
    pub last: Last,
    /// True once END_STREAM was sent.
    pub is_sent: bool,
    /// True while it is in the list of streams with something to send.
    pub is_ready: bool,
    /// Its task waits until it can send more.
    pub wants_room: bool,
    pub lost: Option<Lost>,
    /// The rule that the peer broke, if that ended the stream.
    pub broken: Option<Malformed>,
    /// Its task has let go of it.
    pub is_released: bool,
    /// Urgency, 0 (first) to 7 (RFC 9218).
    pub urgency: u8,
    pub waker: Option<WakerSlot>,
}

impl Stream {
    /// Makes it one of which nothing is known. It keeps the room of queues, which nearly all streams need.
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

    /// True if it has something to send.
    pub fn has_more(&self) -> bool {
        !self.pending.is_empty() || !matches!(self.last, Last::Open)
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
    /// The peer has reset it, with this code.
    Reset(u32),
    /// The peer has broken a rule, so that this side has reset it.
    Broken,
    /// The peer has not looked at it: it may be sent again.
    Unseen,
    /// Its connection has ended.
    Ended,
}

impl Session {
    /// A connection whose engine has begun.
    pub fn new(transport: Transport, engine: Connection, held: Vec<u8>) -> Session {
        transport.send_at_once();
        let state = State {
            engine,
            streams: SlotTable::new(),
            by_id: Vec::new(),
            ready: Vec::new(),
            written: 0,
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

    /// Changes the state, and then wakes.
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

    /// Does something with the engine; what it has to say then is written soon.
    pub fn engine<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        self.change(|state| {
            let done = work(&mut state.engine);
            state.wake_driver();
            done
        })
    }

    /// Begins a request with this head. `ends`: nothing follows.
    ///
    /// # Errors
    /// The connection takes no more.
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

    /// True within an incomplete frame or head; DATA frames may arrive in parts.
    pub fn is_within_head(&self) -> bool {
        !self.held.borrow().is_empty() || self.state.borrow().engine.is_within_head()
    }

    /// Heads, pieces of data and trailers that have come so far.
    pub fn messages(&self) -> u64 {
        self.state.borrow().messages
    }

    /// Streams that are open, or have something to send.
    pub fn streams(&self) -> usize {
        self.state.borrow().by_id.len()
    }

    /// The connection is no more: its streams are told.
    pub fn end(&self) {
        self.change(|state| {
            state.is_over = true;
            // From the last one, as those that have no task are removed.
            for at in (0..state.count()).rev() {
                let key = state.key(at);
                state.lose(key, Lost::Ended);
                state.settle(key);
            }
        });
    }
}

impl State {
    /// Adds a stream: numbers rise.
    pub fn add(&mut self, id: StreamId) -> Key {
        let (key, stream) = self.streams.occupy();
        (stream.id, stream.urgency) = (id, 3);
        self.by_id.push((id, key));
        key
    }

    /// The stream of that number, if it is open.
    pub fn find(&self, id: StreamId) -> Option<Key> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[at].1)
    }

    /// A stream that is open, or of which something holds on to the handle.
    pub fn stream(&mut self, key: Key) -> &mut Stream {
        self.streams.at_mut(key.slot())
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// The stream at this place among those that are open.
    pub fn key(&self, at: usize) -> Key {
        self.by_id[at].1
    }

    /// A stream is over, and nothing holds on to it.
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
            // It may wait for that.
            self.wake_driver();
        }
    }

    pub fn lose(&mut self, key: Key, lost: Lost) {
        let stream = self.stream(key);
        if stream.lost.is_some() {
            return;
        }
        // What came before can still be taken.
        stream.lost = Some(lost);
        stream.pending = Buf::none();
        self.wake(key);
    }

    /// Ends a stream early, as the peer has broken a rule.
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

    /// Keeps the waker of a stream's task.
    pub fn note(&mut self, key: Key, waker: WakerSlot) {
        // A waker of others must not be dropped here; one wake too many does no harm.
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

    /// A stream has something to send.
    pub fn make_ready(&mut self, key: Key) {
        if !std::mem::replace(&mut self.stream(key).is_ready, true) {
            self.ready.push(key);
        }
        self.wake_driver();
    }

    /// Bytes that wait to be written.
    pub fn backlog(&mut self) -> usize {
        self.engine.output().len() - self.written
    }
}
