//! Clients of a listener at an address: which of them are let in, and with which settings.

use super::cause::cause;
use super::proving::proving;
use super::request;
use super::session::Session;
use super::turned_away::TurnedAway;
use super::worker::Quic;
use crate::core::Core;
use crate::listener::rules::Listener;
use crate::listener::secure::of_certificate;
use crate::observe::stats::{Counter, Rejected};
use crate::peer::Identity;
use crate::serve::open::Open;
use evenkeel_config::plan::Http3;
use evenkeel_net::quic::connection::Connection;
use evenkeel_net::quic::endpoint::{Arriving, Decision, Service};
use evenkeel_net::quic::ids::Owner;
use evenkeel_net::quic::inbox::Handed;
use evenkeel_net::quic::qlog::{Bounds, Recorder};
use evenkeel_net::quic::tls::{MakeAround, Tls};
use evenkeel_net::quic::{ConnectionError, QlogStream, ServerConfig, TransportConfig, VarInt};
use evenkeel_net::tls::{Cause, Info, Note};
use evenkeel_tls::sessions::Offer;
use evenkeel_wire::proxy_protocol::Addresses;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Most datagrams that wait for a decision about their client. Decisions are made at once.
const INCOMING_MAX: usize = 64;

/// Most streams of a client that are not requests: control, two of QPACK, and some that are not known.
const UNIDIRECTIONAL_MAX: u32 = 8;

/// TLS and transport of connections that begin.
struct Settings {
    /// Configuration of TLS that they are made from.
    of: Arc<rustls::ServerConfig>,
    tls: Arc<Tls>,
    config: Arc<ServerConfig>,
}

/// Clients of a listener at an address.
pub struct Clients {
    core: Rc<Core>,
    quic: Rc<Quic>,
    addr: SocketAddr,
    listener: RefCell<Rc<Listener>>,
    config: RefCell<Option<Settings>>,
    handshakes: Rc<Cell<usize>>,
    recorder: RefCell<Option<Recorder>>,
    /// Clients that were asked for a proof of their address, and those that were refused.
    retried: RefCell<TurnedAway>,
    refused: RefCell<TurnedAway>,
    /// Count of a client that was let in and has no connection yet.
    accepted: RefCell<Option<Open>>,
}

impl Clients {
    pub fn new(core: &Rc<Core>, quic: &Rc<Quic>, addr: SocketAddr, listener: Rc<Listener>) -> Clients {
        Clients {
            core: core.clone(),
            quic: quic.clone(),
            addr,
            listener: RefCell::new(listener),
            config: RefCell::default(),
            handshakes: Rc::default(),
            recorder: RefCell::default(),
            retried: RefCell::default(),
            refused: RefCell::default(),
            accepted: RefCell::default(),
        }
    }

    pub fn listener(&self) -> Rc<Listener> {
        self.listener.borrow().clone()
    }

    /// Applies the rules of another listener to connections that begin from now on.
    pub fn change(&self, listener: Rc<Listener>) {
        self.config.replace(None);
        // Another begins with the next connection, as files may have been removed.
        self.recorder.replace(None);
        self.listener.replace(listener);
    }

    /// Settings for the next handshake; `None` if the listener has no TLS now.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        let listener = self.listener.borrow();
        let rules = listener.peek();
        let settings = rules.compiled.tls.as_ref()?;
        let current = settings.config();
        if let Some(made) = &*self.config.borrow()
            && Arc::ptr_eq(&made.of, &current)
        {
            return Some(made.config.clone());
        }
        let asks = settings.plan.client_auth.is_some();
        let note: fn(&Info) -> Note = if asks { of_certificate } else { |_| Note::default() };
        let tls = Tls::of(&current, asks.then_some(proving as MakeAround), note)?;
        let mut config = ServerConfig::new(tls.clone(), self.quic.keys.token());
        config.transport_config(Arc::new(self.transport()));
        config.max_incoming(INCOMING_MAX);
        let config = Arc::new(config);
        self.config.replace(Some(Settings { of: current, tls, config: config.clone() }));
        Some(config)
    }

    /// Settings for the connection of a client.
    fn for_client(&self, config: Arc<ServerConfig>, http3: &Http3, arriving: &Arriving) -> Arc<ServerConfig> {
        let crypto = http3.early_data.then(|| self.with_early_data(http3, arriving)).flatten();
        let trace = http3.qlog.as_ref().and_then(|folder| self.trace(folder, http3));
        if crypto.is_none() && trace.is_none() {
            return config;
        }
        let mut config = (*config).clone();
        if let Some(crypto) = crypto {
            config.crypto = crypto;
        }
        if trace.is_some() {
            let mut transport = self.transport();
            transport.qlog_stream(trace);
            config.transport_config(Arc::new(transport));
        }
        Arc::new(config)
    }

    /// Begins the trace of a connection; `None` if there are enough.
    fn trace(&self, folder: &Path, http3: &Http3) -> Option<QlogStream> {
        let name = self.listener.borrow().plan().name.to_string();
        let bounds = Bounds { folder: folder.into(), name, files: http3.qlog_files, size: http3.qlog_size };
        let mut recorder = self.recorder.borrow_mut();
        if recorder.as_ref().is_none_or(|recorder| *recorder.bounds() != bounds) {
            *recorder = Recorder::start(bounds).inspect_err(|error| tracing::warn!(%error, "cannot write qlogs")).ok();
        }
        recorder.as_mut()?.begin()
    }

    /// TLS for the handshake of a client that may send early data.
    fn with_early_data(&self, http3: &Http3, arriving: &Arriving) -> Option<Arc<Tls>> {
        let listener = self.listener.borrow();
        let sessions = listener.peek().compiled.tls.as_ref()?.sessions.clone()?;
        let (limits, _) = listener.limits();
        let numbers = [http3.stream_window, http3.connection_window, limits.head, limits.fields].map(|n| n as u64);
        let [stream, connection, head, fields] = numbers;
        let offer = Offer {
            most: http3.sessions,
            client: arriving.remote.ip().to_canonical(),
            limits: [http3.streams.into(), UNIDIRECTIONAL_MAX.into(), stream, connection, head, fields],
            is_proven: arriving.is_proven,
        };
        let settings = self.config.borrow();
        let tls = &settings.as_ref()?.tls;
        let (of_client, is_proven) = sessions.for_client(tls.config(), offer);
        Some(tls.with_early_data(of_client, is_proven))
    }

    fn transport(&self) -> TransportConfig {
        let listener = self.listener.borrow();
        let plan = listener.plan();
        let http3 = plan.http3.clone().unwrap_or_default();
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

impl Clients {
    /// Refuses a client, and counts it.
    fn refuse(&self, arriving: Arriving, count: &Counter) -> Decision {
        if self.refused.borrow_mut().note(arriving.id) {
            count.add(1);
        }
        Decision::Refuse
    }
}

impl Service for Clients {
    type Session = Session;

    fn decide(&self, arriving: Arriving) -> Decision {
        let listener = self.listener.borrow();
        let Some(config) = self.config() else { return Decision::Ignore };
        let plan = listener.plan();
        let Some(http3) = &plan.http3 else { return Decision::Ignore };
        if !arriving.is_proven && self.handshakes.get() >= http3.retry_above && arriving.may_retry {
            if self.retried.borrow_mut().note(arriving.id) {
                listener.stats.http3.retries.add(1);
            }
            return Decision::Retry;
        }
        let most = listener.peek().compiled.tls.as_ref().map_or(0, |tls| tls.plan.handshakes);
        if self.handshakes.get() >= most {
            return self.refuse(arriving, &listener.stats.tls.failed[Cause::TooMany as usize]);
        }
        let opened = listener.peek().compiled.admission.open(arriving.remote.ip().to_canonical());
        let Ok(place) = opened else {
            return self.refuse(arriving, &listener.stats.rejected[Rejected::PerAddress as usize]);
        };
        if listener.open.add() >= plan.limits.connections {
            listener.open.sub();
            return self.refuse(arriving, &listener.stats.rejected[Rejected::Connections as usize]);
        }
        listener.stats.accepted.add(1);
        self.core.connection_opened();
        let mut open = Open::new(self.core.clone(), listener.clone());
        open.place = place;
        self.accepted.replace(Some(open));
        Decision::Accept(self.for_client(config, http3, &arriving))
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
        Rc::new(Session::new(connection.clone(), open, identity, addresses, self.handshakes.clone(), request::USES))
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
