//! How do messages come and go by TCP? One after the other, each behind its length; as many as the client likes (RFC 7766).

use crate::answer::Transport;
use crate::worker::Place;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Clients that wait to be accepted.
const BACKLOG: i32 = 1024;
/// What a connection first has room for: some queries.
const ROOM: usize = 1024;
/// Answers that are sent together.
const ANSWERS_MAX: usize = 64 << 10;

/// A listening socket for one worker, beside those of the others.
///
/// # Errors
/// As socket(2), bind(2) and listen(2).
pub fn bind(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Accepts at a socket, until its place is closed.
pub async fn serve(place: Rc<Place>, socket: Socket) {
    let listener = match TcpListener::from_std(socket.into()) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a DNS worker cannot use its socket"),
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => match place.connect() {
                    Some(open) => _ = tokio::task::spawn_local(async move {
                        // However it ended, the client knows.
                        let _ = converse(&open, stream, client).await;
                    }),
                    None => place.answerer().borrow().stats().refused_connections.add(1),
                },
                // No descriptors left: with the next connection that ends there is one again.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            },
            () = place.closed() => return,
        }
    }
}

/// Answers one connection.
async fn converse(place: &Place, mut stream: TcpStream, client: SocketAddr) -> io::Result<()> {
    place.answerer().borrow().stats().connections.add(1);
    let (mut input, mut output, mut answer) = (Vec::with_capacity(ROOM), Vec::new(), Vec::new());
    loop {
        // Counted from the last whole query, so that nobody holds a connection by a byte now and then.
        let deadline = tokio::time::Instant::now() + place.idle();
        while whole(&input).is_none() {
            let read = async {
                tokio::select! {
                    read = stream.read_buf(&mut input) => read.map(|n| n > 0),
                    () = place.closed() => Ok(false),
                }
            };
            match tokio::time::timeout_at(deadline, read).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) | Err(_) => return Ok(()),
                Ok(Err(error)) => return Err(error),
            }
        }
        let mut done = 0;
        while let Some(message) = whole(&input[done..]).filter(|_| output.len() < ANSWERS_MAX) {
            done += 2 + message.len();
            let answerer = place.answerer();
            let mut answerer = answerer.borrow_mut();
            answerer.stats().over_tcp.add(1);
            if !answerer.answer(message, client, Transport::Tcp, place.moment(), &mut answer) {
                // It speaks something else.
                return Ok(());
            }
            output.extend_from_slice(&(answer.len() as u16).to_be_bytes());
            output.extend_from_slice(&answer);
        }
        input.drain(..done);
        tokio::time::timeout(place.idle(), stream.write_all(&output)).await??;
        output.clear();
    }
}

/// The first message, if it is there as a whole.
fn whole(input: &[u8]) -> Option<&[u8]> {
    let (length, rest) = input.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
