//! Relay of bytes between a client and an endpoint that are not interpreted: sessions, and tunnels after a switch of
//! protocols. Each direction is relayed until its sender ends it; the end is passed on, and the other direction
//! continues until its own.
//!
//! A read uses the worker's shared buffer. A read that fills it is the sign of a large transfer: then pages are moved
//! through a pipe without copies (`splice.rs`), until so little comes at a time that a copy is cheaper. A direction
//! that waits for its sender holds neither buffer nor pipe, so that idle sessions are small.

use evenkeel_net::buffer::Buf;
use evenkeel_net::splice::{Pipe, SPLICE_MIN};
use evenkeel_net::transport::Transport;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Side of a session or tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Endpoint,
}

/// Both directions between two connections.
pub struct Duplex<'s> {
    client: &'s Transport,
    endpoint: &'s Transport,
    up: Way,
    down: Way,
    /// True if `down` is polled first. They alternate, as a direction that is always ready uses up the task's turn.
    down_first: bool,
}

/// A direction, from a sender to a receiver.
struct Way {
    held: Held,
    /// True if the last read filled its buffer or pipe, so that the next read uses a pipe.
    bulk: bool,
    /// The step after the held bytes are written.
    next: Next,
    /// True if the end was passed on, or the direction has failed.
    done: bool,
    /// True if a write has failed: the receiver has reset its connection.
    refused: bool,
}

/// The next step of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Read more from the sender.
    Read,
    /// Pass the end on, as the sender has finished.
    End,
    /// Fail, as the sender has reset its connection.
    Reset,
}

/// Bytes that were read and not written yet.
enum Held {
    Nothing,
    Bytes(Buf),
    Pages(Pipe),
}

/// End at which a direction failed.
enum Broken {
    From,
    To,
}

impl<'s> Duplex<'s> {
    /// Relays between two open connections. `early` are bytes of the client that the endpoint does not have yet.
    pub fn new(client: &'s Transport, endpoint: &'s Transport, early: Option<Buf>) -> Duplex<'s> {
        Duplex::of(client, endpoint, Way::holding(early), Way::holding(None))
    }

    /// Relays after a switch of protocols. `answer` are bytes of the endpoint that the client does not have yet.
    pub fn switched(client: &'s Transport, endpoint: &'s Transport, answer: Buf) -> Duplex<'s> {
        Duplex::of(client, endpoint, Way::holding(None), Way::holding(Some(answer)))
    }

    fn of(client: &'s Transport, endpoint: &'s Transport, up: Way, down: Way) -> Duplex<'s> {
        Duplex { client, endpoint, up, down, down_first: true }
    }

    /// Sends `early` to the endpoint before anything that is read from the client.
    pub fn hold_early(&mut self, early: Buf) {
        self.up.held = Held::Bytes(early);
    }

    /// Relays in both directions. Ready when both have ended, or with the side that has reset its connection. `moved`
    /// is called after each read with the side that was read and the number of bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>, moved: impl Fn(Side, usize)) -> Poll<Result<(), Side>> {
        self.down_first = !self.down_first;
        let (up, down) = if self.down_first {
            let down = self.poll_endpoint(cx, &moved);
            (self.poll_client(cx, &moved), down)
        } else {
            let up = self.poll_client(cx, &moved);
            (up, self.poll_endpoint(cx, &moved))
        };
        match (up, down) {
            (Poll::Ready(Err(Broken::From)), _) => Poll::Ready(Err(Side::Client)),
            (_, Poll::Ready(Err(Broken::From))) => Poll::Ready(Err(Side::Endpoint)),
            (Poll::Ready(_), Poll::Ready(_)) => Poll::Ready(match (self.up.refused, self.down.refused) {
                (true, _) => Err(Side::Endpoint),
                (_, true) => Err(Side::Client),
                _ => Ok(()),
            }),
            _ => Poll::Pending,
        }
    }

    fn poll_client(&mut self, cx: &mut Context<'_>, moved: &impl Fn(Side, usize)) -> Poll<Result<(), Broken>> {
        self.up.poll(cx, self.client, self.endpoint, !self.down.done, |n| {
            // The first bytes went with the connect. Later bytes must not wait for their ACK (Nagle's algorithm).
            self.endpoint.send_at_once();
            moved(Side::Client, n);
        })
    }

    fn poll_endpoint(&mut self, cx: &mut Context<'_>, moved: &impl Fn(Side, usize)) -> Poll<Result<(), Broken>> {
        self.down.poll(cx, self.endpoint, self.client, !self.up.done, |n| moved(Side::Endpoint, n))
    }

    /// Relays only the endpoint's bytes; ready when the endpoint has ended.
    ///
    /// # Errors
    /// The side that has reset its connection.
    pub fn poll_down(&mut self, cx: &mut Context<'_>, moved: impl Fn(Side, usize)) -> Poll<Result<(), Side>> {
        let down = self.down.poll(cx, self.endpoint, self.client, true, |n| moved(Side::Endpoint, n));
        down.map_err(|broken| match broken {
            Broken::From => Side::Endpoint,
            Broken::To => Side::Client,
        })
    }

    /// True if exactly one direction has ended.
    pub fn is_half_closed(&self) -> bool {
        self.up.done != self.down.done
    }

    /// The side that has to act next: the side that does not take the bytes held for it, or else the side with the
    /// open half. The client, if both halves are open.
    pub fn awaits(&self) -> Side {
        let waits = |way: &Way| !matches!(way.held, Held::Nothing);
        match (waits(&self.up), waits(&self.down)) {
            (true, false) => Side::Endpoint,
            (false, false) if self.up.done => Side::Endpoint,
            _ => Side::Client,
        }
    }

    /// True while both halves are open and every byte that was read has been passed on.
    pub fn is_silent(&self) -> bool {
        [&self.up, &self.down].into_iter().all(|way| !way.done && matches!(way.held, Held::Nothing))
    }

    /// Enables TCP keepalive on both connections, with probes after this much silence.
    pub fn keep_alive(&self, after: Duration) {
        self.client.keep_alive(after);
        self.endpoint.keep_alive(after);
    }
}

impl Way {
    fn holding(bytes: Option<Buf>) -> Way {
        let held = bytes.map_or(Held::Nothing, Held::Bytes);
        Way { held, bulk: false, next: Next::Read, done: false, refused: false }
    }

    /// Moves bytes until something would block. `back`: the opposite direction is still open. `came` is called after
    /// each read.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &Transport,
        to: &Transport,
        back: bool,
        came: impl Fn(usize),
    ) -> Poll<Result<(), Broken>> {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        loop {
            match self.poll_write(cx, to) {
                Poll::Ready(Ok(())) => {}
                // Bytes of the opposite direction may still arrive at the client, so that direction continues.
                Poll::Ready(Err(_)) => {
                    (self.done, self.refused, self.held) = (true, true, Held::Nothing);
                    return Poll::Ready(Err(Broken::To));
                }
                // Nothing reads `from` meanwhile, so a reset is noticed only here. (Once this side has shut down, an
                // end looks like a reset.)
                Poll::Pending if back && from.poll_reset(cx).is_ready() => return Poll::Ready(Err(Broken::From)),
                Poll::Pending => return Poll::Pending,
            }
            match self.next {
                Next::Read => {}
                Next::End => return Poll::Ready(self.finish(to, back)),
                Next::Reset => return Poll::Ready(Err(Broken::From)),
            }
            match ready!(self.poll_read(cx, from, to)) {
                Ok(0) => return Poll::Ready(self.finish(to, back)),
                Ok(n) => came(n),
                Err(_) => return Poll::Ready(Err(Broken::From)),
            }
            // An end that came with the last bytes is passed on in the same packet.
            if let Held::Bytes(buf) = &mut self.held
                && !self.bulk
                && from.is_read_closed()
            {
                if from.is_at_end() {
                    self.next = Next::End;
                    continue;
                }
                match from.poll_read(cx, buf) {
                    Poll::Ready(Ok(0)) => self.next = Next::End,
                    Poll::Ready(Ok(n)) => came(n),
                    Poll::Ready(Err(_)) => self.next = Next::Reset,
                    Poll::Pending => {}
                }
            }
        }
    }

    /// Passes the sender's end on to the receiver.
    fn finish(&mut self, to: &Transport, back: bool) -> Result<(), Broken> {
        (self.done, self.held) = (true, Held::Nothing);
        // If the other direction has ended, closing the connection does that.
        if back {
            to.shutdown_write();
        }
        Ok(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, from: &Transport, to: &Transport) -> Poll<io::Result<usize>> {
        if self.bulk
            && let (Some(from), Some(_)) = (from.as_plain(), to.as_plain())
            && let Some(mut pipe) = Pipe::take()
        {
            let n = ready!(pipe.poll_fill(cx, from, u64::MAX))?;
            self.bulk = n as u64 >= SPLICE_MIN;
            self.held = Held::Pages(pipe);
            return Poll::Ready(Ok(n));
        }
        let (n, mut buf) = ready!(from.poll_read_into(cx, Buf::take))?;
        self.bulk = buf.spare().is_empty();
        self.held = Held::Bytes(buf);
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, to: &Transport) -> Poll<io::Result<()>> {
        match &mut self.held {
            Held::Nothing => return Poll::Ready(Ok(())),
            Held::Bytes(buf) => {
                while !buf.is_empty() {
                    let n = ready!(to.poll_write_before(cx, buf.filled(), self.next == Next::End))?;
                    buf.consume(n);
                }
                ready!(to.poll_flush(cx))?;
            }
            Held::Pages(pipe) => {
                let to = to.as_plain().expect("pages are read only for a plain socket");
                while ready!(pipe.poll_drain(cx, to))? > 0 {}
            }
        }
        self.held = Held::Nothing;
        Poll::Ready(Ok(()))
    }
}
