//! State shared by the requests of a client connection: their worker, listener and peer.

use super::rules::Listener;
use crate::core::linger::{Patience, linger};
use crate::core::{Command, Core};
use crate::peer::Peer;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::transport::Transport;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

/// A client connection, whatever it speaks. Its socket is not seen here.
pub struct Client<'c> {
    /// Thread state of its worker.
    pub core: &'c Core,
    /// Listener that accepted it.
    pub listener: &'c Listener,
    /// Address and identity of the peer.
    pub peer: Peer<'c>,
}

impl<'c> Client<'c> {
    /// A client that has connected from `addr`.
    pub fn new(core: &'c Core, listener: &'c Listener, transport: &'c Transport, addr: SocketAddr) -> Client<'c> {
        let peer = Peer::new(addr, |ip| listener.peek().compiled.admission.is_trusted(ip), transport);
        Client { core, listener, peer }
    }

    /// Reads more behind the bytes that came before: how many, 0 at the end, and all of them. `None` when there is no point in
    /// waiting: this side ends, and nothing has come. What has was sent before the client could know.
    pub async fn read_after(&self, transport: &Transport, partial: &[u8]) -> Option<(usize, Buf)> {
        poll_fn(|cx| {
            let over = self.core.command.get() == Command::Drain || self.listener.gone.get();
            let room = || Buf::holding(partial);
            if partial.is_empty() && over {
                return Poll::Ready(transport.read_ready(room).and_then(Result::ok));
            }
            transport.poll_read_into(cx, room).map(Result::ok)
        })
        .await
    }

    /// Ends its connection so that the last response arrives; see [`linger`].
    pub async fn linger(&self, transport: &Transport, timer: &Timer, patience: Patience) {
        linger(transport, timer, patience, self.core, &self.listener.stats, &self.listener.gone).await;
    }

    /// True if the connection ends after the current request, if any.
    pub fn is_ending(&self) -> bool {
        self.core.command.get() != Command::Run || self.listener.gone.get()
    }
}
