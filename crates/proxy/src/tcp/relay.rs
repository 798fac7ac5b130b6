//! How do bytes pass between a client and an endpoint? Each way by itself: read, written, read again, until its sender says
//! that it is done, which is passed on; the other way goes on until its own end.
//!
//! A read takes the worker's shared buffer. One that fills it is the sign of a large transfer: then pages go through a pipe
//! and are not copied (`splice.rs`), until so little comes at a time that a copy is cheaper. A way that waits for its
//! sender holds neither, so that an idle session is small.

use super::record::Record;
use evenkeel_net::buffer::Buf;
use evenkeel_net::splice::{Pipe, SPLICE_MIN};
use evenkeel_net::transport::Transport;
use std::io;
use std::task::{Context, Poll, ready};

/// One side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Endpoint,
}

/// Both ways of a session.
pub struct Relay<'s> {
    client: &'s Transport,
    endpoint: &'s Transport,
    up: Way,
    down: Way,
    /// Whether the way down is polled first: by turns, as one that is always ready uses its turn up.
    down_first: bool,
}

/// One way.
struct Way {
    held: Held,
    /// Whether the last read brought so much that the next takes a pipe.
    bulk: bool,
    /// What follows what is held.
    next: Next,
    /// Whether its end was passed on, or it cannot go on.
    done: bool,
    /// Whether the receiving side has reset the connection.
    refused: bool,
}

/// How one way goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is to be read.
    Read,
    /// Nothing: its sender is done.
    End,
    /// A reset.
    Reset,
}

/// What was read and not written yet.
enum Held {
    Nothing,
    Bytes(Buf),
    Pages(Pipe),
}

/// Which end of a way failed.
enum Broken {
    From,
    To,
}

impl<'s> Relay<'s> {
    /// From an open connection to another. `early`: what the client has sent and the endpoint does not have yet.
    pub fn new(client: &'s Transport, endpoint: &'s Transport, early: Option<Buf>) -> Relay<'s> {
        let way = |held| Way { held, bulk: false, next: Next::Read, done: false, refused: false };
        let up = way(early.map_or(Held::Nothing, Held::Bytes));
        Relay { client, endpoint, up, down: way(Held::Nothing), down_first: true }
    }

    /// Moves what can be moved: ready when both ways have ended, or with the side that has reset its connection. `moved`
    /// is called after each read, with the side that it was from and the number of bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>, record: &Record<'_>, moved: impl Fn()) -> Poll<Result<(), Side>> {
        self.down_first = !self.down_first;
        let (up, down) = if self.down_first {
            let down = self.poll_down(cx, record, &moved);
            (self.poll_up(cx, record, &moved), down)
        } else {
            let up = self.poll_up(cx, record, &moved);
            (up, self.poll_down(cx, record, &moved))
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

    fn poll_up(&mut self, cx: &mut Context<'_>, record: &Record<'_>, moved: &impl Fn()) -> Poll<Result<(), Broken>> {
        self.up.poll(cx, self.client, self.endpoint, !self.down.done, |n| {
            // The first bytes went with the connection; from now on each may follow one that is under way.
            self.endpoint.send_at_once();
            record.count_in(n);
            moved();
        })
    }

    fn poll_down(&mut self, cx: &mut Context<'_>, record: &Record<'_>, moved: &impl Fn()) -> Poll<Result<(), Broken>> {
        self.down.poll(cx, self.endpoint, self.client, !self.up.done, |n| {
            record.count_out(n);
            moved();
        })
    }

    /// Who has to do something next: the endpoint if only it has something to take, otherwise the client.
    pub fn awaits(&self) -> Side {
        let waits = |way: &Way| !matches!(way.held, Held::Nothing);
        if waits(&self.up) && !waits(&self.down) { Side::Endpoint } else { Side::Client }
    }
}

impl Way {
    /// `back`: whether the other way is still open.
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
                // What was read of the other way may still arrive.
                Poll::Ready(Err(_)) => {
                    (self.done, self.refused, self.held) = (true, true, Held::Nothing);
                    return Poll::Ready(Err(Broken::To));
                }
                // Nothing reads this side meanwhile. (After this side has sent its own end, a reset and an end look the same.)
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
            // An end that came with the last bytes goes on with them, in one packet.
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

    /// Passes the end on.
    fn finish(&mut self, to: &Transport, back: bool) -> Result<(), Broken> {
        (self.done, self.held) = (true, Held::Nothing);
        // Both ends together are told by closing.
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
                ready!(pipe.poll_drain(cx, to))?;
            }
        }
        self.held = Held::Nothing;
        Poll::Ready(Ok(()))
    }
}
