//! A client connection of HTTP/3: its streams, its limits, and its end. The endpoint of the worker calls it; each request
//! is a separate task.

use super::by_stream::{StreamSet, Streams};
use super::cause::cause;
use super::early::{EarlyData, is_safe};
use super::stream::{Fill, Stream, StreamHandle};
use crate::core::Command;
use crate::listener::client::Client;
use crate::observe::stats::h3_code_index;
use crate::peer::quic::{Quic, QuicLine};
use crate::peer::{Identity, Line, Peer};
use crate::serve::open::Open;
use bytes::Bytes;
use evenkeel_balance::Clock;
use evenkeel_net::event_loop::allowance::Allowance;
use evenkeel_net::quic::connection::{Connection, Packets, Read};
use evenkeel_net::quic::tls::Shaken;
use evenkeel_net::quic::{self, Dir, StreamId, VarInt, endpoint};
use evenkeel_net::tls::{Cause, Info};
use evenkeel_wire::h3::{self, ConnectionError, ErrorCode, Event, Head, Refused, UnidirectionalStream};
use evenkeel_wire::proxy_protocol::Addresses;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time without a new request after which the last GOAWAY of a drain follows the first.
const DRAIN_QUIET: Duration = Duration::from_secs(1);

/// Number of such times after which it follows anyway, in a process that shuts down. One that was replaced serves clients
/// that do not heed the first, until its drain timeout.
const DRAIN_TIMES: u32 = 5;

/// Number of requests after which the packets of a connection are counted.
const COUNT_EVERY: u64 = 64;

/// Most bytes taken from a stream at once.
const CHUNK: usize = 64 << 10;

/// Uses of a session for requests.
#[derive(Clone, Copy)]
pub struct Uses {
    /// Spawns the task of a request. `is_early`: the handshake is not complete.
    pub begin: fn(Rc<Session>, StreamHandle, Head, bool),
    /// Counts and logs a request whose head was refused.
    pub refused: fn(&Session, Refused),
}

/// A connection, shared by its requests.
pub struct Session {
    uses: Uses,
    pub(super) connection: Rc<Connection>,
    pub(super) open: Open,
    pub(super) identity: Identity,
    addresses: Addresses,
    /// Parameters of the TLS session, once the handshake is complete or early data is accepted.
    info: OnceCell<Info>,
    is_connected: Cell<bool>,
    early: EarlyData,
    /// Start of the handshake, and its duration once it is complete.
    began: Instant,
    handshake: Cell<Duration>,
    /// Packets that are counted.
    counted: Cell<Packets>,
    /// True while the handshake counts among those in progress.
    counts_handshake: Cell<bool>,
    handshakes: Rc<Cell<usize>>,
    /// Number of requests that have begun.
    served: Cell<u64>,
    drain: Cell<Drain>,
    is_over: Cell<bool>,
    /// Time of the worker for all requests of the connection, before other connections have theirs.
    pub(super) allowance: Rc<Allowance>,
    pub(super) state: RefCell<State>,
}

/// Streams and engine of a connection.
pub(super) struct State {
    pub(super) engine: h3::Connection,
    pub(super) streams: Streams<Stream>,
    /// Streams that have ended and that the client has not acknowledged: closing the connection would cut them.
    pub(super) unacknowledged: StreamSet,
    unidirectional: Streams<(UnidirectionalStream, Vec<u8>)>,
    /// This side's control stream.
    control: Option<StreamId>,
    control_out: Vec<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// No drain: requests may begin.
    Not,
    /// The first GOAWAY was sent; requests that begin are served. The number of requests so far, and the times that it was
    /// looked at.
    Notice(u64, u32),
    /// The last GOAWAY was sent; no more requests are served.
    Last,
}

impl Session {
    pub fn new(
        connection: Rc<Connection>,
        open: Open,
        identity: Identity,
        addresses: Addresses,
        handshakes: Rc<Cell<usize>>,
        uses: Uses,
    ) -> Session {
        let (limits, _) = open.listener.limits();
        let config = h3::Config { max_header_list: limits.head, max_fields: limits.fields, connect: true };
        let state = State {
            engine: h3::Connection::server(config, open.core.clock.now().0),
            streams: Streams::default(),
            unacknowledged: StreamSet::default(),
            unidirectional: Streams::default(),
            control: None,
            control_out: Vec::new(),
        };
        handshakes.set(handshakes.get() + 1);
        Session {
            uses,
            connection,
            open,
            identity,
            addresses,
            info: OnceCell::new(),
            is_connected: Cell::new(false),
            early: EarlyData::default(),
            began: Instant::now(),
            handshake: Cell::default(),
            counted: Cell::default(),
            counts_handshake: Cell::new(true),
            handshakes,
            served: Cell::new(0),
            drain: Cell::new(Drain::Not),
            is_over: Cell::new(false),
            allowance: Rc::default(),
            state: RefCell::new(state),
        }
    }

    /// The client, for the record of a request; `None` before the session is known.
    pub(super) fn client(&self) -> Option<Client<'_>> {
        self.info.get()?;
        let peer = Peer::known(self.identity.clone(), Line::Quic(self), &self.open.states);
        Some(Client { core: &self.open.core, listener: &self.open.listener, peer })
    }

    /// Nanoseconds of the worker's clock.
    pub(super) fn now(&self) -> u64 {
        self.open.core.clock.now().0
    }

    /// Begins to end the connection: clients should begin no more requests, but those that arrive before the notice ends
    /// are served.
    pub fn begin_drain(&self) {
        if !self.is_connected.get() || self.drain.get() != Drain::Not {
            return;
        }
        self.drain.set(Drain::Notice(self.served.get(), 0));
        self.state.borrow_mut().engine.go_away_soon();
        self.write_control();
        self.connection.set_alarm(Some(Instant::now() + DRAIN_QUIET));
    }

    fn end_drain(&self) {
        self.drain.set(Drain::Last);
        self.state.borrow_mut().engine.go_away();
        self.write_control();
        self.end_if_drained();
    }

    /// Closes the connection once its last request has ended and the client has the whole response.
    pub(super) fn end_if_drained(&self) {
        if self.drain.get() != Drain::Last {
            return;
        }
        let is_done = {
            let state = self.state.borrow();
            state.streams.is_empty() && state.unacknowledged.is_empty()
        };
        if is_done {
            self.close(ErrorCode::NoError, b"");
        }
    }

    /// Closes the connection at once.
    pub fn cut(&self) {
        self.close(ErrorCode::NoError, b"the listener has ended");
    }

    fn close(&self, code: ErrorCode, why: &'static [u8]) {
        if !self.is_over.replace(true) {
            self.connection.close(code as u64, why);
            self.end_streams();
        }
    }

    /// Closes the connection for a violation of the protocol.
    pub(super) fn fail(&self, error: ConnectionError) {
        if self.is_over.get() {
            return;
        }
        let stats = &self.open.listener.stats;
        stats.http3.errors[h3_code_index(error.code as u64)].add(1);
        stats.malformed.add(1);
        if let Some(flood) = error.flood {
            stats.http3.floods[flood as usize].add(1);
        }
        self.close(error.code, error.why.as_bytes());
    }

    /// Counts the packets since the last call.
    fn count_packets(&self) -> Packets {
        let (now, stats) = (self.connection.packets(), &self.open.listener.stats.http3);
        let before = self.counted.replace(now);
        stats.packets_sent.add(now.sent.saturating_sub(before.sent));
        stats.packets_lost.add(now.lost.saturating_sub(before.lost));
        now
    }

    fn end_streams(&self) {
        let mut state = self.state.borrow_mut();
        state.streams.retain(|_, stream| {
            stream.lose();
            stream.has_task()
        });
    }

    fn end_handshake(&self) {
        if self.counts_handshake.replace(false) {
            self.handshakes.set(self.handshakes.get() - 1);
        }
    }

    /// Writes what the engine has for the control stream.
    pub(super) fn write_control(&self) {
        let state = &mut *self.state.borrow_mut();
        let Some(control) = state.control else { return };
        let bytes = std::mem::take(state.engine.control());
        if !bytes.is_empty() {
            state.control_out.push(bytes.into());
        }
        if !state.control_out.is_empty() {
            self.connection.write(control, &mut state.control_out);
        }
    }

    /// Reads a unidirectional stream.
    fn read_unidirectional(&self, id: StreamId) {
        let Some((mut stream, mut kept)) = self.state.borrow_mut().unidirectional.remove(&id) else { return };
        loop {
            let ends = match self.connection.read(id, CHUNK) {
                Read::Pending => break,
                Read::Data(bytes) => {
                    kept.extend_from_slice(&bytes);
                    false
                }
                Read::End | Read::Reset(_) => true,
            };
            loop {
                let now = self.now();
                let received = self.state.borrow_mut().engine.receive_unidirectional(&mut stream, &kept, ends, now);
                let received = match received {
                    Ok(received) => received,
                    Err(error) => return self.fail(error),
                };
                kept.drain(..received.used);
                match received.event {
                    None => break,
                    Some(Event::Unwanted { code }) => return self.connection.stop(id, code as u64),
                    Some(Event::Priority { stream, priority }) => self.prioritise(stream, priority.urgency),
                    Some(_) => {}
                }
            }
            if ends {
                return;
            }
        }
        self.state.borrow_mut().unidirectional.insert(id, (stream, kept));
    }

    /// Sets the priority of the response to a request. Priorities of requests that have not begun are ignored: their
    /// fields state them again.
    fn prioritise(&self, stream: u64, urgency: u8) {
        let Ok(id) = VarInt::from_u64(stream).map(StreamId::from) else { return };
        if self.state.borrow().streams.contains_key(&id) {
            self.connection.set_priority(id, -i32::from(urgency));
        }
    }

    /// Reads the head of a request, and begins it once it is complete.
    fn read_head(self: &Rc<Self>, id: StreamId) {
        loop {
            let now = self.now();
            let received = {
                let state = &mut *self.state.borrow_mut();
                let Some(stream) = state.streams.get_mut(&id) else { return };
                match stream.fill(&self.connection, id) {
                    Fill::Pending => return,
                    Fill::Reset(code) => {
                        self.open.listener.stats.http3.resets_received[h3_code_index(code)].add(1);
                        let told = state.engine.on_reset(&mut stream.message, now);
                        state.streams.remove(&id);
                        self.connection.reset(id, ErrorCode::RequestCancelled as u64);
                        told.map(|()| None)
                    }
                    Fill::Some { ends } => {
                        let received = state.engine.receive(&mut stream.message, &stream.unread, ends, now);
                        received.map(|received| {
                            stream.take(received.used);
                            Some((received.event, ends && stream.unread.is_empty()))
                        })
                    }
                }
            };
            self.tell_floods();
            let (event, is_whole) = match received {
                Ok(Some(received)) => received,
                Ok(None) => return self.end_if_drained(),
                Err(error) => return self.fail(error),
            };
            match event {
                Some(Event::Head(head)) => return self.begin(id, head),
                Some(Event::Refused(refused)) => return self.refuse(id, *refused),
                Some(Event::Reset { code, .. }) => {
                    self.open.listener.stats.malformed.add(1);
                    return self.reset_both(id, code);
                }
                Some(_) => {}
                None if is_whole => return,
                None => {}
            }
        }
    }

    /// Counts a flood after which no more requests are accepted.
    pub(super) fn tell_floods(&self) {
        let flood = self.state.borrow_mut().engine.take_flooded();
        if let Some(flood) = flood {
            let stats = &self.open.listener.stats;
            stats.malformed.add(1);
            stats.http3.errors[h3_code_index(ErrorCode::ExcessiveLoad as u64)].add(1);
            stats.http3.floods[flood as usize].add(1);
            // The engine has already written a GOAWAY.
            self.drain.set(Drain::Last);
            self.write_control();
        }
    }

    fn begin(self: &Rc<Self>, id: StreamId, head: Head) {
        let listener = &self.open.listener;
        let served = self.served.get() + 1;
        self.served.set(served);
        listener.stats.http3.streams.add(1);
        if served.is_multiple_of(COUNT_EVERY) {
            self.count_packets();
        }
        if listener.peek().is_last(served) {
            self.begin_drain();
        }
        if let Some(stream) = self.state.borrow_mut().streams.get_mut(&id) {
            stream.start(head.ends);
        }
        if self.is_connected.get() {
            return (self.uses.begin)(self.clone(), StreamHandle::new(self.clone(), id), head, false);
        }
        let is_answered = is_safe(&head) && self.answers_early();
        listener.stats.http3.early_requests[usize::from(!is_answered)].add(1);
        match is_answered {
            true => (self.uses.begin)(self.clone(), StreamHandle::new(self.clone(), id), head, true),
            false => self.early.waiting.borrow_mut().push((id, head)),
        }
    }

    /// True if requests in early data may be answered before the handshake is complete.
    fn answers_early(&self) -> bool {
        *self.early.is_answered.get_or_init(|| {
            let Some(Shaken { info, is_proven }) = self.connection.tls() else { return false };
            self.info.get_or_init(|| info);
            is_proven
        })
    }

    /// Ends a stream in both directions.
    pub(super) fn reset_both(&self, id: StreamId, code: ErrorCode) {
        self.connection.reset(id, code as u64);
        self.connection.stop(id, code as u64);
        self.open.listener.stats.http3.resets_sent[h3_code_index(code as u64)].add(1);
        self.state.borrow_mut().streams.remove(&id);
        self.end_if_drained();
    }

    fn refuse(&self, id: StreamId, refused: Refused) {
        match refused.status {
            None => {
                self.open.listener.stats.malformed.add(1);
                self.reset_both(id, ErrorCode::MessageError);
            }
            Some(status) => {
                let mut out = Vec::new();
                let digits = status.to_string();
                let fields = [(&b":status"[..], digits.as_bytes()), (b"content-length", b"0")];
                self.state.borrow_mut().engine.write_head(fields.into_iter(), &mut out);
                self.connection.write(id, &mut vec![out.into()]);
                self.connection.finish(id);
                self.connection.stop(id, ErrorCode::NoError as u64);
                let state = &mut *self.state.borrow_mut();
                state.streams.remove(&id);
                state.unacknowledged.insert(id);
            }
        }
        (self.uses.refused)(self, refused);
        self.end_if_drained();
    }
}

impl endpoint::Session for Session {
    fn connected(self: &Rc<Self>) {
        self.end_handshake();
        let Some(Shaken { info, .. }) = self.connection.tls() else {
            return self.close(ErrorCode::InternalError, b"");
        };
        let stats = &self.open.listener.stats;
        stats.tls.shaken[usize::from(info.resumed)].add(1);
        stats.http3.connections.add(1);
        if self.connection.is_v2() {
            stats.http3.version2.add(1);
        }
        self.handshake.set(self.began.elapsed());
        stats.http3.active.add(1);
        stats.http3.early_data.add(u64::from(self.connection.has_early_data()));
        self.info.get_or_init(|| info);
        self.is_connected.set(true);
        self.connection.set_alarm(None);
        let control = self.connection.open(Dir::Uni);
        self.state.borrow_mut().control = control;
        if let Some(control) = control {
            self.connection.set_priority(control, 1);
        }
        self.write_control();
        if self.open.core.command.get() != Command::Run || self.open.listener.gone.get() {
            self.begin_drain();
        }
        for (id, head) in self.early.waiting.take() {
            (self.uses.begin)(self.clone(), StreamHandle::new(self.clone(), id), head, false);
        }
    }

    fn opened(self: &Rc<Self>, id: StreamId) {
        if self.is_over.get() {
            return;
        }
        if id.dir() == Dir::Uni {
            self.state.borrow_mut().unidirectional.insert(id, (UnidirectionalStream::default(), Vec::new()));
            return self.read_unidirectional(id);
        }
        if !self.is_connected.get() {
            // From here on the client is known.
            self.answers_early();
        }
        let admitted = self.state.borrow_mut().engine.admit(id.into());
        match admitted {
            Ok(true) => {
                let stream = Stream::new(self.now());
                self.state.borrow_mut().streams.insert(id, stream);
                self.read_head(id);
            }
            Ok(false) => self.reset_both(id, ErrorCode::RequestRejected),
            Err(error) => self.fail(error),
        }
    }

    fn readable(self: &Rc<Self>, id: StreamId) {
        if id.dir() == Dir::Uni {
            return self.read_unidirectional(id);
        }
        let has_task = match self.state.borrow_mut().streams.get_mut(&id) {
            None => return,
            Some(stream) => stream.has_task().then(|| stream.wake()).is_some(),
        };
        if !has_task {
            self.read_head(id);
        }
    }

    fn writable(self: &Rc<Self>, id: StreamId) {
        if self.state.borrow().control == Some(id) {
            return self.write_control();
        }
        self.flush(id);
    }

    fn stopped(self: &Rc<Self>, id: StreamId, code: u64) {
        if self.state.borrow().control == Some(id) {
            let error = self.state.borrow().engine.on_control_stopped();
            return self.fail(error);
        }
        self.connection.reset(id, code);
        // QUIC allows the client another stream only once this one has ended in both directions.
        self.connection.stop(id, ErrorCode::RequestCancelled as u64);
        let now = self.now();
        let told = {
            let state = &mut *self.state.borrow_mut();
            state.unacknowledged.remove(&id);
            match state.streams.get_mut(&id) {
                None => Ok(()),
                Some(stream) => {
                    if !stream.is_lost {
                        self.open.listener.stats.http3.resets_received[h3_code_index(code)].add(1);
                    }
                    stream.lose();
                    let told = state.engine.on_reset(&mut stream.message, now);
                    if !stream.has_task() {
                        state.streams.remove(&id);
                    }
                    told
                }
            }
        };
        if let Err(error) = told {
            return self.fail(error);
        }
        self.tell_floods();
        self.end_if_drained();
    }

    fn finished(self: &Rc<Self>, id: StreamId) {
        self.state.borrow_mut().unacknowledged.remove(&id);
        self.end_if_drained();
    }

    fn moved(self: &Rc<Self>) {
        self.open.listener.stats.http3.migrations.add(1);
    }

    fn alarm(self: &Rc<Self>) {
        match self.drain.get() {
            // The handshake has taken too long.
            Drain::Not if !self.is_connected.get() => {
                self.open.listener.stats.tls.failed[Cause::Timeout as usize].add(1);
                self.end_handshake();
                self.close(ErrorCode::NoError, b"the handshake took too long");
            }
            Drain::Notice(served, times) => {
                let is_over = self.open.core.command.get() != Command::Retire && times >= DRAIN_TIMES;
                if is_over || self.served.get() == served {
                    return self.end_drain();
                }
                self.drain.set(Drain::Notice(self.served.get(), times + 1));
                self.connection.set_alarm(Some(Instant::now() + DRAIN_QUIET));
            }
            Drain::Not | Drain::Last => {}
        }
    }

    fn lost(self: &Rc<Self>, why: &quic::ConnectionError) {
        if self.counts_handshake.get() {
            self.open.listener.stats.tls.failed[cause(why) as usize].add(1);
        }
        self.end_handshake();
        self.count_packets();
        self.is_over.set(true);
        self.early.waiting.take();
        self.end_streams();
    }
}

impl QuicLine for Session {
    fn info(&self) -> Option<&Info> {
        self.info.get()
    }

    fn addresses(&self) -> Addresses {
        self.addresses
    }

    fn figures(&self) -> Quic {
        let handshake_ns = u64::try_from(self.handshake.get().as_nanos()).unwrap_or(u64::MAX);
        let packets_lost = self.count_packets().lost;
        Quic { handshake_ns, migrations: self.connection.migrations(), packets_lost }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_connected.get() {
            self.open.listener.stats.http3.active.sub(1);
        }
        self.end_handshake();
    }
}
