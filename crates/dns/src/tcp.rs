//! DNS over TCP: length-prefixed messages, answered in order, any number per connection (RFC 7766).

use crate::binding::{Binding, Open};
use evenkeel_net::accept_pause;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop::{Source, Task, budget, spawn, spawn_essential};
use evenkeel_net::listen::{self, BACKLOG, ListenFd, Protocol};
use evenkeel_net::stream::Stream;
use evenkeel_net::transport::Transport;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

/// Longest wait for a client to close after its connection was shut down.
const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes of answers that are sent together.
const ANSWERS_MAX: usize = 64 << 10;

/// Units of a turn's budget drawn by an accepted connection.
const ACCEPTED: u32 = 3;

/// A listening socket of a worker, with the task that accepts.
pub struct Accepting {
    binding: Rc<Binding>,
    socket: ListenFd,
    task: Task,
}

/// Starts accepting.
///
/// # Errors
/// If the event loop cannot watch the socket.
pub fn start(binding: &Rc<Binding>, socket: ListenFd) -> io::Result<Accepting> {
    let watched = Source::new(socket.clone())?;
    let task = spawn_essential(run(binding.clone(), watched));
    Ok(Accepting { binding: binding.clone(), socket, task })
}

impl Accepting {
    /// Stops accepting, after the connections that already wait: closing the socket would reset them, and
    /// only this worker polls it.
    pub fn close(&self) {
        self.task.abort();
        // At most the size of the backlog, because new connections may arrive faster than these are accepted.
        (0..=BACKLOG).take_while(|_| accept(&self.binding, &self.socket).is_ok()).for_each(drop);
    }
}

async fn run(binding: Rc<Binding>, socket: Source<ListenFd>) {
    loop {
        socket.readable().await;
        match accept(&binding, &socket) {
            Ok(()) => {}
            Err(Errno::AGAIN) => socket.note_empty(),
            Err(error) => accept_pause::pause(error).await,
        }
    }
}

/// Accepts a connection, and serves it if the limit permits.
fn accept(binding: &Rc<Binding>, socket: &ListenFd) -> Result<(), Errno> {
    if let Some((fd, client)) = listen::accept(socket)? {
        budget::charge(ACCEPTED);
        match binding.connect() {
            Some(open) => _ = spawn(serve(open, fd, client)),
            None => binding.answerer().borrow().stats().refused_connections.add(1),
        }
    }
    Ok(())
}

async fn serve(open: Open, fd: OwnedFd, client: SocketAddr) {
    let (transport, timer) = (Transport::from(Stream::new(fd)), open.core.wheel.timer());
    // On an error the client already knows that the connection has ended.
    if converse(&open, &transport, &timer, client).await.is_ok() {
        hang_up(&transport, &timer).await;
    }
}

/// Closes a connection in such a way that the client gets all answers. Closing while a query is in transit
/// would reset it, and could discard unread answers.
async fn hang_up(transport: &Transport, timer: &Timer) {
    transport.shutdown_write();
    let until_gone = pin!(async { while transport.read_some().await.is_ok_and(|buf| !buf.is_empty()) {} });
    // A client that does not close in time is cut off.
    let _ = timer.limit_by(timer.tick_after(FAREWELL), until_gone).await;
}

/// Answers the queries of a connection until its client closes, is idle for too long or malformed, or its
/// address is closed.
async fn converse(binding: &Binding, transport: &Transport, timer: &Timer, client: SocketAddr) -> io::Result<()> {
    binding.answerer().borrow().stats().connections.add(1);
    let (mut input, mut output, mut answer) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        // Counted from the last complete query, so that trickled bytes do not hold a connection.
        timer.set(timer.tick_after(binding.idle()));
        while whole(&input).is_none() {
            match timer.limit(pin!(read(binding, transport))).await {
                Ok(Ok(buf)) if !buf.is_empty() => input.extend_from_slice(buf.filled()),
                Ok(Ok(_)) | Err(_) => return Ok(()),
                Ok(Err(error)) => return Err(error),
            }
        }
        let mut done = 0;
        // Budget is drawn per message, because a read may contain a thousand.
        while let Some(message) = whole(&input[done..]).filter(|_| output.len() < ANSWERS_MAX) {
            done += 2 + message.len();
            if !respond(binding, message, client, &mut answer) {
                // The client speaks another protocol.
                return Ok(());
            }
            output.extend_from_slice(&(answer.len() as u16).to_be_bytes());
            output.extend_from_slice(&answer);
            budget::proceed().await;
        }
        input.drain(..done);
        let written = timer.limit_by(timer.tick_after(binding.idle()), pin!(write(transport, &output))).await;
        written.map_err(|_| io::ErrorKind::TimedOut)??;
        output.clear();
    }
}

/// Writes the answer to a message into `answer`. False if there is none.
fn respond(binding: &Binding, message: &[u8], client: SocketAddr, answer: &mut Vec<u8>) -> bool {
    let answerer = binding.answerer();
    let mut answerer = answerer.borrow_mut();
    answerer.stats().over_tcp.add(1);
    answerer.answer(message, client, Protocol::Tcp, binding.moment(), answer)
}

/// Reads more bytes; empty at the end, and once the address is closed. Bytes that have arrived come first.
async fn read(binding: &Binding, transport: &Transport) -> io::Result<Buf> {
    poll_fn(|cx| {
        if binding.is_closed() {
            return Poll::Ready(transport.read_ready(Buf::take).unwrap_or(Ok((0, Buf::none()))).map(|(_, buf)| buf));
        }
        transport.poll_read_into(cx, Buf::take).map_ok(|(_, buf)| buf)
    })
    .await
}

async fn write(transport: &Transport, mut bytes: &[u8]) -> io::Result<()> {
    poll_fn(|cx| {
        while !bytes.is_empty() {
            bytes = &bytes[ready!(transport.poll_write(cx, bytes))?..];
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// First message of the input, if it is complete.
fn whole(input: &[u8]) -> Option<&[u8]> {
    let (length, rest) = input.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
