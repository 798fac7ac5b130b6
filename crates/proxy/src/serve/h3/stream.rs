//! A stream of a request, and its handle for the task of the request. Bytes are taken from QUIC as the task takes them, so
//! that the client is held back by the window of the stream. Dropping the handle resets the stream, unless the response is
//! complete.

use super::session::Session;
use crate::body::part::{Gone, Part};
use crate::observe::stats::h3_code_index;
use bytes::{Buf as _, Bytes};
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::event_loop::WakerSlot;
use evenkeel_net::quic::StreamId;
use evenkeel_net::quic::connection::{Connection, Read, Write};
use evenkeel_wire::h3::Malformed;
use evenkeel_wire::h3::{ErrorCode, Event, MessageStream};
use evenkeel_wire::head::Table;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Fewest bytes of a body that are not copied behind the front of their frame.
const SHARED_MIN: usize = 2048;

/// Stream of a request, with the bytes that neither side has taken.
pub(super) struct Stream {
    pub(super) message: MessageStream,
    /// Bytes that QUIC has given and the engine has not used.
    pub(super) unread: Bytes,
    /// Bytes behind them: whether they are the last is known in advance.
    ahead: Option<Bytes>,
    /// True once QUIC has given the last bytes.
    is_at_end: bool,
    /// True once the whole message was received.
    is_received: bool,
    trailers: Option<Table>,
    broken: Option<Malformed>,
    /// Bytes that QUIC has not taken.
    pending: Vec<Bytes>,
    /// True once the response is complete, but for what is pending.
    ends: bool,
    /// True once QUIC has the whole response.
    is_sent: bool,
    pub(super) is_lost: bool,
    progress: Progress,
    waker: Option<WakerSlot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Head,
    /// A task serves the request.
    Task,
    /// The task has ended, and the rest of the response is pending.
    Released,
}

/// Result of [`Stream::fill`].
pub(super) enum Fill {
    /// There are bytes, or the end. `ends`: nothing follows.
    Some {
        ends: bool,
    },
    Pending,
    /// The client has reset the stream with this code.
    Reset(u64),
}

/// Most bytes taken from a stream at once.
const CHUNK: usize = CAPACITY;

impl Stream {
    pub(super) fn new(now: u64) -> Stream {
        Stream {
            message: MessageStream::request(now),
            unread: Bytes::new(),
            ahead: None,
            is_at_end: false,
            is_received: false,
            trailers: None,
            broken: None,
            pending: Vec::new(),
            ends: false,
            is_sent: false,
            is_lost: false,
            progress: Progress::Head,
            waker: None,
        }
    }

    pub(super) fn has_task(&self) -> bool {
        self.progress == Progress::Task
    }

    /// Passes the stream to a task. `is_received`: the head is the whole message.
    pub(super) fn start(&mut self, is_received: bool) {
        (self.progress, self.is_received) = (Progress::Task, is_received);
    }

    /// Marks the stream as ended early, and wakes its task.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.pending = Vec::new();
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Takes bytes from QUIC, and looks whether others follow.
    pub(super) fn fill(&mut self, connection: &Connection, id: StreamId) -> Fill {
        if self.unread.is_empty() {
            self.unread = self.ahead.take().unwrap_or_default();
        }
        while !self.is_at_end && self.ahead.is_none() {
            match connection.read(id, CHUNK) {
                Read::Data(bytes) if self.unread.is_empty() => self.unread = bytes,
                Read::Data(bytes) => self.ahead = Some(bytes),
                Read::End => self.is_at_end = true,
                Read::Pending => break,
                Read::Reset(code) => return Fill::Reset(code),
            }
        }
        match self.unread.is_empty() && !self.is_at_end {
            true => Fill::Pending,
            false => Fill::Some { ends: self.is_at_end && self.ahead.is_none() },
        }
    }

    /// Removes bytes that the engine has used.
    pub(super) fn take(&mut self, used: usize) {
        self.unread.advance(used);
    }
}

impl Session {
    /// Writes what is pending of a stream, and its end. Removes the stream if nothing is left to do.
    pub(super) fn flush(&self, id: StreamId) {
        {
            let state = &mut *self.state.borrow_mut();
            let Some(stream) = state.streams.get_mut(&id) else { return };
            if stream.is_lost {
                return;
            }
            if !stream.pending.is_empty() {
                match self.connection.write(id, &mut stream.pending) {
                    Write::All => {}
                    Write::Blocked => return,
                    // The session is told that the client has stopped the stream.
                    Write::Stopped(_) => return stream.lose(),
                }
            }
            stream.wake();
            if !stream.ends {
                return;
            }
            if !std::mem::replace(&mut stream.is_sent, true) {
                self.connection.finish(id);
                state.unacknowledged.insert(id);
                state.engine.on_sent();
            }
            if stream.progress != Progress::Released {
                return;
            }
            state.streams.remove(&id);
        }
        self.end_if_drained();
    }
}

/// Stream as its task sees it.
pub(super) struct StreamHandle {
    session: Rc<Session>,
    id: StreamId,
}

impl StreamHandle {
    pub(super) fn new(session: Rc<Session>, id: StreamId) -> StreamHandle {
        StreamHandle { session, id }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Stream) -> T) -> T {
        let mut state = self.session.state.borrow_mut();
        look(state.streams.get_mut(&self.id).expect("a stream stays until its handle is dropped"))
    }

    /// Runs `look`; if it finds nothing, registers the task to be woken at the stream's next event.
    fn poll<T>(&self, cx: &Context<'_>, look: impl FnOnce(&mut Stream) -> Option<T>) -> Poll<T> {
        let waker = WakerSlot::of(cx);
        self.with(|stream| match look(stream) {
            Some(found) => Poll::Ready(found),
            None => {
                stream.waker = Some(waker);
                Poll::Pending
            }
        })
    }

    /// The rule that the client broke, if this ended the stream.
    pub(super) fn broken(&self) -> Option<Malformed> {
        self.with(|stream| stream.broken.clone())
    }

    /// True unless the request is complete or lost.
    pub(super) fn is_receiving(&self) -> bool {
        self.with(|stream| !stream.is_received && !stream.is_lost)
    }

    /// Ready once the stream was ended early.
    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        // A reset is seen only by reading, and parts that are not taken hold the client back: a stop comes by itself.
        self.poll(cx, |stream| stream.is_lost.then_some(()))
    }

    /// Takes the next part of the request; must not be called after the end.
    pub(super) fn poll_part(&self, cx: &Context<'_>) -> Poll<Result<Part, Gone>> {
        let session = &self.session;
        let now = session.now();
        let mut data: Option<Buf> = None;
        loop {
            let received = {
                let state = &mut *session.state.borrow_mut();
                let stream = state.streams.get_mut(&self.id).expect("a stream stays until its handle is dropped");
                if let Some(buf) = data.take_if(|buf| stream.is_received || stream.is_lost || buf.spare().is_empty()) {
                    return Poll::Ready(Ok(Part::Data(buf)));
                }
                if let Some(trailers) = stream.trailers.take() {
                    return Poll::Ready(Ok(Part::Trailers(trailers)));
                }
                if stream.is_received {
                    return Poll::Ready(Ok(Part::End));
                }
                if stream.is_lost {
                    return Poll::Ready(Err(Gone));
                }
                match stream.fill(&session.connection, self.id) {
                    Fill::Pending => {
                        if let Some(buf) = data {
                            return Poll::Ready(Ok(Part::Data(buf)));
                        }
                        stream.waker = Some(WakerSlot::of(cx));
                        return Poll::Pending;
                    }
                    Fill::Reset(code) => {
                        stream.lose();
                        session.open.listener.stats.http3.resets_received[h3_code_index(code)].add(1);
                        if !stream.is_sent {
                            // QUIC allows the client another stream only once this one has ended in both directions.
                            session.connection.reset(self.id, ErrorCode::RequestCancelled as u64);
                        }
                        state.engine.on_reset(&mut stream.message, now)
                    }
                    Fill::Some { mut ends } => {
                        // Of data, no more than there is room for.
                        let room = data.as_mut().map_or(CAPACITY, |buf| buf.spare().len());
                        let most = stream.unread.len().min(room);
                        ends &= most == stream.unread.len();
                        let received = state.engine.receive(&mut stream.message, &stream.unread[..most], ends, now);
                        received.map(|received| {
                            match received.event {
                                Some(Event::Data { range, ends }) => {
                                    let bytes = &stream.unread[range];
                                    if !bytes.is_empty() {
                                        let fits = data.get_or_insert_with(Buf::take).extend(bytes);
                                        debug_assert!(fits, "no more was passed than there is room for");
                                    }
                                    stream.is_received = ends;
                                }
                                Some(Event::Trailers(trailers)) => {
                                    (stream.trailers, stream.is_received) = (Some(trailers), true);
                                }
                                Some(Event::Reset { code, broken }) => {
                                    stream.broken = Some(broken);
                                    stream.lose();
                                    session.connection.reset(self.id, code as u64);
                                    session.connection.stop(self.id, code as u64);
                                    let stats = &session.open.listener.stats;
                                    stats.http3.resets_sent[h3_code_index(code as u64)].add(1);
                                    stats.malformed.add(1);
                                }
                                _ => {}
                            }
                            stream.take(received.used);
                        })
                    }
                }
            };
            if let Err(error) = received {
                session.fail(error);
                return Poll::Ready(Err(Gone));
            }
            session.tell_floods();
        }
    }

    /// Waits until there is room to send another part.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll(cx, |stream| match () {
            () if stream.is_lost => Some(Err(Gone)),
            () if stream.pending.is_empty() => Some(Ok(())),
            () => None,
        })
    }

    /// True if the client has not taken the last part.
    pub(super) fn is_held_back(&self) -> bool {
        self.with(|stream| !stream.pending.is_empty())
    }

    /// Sends a response head. `ends`: neither body nor trailers follow.
    pub(super) fn send_head<'f>(&self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, ends: bool) {
        {
            let state = &mut *self.session.state.borrow_mut();
            let stream = state.streams.get_mut(&self.id).expect("a stream stays until its handle is dropped");
            if stream.is_lost {
                return;
            }
            let mut out = Vec::with_capacity(256);
            state.engine.write_head(fields, &mut out);
            stream.pending.push(out.into());
            stream.ends = ends;
        }
        self.session.flush(self.id);
    }

    fn send_data(&self, len: usize, push: impl FnOnce(&mut Vec<u8>) -> Option<Bytes>) {
        {
            let state = &mut *self.session.state.borrow_mut();
            let stream = state.streams.get_mut(&self.id).expect("a stream stays until its handle is dropped");
            if stream.is_lost || len == 0 {
                return;
            }
            let mut front = Vec::with_capacity(if len < SHARED_MIN { len + 16 } else { 16 });
            state.engine.write_data_front(len, &mut front);
            let rest = push(&mut front);
            stream.pending.push(front.into());
            stream.pending.extend(rest);
        }
        self.session.flush(self.id);
    }

    /// Sends a part. Data needs room: see [`poll_room`](Self::poll_room).
    pub(super) fn send(&self, part: Part) {
        match part {
            Part::Data(buf) => self.send_data(buf.len(), |front| {
                if buf.len() < SHARED_MIN {
                    front.extend_from_slice(buf.filled());
                    return None;
                }
                Some(Bytes::from_owner(Sent(buf)))
            }),
            Part::Trailers(trailers) => self.send_head(trailers.iter(), true),
            Part::End => {
                let ended = self.with(|stream| std::mem::replace(&mut stream.ends, true));
                if !ended {
                    self.session.flush(self.id);
                }
            }
        }
    }

    /// Sends data that other streams may send too, without a copy. Needs room.
    pub(super) fn send_shared(&self, bytes: Bytes) {
        self.send_data(bytes.len(), |_| Some(bytes));
    }

    /// Sets the urgency: 0 is the most urgent, 7 the least, 3 the default (RFC 9218).
    pub(super) fn set_urgency(&self, urgency: u8) {
        self.session.connection.set_priority(self.id, -i32::from(urgency));
    }

    /// Ready once QUIC has taken all that was sent, or the stream has ended.
    pub(super) fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll(cx, |stream| (stream.is_lost || stream.pending.is_empty()).then_some(()))
    }

    /// Resets the stream with this code.
    pub(super) fn reset(&self, code: ErrorCode) {
        let was_lost = self.with(|stream| {
            let was_lost = stream.is_lost;
            stream.lose();
            was_lost
        });
        if !was_lost {
            self.session.state.borrow_mut().unacknowledged.remove(&self.id);
            self.session.open.listener.stats.http3.resets_sent[h3_code_index(code as u64)].add(1);
            self.session.connection.reset(self.id, code as u64);
            self.session.connection.stop(self.id, code as u64);
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let (is_lost, ends, is_received) = self.with(|stream| (stream.is_lost, stream.ends, stream.is_received));
        if !is_lost && !ends {
            // The task ended before the response was complete.
            self.reset(ErrorCode::InternalError);
        } else if !is_lost && !is_received {
            // The rest of the request is not needed (RFC 9114 section 4.1).
            self.session.connection.stop(self.id, ErrorCode::NoError as u64);
        }
        {
            let state = &mut *self.session.state.borrow_mut();
            if let Some(stream) = state.streams.get_mut(&self.id) {
                stream.progress = Progress::Released;
                if stream.is_lost || stream.pending.is_empty() {
                    state.streams.remove(&self.id);
                }
            }
        }
        self.session.end_if_drained();
    }
}

/// Buffer whose bytes QUIC keeps until they are acknowledged.
struct Sent(Buf);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        self.0.filled()
    }
}
