//! Turn of a connection's task: writes all pending output at once, then reads, and distributes received data to the
//! streams. The tasks that this wakes run before its next turn, so that their output leaves together.

use super::session::{BACKLOG_MAX, Last, Lost, Pending, Session, State};
use super::stream::StreamHandle;
use evenkeel_balance::slab::Key;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::{WakerSlot, budget};
use evenkeel_wire::h2::{Connection, ConnectionError, ErrorCode, Event, Flood, Head, Refused, StreamId};
use evenkeel_wire::http1::INTERIM_MAX;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Bytes read in a turn, before streams and other connections have theirs: a peer that floods this side must not make
/// them wait.
const TURN_BYTES: usize = 16 * 1024;

/// Requests begun in a turn, limited for the same reason: a request that is answered at once takes four units of the
/// 128 of a turn.
const REQUESTS_MAX: usize = 32;

/// Work done in a turn, in frames, limited for the same reason; a head counts as several. Heads that are discarded
/// begin no request, but cost as much time.
const WORK_MAX: u64 = 1100;

/// Bytes of interim response heads that a stream holds until its task takes them; more are dropped. A client that does
/// not read must not make this side hold more, and the endpoint's connection cannot wait, as other streams share it.
/// Interim responses are hints: the final response does not depend on them.
const INTERIM_HELD: usize = 16 * 1024;

/// Bytes of the output buffer that an idle connection may keep.
const OUTPUT_KEPT: usize = 1024;

/// Output buffers that a worker keeps for reuse.
const ROOMS_MAX: usize = 64;

thread_local! {
    /// Requests begun by the bytes being processed; kept for its memory.
    static BEGUN: Cell<Vec<(Key, Head)>> = const { Cell::new(Vec::new()) };
    static ROOMS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a large output buffer for reuse, so that the few in use stay in the processor's cache.
fn give_room_back(output: &mut Vec<u8>) {
    if output.capacity() > OUTPUT_KEPT {
        let room = std::mem::take(output);
        ROOMS.with_borrow_mut(|rooms| {
            // A buffer that has grown too large would keep its memory forever.
            if rooms.len() < ROOMS_MAX && room.capacity() <= 4 * BACKLOG_MAX {
                rooms.push(room);
            }
        });
    }
}

/// Bytes of memory for incomplete frames that an idle connection may keep.
const HELD_KEPT: usize = 1024;

#[derive(Debug)]
pub enum Ended {
    /// The peer closed the connection, or it was lost.
    Closed,
    /// The peer violated the protocol. A GOAWAY with the error is in the output.
    Failed(ConnectionError),
}

/// Events of a connection that its two roles, client and server, handle differently.
pub trait Role {
    /// Handles the head of a new request as it is read. Its outcome is reported once all received bytes were processed.
    fn on_begin(&self) {}

    /// Handles a request of the peer.
    fn on_request(&self, stream: StreamHandle, head: Head);

    /// Counts received bytes.
    fn on_read(&self, bytes: usize);

    /// Handles a request that the peer reset within the same read.
    fn on_taken_back(&self, head: &Head) {
        let _ = head;
    }

    /// Handles a request that was refused because of its head; the engine has sent a response or reset the stream.
    fn on_refused(&self, refused: Box<Refused>) {
        let _ = refused;
    }

    /// Handles a flood by the peer: no more streams begin, and those that have begun are served.
    fn on_flooded(&self, flood: Flood) {
        let _ = flood;
    }

    /// Counts interim responses that were dropped because their stream's task did not take them.
    fn on_interim_dropped(&self, count: u64) {
        let _ = count;
    }

    /// Handles the answer to a PING.
    fn on_pong(&self, payload: u64) {
        let _ = payload;
    }

    /// Counts the reset of a stream, with this code, by the peer or by this side.
    fn on_reset(&self, by_peer: bool, code: u32) {
        let _ = (by_peer, code);
    }

    /// Handles a change of the peer's limits.
    fn on_limits(&self) {}

    /// Handles GOAWAY: the peer processes no streams above `last`. `code` is the reason.
    fn on_go_away(&self, last: StreamId, code: u32) {
        let _ = (last, code);
    }
}

impl Session {
    /// Writes and reads until neither is possible or the turn is used up. Ready once the connection has ended.
    pub fn poll_turn(self: &Rc<Session>, cx: &mut Context<'_>, now: u64, role: &impl Role) -> Poll<Ended> {
        let waker = WakerSlot::of(cx);
        let before = {
            let mut state = self.state.borrow_mut();
            // No wake is needed for changes during this turn.
            state.is_woken = true;
            state.driver.replace(waker)
        };
        drop(before);
        let polled = self.poll_both(cx, now, role);
        let mut state = self.state.borrow_mut();
        state.is_woken = false;
        state.resets.drain(..).for_each(|code| role.on_reset(true, code));
        state.engine.resets().drain(..).for_each(|code| role.on_reset(false, code as u32));
        if state.interim_dropped > 0 {
            role.on_interim_dropped(std::mem::take(&mut state.interim_dropped));
        }
        drop(state);
        polled
    }

    fn poll_both(self: &Rc<Session>, cx: &mut Context<'_>, now: u64, role: &impl Role) -> Poll<Ended> {
        let mut taken = 0;
        while taken < TURN_BYTES {
            let is_blocked = match self.poll_write(cx) {
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(_)) => return Poll::Ready(Ended::Closed),
                Poll::Pending => true,
            };
            // A peer that does not read is not read from either.
            if is_blocked && self.state.borrow_mut().backlog() >= BACKLOG_MAX {
                return Poll::Pending;
            }
            let room = || Buf::holding(&self.held.borrow());
            let buf = if self.is_behind.get() {
                room()
            } else {
                match self.transport.poll_read_into(cx, room) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok((1.., buf))) => buf,
                    Poll::Ready(_) => return Poll::Ready(Ended::Closed),
                }
            };
            if let Err(error) = self.take_in(buf.filled(), now, role) {
                return Poll::Ready(Ended::Failed(error));
            }
            taken += buf.len();
            if self.is_behind.get() {
                break;
            }
        }
        // Continues after the streams and other tasks had their turns.
        budget::pause(cx);
        Poll::Pending
    }

    /// Processes received bytes: gives the streams their data, and reports new requests.
    ///
    /// # Errors
    /// The peer violated the protocol. The GOAWAY for it is in the output.
    pub fn take_in(self: &Rc<Session>, bytes: &[u8], now: u64, role: &impl Role) -> Result<(), ConnectionError> {
        role.on_read(bytes.len());
        let mut begun = BEGUN.take();
        let taken = self.take_frames(bytes, now, role, &mut begun);
        for (key, head) in begun.drain(..) {
            let stream = StreamHandle::new(self.clone(), key);
            match stream.lost() {
                None => role.on_request(stream, head),
                Some(Lost::Broken) => {
                    let why = stream.broken().unwrap_or_else(|| "its stream was reset".into());
                    role.on_refused(Box::new(Refused { head, why, status: None }));
                }
                Some(_) => role.on_taken_back(&head),
            }
        }
        BEGUN.set(begun);
        let at = taken?;
        // Wakes the wakers that could not be woken while the state was borrowed.
        self.change(|_| ());
        let mut held = self.held.borrow_mut();
        held.clear();
        if at == bytes.len() && held.capacity() > HELD_KEPT {
            *held = Vec::new();
        }
        held.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    /// Processes complete frames, up to the limits of a turn. Returns the number of bytes used.
    fn take_frames(
        &self,
        bytes: &[u8],
        now: u64,
        role: &impl Role,
        begun: &mut Vec<(Key, Head)>,
    ) -> Result<usize, ConnectionError> {
        let mut at = 0;
        let most = self.state.borrow().engine.work() + WORK_MAX;
        self.is_behind.set(false);
        loop {
            let news = {
                let mut state = self.state.borrow_mut();
                if begun.len() >= REQUESTS_MAX || state.engine.work() >= most {
                    self.is_behind.set(true);
                    break;
                }
                let received = state.engine.receive(&bytes[at..], now)?;
                let from = at;
                at += received.used;
                match received.event {
                    Some(event) => state.take_event(event, &bytes[from..]),
                    None if received.used == 0 => break,
                    None => None,
                }
            };
            match news {
                Some(News::Request(key, head)) => {
                    begun.push((key, head));
                    role.on_begin();
                }
                Some(News::Refused(refused)) => {
                    role.on_begin();
                    role.on_refused(refused);
                }
                Some(News::Flooded(flood)) => role.on_flooded(flood),
                Some(News::Pong(payload)) => role.on_pong(payload),
                Some(News::Limits) => role.on_limits(),
                Some(News::GoAway { last, code }) => role.on_go_away(last, code),
                None => {}
            }
        }
        Ok(at)
    }

    /// Writes all output. Pending while the transport accepts no more.
    pub fn poll_write(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            self.change(State::flush);
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            if state.backlog() == 0 {
                return Poll::Ready(Ok(()));
            }
            let output = state.engine.output();
            ready!(state.output.poll_write(cx, &self.transport, output))?;
            if state.ready.is_empty() {
                give_room_back(output);
            }
            state.wake_roomless();
        }
    }

    /// True if everything pending has been written.
    pub fn is_written(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.backlog() == 0 && state.ready.is_empty()
    }
}

enum News {
    Request(Key, Head),
    Refused(Box<Refused>),
    Flooded(Flood),
    Pong(u64),
    Limits,
    GoAway { last: StreamId, code: u32 },
}

impl State {
    /// Applies an event to its stream. `bytes` are the bytes that the engine was given.
    fn take_event(&mut self, event: Event, bytes: &[u8]) -> Option<News> {
        self.messages += u64::from(matches!(event, Event::Head { .. } | Event::Data { .. } | Event::Trailers { .. }));
        match event {
            Event::Head { stream, head } => match self.find(stream) {
                None => {
                    let key = self.add(stream);
                    self.stream(key).is_received = head.ends;
                    return Some(News::Request(key, head));
                }
                Some(key) if head.status < 200 => self.take_interim(key, head),
                Some(key) => {
                    let stream = self.stream(key);
                    stream.is_received |= head.ends;
                    stream.heads.push_back(head);
                    self.wake(key);
                }
            },
            Event::Data { stream, range, flow, ends } => match self.find(stream) {
                None => self.engine.consumed(stream, flow as usize),
                Some(key) => {
                    let stream = self.stream(key);
                    stream.is_received |= ends;
                    if stream.lost.is_some() || stream.is_released {
                        let id = stream.id;
                        self.engine.consumed(id, flow as usize);
                        return None;
                    }
                    stream.arrived.push(&bytes[range], flow as usize);
                    let (id, padding) = (stream.id, stream.arrived.take_padding());
                    if padding > 0 {
                        self.engine.consumed(id, padding);
                    }
                    self.wake(key);
                }
            },
            Event::Trailers { stream, table } => {
                if let Some(key) = self.find(stream) {
                    let stream = self.stream(key);
                    stream.is_received = true;
                    stream.trailers = Some(table);
                    self.wake(key);
                }
            }
            Event::Reset { stream, code, broken } => {
                if broken.is_none() {
                    self.resets.push(code);
                }
                if let Some(key) = self.find(stream) {
                    match broken {
                        None => self.lose(key, Lost::Reset(code)),
                        Some(why) => self.lose_broken(key, why),
                    }
                    self.settle(key);
                }
            }
            Event::Refused(refused) => return Some(News::Refused(refused)),
            Event::Flooded(flood) => return Some(News::Flooded(flood)),
            Event::Room { stream: Some(stream) } => {
                if let Some(key) = self.find(stream) {
                    self.make_ready(key);
                }
            }
            Event::Room { stream: None } => {
                for at in 0..self.count() {
                    let key = self.key(at);
                    if self.stream(key).has_more() {
                        self.make_ready(key);
                    }
                }
            }
            Event::GoAway { last, code } => {
                // In reverse, as `settle` may remove streams.
                for at in (0..self.count()).rev() {
                    let key = self.key(at);
                    if self.stream(key).id > last {
                        self.lose(key, Lost::Unseen);
                        self.settle(key);
                    }
                }
                return Some(News::GoAway { last, code });
            }
            Event::Settings => return Some(News::Limits),
            Event::Pong(payload) => return Some(News::Pong(payload)),
        }
        None
    }

    /// Queues an interim response head, unless the stream holds too many bytes of them. Resets the stream at more than
    /// [`INTERIM_MAX`].
    #[cold]
    fn take_interim(&mut self, key: Key, head: Head) {
        let stream = self.stream(key);
        stream.interim += 1;
        if stream.interim > INTERIM_MAX {
            let id = stream.id;
            self.engine.reset(id, ErrorCode::EnhanceYourCalm);
            self.lose_broken(key, "more than 16 interim responses".into());
            return self.settle(key);
        }
        let held: usize = stream.heads.iter().map(|head| head.fields.size()).sum();
        if held > 0 && held + head.fields.size() > INTERIM_HELD {
            self.interim_dropped += 1;
            return;
        }
        stream.heads.push_back(head);
        self.wake(key);
    }

    /// Returns the engine, with an output buffer to write to.
    #[inline]
    pub fn writer(&mut self) -> &mut Connection {
        if self.engine.output().capacity() == 0 {
            *self.engine.output() = ROOMS.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        &mut self.engine
    }

    /// Frames the data of ready streams, the most urgent first, as far as the windows and the backlog allow.
    fn flush(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        if ready.len() > 1 {
            ready.sort_by_key(|key| self.streams.get_mut(*key).map(|stream| stream.urgency));
        }
        let mut left = Vec::new();
        for key in ready.drain(..) {
            if self.backlog() >= BACKLOG_MAX {
                left.push(key);
                continue;
            }
            // The stream may have been removed by now.
            if let Some(stream) = self.streams.get_mut(key) {
                stream.is_ready = false;
                self.flush_stream(key);
            }
        }
        // Keeps the vector's memory.
        self.ready = if left.is_empty() { ready } else { left };
    }

    /// Frames a stream's data, then its end or trailers, as far as the windows allow.
    pub fn flush_stream(&mut self, key: Key) {
        self.writer();
        let State { engine, streams, output, .. } = self;
        let stream = streams.at_mut(key.slot());
        if stream.lost.is_some() || stream.is_sent {
            return;
        }
        let id = stream.id;
        while !stream.pending.filled().is_empty() {
            let n = engine.capacity(id).min(stream.pending.filled().len());
            if n == 0 {
                return;
            }
            let ends = n == stream.pending.filled().len() && matches!(stream.last, Last::End);
            match &mut stream.pending {
                Pending::Shared(bytes) if output.takes_shared(n) => {
                    let part = bytes.split_to(n);
                    if engine.send_data_front(id, n, ends) {
                        output.push(engine.output().len(), part);
                    }
                }
                pending => {
                    engine.send_data(id, &pending.filled()[..n], ends);
                    pending.consume(n);
                }
            }
            stream.is_sent |= ends;
        }
        stream.pending = Pending::default();
        if !stream.is_sent {
            match std::mem::take(&mut stream.last) {
                Last::Open => {}
                Last::End => {
                    engine.send_data(id, &[], true);
                    stream.is_sent = true;
                }
                Last::Trailers(trailers) => {
                    engine.send_trailers(id, trailers.iter());
                    stream.is_sent = true;
                }
            }
        }
        let wants_room = std::mem::take(&mut stream.wants_room);
        if stream.is_released {
            self.settle(key);
        } else if wants_room {
            self.wake(key);
        }
    }

    /// Wakes the streams that wait for the backlog to be written.
    fn wake_roomless(&mut self) {
        if !std::mem::take(&mut self.is_short) {
            return;
        }
        for at in 0..self.count() {
            let key = self.key(at);
            if std::mem::take(&mut self.stream(key).wants_room) {
                self.wake(key);
            }
        }
    }
}
