//! Shared connections to an endpoint. A request takes the connection with the fewest streams, if it has room. Otherwise
//! another connection is opened, up to a limit, and requests queue for it.

use super::allowance::Allowance;
use super::link::Link;
use super::marked::Mark;
use super::rules::PoolRules;
use super::stream::{Begun, EndpointStream};
use super::tls::{self, Offers};
use super::waiting::{Queue, Waiting};
use crate::body::message::Message;
use crate::body::upstream::Upstream;
use crate::core::Core;
use crate::core::idle_limit::IdleHolder;
use crate::http2::session::Session;
use crate::observe::stats::EndpointStats;
use evenkeel_balance::{Clock, Instant};
use evenkeel_config::plan::{self, EndpointHttp2};
use evenkeel_net::dial::{Remote, dial};
use evenkeel_net::event_loop::{self, alarm};
use evenkeel_net::tls::towards::Named;
use evenkeel_net::transport::Transport;
use evenkeel_wire::endpoint_head::EndpointHead;
use evenkeel_wire::h2::{self, NoStream};
use evenkeel_wire::http1::RESPONSE_FIELDS_MAX;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Error of a request for a tunnel at an endpoint that supports none.
const NO_TUNNELS: &str =
    "it does not accept WebSocket over HTTP/2: its settings lack ENABLE_CONNECT_PROTOCOL (RFC 8441)";

/// Shared connections to an endpoint.
pub struct Sessions {
    core: Rc<Core>,
    mark: Rc<Mark>,
    stats: Arc<EndpointStats>,
    links: RefCell<Vec<Rc<Link>>>,
    /// Number of connections that are being opened.
    opening: Cell<usize>,
    /// Requests that wait for a stream.
    queue: Rc<Queue>,
    /// Learned limits of the endpoint.
    allowance: Rc<Allowance>,
}

impl Sessions {
    pub fn new(core: &Rc<Core>, mark: &Rc<Mark>, stats: Arc<EndpointStats>) -> Rc<Sessions> {
        let (links, opening, queue, allowance) = Default::default();
        let sessions =
            Rc::new(Sessions { core: core.clone(), mark: mark.clone(), stats, links, opening, queue, allowance });
        let holder: Weak<Sessions> = Rc::downgrade(&sessions);
        core.idle.add_holder(holder);
        sessions
    }

    /// Removes a connection that has ended. `in_vain`: the endpoint ended it before it had a request.
    fn remove(&self, link: &Rc<Link>, in_vain: bool) {
        self.links.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        if in_vain {
            // Otherwise queued requests would open connections for ever.
            self.queue
                .fail(io::Error::new(io::ErrorKind::ConnectionAborted, "it closed its connection before any request"));
        }
        self.queue.tell();
    }

    /// Opens a stream on the connection with the fewest streams, if it has room.
    fn begin(&self, head: &EndpointHead<'_>, message: &Message, most: u32) -> Option<EndpointStream> {
        let links = self.links.borrow();
        loop {
            // For a tunnel, the endpoint's SETTINGS must have allowed it.
            let fits = |link: &&Rc<Link>| link.has_room(most) && !(message.tunnel && link.is_beginning());
            let link = links.iter().filter(fits).min_by_key(|link| link.streams())?;
            match link.session.open(head.fields(), message.is_head_only()) {
                Ok(handle) => return Some(EndpointStream::new(handle, link.clone())),
                Err(NoStream::Full) => link.note_full(),
                Err(NoStream::Ending) => link.drain(),
            }
        }
    }

    /// True if another connection should be opened: those under way have fewer streams than there are queued requests,
    /// and the limit is not reached.
    fn is_short(&self, settings: &EndpointHttp2) -> bool {
        let links = self.links.borrow();
        let beginning = self.opening.get() + links.iter().filter(|link| link.is_beginning()).count();
        let all = self.opening.get() + links.iter().filter(|link| link.counts()).count();
        let streams = settings.streams.min(self.allowance.lifetime()) as usize;
        all < settings.connections && beginning * streams < self.queue.len()
    }

    /// Opens a connection in a separate task, as other requests may take it, too.
    fn open(self: &Rc<Sessions>, addr: Remote, way: Way, limit: Duration) {
        self.opening.set(self.opening.get() + 1);
        self.stats.connects.add(1);
        let sessions = self.clone();
        event_loop::spawn(async move {
            let connected = alarm::timeout(limit, sessions.connect(&addr, &way)).await;
            sessions.opening.set(sessions.opening.get() - 1);
            match connected.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time"))) {
                Ok(session) => sessions.run(session).await,
                Err(error) => {
                    sessions.queue.fail(error);
                    sessions.queue.tell();
                }
            }
        });
    }

    /// Adds a connection, and reads and writes for its requests until it ends.
    async fn run(self: Rc<Sessions>, session: Session) {
        let (queue, stats) = (self.queue.clone(), self.stats.clone());
        let link = Rc::new(Link::new(Rc::new(session), &self.core, queue, stats, self.allowance.clone()));
        self.links.borrow_mut().push(link.clone());
        self.mark.set();
        self.queue.tell();
        link.note_idle();
        if Rc::strong_count(&self) == 1 {
            // Only this task holds `self`: the endpoint has left its pool.
            link.drain();
        }
        let sessions = Rc::downgrade(&self);
        drop(self);
        let in_vain = link.run().await;
        if let Some(sessions) = sessions.upgrade() {
            sessions.remove(&link, in_vain);
        }
    }

    /// Adds a connection that was opened for HTTP/1 and whose endpoint chose HTTP/2.
    pub fn adopt(self: &Rc<Sessions>, transport: Transport, plan: &plan::Pool) {
        let session = Session::new(transport, self.engine(plan), Vec::new());
        event_loop::spawn(self.clone().run(session));
    }

    fn engine(&self, plan: &plan::Pool) -> h2::Connection {
        let settings = &plan.http2;
        let window = settings.stream_window as u32;
        let config = h2::Config {
            stream_window: window,
            // The sum of all streams' windows: a client that reads nothing must not stop the others.
            connection_window: window.saturating_mul(settings.streams).min(i32::MAX as u32),
            // The same limits as for the head of an HTTP/1 endpoint.
            max_header_list: plan.limits.response_headers,
            max_fields: RESPONSE_FIELDS_MAX,
            ..h2::Config::default()
        };
        h2::Connection::client(config, self.core.clock.now().0)
    }

    async fn connect(&self, addr: &Remote, way: &Way) -> io::Result<Session> {
        let settings = &way.rules.compiled.tls;
        let transport = tls::carried(dial(addr, None, true)?, settings.is_some());
        if let (Some(settings), Some(stream)) = (settings, transport.as_tls()) {
            let offers = if way.chose_h2.is_some() { Offers::Both } else { Offers::H2 };
            if !tls::secure(settings, stream, way.proves(), offers).await? {
                if let Some(chose_h2) = &way.chose_h2 {
                    chose_h2.set(false);
                }
                return Err(io::Error::other("it does not support HTTP/2: it did not select h2 in ALPN"));
            }
        }
        let mut engine = self.engine(&way.rules.plan);
        // The first write fails if the endpoint is unreachable.
        let sent = transport.write_some(engine.output()).await?;
        engine.output().drain(..sent);
        let _ = transport.watch();
        Ok(Session::new(transport, engine, Vec::new()))
    }

    /// True if the limit of connections is reached, and all of them have got their SETTINGS.
    pub fn is_full(&self, settings: &EndpointHttp2) -> bool {
        let links = self.links.borrow();
        let full = links.iter().filter(|link| link.counts() && !link.is_beginning());
        full.count() >= settings.connections
    }

    /// True if a request that was not refused runs at the endpoint.
    pub fn is_running(&self) -> bool {
        self.links.borrow().iter().any(|link| link.running() > 0)
    }

    /// Drains idle connections, and ends those whose endpoint shows no sign of life.
    pub fn sweep(&self, settings: &EndpointHttp2, kept_ns: u64, now: Instant) {
        // Cloned, as the list changes while links end.
        let links = self.links.borrow().clone();
        links.iter().for_each(|link| link.look_after(settings, kept_ns, now));
        // The end of a connection's pause wakes no queued request.
        self.queue.tell_first();
    }

    /// True if there are connections.
    pub fn any(&self) -> bool {
        !self.links.borrow().is_empty()
    }

    /// Drains all connections: they end with their requests.
    pub fn close(&self) {
        let links = self.links.borrow().clone();
        links.iter().for_each(|link| link.drain());
    }
}

impl IdleHolder for Sessions {
    fn each_since(&self, add: &mut dyn FnMut(Instant)) {
        self.links.borrow().iter().filter_map(|link| link.idle_since()).for_each(add);
    }

    fn close_until(&self, until: Instant, most: usize) -> usize {
        // Cloned, as the list changes while links end.
        let links = self.links.borrow().clone();
        let idle = links.iter().filter(|link| link.idle_since().is_some_and(|since| since <= until)).take(most);
        let closed = idle.map(|link| link.drain()).count();
        self.stats.idle_closed.add(closed as u64);
        closed
    }
}

/// Settings for opening connections to an endpoint.
#[derive(Clone)]
pub struct Way {
    /// Name of the endpoint, the default for the name in its certificate.
    pub name: Arc<str>,
    /// Address; `None` while the name does not resolve.
    pub addr: Option<Remote>,
    /// Name in TLS that only this endpoint has.
    pub tls_name: Option<Arc<str>>,
    /// Rules of the pool when the request began.
    pub rules: Rc<PoolRules>,
    /// Set to false if the endpoint does not choose HTTP/2; `None` if it has no choice.
    pub chose_h2: Option<Rc<Cell<bool>>>,
}

impl Way {
    fn proves(&self) -> Named<'_> {
        Named { own: self.tls_name.as_deref(), name: &self.name, ip: self.addr.as_ref().and_then(Remote::ip) }
    }
}

impl Sessions {
    /// Opens a stream with the head of a request, and with all of it if it is complete. Waits for room or for a new
    /// connection, which may take `limit` to open.
    ///
    /// # Errors
    /// No connection can be opened, or the request asks for a tunnel and the endpoint supports none.
    pub async fn stream(
        self: &Rc<Sessions>,
        way: Way,
        head: &EndpointHead<'_>,
        message: &Message,
        limit: Duration,
    ) -> io::Result<Begun> {
        let settings = &way.rules.plan.http2;
        let clock = &self.core.clock;
        let mut wait: Option<(Waiting<'_>, Instant)> = None;
        let failures = self.queue.failures();
        let stream = poll_fn(|cx| {
            if message.tunnel && self.links.borrow().iter().any(|link| link.refuses_tunnels()) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::Unsupported, NO_TUNNELS)));
            }
            if let Some(stream) = self.begin(head, message, settings.streams) {
                return Poll::Ready(Ok(stream));
            }
            if self.queue.failures() != failures {
                return Poll::Ready(Err(self.queue.why()));
            }
            wait.get_or_insert_with(|| (Waiting::begin(&self.queue), clock.now())).0.note(cx);
            if self.is_short(settings) {
                let Some(addr) = way.addr.clone() else {
                    return Poll::Ready(Err(io::Error::other("its name does not resolve")));
                };
                self.open(addr, way.clone(), limit);
            }
            Poll::Pending
        })
        .await?;
        if message.goes_at_once() && !message.is_head_only() {
            message.parts().for_each(|part| stream.send(part));
        }
        let connect_ns = wait.as_ref().map(|(_, began)| clock.read().since(*began));
        Ok(Begun { stream, reused: wait.is_none(), connect_ns })
    }
}
