//! Connections to endpoints, idle or new. An HTTP/1 request has a connection to itself until it gives it back.

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

/// A request or session that needs a connection to an endpoint of `pool`.
#[derive(Clone, Copy)]
pub struct Wanted<'r> {
    pub core: &'r Core,
    /// The client; `None` for a request of this proxy's own.
    pub peer: Option<&'r Peer<'r>>,
    /// Client that a trusted proxy names in the request, if any.
    pub origin: Option<IpAddr>,
    pub pool: &'r WorkerPool,
}

/// A request in flight on its connection. The connection belongs to it until it becomes idle or is closed; as an HTTP/2
/// stream, it is shared with others.
pub struct UpstreamConn<'r, L = Transport> {
    pub ticket: InFlight<'r>,
    pub transport: L,
}

/// A connection that was acquired.
pub struct Acquired {
    pub transport: Transport,
    /// Number of the request's bytes that were already written.
    pub sent: usize,
    /// Time that it took to open, nanoseconds; `None` if it was idle.
    pub connect_ns: Option<u64>,
}

impl Wanted<'_> {
    /// Returns a connection that has taken some of `bytes`: `idle` if given, else a new connection.
    ///
    /// # Errors
    /// The connection cannot be opened, or fails at the first write.
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

    /// Opens a connection, and returns it with the number of `bytes` that it has taken. Without bytes it is just
    /// opened.
    ///
    /// # Errors
    /// The connection cannot be opened, or fails at the first write.
    pub async fn connect(&self, endpoint: &Endpoint, bytes: &[u8]) -> io::Result<(Transport, usize)> {
        let addr = endpoint.addr.as_ref().ok_or_else(|| io::Error::other("its name does not resolve"))?;
        endpoint.stats.connects.add(1);
        let rules = self.pool.rules();
        let (announce, tls) = (rules.plan.proxy_protocol, &rules.compiled.tls);
        let source = self.peer.filter(|_| rules.plan.source == SpeakAs::Client).map(|peer| peer.ip);
        let speaks = announce.is_some() || !bytes.is_empty() || tls.is_some();
        let transport = carried(dial(addr, source, speaks)?, tls.is_some());
        if let Some(version) = announce {
            transport.write(&mut self.header(version), !bytes.is_empty() || tls.is_some()).await?;
        }
        if let (Some(settings), Some(stream)) = (tls, transport.as_tls()) {
            // Boxed, as most requests find an idle connection.
            let offers = self.pool.offers();
            let chose_h2 = Box::pin(secure(settings, stream, endpoint.proves(), offers)).await?;
            if chose_h2 {
                // This request is in HTTP/1 format and needs a separate connection; later requests use the shared
                // connection.
                self.pool.chose_h2.set(true);
                endpoint.sessions.adopt(transport, &rules.plan);
                return Box::pin(self.connect(endpoint, bytes)).await;
            }
        }
        let sent = transport.write_some(bytes).await?;
        // The request was sent: a failure here must not count as unreachable, or it would be sent to another endpoint,
        // too. The next read meets the same error and classifies it.
        let _ = transport.watch();
        Ok((transport, sent))
    }

    /// Returns the PROXY protocol header that names the client to the endpoint. Behind a trusted proxy only the
    /// client's address is known, so its port is 0.
    fn header(&self, version: ProxyVersion) -> Buf {
        let mut header = self.core.scratch();
        let Some(peer) = self.peer else {
            proxy_protocol::write_local(version, &mut header);
            let buf = Buf::holding(&header);
            self.core.give_back(header);
            return buf;
        };
        let mut addresses = peer.addresses();
        if let (Some(ip), Some(addresses)) = (self.origin, &mut addresses) {
            addresses.source = SocketAddr::new(ip, 0);
        }
        proxy_protocol::write(version, addresses, &mut header);
        let buf = Buf::holding(&header);
        self.core.give_back(header);
        buf
    }
}

/// Consequence of a failed connect, for the log and the client.
pub struct Unreachable {
    /// Side that is at fault: this proxy if it lacks resources.
    pub cause: Cause,
    /// Status for the client: 502, 503 or 504.
    pub status: u16,
    /// Reason, for the log and the client.
    pub why: String,
}

/// Ends the ticket of a request after a failed connect. `error` is `None` after a timeout.
#[cold]
pub fn unreachable(ticket: InFlight<'_>, error: Option<io::Error>) -> Unreachable {
    let (pool, endpoint) = (ticket.pool, ticket.endpoint.clone());
    let why = error.as_ref().map_or("no connection in time".to_string(), io::Error::to_string);
    let (cause, status) = match error {
        // This process lacks descriptors, memory or ports: the endpoint must not be ejected for that.
        Some(error) if is_ours(&error) || error.kind() == io::ErrorKind::ResourceBusy => {
            ticket.end(Outcome::Cancelled);
            (Cause::Proxy, 503)
        }
        // The endpoint works but does not support the request (a tunnel over HTTP/2).
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

/// True if this process or machine has run out of descriptors, memory or local ports.
fn is_ours(error: &io::Error) -> bool {
    let lack = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| lack.contains(&errno))
}
