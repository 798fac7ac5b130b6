//! What does the proxy know of one client connection?

use crate::address_text::AddressText;
use crate::buffer::Buf;
use crate::deadline::{Elapsed, Timer};
use crate::http1::{self, reject};
use crate::proxy_protocol::{self, Addresses};
use crate::rules::Listener;
use crate::stream::Stream;
use crate::worker::{Command, Worker};
use rustix::fd::OwnedFd;
use std::cell::OnceCell;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// How long a closing connection may still send what nobody reads, so that our last words are not lost in a reset
/// (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// Bytes that a closing connection may still send.
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// A client connection.
pub struct Client<'w> {
    /// Its worker.
    pub worker: &'w Worker,
    /// Its listener.
    pub listener: &'w Listener,
    /// Its socket.
    pub stream: Stream,
    /// Its one deadline, whatever it waits for.
    pub timer: Timer,
    /// Where it comes from, as its peer says if that speaks the PROXY protocol.
    pub ip: IpAddr,
    /// Whether that is a proxy that is believed about whom each request comes from.
    pub is_trusted: bool,
    /// Written when it is first asked for: sessions that nobody logs never do.
    text: OnceCell<AddressText>,
    announced: Option<Box<Announced>>,
}

/// What a PROXY protocol header said, and who sent it.
struct Announced {
    peer: IpAddr,
    addresses: Addresses,
}

/// A connection that did not begin as it had to.
pub struct Unannounced;

/// What came next from a client.
pub enum Next {
    /// A head at the front of the buffer: a whole one, or as much as it takes to refuse it.
    Head(Buf),
    /// Nothing: it closed, or was idle for too long, or its worker or listener ends.
    End,
    /// Part of a head, and then no more in time.
    Late,
}

impl<'w> Client<'w> {
    /// Takes over an accepted socket.
    pub fn new(worker: &'w Worker, listener: &'w Listener, fd: OwnedFd, peer: SocketAddr) -> Client<'w> {
        // A dual-stack listener sees IPv4 clients as mapped addresses; nobody wants to read those.
        let ip = peer.ip().to_canonical();
        let is_trusted = listener.peek().edge.is_trusted(ip);
        let (stream, timer) = (Stream::new(fd), worker.wheel.timer());
        Client { worker, listener, stream, timer, ip, is_trusted, text: OnceCell::new(), announced: None }
    }

    /// Its address as text.
    #[inline]
    pub fn ip_text(&self) -> &[u8] {
        self.text.get_or_init(|| AddressText::of(self.ip)).as_bytes()
    }

    /// Who connected, if that speaks for the client.
    pub fn peer(&self) -> Option<IpAddr> {
        self.announced.as_ref().map(|announced| announced.peer)
    }

    /// Both ends of the client's connection, as far as they are known.
    pub fn addresses(&self) -> Option<Addresses> {
        self.announced.as_ref().map(|announced| announced.addresses).or_else(|| self.stream.addresses())
    }

    /// Reads the PROXY protocol header that must come first; returns what came behind it.
    ///
    /// # Errors
    /// It did not come, or was malformed.
    pub async fn announced(&mut self) -> Result<Option<Buf>, Unannounced> {
        let mut partial: Vec<u8> = Vec::new();
        self.timer.set(self.timer.tick_after(self.listener.limits().1.client_header));
        loop {
            let read = self.timer.limit(pin!(self.read_after(&partial))).await;
            let Ok(Some((n, mut buf))) = read else { return Err(Unannounced) };
            let Ok(header) = proxy_protocol::read(buf.filled()) else { return Err(Unannounced) };
            let Some(header) = header else {
                if n == 0 {
                    return Err(Unannounced);
                }
                partial.clear();
                partial.extend_from_slice(buf.filled());
                continue;
            };
            buf.consume(header.len);
            if let Some(addresses) = header.addresses {
                let peer = std::mem::replace(&mut self.ip, addresses.source.ip().to_canonical());
                self.text = OnceCell::new();
                self.is_trusted = self.listener.peek().edge.is_trusted(self.ip);
                self.announced = Some(Box::new(Announced { peer, addresses }));
            }
            return Ok((!buf.is_empty()).then_some(buf));
        }
    }

    /// Whether it is to end after the request that runs, if one does.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.worker.command.get() != Command::Run || self.listener.gone.get()
    }

    /// Waits for the next request's head. Takes `held`, which came with the request before.
    pub async fn next_head(&self, held: &mut Option<Buf>, first: bool) -> Next {
        let mut partial: Vec<u8> = Vec::new();
        if let Some(held) = held.take() {
            if self.has_head(&held) {
                return Next::Head(held);
            }
            partial = held.filled().to_vec();
        }
        let timeouts = self.listener.limits().1;
        let wait = if first || !partial.is_empty() { timeouts.client_header } else { timeouts.client_idle };
        let mut due = self.timer.tick_after(wait);
        loop {
            let (n, buf) = match self.timer.limit_by(due, pin!(self.read_after(&partial))).await {
                Ok(Some(read)) => read,
                Ok(None) => return Next::End,
                // Who never said a word is not waiting for one.
                Err(Elapsed) if partial.is_empty() => return Next::End,
                Err(Elapsed) => return Next::Late,
            };
            if n == 0 {
                return Next::End;
            }
            if self.has_head(&buf) {
                return Next::Head(buf);
            }
            if partial.is_empty() && !first {
                due = self.timer.tick_after(self.listener.limits().1.client_header);
            }
            // A connection that waits keeps just its bytes, not the buffer.
            partial.clear();
            partial.extend_from_slice(buf.filled());
        }
    }

    #[inline]
    fn has_head(&self, buf: &Buf) -> bool {
        http1::has_head(buf.filled(), &self.listener.limits().0)
    }

    /// Reads more behind the bytes that came before. `None` when there is no point in waiting.
    async fn read_after(&self, partial: &[u8]) -> Option<(usize, Buf)> {
        poll_fn(|cx| {
            let over = self.worker.command.get() == Command::Drain || self.listener.gone.get();
            if partial.is_empty() && over {
                return Poll::Ready(None);
            }
            let room = || {
                let mut buf = Buf::take();
                buf.extend(partial);
                buf
            };
            self.stream.poll_read_into(cx, room).map(Result::ok)
        })
        .await
    }

    /// Sends a response of the proxy's own that says why; how many bytes of it went through.
    pub async fn reply(
        &self,
        status: u16,
        why: &dyn std::fmt::Display,
        close: bool,
        head_only: bool,
        fields: &str,
    ) -> u64 {
        self.say(&reject::reply(status, why, close, head_only, fields)).await
    }

    /// Sends a whole response of the proxy's own; how many bytes of it went through.
    pub async fn say(&self, reply: &[u8]) -> u64 {
        let mut buf = Buf::take();
        if !buf.extend(reply) {
            return 0;
        }
        self.timer.set(self.timer.tick_after(LINGER));
        match self.timer.limit(pin!(self.stream.write_all(&mut buf))).await {
            Ok(Ok(())) => reply.len() as u64,
            _ => 0,
        }
    }

    /// Closes so that what was sent arrives: reads on for a while, as closing with unread bytes would reset.
    pub async fn linger(&self) {
        self.stream.shutdown_write();
        self.timer.set(self.timer.tick_after(LINGER));
        let discard = async {
            let mut left = LINGER_BYTES_MAX;
            loop {
                let mut buf = Buf::take();
                match self.stream.read(&mut buf).await {
                    Ok(n) if n > 0 && n < left => left -= n,
                    _ => return,
                }
            }
        };
        let _ = self.timer.limit(pin!(discard)).await;
    }
}
