//! Who is the client? The [`Peer`] of a connection, as far as it is known and believed ([`forwarded`]), and what it may use
//! up: [`admission`], [`per_address`], [`min_rate`]. [`hash_key`]: what of its request an algorithm is keyed by.

pub mod address_text;
pub mod admission;
pub mod forwarded;
pub mod hash_key;
pub mod min_rate;
pub mod per_address;

use address_text::AddressText;
use evenkeel_net::tls::Info;
use evenkeel_net::transport::Transport;
use evenkeel_wire::proxy_protocol::Addresses;
use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;

/// The ports that `Host` leaves out.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Who is at the other end of a connection, whatever it speaks and however many requests it sends at once.
pub struct Peer<'c> {
    identity: Identity,
    /// Only asked for its addresses.
    transport: &'c Transport,
}

/// What is known of a peer besides its socket.
#[derive(Clone)]
pub struct Identity {
    /// Where the client comes from, as its peer says if that speaks the PROXY protocol.
    pub ip: IpAddr,
    /// Its port there.
    pub port: u16,
    /// Whether that is a trusted proxy, whose `X-Forwarded-For` names the client.
    pub is_trusted: bool,
    /// Written when it is first asked for: sessions without a log never do.
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

/// What a PROXY protocol header said, and who sent it.
struct Announced {
    by: IpAddr,
    addresses: Addresses,
}

impl<'c> Peer<'c> {
    /// Who connected from `addr`; `is_trusted` as the listener says.
    pub fn new(addr: SocketAddr, is_trusted: impl FnOnce(IpAddr) -> bool, transport: &'c Transport) -> Peer<'c> {
        // A dual-stack listener sees IPv4 clients as mapped addresses, which are hard to read.
        let ip = addr.ip().to_canonical();
        let identity =
            Identity { ip, port: addr.port(), is_trusted: is_trusted(ip), text: OnceCell::new(), announced: None };
        Peer { identity, transport }
    }

    /// The same peer, whose requests share its connection.
    pub fn known(identity: Identity, transport: &'c Transport) -> Peer<'c> {
        Peer { identity, transport }
    }

    /// What is known of it.
    pub fn identity(&self) -> Identity {
        self.ip_text();
        self.identity.clone()
    }

    /// The client is another one, as who connected says for it.
    pub fn announce(&mut self, addresses: Addresses, is_trusted: impl FnOnce(IpAddr) -> bool) {
        let ip = addresses.source.ip().to_canonical();
        let announced = Some(Rc::new(Announced { by: self.ip, addresses }));
        let port = addresses.source.port();
        self.identity = Identity { ip, port, is_trusted: is_trusted(ip), text: OnceCell::new(), announced };
    }

    /// Its address as text.
    pub fn ip_text(&self) -> &[u8] {
        self.text.get_or_init(|| AddressText::of(self.ip)).as_bytes()
    }

    /// What was agreed with it, if it speaks TLS.
    pub fn tls(&self) -> Option<&'c Info> {
        self.transport.as_tls()?.info()
    }

    /// What it speaks with this side.
    pub fn scheme(&self) -> &'static str {
        if self.transport.as_tls().is_some() { "https" } else { "http" }
    }

    /// Who connected, if that speaks for the client.
    pub fn announced_by(&self) -> Option<IpAddr> {
        self.announced.as_ref().map(|announced| announced.by)
    }

    /// The address that the client connected to, as `Host` names it: what a client of an address sends that names a host. Empty
    /// if it is not known.
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

    /// Both ends of the client's connection, as far as they are known.
    pub fn addresses(&self) -> Option<Addresses> {
        self.announced.as_ref().map(|announced| announced.addresses).or_else(|| self.transport.addresses())
    }
}
