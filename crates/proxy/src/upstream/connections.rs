//! How does a request reach an endpoint? Over a connection that is idle, or a new one; with HTTP/1 it has that alone until it
//! gives it back.

use super::pick::InFlight;
use super::pool::{Endpoint, WorkerPool};
use super::tls::{carried, is_of_tls, secure};
use crate::core::Core;
use crate::observe::end::Cause;
use crate::observe::stats::ErrorKind;
use crate::peer::Peer;
use evenkeel_balance::{Clock, FailureKind, Outcome};
use evenkeel_config::plan::{ProxyVersion, SpeakAs};
use evenkeel_net::buffer::Buf;
use evenkeel_net::dial::dial;
use evenkeel_net::transport::Transport;
use evenkeel_wire::proxy_protocol;
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The request or session that needs a connection to an endpoint of `pool`.
#[derive(Clone, Copy)]
pub struct Wanted<'r> {
    pub core: &'r Core,
    pub peer: &'r Peer<'r>,
    /// The client, if a trusted proxy sent the request for it.
    pub origin: Option<IpAddr>,
    pub pool: &'r WorkerPool,
}

/// A request at an endpoint, on a connection that it has alone until it gives it back to the idle ones or closes it; or on a
/// stream of one that others have too.
pub struct UpstreamConn<'r, L = Transport> {
    pub ticket: InFlight<'r>,
    pub transport: L,
}

/// A connection that was had.
pub struct Acquired {
    pub transport: Transport,
    /// How many of the request's first bytes it has taken.
    pub sent: usize,
    /// How long it took to open, if it is new.
    pub connect_ns: Option<u64>,
}

impl Wanted<'_> {
    /// A connection to the endpoint that has taken some of `bytes`: the idle one, or a new one.
    ///
    /// # Errors
    /// It cannot be opened, or takes nothing.
    pub async fn acquire(&self, endpoint: &Endpoint, idle: Option<Transport>, bytes: &[u8]) -> io::Result<Acquired> {
        if let Some(transport) = idle {
            let sent = transport.write_some(bytes).await?;
            return Ok(Acquired { transport, sent, connect_ns: None });
        }
        let clock = &self.core.clock;
        let began = clock.now();
        let (transport, sent) = self.connect(endpoint, bytes).await?;
        Ok(Acquired { transport, sent, connect_ns: Some(clock.read().since(began)) })
    }

    /// A new connection to the endpoint that has taken so many of `bytes`; without any, one that is open.
    ///
    /// # Errors
    /// It cannot be opened, or takes nothing.
    pub async fn connect(&self, endpoint: &Endpoint, bytes: &[u8]) -> io::Result<(Transport, usize)> {
        let addr = endpoint.addr.ok_or_else(|| io::Error::other("its name does not resolve"))?;
        endpoint.stats.connects.add(1);
        let rules = self.pool.rules();
        let (announce, tls) = (rules.plan.proxy_protocol, &rules.compiled.tls);
        let source = (rules.plan.source == SpeakAs::Client).then_some(self.peer.ip);
        let speaks = announce.is_some() || !bytes.is_empty() || tls.is_some();
        let transport = carried(dial(addr, source, speaks)?, tls.is_some());
        if let Some(version) = announce {
            transport.write(&mut self.header(version), !bytes.is_empty() || tls.is_some()).await?;
        }
        if let (Some(settings), Some(stream)) = (tls, transport.as_tls()) {
            // Boxed, as few connections are new.
            let offers = self.pool.offers();
            let chose_h2 = Box::pin(secure(settings, stream, &endpoint.name, endpoint.addr, offers)).await?;
            if chose_h2 {
                // This request was written in HTTP/1, for which there is another connection; those that follow take this one.
                self.pool.chose_h2.set(true);
                endpoint.sessions.adopt(transport, &rules.plan.http2);
                return Box::pin(self.connect(endpoint, bytes)).await;
            }
        }
        let sent = transport.write_some(bytes).await?;
        // The request has left: a failure here must not count as unreachable, or it would be sent to another endpoint too.
        // The read that follows meets it again, and knows that.
        let _ = transport.watch();
        Ok((transport, sent))
    }

    /// The PROXY protocol header that tells an endpoint who the client is. Of a client behind a trusted proxy only the
    /// address is known: port 0.
    fn header(&self, version: ProxyVersion) -> Buf {
        let mut addresses = self.peer.addresses();
        if let (Some(ip), Some(addresses)) = (self.origin, &mut addresses) {
            addresses.source = SocketAddr::new(ip, 0);
        }
        let mut header = self.core.scratch();
        proxy_protocol::write(version, addresses, &mut header);
        let buf = Buf::holding(&header);
        self.core.give_back(header);
        buf
    }
}

/// An endpoint that could not be connected to.
pub struct Unreachable {
    /// Who is at fault.
    pub cause: Cause,
    /// The status for the client.
    pub status: u16,
    /// And why.
    pub why: String,
}

/// Ends a request whose endpoint could not be connected to; without an error, not in time.
#[cold]
pub fn unreachable(pool: &WorkerPool, ticket: InFlight<'_>, error: Option<io::Error>) -> Unreachable {
    let endpoint = ticket.endpoint.clone();
    let why = error.as_ref().map_or("no connection in time".to_string(), io::Error::to_string);
    let (cause, status) = match error {
        // No connection was even tried: to hold it against the endpoint would eject it for our lack.
        Some(error) if is_ours(&error) || error.kind() == io::ErrorKind::ResourceBusy => {
            ticket.end(Outcome::Cancelled);
            (Cause::Proxy, 503)
        }
        // It is well, and says what it does not take.
        Some(error) if error.kind() == io::ErrorKind::Unsupported => {
            ticket.end(Outcome::Cancelled);
            (Cause::Endpoint, 502)
        }
        error => {
            let (kind, status) = match error {
                Some(error) if is_of_tls(&error) => (ErrorKind::Tls, 502),
                Some(_) => (ErrorKind::Connect, 502),
                None => (ErrorKind::Timeout, 504),
            };
            endpoint.stats.errors[kind as usize].add(1);
            endpoint.stats.unreached.add(1);
            ticket.end(Outcome::failed(FailureKind::Connect));
            (Cause::Endpoint, status)
        }
    };
    let why = format!("pool \"{}\": cannot connect to endpoint {}: {why}", pool.name, endpoint.name);
    Unreachable { cause, status, why }
}

/// Whether this process or its machine has run out of something: descriptors, memory, local ports.
fn is_ours(error: &io::Error) -> bool {
    let lack = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| lack.contains(&errno))
}
