//! Turn of a connection's task. It writes everything pending at once, then reads, and gives
//! each stream what has come for it. The streams that this wakes have their turns before its next one, so what they say leaves
//! together.

use super::session::{BACKLOG_MAX, Last, Lost, Session, State};
use super::stream::StreamHandle;
use evenkeel_balance::slab::Key;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::{WakerSlot, budget};
use evenkeel_wire::h2::{Connection, ConnectionError, ErrorCode, Event, Flood, Head, Refused, StreamId};
use evenkeel_wire::http1::INTERIM_MAX;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

/// After so many bytes the streams have their turns, and other connections theirs: a peer that floods this side is no reason
/// for them to wait.
const TURN_BYTES: usize = 16 * 1024;

/// Requests that begin at most in a turn, for the same reason.
const REQUESTS_MAX: usize = 64;

/// Most frames that are taken in a turn, for the same reason; a head costs as much as several. Heads that are discarded are not
/// requests, but take the processor's time like these.
const WORK_MAX: u64 = 1100;

/// Bytes of interim heads that a stream holds until its task takes them. A client that does not read must not make this side hold
/// more, and the endpoint's connection cannot wait, as others share it: more is dropped. An interim response is a hint, the final
/// one does not depend on it.
const INTERIM_HELD: usize = 16 * 1024;

/// Room that a connection keeps for what it writes, while it has nothing to write.
const OUTPUT_KEPT: usize = 1024;

/// Rooms that a worker keeps for connections that have something to write.
const ROOMS_MAX: usize = 64;

thread_local! {
    /// Requests that have begun in this read.
    static BEGUN: Cell<Vec<(Key, Head)>> = const { Cell::new(Vec::new()) };
    static ROOMS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Takes the room of what was written: the few in use stay in the processor's cache.
fn give_room_back(output: &mut Vec<u8>) {
    if output.capacity() > OUTPUT_KEPT {
        let room = std::mem::take(output);
        ROOMS.with_borrow_mut(|rooms| {
            // One that has grown large would keep its memory for ever.
            if rooms.len() < ROOMS_MAX && room.capacity() <= 4 * BACKLOG_MAX {
                rooms.push(room);
            }
        });
    }
}

/// Room for parts of frames that a connection keeps.
const HELD_KEPT: usize = 1024;

#[derive(Debug)]
pub enum Ended {
    /// The peer has closed it, or it was lost.
    Closed,
    /// The peer has broken the rules, and was told.
    Failed(ConnectionError),
}

/// Behaviour that differs between the client and the server side.
pub trait Role {
    /// Handles the head of a new request. What happens to it is reported after everything received has been read.
    fn on_begin(&self) {}

    /// The peer has begun a request.
    fn on_request(&self, stream: StreamHandle, head: Head);

    /// Counts received bytes.
    fn on_read(&self, bytes: usize);

    /// The peer has begun a request, and has taken it back before its turn.
    fn on_taken_back(&self, head: &Head) {
        let _ = head;
    }

    /// The peer's request was refused for its head; the engine has answered it.
    fn on_refused(&self, refused: Box<Refused>) {
        let _ = refused;
    }

    /// The peer wastes too many streams: no more begin, and those that have begun are served.
    fn on_flooded(&self, flood: Flood) {
        let _ = flood;
    }

    /// Interim responses were dropped, as the task of their stream takes none.
    fn on_interim_dropped(&self, count: u64) {
        let _ = count;
    }

    /// The peer has answered a ping.
    fn on_pong(&self, payload: u64) {
        let _ = payload;
    }

    /// A stream was reset, with this code: by the peer, or by this side.
    fn on_reset(&self, by_peer: bool, code: u32) {
        let _ = (by_peer, code);
    }

    /// Handles a change of the peer's limits.
    fn on_limits(&self) {}

    /// The peer takes no more requests: none above this stream, for the reason of this code.
    fn on_go_away(&self, last: StreamId, code: u32) {
        let _ = (last, code);
    }
}

impl Session {
    /// Writes and reads as far as that goes.
    pub fn poll_turn(self: &Rc<Session>, cx: &mut Context<'_>, now: u64, role: &impl Role) -> Poll<Ended> {
        let waker = WakerSlot::of(cx);
        let before = {
            let mut state = self.state.borrow_mut();
            // Whatever changes before the end of this turn is seen in it.
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
            // A peer that takes no answers gets no more of them.
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
        // The streams have their turns, then there is more to read.
        budget::pause(cx);
        Poll::Pending
    }

    /// Gives the streams what has come for them.
    ///
    /// # Errors
    /// The peer has broken the rules; what it is told of that is in the output.
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
        // Wakes what could not be woken before.
        self.change(|_| ());
        let mut held = self.held.borrow_mut();
        held.clear();
        if at == bytes.len() && held.capacity() > HELD_KEPT {
            *held = Vec::new();
        }
        held.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    /// Gives the streams what has come, up to the first bytes that are no whole frame, or that are too much for a turn; how many
    /// bytes that were.
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

    /// Writes what is to be written.
    pub fn poll_write(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            self.change(State::flush);
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let output = state.engine.output();
            if output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            while state.written < output.len() {
                match self.transport.poll_write(cx, &output[state.written..]) {
                    Poll::Ready(Ok(n)) => state.written += n,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            state.written = 0;
            output.clear();
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
    /// Gives a stream what has come for it. `bytes`: what the engine was given.
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
                // From the last one, as each may be removed.
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

    /// Keeps an interim head of a response, as far as a stream may hold them.
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

    /// The engine, which is about to write: with room for that.
    #[inline]
    pub fn writer(&mut self) -> &mut Connection {
        if self.engine.output().capacity() == 0 {
            *self.engine.output() = ROOMS.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        &mut self.engine
    }

    /// Frames what streams have to send, as far as windows allow, the most urgent first.
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
            // It may be over by now.
            if let Some(stream) = self.streams.get_mut(key) {
                stream.is_ready = false;
                self.flush_stream(key);
            }
        }
        // The room is used again.
        self.ready = if left.is_empty() { ready } else { left };
    }

    /// Frames what a stream has to send.
    pub fn flush_stream(&mut self, key: Key) {
        self.writer();
        let State { engine, streams, .. } = self;
        let stream = streams.at_mut(key.slot());
        if stream.lost.is_some() || stream.is_sent {
            return;
        }
        let id = stream.id;
        while !stream.pending.is_empty() {
            let n = engine.capacity(id).min(stream.pending.len());
            if n == 0 {
                return;
            }
            let ends = n == stream.pending.len() && matches!(stream.last, Last::End);
            engine.send_data(id, &stream.pending.filled()[..n], ends);
            stream.pending.consume(n);
            stream.is_sent |= ends;
        }
        stream.pending = Buf::none();
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

    /// Wakes the streams that wait until something was written.
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
