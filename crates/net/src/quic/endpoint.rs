//! A worker's UDP socket with its connections.

use super::connection::{Connection, Ready};
use super::ids::{Ids, Owner};
use super::keys::Keys;
use super::{v2, versions};
use crate::datagrams::recv_batch::{Came, JOINED_MAX, RecvBatch, SLOTS};
use crate::datagrams::send_batch::{SendBatch, To};
use crate::datagrams::socket::never_fragment;
use crate::event_loop::alarm::{Sleep, sleep_until};
use crate::event_loop::{Source, yield_now};
use crate::listen::ListenFd;
use bytes::BytesMut;
use quinn_proto::{
    ConnectionError, ConnectionHandle, ConnectionId, DatagramEvent, EndpointConfig, Event, Incoming, ServerConfig,
    StreamEvent, StreamId, Transmit,
};
use rustix::fd::AsFd;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

/// Most datagrams in a message to the kernel: of 1,452 bytes, as many as fit into 64 kB.
const SEGMENTS_MAX: usize = 44;

/// Most messages of a connection in a turn, so that others have their turn.
const MESSAGES_MAX: usize = 4;

/// Most messages that wait to be sent together.
const BATCH_MAX: usize = 64;

/// Number of bytes that do not wait for others, so that the kernel copies them while the cache has them.
const BATCH_BYTES: usize = 128 << 10;

/// Decision about a client that wants to connect.
pub enum Decision {
    /// Connects with these settings.
    Accept(Arc<ServerConfig>),
    /// Has the client prove its address first.
    Retry,
    /// Closes the connection, with CONNECTION_REFUSED.
    Refuse,
    Ignore,
}

/// Facts about a client that wants to connect.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    pub remote: SocketAddr,
    /// True if the client has proven that it receives datagrams at its address.
    pub is_proven: bool,
    /// True if it can still be asked for the proof.
    pub may_retry: bool,
    /// Id that the client chose. All datagrams of its hello have it.
    pub id: ConnectionId,
}

/// Decisions about clients, and the users of their connections.
pub trait Service: 'static {
    type Session: Session;

    /// Decides about a client that wants to connect.
    fn decide(&self, arriving: Arriving) -> Decision;

    /// Begins a connection, whose handshake is not complete yet.
    fn open(&self, connection: &Rc<Connection>) -> Rc<Self::Session>;

    /// Hands a datagram to the owner of its connection, another worker or process. Returns false if that is gone.
    fn hand(&self, _: Owner, _: SocketAddr, _: Option<IpAddr>, _: &[u8]) -> bool {
        false
    }

    /// Counts a client that was accepted, whose handshake failed at once.
    fn failed(&self, _: SocketAddr, _: &ConnectionError) {}
}

/// User of a connection. Called in turns of the endpoint; within, the connection may be used, and the endpoint not.
pub trait Session: 'static {
    /// The handshake is complete.
    fn connected(self: &Rc<Self>);
    /// The client has opened a stream. Bytes may have arrived on it.
    fn opened(self: &Rc<Self>, stream: StreamId);
    /// Bytes have arrived on a stream, or its end.
    fn readable(self: &Rc<Self>, stream: StreamId);
    /// A stream that was blocked takes bytes again.
    fn writable(self: &Rc<Self>, stream: StreamId);
    /// The client wants no more of a stream.
    fn stopped(self: &Rc<Self>, stream: StreamId, code: u64);
    /// The client has acknowledged all of a stream.
    fn finished(self: &Rc<Self>, _: StreamId) {}
    /// The address of the client has changed.
    fn moved(self: &Rc<Self>) {}
    /// The time of [`Connection::set_alarm`] has come.
    fn alarm(self: &Rc<Self>) {}
    /// The connection has ended. Called once.
    fn lost(self: &Rc<Self>, why: &ConnectionError);
}

/// Connection with its user.
struct Entry<T> {
    connection: Rc<Connection>,
    session: Rc<T>,
}

/// A socket with its connections.
pub struct Endpoint<S: Service> {
    service: S,
    socket: ListenFd,
    owner: Owner,
    ready: Rc<Ready>,
    /// True once another process receives the datagrams of the socket.
    is_retired: Cell<bool>,
    /// True if clients can begin no more connections.
    is_draining: Cell<bool>,
    state: RefCell<State<S::Session>>,
}

struct State<T> {
    proto: quinn_proto::Endpoint,
    /// Settings for clients until they are let in, of versions 1 and 2. `proto` has the first but for a datagram of version 2.
    settings: [Arc<ServerConfig>; 2],
    connections: Vec<Option<Entry<T>>>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    received: RecvBatch,
    out: Out,
    turn: Vec<ConnectionHandle>,
}

/// Messages to be sent together.
#[derive(Default)]
struct Out {
    batch: SendBatch,
    payloads: Vec<Vec<u8>>,
    used: usize,
    bytes: usize,
    /// Number and destination of the group of the last message.
    group: (u32, Option<(SocketAddr, Option<IpAddr>)>),
}

impl Out {
    /// Memory for the next message.
    fn next(&mut self) -> &mut Vec<u8> {
        if self.used == self.payloads.len() {
            self.payloads.push(Vec::new());
        }
        let payload = &mut self.payloads[self.used];
        payload.clear();
        payload
    }

    /// Adds the message in the memory of [`next`](Self::next).
    fn push(&mut self, message: &Transmit) {
        let destination = (message.destination, message.src_ip);
        if self.group.1 != Some(destination) {
            self.group = (self.group.0.wrapping_add(1), Some(destination));
        }
        let segment = message.segment_size.unwrap_or(message.size);
        let came = Came { len: message.size, segment, from: None, to: None, interface: 0, is_cut: false };
        let to = To { client: message.destination, ours: message.src_ip, interface: 0 };
        self.batch.push(self.used, &came, self.group.0, Some(to));
        self.used += 1;
        self.bytes += message.size;
    }

    fn is_full(&self) -> bool {
        self.used >= BATCH_MAX || self.bytes >= BATCH_BYTES
    }

    fn flush(&mut self, socket: &ListenFd) {
        if self.used > 0 {
            // Datagrams that the kernel does not take are lost, as in the network: QUIC sends their bytes again.
            self.batch.flush(socket.as_fd(), &self.payloads[..self.used]);
            (self.used, self.bytes) = (0, 0);
            self.group.1 = None;
        }
    }
}

impl<S: Service> Endpoint<S> {
    /// Creates an endpoint whose connection ids name `owner`. `settings` apply to clients until they are let in.
    pub fn new(
        service: S,
        socket: ListenFd,
        owner: Owner,
        keys: &Keys,
        settings: Arc<ServerConfig>,
    ) -> Rc<Endpoint<S>> {
        let mut config = EndpointConfig::new(keys.reset.clone());
        // No drafts.
        config.supported_versions(versions::ALL.to_vec());
        config.cid_generator(move || Box::new(Ids(owner)));
        never_fragment(&socket);
        let mut settings_v2 = (*settings).clone();
        settings_v2.token_key(keys.token_v2());
        let proto = quinn_proto::Endpoint::new(Arc::new(config), Some(settings.clone()), true, None);
        let state = State {
            proto,
            settings: [settings, Arc::new(settings_v2)],
            connections: Vec::new(),
            timers: BinaryHeap::new(),
            received: RecvBatch::new(JOINED_MAX),
            out: Out::default(),
            turn: Vec::new(),
        };
        Rc::new(Endpoint {
            service,
            socket,
            owner,
            ready: Rc::default(),
            is_retired: Cell::new(false),
            is_draining: Cell::new(false),
            state: RefCell::new(state),
        })
    }

    pub fn socket(&self) -> &ListenFd {
        &self.socket
    }

    pub fn service(&self) -> &S {
        &self.service
    }

    /// Calls `act` with the user of each connection. Not within a turn.
    pub fn each(&self, act: impl Fn(&Rc<S::Session>)) {
        let state = self.state.borrow();
        let sessions: Vec<_> = state.connections.iter().flatten().map(|entry| entry.session.clone()).collect();
        drop(state);
        sessions.iter().for_each(act);
    }

    /// Sends everything that is ready, for an endpoint that ends.
    pub fn send_now(&self) {
        self.turn(&mut self.state.borrow_mut(), Instant::now());
    }

    /// Lets clients begin no more connections.
    pub fn take_no_more(&self) {
        self.is_draining.set(true);
    }

    /// Leaves the datagrams of the socket to another process, which [gives](Self::give) those of connections that are
    /// here.
    pub fn retire(&self) {
        self.is_retired.set(true);
    }

    /// Takes datagrams that another worker or process has received.
    pub fn give(&self, from: SocketAddr, to: Option<IpAddr>, segment: usize, bytes: &[u8]) {
        let (state, now) = (&mut *self.state.borrow_mut(), Instant::now());
        for datagram in bytes.chunks(segment.max(1)) {
            // Not handed over again, which could go on for ever.
            if Owner::of(datagram) == Some(self.owner) {
                self.handle(state, datagram.into(), (from, to), now);
            }
        }
        state.out.flush(&self.socket);
    }

    /// Serves the socket.
    ///
    /// # Errors
    /// The kernel cannot watch the socket.
    pub async fn run(self: Rc<Self>) -> io::Result<()> {
        let source = Source::new(self.socket.clone())?;
        let mut alarm: Option<(Instant, Pin<Box<Sleep>>)> = None;
        let mut readable = None;
        loop {
            // Ready once there is something to do.
            let has_datagrams = poll_fn(|cx| {
                self.ready.note(cx);
                let polled = if self.is_retired.get() {
                    Poll::Pending
                } else {
                    let reading = readable.get_or_insert_with(|| Box::pin(source.readable()));
                    reading.as_mut().poll(cx)
                };
                if polled.is_ready() {
                    readable = None;
                    return Poll::Ready(true);
                }
                let rings = alarm.as_mut().is_some_and(|(_, alarm)| alarm.as_mut().poll(cx).is_ready());
                if rings {
                    alarm = None;
                }
                if rings || !self.ready.is_empty() { Poll::Ready(false) } else { Poll::Pending }
            })
            .await;
            let now = Instant::now();
            let mut is_full = false;
            {
                let state = &mut *self.state.borrow_mut();
                if has_datagrams {
                    is_full = self.take(state, now);
                    if !is_full {
                        source.note_empty();
                    }
                }
                self.turn(state, now);
                let next = state.next_timer();
                if let Some(next) = next.filter(|next| alarm.as_ref().is_none_or(|(at, _)| next < at)) {
                    alarm = Some((next, Box::pin(sleep_until(next))));
                }
            }
            if is_full || !self.ready.is_empty() {
                yield_now().await;
            }
        }
    }

    /// Receives a batch. Returns true if there may be more.
    fn take(&self, state: &mut State<S::Session>, now: Instant) -> bool {
        let Ok(taken) = state.received.take(self.socket.as_fd(), 0, SLOTS, true) else { return false };
        for slot in 0..taken {
            let came = *state.received.came(slot);
            let Some(from) = came.from.filter(|_| came.segment > 0) else { continue };
            let mut bytes = BytesMut::from(state.received.bytes(slot));
            while !bytes.is_empty() {
                let datagram = bytes.split_to(came.segment.min(bytes.len()));
                self.received(state, datagram, (from, came.to), now);
            }
        }
        taken == SLOTS
    }

    fn received(
        &self,
        state: &mut State<S::Session>,
        datagram: BytesMut,
        (from, to): (SocketAddr, Option<IpAddr>),
        now: Instant,
    ) {
        let owner = Owner::of(&datagram).filter(|owner| *owner != self.owner);
        if !owner.is_some_and(|owner| self.service.hand(owner, from, to, &datagram)) {
            self.handle(state, datagram, (from, to), now);
        }
    }

    fn handle(
        &self,
        state: &mut State<S::Session>,
        mut datagram: BytesMut,
        (from, to): (SocketAddr, Option<IpAddr>),
        now: Instant,
    ) {
        let is_v2 = v2::translate(&mut datagram);
        if is_v2 {
            state.proto.set_server_config(Some(state.settings[1].clone()));
        }
        let event = state.proto.handle(now, from, to, None, datagram, state.out.next());
        if is_v2 {
            state.proto.set_server_config(Some(state.settings[0].clone()));
        }
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(entry) = state.connections.get(handle.0).and_then(Option::as_ref) {
                    entry.connection.proto.borrow_mut().handle_event(event);
                    entry.connection.wake();
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.begin(state, incoming, is_v2, now),
            Some(DatagramEvent::Response(message)) => state.out.push(&message),
            None => {}
        }
    }

    /// Decides about a client that wants to connect.
    fn begin(&self, state: &mut State<S::Session>, incoming: Incoming, is_v2: bool, now: Instant) {
        let arriving = Arriving {
            remote: incoming.remote_address(),
            is_proven: incoming.remote_address_validated(),
            may_retry: incoming.may_retry(),
            id: *incoming.orig_dst_cid(),
        };
        let decision = if self.is_draining.get() { Decision::Refuse } else { self.service.decide(arriving) };
        let config = match decision {
            Decision::Accept(config) => config,
            Decision::Retry if arriving.may_retry => {
                let out = state.out.next();
                if let Ok(message) = state.proto.retry(incoming, out) {
                    v2::translate_retry(out);
                    state.out.push(&message);
                }
                return;
            }
            Decision::Retry | Decision::Refuse => {
                let message = state.proto.refuse(incoming, state.out.next());
                return state.out.push(&message);
            }
            Decision::Ignore => return state.proto.ignore(incoming),
        };
        match state.proto.accept(incoming, now, state.out.next(), Some(config)) {
            Ok((handle, proto)) => {
                let connection = Rc::new(Connection {
                    proto: RefCell::new(proto),
                    handle,
                    ready: self.ready.clone(),
                    is_ready: Cell::new(false),
                    is_v2,
                    scheduled: Cell::new(None),
                    alarm: Cell::new(None),
                    last_remote: Cell::new(arriving.remote),
                    migrations: Cell::new(0),
                });
                let session = self.service.open(&connection);
                if state.connections.len() <= handle.0 {
                    state.connections.resize_with(handle.0 + 1, || None);
                }
                connection.wake();
                state.connections[handle.0] = Some(Entry { connection, session });
            }
            Err(error) => {
                if let Some(message) = &error.response {
                    state.out.push(message);
                }
                self.service.failed(arriving.remote, &error.cause);
            }
        }
    }

    /// Drives the connections whose timers have passed or that have something to do, and sends.
    fn turn(&self, state: &mut State<S::Session>, now: Instant) {
        state.pass_timers(now);
        let mut turn = std::mem::take(&mut state.turn);
        self.ready.take(&mut turn);
        for handle in turn.drain(..) {
            self.drive(state, handle, now);
        }
        state.turn = turn;
        state.out.flush(&self.socket);
    }

    /// Passes events to the user of a connection, and collects messages.
    fn drive(&self, state: &mut State<S::Session>, handle: ConnectionHandle, now: Instant) {
        let Some(Entry { connection, session }) = state.connections.get(handle.0).and_then(Option::as_ref) else {
            return;
        };
        let (connection, session) = (connection.clone(), session.clone());
        if connection.alarm.get().is_some_and(|at| at <= now) {
            connection.alarm.set(None);
            session.alarm();
        }
        loop {
            let event = connection.proto.borrow_mut().poll();
            match event {
                Some(event) => tell(&connection, &session, event),
                None => break,
            }
        }
        let remote = connection.remote();
        if connection.last_remote.replace(remote) != remote {
            connection.migrations.set(connection.migrations.get() + 1);
            session.moved();
        }
        // Whatever is written from here on needs another turn.
        connection.is_ready.set(false);
        let mut proto = connection.proto.borrow_mut();
        let mut messages = 0;
        while let Some(message) = proto.poll_transmit(now, SEGMENTS_MAX, state.out.next()) {
            state.out.push(&message);
            if state.out.is_full() {
                state.out.flush(&self.socket);
            }
            messages += 1;
            if messages == MESSAGES_MAX {
                connection.wake();
                break;
            }
        }
        while let Some(event) = proto.poll_endpoint_events() {
            if let Some(event) = state.proto.handle_event(handle, event) {
                proto.handle_event(event);
                connection.wake();
            }
        }
        if proto.is_drained() {
            state.connections[handle.0] = None;
            return;
        }
        drop(proto);
        if let Some(due) = connection.due().filter(|due| connection.scheduled.get().is_none_or(|at| *due < at)) {
            connection.scheduled.set(Some(due));
            state.timers.push(Reverse((due, handle.0)));
        }
    }
}

impl<T> State<T> {
    fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Has connections handle the timers that have passed. A timer that has moved later is set again.
    fn pass_timers(&mut self, now: Instant) {
        while let Some(Reverse((at, index))) = self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.timers.pop();
            let Some(Entry { connection, .. }) = self.connections.get(index).and_then(Option::as_ref) else { continue };
            if connection.scheduled.get() != Some(at) {
                continue;
            }
            connection.scheduled.set(None);
            match connection.due() {
                Some(due) if due <= now => {
                    let mut proto = connection.proto.borrow_mut();
                    if proto.poll_timeout().is_some_and(|due| due <= now) {
                        proto.handle_timeout(now);
                    }
                    drop(proto);
                    connection.wake();
                }
                Some(due) => {
                    connection.scheduled.set(Some(due));
                    self.timers.push(Reverse((due, index)));
                }
                None => {}
            }
        }
    }
}

/// Passes an event to the user of a connection.
fn tell(connection: &Connection, session: &Rc<impl Session>, event: Event) {
    match event {
        Event::Connected => session.connected(),
        Event::ConnectionLost { reason } => session.lost(&reason),
        Event::Stream(StreamEvent::Opened { dir }) => {
            while let Some(stream) = connection.accept(dir) {
                session.opened(stream);
            }
        }
        Event::Stream(StreamEvent::Readable { id }) => session.readable(id),
        Event::Stream(StreamEvent::Writable { id }) => session.writable(id),
        Event::Stream(StreamEvent::Stopped { id, error_code }) => session.stopped(id, error_code.into_inner()),
        Event::Stream(StreamEvent::Finished { id }) => session.finished(id),
        Event::Stream(StreamEvent::Available { .. })
        | Event::HandshakeDataReady
        | Event::DatagramReceived
        | Event::DatagramsUnblocked => {}
    }
}
