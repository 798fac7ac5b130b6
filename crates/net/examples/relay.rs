//! Minimal HTTP/1 relay for comparing the cost of this event loop with tokio's. Reads a head from the client,
//! writes it to a kept-alive connection of the endpoint, reads the response and writes it back, with the same
//! steps on either loop. `relay ours|tokio LISTEN ENDPOINT`, on a single thread.
//!
//! Assumes that heads and responses arrive in one read, and checks nothing: for measurements only
//! (docs/measurements/2026-11-23-event-loop.md).

use evenkeel_net::buffer::Buf;
use evenkeel_net::dial::{Remote, dial};
use evenkeel_net::event_loop::{self, Source};
use evenkeel_net::stream::Stream;
use rustix::net::SocketFlags;
use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = || io::Error::other("usage: relay ours|tokio LISTEN ENDPOINT");
    let [on, listen, endpoint] = args.as_slice() else { return Err(usage()) };
    let endpoint: SocketAddr = endpoint.parse().map_err(io::Error::other)?;
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    match on.as_str() {
        "ours" => event_loop::run(ours(listener, endpoint))?,
        "tokio" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            tokio::task::LocalSet::new().block_on(&runtime, theirs(listener, endpoint))
        }
        _ => Err(usage()),
    }
}

/// True if the client asks to close its connection, as ab does.
fn is_last(head: &[u8]) -> bool {
    head.windows(8).any(|bytes| bytes == b"HTTP/1.0") || head.windows(17).any(|bytes| bytes == b"Connection: close")
}

async fn ours(listener: TcpListener, endpoint: SocketAddr) -> io::Result<()> {
    let (listener, idle) = (Source::new(listener)?, Rc::new(RefCell::new(Vec::<Stream>::new())));
    loop {
        listener.readable().await;
        match rustix::net::accept_with(&*listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Err(_) => listener.note_empty(),
            Ok(fd) => {
                let idle = idle.clone();
                event_loop::spawn(async move { drop(relay_ours(Stream::new(fd), endpoint, &idle).await) });
            }
        }
    }
}

async fn relay_ours(client: Stream, endpoint: SocketAddr, idle: &RefCell<Vec<Stream>>) -> io::Result<()> {
    client.send_at_once();
    loop {
        let mut buf = std::future::poll_fn(|cx| client.poll_read_into(cx, Buf::take)).await?.1;
        if buf.is_empty() {
            return Ok(());
        }
        let last = is_last(buf.filled());
        let kept = idle.borrow_mut().pop();
        let upstream = kept.map_or_else(|| dial(&Remote::Ip(endpoint), None, true), Ok)?;
        upstream.send_at_once();
        upstream.write_all(&mut buf).await?;
        if upstream.read(&mut buf).await? == 0 {
            return Ok(());
        }
        idle.borrow_mut().push(upstream);
        client.write_all(&mut buf).await?;
        if last {
            return Ok(());
        }
    }
}

type Kept = (tokio::net::TcpStream, Vec<u8>);

async fn theirs(listener: TcpListener, endpoint: SocketAddr) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (idle, free) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    loop {
        let (client, _) = listener.accept().await?;
        let (idle, free) = (idle.clone(), free.clone());
        tokio::task::spawn_local(async move {
            // Buffers are reused, as on our own loop.
            let buf = free.borrow_mut().pop().unwrap_or_else(|| vec![0; 32 * 1024]);
            let mut kept = (client, buf);
            let _ = relay_theirs(&mut kept, endpoint, &idle).await;
            free.borrow_mut().push(kept.1);
        });
    }
}

async fn relay_theirs(
    (client, buf): &mut Kept,
    endpoint: SocketAddr,
    idle: &RefCell<Vec<tokio::net::TcpStream>>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    loop {
        let n = client.read(buf).await?;
        if n == 0 {
            return Ok(());
        }
        let last = is_last(&buf[..n]);
        let kept = idle.borrow_mut().pop();
        let mut upstream = match kept {
            Some(upstream) => upstream,
            None => {
                let upstream = tokio::net::TcpStream::connect(endpoint).await?;
                upstream.set_nodelay(true)?;
                upstream
            }
        };
        upstream.write_all(&buf[..n]).await?;
        let n = upstream.read(buf).await?;
        if n == 0 {
            return Ok(());
        }
        idle.borrow_mut().push(upstream);
        client.write_all(&buf[..n]).await?;
        if last {
            return Ok(());
        }
    }
}
