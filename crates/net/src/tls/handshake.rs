//! TLS handshakes. rustls makes the decisions; this reads single records, so that none after the
//! handshake is consumed, and sends the output of rustls. The result is a [`Session`].

use super::error::{Cause, HandshakeError};
use super::info::Info;
use super::record::{self, BODY_MAX};
use super::session::Session;
use crate::buffer::Buf;
use crate::stream::Stream;
use evenkeel_wire::tls_hello;
use rustix::net::SendFlags;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, Error, ServerConfig};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::ready;

/// Content type of handshake records.
const HANDSHAKE: u8 = 22;

/// Result of a completed handshake.
pub(super) struct Done {
    pub(super) session: Session,
    pub(super) info: Info,
    /// Bytes received after the handshake.
    pub(super) held: Buf,
}

/// Result of passing records to rustls.
struct Look {
    /// Bytes at their front that were consumed.
    used: usize,
    /// True once the handshake is complete.
    done: Result<bool, Error>,
}

/// Appends the output of rustls to `$out`.
macro_rules! encode {
    ($data:expr, $out:expr) => {{
        let at = $out.len();
        if let Err(EncodeError::InsufficientSize(size)) = $data.encode(&mut []) {
            $out.resize(at + size.required_size, 0);
        }
        let written = $data.encode(&mut $out[at..]).unwrap_or(0);
        $out.truncate(at + written);
    }};
}

/// Passes `records` to rustls, and appends its output to `$out`.
macro_rules! look {
    ($connection:expr, $records:expr, $out:expr) => {{
        let records: &mut [u8] = $records;
        let mut used = 0;
        let done = loop {
            let UnbufferedStatus { discard, state, .. } = $connection.process_tls_records(&mut records[used..]);
            let done = match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode!(data, $out);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(sent)) => {
                    sent.done();
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(Ok(false)),
                Ok(ConnectionState::WriteTraffic(_)) => Some(Ok(true)),
                // Records are passed singly, and none after the end of the handshake.
                Ok(_) => Some(Err(Error::HandshakeNotComplete)),
                Err(error) => Some(Err(error)),
            };
            used += discard;
            if let Some(done) = done {
                break done;
            }
        };
        if done.is_err() {
            // An alert for the peer may be pending. rustls remembers positions in the records, so it must see
            // the same records again.
            while $connection.wants_write() {
                let UnbufferedStatus { discard, state, .. } = $connection.process_tls_records(&mut records[used..]);
                let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { break };
                encode!(data, $out);
                used += discard;
            }
        }
        Look { used, done }
    }};
}

/// Runs the handshake of `$connection`. Evaluates to the bytes received after it, and the output still to be
/// sent.
macro_rules! shake {
    ($socket:expr, $connection:expr, $held:expr, $check:expr) => {{
        let (socket, connection): (&Stream, _) = ($socket, &mut $connection);
        let mut held: Buf = $held;
        let mut out: Vec<u8> = Vec::new();
        // Bytes at the front of `held` that rustls has seen. A message may span several records.
        let mut seen = 0;
        // The client sends the first message.
        let mut due = held.is_empty() && look_first!(connection, out);
        loop {
            let next = record::end(&held.filled()[seen..]);
            let whole = match next {
                // Passed on all the same, so that rustls produces the alert.
                Some(len) if len > record::HEADER + BODY_MAX => Some(held.len()),
                Some(len) if seen + len <= held.len() => Some(seen + len),
                _ => None,
            };
            let Some(end) = whole.filter(|_| !due) else {
                due = false;
                let said = !out.is_empty();
                send(socket, &mut out).await?;
                if said {
                    // The answer cannot be there yet.
                    let _ = socket.watch();
                }
                if !held.is_empty() && held.len() >= HELD_MAX {
                    return Err(HandshakeError::new(Cause::TooLarge));
                }
                held = read(socket, held).await?;
                $check(&held)?;
                continue;
            };
            let Look { used, done } = look!(connection, &mut held.filled_mut()[..end], out);
            held.consume(used);
            seen = end - used.min(end);
            match done {
                Ok(true) if seen == 0 && !connection.is_handshaking() => break (held, out),
                Ok(_) if next.is_some_and(|len| len > record::HEADER + BODY_MAX) => {
                    return Err(HandshakeError::new(Cause::TooLarge));
                }
                Ok(_) => {}
                Err(error) => {
                    // Sent only if possible at once: there is nothing more to wait for.
                    socket.send_now(&out);
                    return Err(HandshakeError::of_tls(error));
                }
            }
        }
    }};
}

/// Produces the first message of a client.
macro_rules! look_first {
    ($connection:expr, $out:expr) => {{
        let Look { done, .. } = look!($connection, &mut [], $out);
        done.map_err(HandshakeError::of_tls)?;
        !$out.is_empty()
    }};
}

/// Most bytes of an incomplete message: the capacity of a buffer.
const HELD_MAX: usize = crate::buffer::CAPACITY;

/// Runs a handshake as a server. `early` holds bytes that were read already; `begins` is called when the
/// ClientHello is complete, before rustls gets all of it, and may refuse it.
pub(super) async fn accept(
    socket: &Stream,
    config: Arc<ServerConfig>,
    early: Option<Buf>,
    begins: impl FnOnce() -> Result<(), HandshakeError>,
) -> Result<Done, HandshakeError> {
    let mut connection = UnbufferedServerConnection::new(config).map_err(HandshakeError::of_tls)?;
    let early = early.unwrap_or_else(Buf::none);
    let mut server_name = None;
    let mut heard = false;
    // `None` once the ClientHello is complete.
    let mut begins = Some(begins);
    // rustls reports the name only for buffered connections.
    let mut check = |held: &Buf| -> Result<(), HandshakeError> {
        heard = true;
        if begins.is_none() {
            return Ok(());
        }
        check_first(held)?;
        match tls_hello::read(held.filled()) {
            Ok(None) => return Ok(()),
            Ok(Some(hello)) => server_name = hello.server_name,
            // rustls reports this fault too.
            Err(_) => {}
        }
        begins.take().map_or(Ok(()), |begins| begins())
    };
    if !early.is_empty() {
        check(&early)?;
    }
    let shaken: Result<_, HandshakeError> = async { Ok(shake!(socket, connection, early, check)) }.await;
    let (held, mut out) = shaken.map_err(|error| error.of_client(server_name.as_deref(), heard))?;
    let info = Info::new(&connection, server_name.as_deref());
    if info.version == "TLSv1.2" {
        // The client waits for it. Tickets of TLS 1.3 may be sent with the first response.
        send(socket, &mut out).await?;
    }
    let secrets = connection.dangerous_into_kernel_connection().map_err(HandshakeError::of_tls)?;
    let session = Session::server(secrets, out).map_err(HandshakeError::of_record)?;
    Ok(Done { session, info, held })
}

/// Runs a handshake as a client. Its last message is sent with the first data.
pub(super) async fn connect(
    socket: &Stream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> Result<Done, HandshakeError> {
    let server_name = name.to_str().into_owned();
    let mut connection = UnbufferedClientConnection::new(config, name).map_err(HandshakeError::of_tls)?;
    let (held, out) = shake!(socket, connection, Buf::none(), |_: &Buf| Ok::<(), HandshakeError>(()));
    let info = Info::new(&connection, Some(&server_name));
    let secrets = connection.dangerous_into_kernel_connection().map_err(HandshakeError::of_tls)?;
    let session = Session::client(secrets, out).map_err(HandshakeError::of_record)?;
    Ok(Done { session, info, held })
}

/// Checks the first byte of a client.
fn check_first(held: &Buf) -> Result<(), HandshakeError> {
    match held.filled().first() {
        Some(&HANDSHAKE) | None => Ok(()),
        Some(b'A'..=b'Z') => Err(HandshakeError::new(Cause::PlainHttp)),
        Some(_) => Err(HandshakeError::new(Cause::NotTls)),
    }
}

/// Sends all bytes, and empties the buffer.
async fn send(socket: &Stream, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
    let mut sent = 0;
    poll_fn(|cx| {
        while sent < out.len() {
            sent += ready!(socket.poll_io_write(cx, |fd| rustix::net::send(fd, &out[sent..], SendFlags::NOSIGNAL)))?;
        }
        std::task::Poll::Ready(Ok::<(), std::io::Error>(()))
    })
    .await?;
    out.clear();
    Ok(())
}

/// Reads more bytes after `held`. While waiting, holds no more memory than the received bytes need.
async fn read(socket: &Stream, mut held: Buf) -> Result<Buf, HandshakeError> {
    let (n, buf) = poll_fn(|cx| {
        let room = || {
            let mut buf = Buf::take_whole();
            // `held` is shorter than HELD_MAX, which leaves room.
            let copied = buf.extend_some(held.filled());
            debug_assert_eq!(copied, held.len());
            buf
        };
        let polled = socket.poll_read_into(cx, room);
        if polled.is_pending() {
            held.shrink();
        }
        polled
    })
    .await?;
    if n == 0 { Err(HandshakeError::new(Cause::Closed)) } else { Ok(buf) }
}
