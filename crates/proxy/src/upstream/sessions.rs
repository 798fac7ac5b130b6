//! Which connection to an endpoint takes the next request, where many share one? The one with the fewest, as long as one has
//! room; else another is opened, up to a number. Requests that come meanwhile wait for it together.

use super::connections::carried;
use super::link::Link;
use super::stream::{Begun, EndpointStream};
use super::tls::{self, Offers};
use crate::core::Core;
use crate::http2::message::Message;
use crate::http2::session::Session;
use crate::observe::stats::EndpointStats;
use evenkeel_balance::{Clock, Instant};
use evenkeel_config::plan::EndpointHttp2;
use evenkeel_net::buffer::CAPACITY;
use evenkeel_net::dial::dial;
use evenkeel_net::event_loop::{self, WakerSlot, alarm};
use evenkeel_net::tls::HandshakeError;
use evenkeel_net::tls::towards::Towards;
use evenkeel_net::transport::Transport;
use evenkeel_wire::h2::{self, NoStream};
use evenkeel_wire::http1::FIELDS_MAX;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why an endpoint gets no request for a tunnel.
const NO_TUNNELS: &str =
    "it takes no WebSocket over HTTP/2: its settings are without ENABLE_CONNECT_PROTOCOL (RFC 8441)";

/// The connections to one endpoint that requests share.
pub struct Sessions {
    core: Rc<Core>,
    pub(super) stats: Arc<EndpointStats>,
    links: RefCell<Vec<Rc<Link>>>,
    /// Connections that are being opened.
    opening: Cell<usize>,
    /// Requests that wait for one, the first to come first.
    waiting: RefCell<VecDeque<(u64, WakerSlot)>>,
    /// The number of the next of them.
    next: Cell<u64>,
    /// Connections that could not be opened, and why the last could not.
    failures: Cell<u64>,
    failure: RefCell<Option<io::Error>>,
}

impl Sessions {
    pub fn new(core: &Rc<Core>, stats: Arc<EndpointStats>) -> Sessions {
        Sessions {
            core: core.clone(),
            stats,
            links: RefCell::default(),
            opening: Cell::new(0),
            waiting: RefCell::default(),
            next: Cell::new(0),
            failures: Cell::new(0),
            failure: RefCell::default(),
        }
    }

    /// Has requests that wait look again.
    pub(super) fn tell(&self) {
        let all: Vec<WakerSlot> = self.waiting.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        all.iter().for_each(WakerSlot::wake);
    }

    /// Has the first of them look again; it passes on what it cannot take.
    pub(super) fn tell_first(&self) {
        let first = self.waiting.borrow().front().map(|(_, waker)| waker.clone());
        first.iter().for_each(WakerSlot::wake);
    }

    /// A connection is no more. `in_vain`: the endpoint ended it before it took a request.
    pub(super) fn remove(&self, link: &Rc<Link>, in_vain: bool) {
        self.links.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        if in_vain {
            self.fail(io::Error::new(io::ErrorKind::ConnectionAborted, "it ended its connection before any request"));
        }
        self.tell();
    }

    /// A connection could not be opened, or was none.
    fn fail(&self, error: io::Error) {
        self.failures.set(self.failures.get() + 1);
        self.failure.replace(Some(error));
    }

    /// Begins a request where there is room.
    fn begin(&self, message: &Message, most: u32) -> Option<EndpointStream> {
        let links = self.links.borrow();
        loop {
            // Only who has said something has said that it takes tunnels.
            let fits = |link: &&Rc<Link>| link.has_room(most) && !(message.tunnel && link.is_beginning());
            let link = links.iter().filter(fits).min_by_key(|link| link.streams())?;
            match link.session.open(message.head.iter(), message.is_head_only()) {
                Ok(handle) => return Some(EndpointStream::new(handle, link.clone())),
                Err(NoStream::Full) => link.note_full(),
                Err(NoStream::Ending) => link.drain(),
            }
        }
    }

    /// Whether another connection is to be opened: those that are being opened take less than what waits, and there may be more.
    fn is_short(&self, settings: &EndpointHttp2) -> bool {
        let links = self.links.borrow();
        let beginning = self.opening.get() + links.iter().filter(|link| link.is_beginning()).count();
        let all = self.opening.get() + links.iter().filter(|link| link.is_open()).count();
        all < settings.connections && beginning * (settings.streams as usize) < self.waiting.borrow().len()
    }

    /// Opens a connection; a task of its own does, as others may wait for it too.
    fn open(self: &Rc<Sessions>, addr: SocketAddr, way: Way, limit: Duration) {
        self.opening.set(self.opening.get() + 1);
        self.stats.connects.add(1);
        let sessions = self.clone();
        event_loop::spawn(async move {
            let connected = alarm::timeout(limit, sessions.connect(addr, &way)).await;
            sessions.opening.set(sessions.opening.get() - 1);
            match connected.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time"))) {
                Ok(session) => sessions.run(session).await,
                Err(error) => {
                    sessions.fail(error);
                    sessions.tell();
                }
            }
        });
    }

    /// Lets requests have a connection, and reads and writes for them until it ends.
    async fn run(self: Rc<Sessions>, session: Session) {
        let link = Rc::new(Link::new(Rc::new(session), &self, &self.core));
        self.links.borrow_mut().push(link.clone());
        self.tell();
        if Rc::strong_count(&self) == 1 {
            // Its endpoint is in no pool any more.
            link.drain();
        }
        drop(self);
        link.run().await;
    }

    /// Takes a connection over whose endpoint chose HTTP/2.
    pub fn adopt(self: &Rc<Sessions>, transport: Transport, settings: &EndpointHttp2) {
        let session = Session::new(transport, self.engine(settings), Vec::new());
        event_loop::spawn(self.clone().run(session));
    }

    fn engine(&self, settings: &EndpointHttp2) -> h2::Connection {
        let window = settings.stream_window as u32;
        let config = h2::Config {
            stream_window: window,
            // As much as all streams together: a client that takes nothing must not stop those of others.
            connection_window: window.saturating_mul(settings.streams).min(i32::MAX as u32),
            // As large as a head of an endpoint of HTTP/1 may be.
            max_header_list: CAPACITY,
            max_fields: FIELDS_MAX,
            ..h2::Config::default()
        };
        h2::Connection::client(config, self.core.clock.now().0)
    }

    async fn connect(&self, addr: SocketAddr, way: &Way) -> io::Result<Session> {
        let transport = carried(dial(addr, None, true)?, way.tls.is_some());
        if let (Some(settings), Some(stream)) = (&way.tls, transport.as_tls()) {
            let offers = if way.chose_h2.is_some() { Offers::Both } else { Offers::H2 };
            if !tls::secure(settings, stream, &way.name, way.addr, offers).await? {
                if let Some(chose_h2) = &way.chose_h2 {
                    chose_h2.set(false);
                }
                return Err(io::Error::other("it does not speak HTTP/2: it did not choose it when TLS began (ALPN)"));
            }
        }
        let mut engine = self.engine(&way.settings);
        // The first bytes tell whether the endpoint is there.
        let sent = transport.write_some(engine.output()).await?;
        engine.output().drain(..sent);
        let _ = transport.watch();
        Ok(Session::new(transport, engine, Vec::new()))
    }

    /// Why a connection could not be opened.
    #[cold]
    fn why(&self) -> io::Error {
        let failure = self.failure.borrow();
        let Some(error) = &*failure else { return io::ErrorKind::ConnectionAborted.into() };
        match (error.raw_os_error(), tls::cause(error)) {
            (Some(code), _) => io::Error::from_raw_os_error(code),
            (None, Some(cause)) => io::Error::other(HandshakeError::new(cause)),
            (None, None) => io::Error::new(error.kind(), error.to_string()),
        }
    }

    /// Whether requests have all of its connections that there may be.
    pub fn is_full(&self, settings: &EndpointHttp2) -> bool {
        let links = self.links.borrow();
        let full = links.iter().filter(|link| link.is_open() && !link.is_beginning());
        full.count() >= settings.connections
    }

    /// Ends connections that were idle for too long, or whose endpoint gives no sign of life.
    pub fn sweep(&self, settings: &EndpointHttp2, kept_ns: u64, now: Instant) {
        // The list changes as links do.
        let links = self.links.borrow().clone();
        links.iter().for_each(|link| link.look_after(settings, kept_ns, now));
    }

    /// Takes no more requests on the connections that there are.
    pub fn close(&self) {
        let links = self.links.borrow().clone();
        links.iter().for_each(|link| link.drain());
    }
}

/// How connections to one endpoint are opened.
#[derive(Clone)]
pub struct Way {
    /// Of the endpoint.
    pub name: Arc<str>,
    /// `None` while its name does not resolve.
    pub addr: Option<SocketAddr>,
    pub settings: EndpointHttp2,
    pub tls: Option<Rc<Towards>>,
    /// Whether an endpoint chose HTTP/2, where it may choose something else too.
    pub chose_h2: Option<Rc<Cell<bool>>>,
}

/// A request that waits for a connection.
struct Waiting<'s> {
    sessions: &'s Sessions,
    number: u64,
}

impl<'s> Waiting<'s> {
    fn begin(sessions: &'s Sessions) -> Waiting<'s> {
        let number = sessions.next.get();
        sessions.next.set(number + 1);
        Waiting { sessions, number }
    }

    /// Keeps the waker, at the request's place in the row.
    fn note(&self, cx: &Context<'_>) {
        let new = WakerSlot::of(cx);
        let mut waiting = self.sessions.waiting.borrow_mut();
        let old = match waiting.binary_search_by_key(&self.number, |(number, _)| *number) {
            Ok(at) => Some(std::mem::replace(&mut waiting[at].1, new)),
            Err(at) => {
                waiting.insert(at, (self.number, new));
                None
            }
        };
        drop(waiting);
        drop(old);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.sessions.waiting.borrow_mut();
        let at = waiting.binary_search_by_key(&self.number, |(number, _)| *number);
        let old = at.ok().and_then(|at| waiting.remove(at));
        drop(waiting);
        drop(old);
        // There may be room for the next.
        self.sessions.tell_first();
    }
}

impl Sessions {
    /// A stream to the endpoint on which the request has begun: its head has, and all of it if all is here.
    /// `limit`: how long a connection may take to open.
    ///
    /// # Errors
    /// There is no connection, and none can be opened; or the endpoint takes no tunnels, and this asks for one.
    pub async fn stream(self: &Rc<Sessions>, way: Way, message: &Message, limit: Duration) -> io::Result<Begun> {
        let settings = way.settings;
        let clock = &self.core.clock;
        let mut wait: Option<(Waiting<'_>, Instant)> = None;
        let failures = self.failures.get();
        let stream = poll_fn(|cx| {
            if message.tunnel && self.links.borrow().iter().any(|link| link.refuses_tunnels()) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::Unsupported, NO_TUNNELS)));
            }
            if let Some(stream) = self.begin(message, settings.streams) {
                return Poll::Ready(Ok(stream));
            }
            if self.failures.get() != failures {
                return Poll::Ready(Err(self.why()));
            }
            wait.get_or_insert_with(|| (Waiting::begin(self), clock.now())).0.note(cx);
            if self.is_short(&settings) {
                let Some(addr) = way.addr else {
                    return Poll::Ready(Err(io::Error::other("its name does not resolve")));
                };
                self.open(addr, way.clone(), limit);
            }
            Poll::Pending
        })
        .await?;
        if message.whole && !message.is_head_only() {
            message.parts().for_each(|part| stream.send(part));
        }
        let connect_ns = wait.as_ref().map(|(_, began)| clock.read().since(*began));
        Ok(Begun { stream, reused: wait.is_none(), connect_ns })
    }
}
