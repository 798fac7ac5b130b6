//! State shared by the requests of a client connection: their worker, listener and peer.

use super::rules::Listener;
use crate::core::linger::{Patience, linger};
use crate::core::{Command, Core};
use crate::peer::Peer;
use crate::peer::connection_states::ConnectionStates;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::transport::Transport;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::task::Poll;

/// A client connection, independent of its protocol. Does not own the transport.
pub struct Client<'c> {
    /// State of the worker that serves it.
    pub core: &'c Core,
    /// Listener that accepted it.
    pub listener: &'c Listener,
    /// Address and identity of the peer.
    pub peer: Peer<'c>,
}

impl<'c> Client<'c> {
    /// Creates the state of a client that connected from `addr`.
    pub fn new(
        core: &'c Core,
        listener: &'c Listener,
        transport: &'c Transport,
        addr: SocketAddr,
        states: &'c ConnectionStates,
    ) -> Client<'c> {
        let peer = Peer::new(addr, |ip| listener.peek().compiled.admission.is_trusted(ip), transport, states);
        Client { core, listener, peer }
    }

    /// Reads more bytes behind `partial`. Returns the number of new bytes, 0 at the end, and the buffer with all of
    /// them. `None` if the connection failed, or if this side is ending and nothing of a request has arrived; bytes
    /// that are already there are still read, as the client sent them before it could know.
    pub fn read_after(&self, transport: &Transport, partial: &[u8]) -> impl Future<Output = Option<(usize, Buf)>> {
        // Most connections wait here most of the time: an `async fn` would hold the arguments twice.
        poll_fn(move |cx| {
            let over = self.core.command.get() == Command::Drain || self.listener.gone.get();
            let room = || {
                let mut buf = Buf::holding(partial);
                if buf.spare().is_empty() {
                    // The limit of the head allows more than fits into a buffer.
                    buf.grow((2 * partial.len()).min(self.listener.limits().0.head));
                }
                buf
            };
            if partial.is_empty() && over {
                return Poll::Ready(transport.read_ready(room).and_then(Result::ok));
            }
            transport.poll_read_into(cx, room).map(Result::ok)
        })
    }

    /// Closes the connection so that the last response arrives; see [`linger`].
    pub async fn linger(&self, transport: &Transport, timer: &Timer, patience: Patience) {
        linger(transport, timer, patience, self.core, &self.listener.stats, &self.listener.gone).await;
    }

    /// True if the connection ends after the current request: the worker is stopping, or the listener left the plan.
    pub fn is_ending(&self) -> bool {
        self.core.command.get() != Command::Run || self.listener.gone.get()
    }
}
