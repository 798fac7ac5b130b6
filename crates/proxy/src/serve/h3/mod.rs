//! The client's side of HTTP/3. Read the files in this order:
//!
//! 1. This one: a worker's UDP socket at an address of a listener, and the clients that are let in.
//! 2. The [`worker`] has the keys, and exchanges datagrams with other workers and processes.
//! 3. A [`session`] is a connection. It reads heads, and passes each [`stream`] to the task of its [`request`].

mod request;
mod session;
mod stream;
mod worker;

pub use worker::Quic;

use crate::core::{Command, Core};
use crate::listener::rules::Listener;
use crate::listener::secure::of_certificate;
use crate::observe::stats::Rejected;
use crate::peer::Identity;
use crate::serve::open::Open;
use evenkeel_net::event_loop::{Task, spawn, spawn_essential};
use evenkeel_net::listen::ListenFd;
use evenkeel_net::quic::connection::Connection;
use evenkeel_net::quic::endpoint::{Arriving, Decision, Endpoint, Service};
use evenkeel_net::quic::ids::Owner;
use evenkeel_net::quic::inbox::Handed;
use evenkeel_net::quic::tls::{Around, MakeAround, Tls};
use evenkeel_net::quic::{ConnectionError, ServerConfig, TransportConfig, VarInt};
use evenkeel_net::tls::{Cause, Info, Note};
use evenkeel_tls::proof::Proof;
use evenkeel_wire::proxy_protocol::Addresses;
use session::Session;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;

/// Most datagrams that wait for a decision about their client. Decisions are made at once.
const INCOMING_MAX: usize = 64;

/// Most streams of a client that are not requests: control, two of QPACK, and some that are not known.
const UNIDIRECTIONAL_MAX: u32 = 8;

/// State around a handshake in which the client is asked for its certificate.
struct Proving(Mutex<Proof>);

impl Around for Proving {
    fn run(&self, part: &mut dyn FnMut()) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).within(part);
    }
}

fn proving() -> Box<dyn Around> {
    Box::new(Proving(Mutex::default()))
}

/// Clients of a listener at an address.
pub struct Clients {
    core: Rc<Core>,
    quic: Rc<Quic>,
    addr: SocketAddr,
    listener: RefCell<Rc<Listener>>,
    /// Settings of handshakes, with the configuration of TLS that they are made from.
    config: RefCell<Option<(Arc<rustls::ServerConfig>, Arc<ServerConfig>)>>,
    handshakes: Rc<Cell<usize>>,
    /// Count of a client that was let in and has no connection yet.
    accepted: RefCell<Option<Open>>,
}

impl Clients {
    /// Settings for the next handshake; `None` if the listener has no TLS now.
    fn config(&self) -> Option<Arc<ServerConfig>> {
        let listener = self.listener.borrow();
        let rules = listener.peek();
        let settings = rules.compiled.tls.as_ref()?;
        let current = settings.config();
        if let Some((of, made)) = &*self.config.borrow()
            && Arc::ptr_eq(of, &current)
        {
            return Some(made.clone());
        }
        let asks = settings.plan.client_auth.is_some();
        let note: fn(&Info) -> Note = if asks { of_certificate } else { |_| Note::default() };
        let tls = Tls::of(&current, asks.then_some(proving as MakeAround), note)?;
        let mut config = ServerConfig::new(tls, self.quic.keys.token());
        config.transport_config(Arc::new(self.transport()));
        config.max_incoming(INCOMING_MAX);
        let config = Arc::new(config);
        self.config.replace(Some((current, config.clone())));
        Some(config)
    }

    fn transport(&self) -> TransportConfig {
        let listener = self.listener.borrow();
        let plan = listener.plan();
        let http3 = plan.http3.unwrap_or_default();
        let number = |n: usize| VarInt::try_from(n as u64).unwrap_or(VarInt::MAX);
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(http3.streams.into())
            .max_concurrent_uni_streams(UNIDIRECTIONAL_MAX.into())
            .stream_receive_window(number(http3.stream_window))
            .receive_window(number(http3.connection_window))
            .send_window(http3.send_window as u64)
            .datagram_receive_buffer_size(None)
            .max_idle_timeout(plan.timeouts.client_idle.try_into().ok());
        transport
    }
}

impl Service for Clients {
    type Session = Session;

    fn decide(&self, arriving: Arriving) -> Decision {
        let listener = self.listener.borrow();
        let Some(config) = self.config() else { return Decision::Ignore };
        let plan = listener.plan();
        let http3 = plan.http3.unwrap_or_default();
        if !arriving.is_proven && self.handshakes.get() >= http3.retry_above && arriving.may_retry {
            listener.stats.http3.retries.add(1);
            return Decision::Retry;
        }
        let most = listener.peek().compiled.tls.as_ref().map_or(0, |tls| tls.plan.handshakes);
        if self.handshakes.get() >= most {
            listener.stats.tls.failed[Cause::TooMany as usize].add(1);
            return Decision::Refuse;
        }
        let opened = listener.peek().compiled.admission.open(arriving.remote.ip().to_canonical());
        let Ok(place) = opened else {
            listener.stats.rejected[Rejected::PerAddress as usize].add(1);
            return Decision::Refuse;
        };
        if listener.open.add() >= plan.limits.connections {
            listener.open.sub();
            listener.stats.rejected[Rejected::Connections as usize].add(1);
            return Decision::Refuse;
        }
        listener.stats.accepted.add(1);
        self.core.connection_opened();
        let mut open = Open::new(self.core.clone(), listener.clone());
        open.place = place;
        self.accepted.replace(Some(open));
        Decision::Accept(config)
    }

    fn open(&self, connection: &Rc<Connection>) -> Rc<Session> {
        let open = self.accepted.take().expect("a client that was let in is counted");
        let listener = open.listener.clone();
        let source = connection.remote();
        let destination = SocketAddr::new(connection.local_ip().unwrap_or(self.addr.ip()), self.addr.port());
        let addresses = Addresses { source, destination };
        let rules = listener.peek();
        let identity = Identity::new(source, |ip| rules.compiled.admission.is_trusted(ip));
        if let Some(tls) = &rules.compiled.tls {
            connection.set_alarm(Some(Instant::now() + tls.plan.handshake_timeout));
        }
        drop(rules);
        Rc::new(Session::new(connection.clone(), open, identity, addresses, self.handshakes.clone()))
    }

    fn hand(&self, owner: Owner, from: SocketAddr, to: Option<IpAddr>, bytes: &[u8]) -> bool {
        self.quic.hand(owner, Handed { at: self.addr, from, to, segment: bytes.len(), bytes })
    }

    fn failed(&self, _: SocketAddr, why: &ConnectionError) {
        if let Some(open) = self.accepted.take() {
            open.listener.stats.tls.failed[cause(why) as usize].add(1);
        }
    }
}

/// Cause of a handshake that failed.
fn cause(why: &ConnectionError) -> Cause {
    /// First code of an alert of TLS (RFC 9001 section 4.8).
    const ALERTS: u64 = 0x100;
    match why {
        ConnectionError::TimedOut => Cause::Timeout,
        ConnectionError::TransportError(error) => match u64::from(error.code).checked_sub(ALERTS) {
            Some(70) => Cause::Version,
            Some(40) => Cause::Cipher,
            Some(120) => Cause::Protocol,
            Some(112) => Cause::NoCertificate,
            Some(116) => Cause::CertificateRequired,
            Some(48) => Cause::UnknownCa,
            Some(45) => Cause::Expired,
            Some(44) => Cause::Revoked,
            Some(42) => Cause::BadCertificate,
            _ => Cause::Malformed,
        },
        ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => Cause::Refused,
        ConnectionError::Reset => Cause::Closed,
        _ => Cause::Internal,
    }
}

/// A socket that is served.
pub struct Serving {
    pub addr: SocketAddr,
    endpoint: Rc<Endpoint<Clients>>,
    serving: Task,
    watching: Task,
}

/// Starts to serve HTTP/3. `None`, with an error logged, if the listener has no TLS.
pub fn start(
    core: &Rc<Core>,
    quic: &Rc<Quic>,
    addr: SocketAddr,
    listener: Rc<Listener>,
    socket: ListenFd,
) -> Option<Serving> {
    let clients = Clients {
        core: core.clone(),
        quic: quic.clone(),
        addr,
        listener: RefCell::new(listener),
        config: RefCell::default(),
        handshakes: Rc::default(),
        accepted: RefCell::default(),
    };
    let config = clients.config()?;
    let endpoint = Endpoint::new(clients, socket, quic.owner, &quic.keys, config);
    quic.add(addr, &endpoint);
    let served = endpoint.clone();
    let serving = spawn_essential(async move {
        if let Err(error) = served.run().await {
            tracing::error!(%error, %addr, "cannot poll a UDP socket; this worker serves no HTTP/3 there");
        }
    });
    let watching = spawn(watch(core.clone(), endpoint.clone()));
    Some(Serving { addr, endpoint, serving, watching })
}

/// Ends the connections once the worker or the listener ends: those of a listener after its drain time at the latest.
async fn watch(core: Rc<Core>, endpoint: Rc<Endpoint<Clients>>) {
    let timer = core.wheel.timer();
    let until = async |is_so: &dyn Fn() -> bool| {
        let mut waiting = pin!(poll_fn(|_| if is_so() { Poll::Ready(()) } else { Poll::Pending }));
        // Without a deadline: the wheel wakes all tasks when something ends.
        let _ = timer.limit(waiting.as_mut()).await;
    };
    let listener = || endpoint.service().listener.borrow().clone();
    until(&|| core.command.get() != Command::Run || listener().gone.get()).await;
    endpoint.take_no_more();
    endpoint.each(|session| session.begin_drain());
    until(&|| listener().cut.get()).await;
    endpoint.each(|session| session.cut());
}

impl Serving {
    /// Applies the rules of `listener` to connections that begin from now on. Returns false if the listener does not
    /// serve HTTP/3.
    pub fn change(&self, listener: Rc<Listener>) {
        self.endpoint.service().config.replace(None);
        self.endpoint.service().listener.replace(listener);
    }

    /// Lets clients begin no more connections, and drains those that are there.
    pub fn take_no_more(&self) {
        self.endpoint.take_no_more();
        self.endpoint.each(|session| session.begin_drain());
    }

    /// Leaves new datagrams of the socket to the process that takes over.
    pub fn retire(&self) {
        self.endpoint.retire();
    }

    /// Ends with the last connection, or at the drain time of the listener.
    pub fn end(self) {
        // The tasks hold the endpoint.
        self.take_no_more();
    }

    /// Closes all connections.
    pub fn close(&self) {
        self.endpoint.each(|session| session.cut());
        self.endpoint.send_now();
        self.serving.abort();
        self.watching.abort();
    }
}
