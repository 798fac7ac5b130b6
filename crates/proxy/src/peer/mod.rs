//! The client of a connection: its [`Peer`], the origin that trusted proxies state ([`forwarded`]), its limits
//! ([`admission`], [`min_rate`], and [`per_address`] with a [`key_table`]), the states that filters keep of its connection
//! ([`connection_states`]), figures of its connection if it is [`quic`], and the key by which algorithms pick for it ([`hash_key`]).

pub mod address_text;
pub mod admission;
pub mod connection_states;
pub mod forwarded;
pub mod hash_key;
pub mod key_table;
pub mod min_rate;
pub mod per_address;
pub mod quic;
pub mod sender;

use address_text::AddressText;
use connection_states::ConnectionStates;
use evenkeel_net::tls::Info;
use evenkeel_net::transport::Transport;
use evenkeel_wire::proxy_protocol::Addresses;
use quic::{Quic, QuicLine};
use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;

/// Default ports, which `Host` omits.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// The other end of a client connection, shared by all of its requests.
pub struct Peer<'c> {
    identity: Identity,
    /// Source of the addresses of both ends, and of the TLS session.
    line: Line<'c>,
    /// States that filters keep of the connection.
    pub states: &'c ConnectionStates,
}

/// The line to a peer, for the addresses of both ends and the TLS session.
#[derive(Clone, Copy)]
pub enum Line<'c> {
    Transport(&'c Transport),
    Quic(&'c dyn QuicLine),
}

impl<'c> From<&'c Transport> for Line<'c> {
    fn from(transport: &'c Transport) -> Line<'c> {
        Line::Transport(transport)
    }
}

/// Facts about a peer that outlive its connection's borrow: an HTTP/2 request keeps a clone.
#[derive(Clone)]
pub struct Identity {
    /// Address of the client; from the PROXY protocol header if there is one.
    pub ip: IpAddr,
    /// Source port of the client.
    pub port: u16,
    /// True if `ip` is a trusted proxy, whose `X-Forwarded-For` names the client.
    pub is_trusted: bool,
    /// `ip` as text, written on first use: sessions without a log never need it.
    text: OnceCell<AddressText>,
    announced: Option<Rc<Announced>>,
}

impl Deref for Peer<'_> {
    type Target = Identity;

    #[inline]
    fn deref(&self) -> &Identity {
        &self.identity
    }
}

/// A PROXY protocol header, and the address that sent it.
struct Announced {
    by: IpAddr,
    addresses: Addresses,
}

impl Identity {
    /// The peer that connected from `addr`. `is_trusted` is asked once, with the canonical address.
    pub fn new(addr: SocketAddr, is_trusted: impl FnOnce(IpAddr) -> bool) -> Identity {
        // A dual-stack listener reports IPv4 clients as mapped addresses; logs and hash keys use the plain form.
        let ip = addr.ip().to_canonical();
        Identity { ip, port: addr.port(), is_trusted: is_trusted(ip), text: OnceCell::new(), announced: None }
    }
}

impl<'c> Peer<'c> {
    /// The peer that connected from `addr`. `is_trusted` is asked once, with the canonical address.
    pub fn new(
        addr: SocketAddr,
        is_trusted: impl FnOnce(IpAddr) -> bool,
        line: impl Into<Line<'c>>,
        states: &'c ConnectionStates,
    ) -> Peer<'c> {
        let identity = Identity::new(addr, is_trusted);
        Peer { identity, line: line.into(), states }
    }

    /// The peer of another request on the same connection.
    pub fn known(identity: Identity, line: impl Into<Line<'c>>, states: &'c ConnectionStates) -> Peer<'c> {
        Peer { identity, line: line.into(), states }
    }

    /// Returns a clone of the known facts about the peer, with the text of its address written so that clones share the
    /// work.
    pub fn identity(&self) -> Identity {
        self.ip_text();
        self.identity.clone()
    }

    /// Replaces the client by the client that a PROXY protocol header names.
    pub fn announce(&mut self, addresses: Addresses, is_trusted: impl FnOnce(IpAddr) -> bool) {
        let ip = addresses.source.ip().to_canonical();
        let announced = Some(Rc::new(Announced { by: self.ip, addresses }));
        let port = addresses.source.port();
        self.identity = Identity { ip, port, is_trusted: is_trusted(ip), text: OnceCell::new(), announced };
    }

    /// The client's address as text.
    pub fn ip_text(&self) -> &[u8] {
        self.text.get_or_init(|| AddressText::of(self.ip)).as_bytes()
    }

    /// Parameters of the TLS session; `None` without TLS or before the handshake is over.
    pub fn tls(&self) -> Option<&'c Info> {
        match self.line {
            Line::Transport(transport) => transport.as_tls()?.info(),
            Line::Quic(quic) => quic.info(),
        }
    }

    /// Figures of the connection, if it is QUIC.
    pub fn quic(&self) -> Option<Quic> {
        match self.line {
            Line::Transport(_) => None,
            Line::Quic(quic) => Some(quic.figures()),
        }
    }

    /// Scheme of the connection: `https` over TLS, else `http`.
    pub fn scheme(&self) -> &'static str {
        let is_secure = match self.line {
            Line::Transport(transport) => transport.as_tls().is_some(),
            Line::Quic(..) => true,
        };
        if is_secure { "https" } else { "http" }
    }

    /// Address that sent the PROXY protocol header, if any.
    pub fn announced_by(&self) -> Option<IpAddr> {
        self.announced.as_ref().map(|announced| announced.by)
    }

    /// The address that the client connected to, in the form of a `Host` value; for requests whose client names no
    /// host. Empty if the address is unknown.
    #[cold]
    pub fn authority(&self) -> String {
        let Some(Addresses { destination, .. }) = self.addresses() else { return String::new() };
        let (ip, port) = (destination.ip().to_canonical(), destination.port());
        let usual = if self.tls().is_some() { HTTPS_PORT } else { HTTP_PORT };
        match ip {
            IpAddr::V6(ip) if port == usual => format!("[{ip}]"),
            IpAddr::V4(ip) if port == usual => ip.to_string(),
            _ => SocketAddr::new(ip, port).to_string(),
        }
    }

    /// Addresses of both ends of the client's connection, from the PROXY protocol header if present; `None` if unknown.
    pub fn addresses(&self) -> Option<Addresses> {
        let announced = self.announced.as_ref().map(|announced| announced.addresses);
        announced.or_else(|| match self.line {
            Line::Transport(transport) => transport.addresses(),
            Line::Quic(quic) => Some(quic.addresses()),
        })
    }
}
