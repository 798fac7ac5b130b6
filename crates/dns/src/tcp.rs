//! How do messages come and go by TCP? One after the other, each behind its length; as many as the client likes (RFC 7766).

use crate::answer::Transport;
use crate::worker::{ListenFd, Place};
use socket2::{SockAddr, SockRef, Socket};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Clients that wait to be accepted.
const BACKLOG: i32 = 1024;
/// What a connection first has room for: some queries.
const ROOM: usize = 1024;
/// How long a client may take to hear that its connection has ended.
const FAREWELL: Duration = Duration::from_secs(1);
/// Answers that are sent together.
const ANSWERS_MAX: usize = 64 << 10;

/// Makes of a bound socket one that a worker can accept at.
///
/// # Errors
/// As setsockopt(2) and listen(2).
pub fn ready(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.listen(BACKLOG)
}

/// Accepts at a socket until its place is left, and answers until the last connection has ended.
///
/// # Errors
/// The event loop cannot watch it.
pub async fn serve(place: Rc<Place>, socket: ListenFd) -> io::Result<()> {
    // SAFETY: the registration shares the ownership of the socket, so it stays open until both are gone.
    let listener = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
    let mut conversations = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.async_io(Interest::READABLE, |socket| SockRef::from(socket).accept()) => match accepted {
                Ok(accepted) => begin(&place, accepted, &mut conversations),
                // No descriptors left: with the next connection that ends there is one again.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = conversations.join_next() => {}
            () = place.left() => break,
        }
    }
    // Who waits there came to us: nobody else may look at this socket, and closing it would reset them.
    loop {
        match SockRef::from(listener.get_ref()).accept() {
            Ok(accepted) => begin(&place, accepted, &mut conversations),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => break,
        }
    }
    drop(listener);
    while conversations.join_next().await.is_some() {}
    Ok(())
}

/// Takes a connection, if there is room for one more.
fn begin(place: &Rc<Place>, (socket, client): (Socket, SockAddr), conversations: &mut JoinSet<()>) {
    let Some(open) = place.connect() else {
        return place.answerer().borrow().stats().refused_connections.add(1);
    };
    conversations.spawn_local(async move {
        let Some(client) = client.as_socket() else { return };
        let stream = socket.set_nonblocking(true).and_then(|()| TcpStream::from_std(socket.into()));
        let Ok(mut stream) = stream else { return };
        // However it ended, the client knows.
        if converse(&open, &mut stream, client).await.is_ok() {
            hang_up(stream).await;
        }
    });
}

/// Ends a connection so that the client has all answers: closed while a query is on its way, it would be reset, and might
/// lose answers that it has not read.
async fn hang_up(mut stream: TcpStream) {
    let until_gone = async {
        stream.shutdown().await?;
        while stream.read(&mut [0; 512]).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    // Gone is gone, and who does not go is cut off.
    let _ = tokio::time::timeout(FAREWELL, until_gone).await;
}

/// Answers one connection, until its client ends it, is idle for too long or wrong, or until its place is closed.
async fn converse(place: &Place, stream: &mut TcpStream, client: SocketAddr) -> io::Result<()> {
    place.answerer().borrow().stats().connections.add(1);
    let (mut input, mut output, mut answer) = (Vec::with_capacity(ROOM), Vec::new(), Vec::new());
    loop {
        // Counted from the last whole query, so that nobody holds a connection by a byte now and then.
        let deadline = tokio::time::Instant::now() + place.idle();
        while whole(&input).is_none() {
            let read = async {
                tokio::select! {
                    // What has come is answered first.
                    biased;
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
