//! HTTP/2 side of an endpoint, in each mode: the same work as over HTTP/1.1, gRPC calls, and streams on which each
//! message is echoed. Uses an implementation other than evenkeel's.

use super::mode::{BEFORE_RESET, Dial, Mode, work};
use super::request::{Arrival, Id, Saw};
use crate::clock;
use ::http::{HeaderMap, HeaderValue, Method, Request, Response};
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// First bytes of an HTTP/2 client.
pub const PREFACE: &[u8] = b"PRI";
/// gRPC method that echoes each message immediately.
pub const STREAM: &str = "/lab.Echo/Stream";
/// gRPC status UNAVAILABLE (14): clients may retry elsewhere.
const UNAVAILABLE: &str = "14";
/// gRPC status INTERNAL (13).
const INTERNAL: &str = "13";

/// Frames an uncompressed gRPC message: flag, length, content.
pub fn message(content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(content.len() as u32).to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// Handle by which a request can abort its connection.
type Line = Arc<OnceLock<AbortHandle>>;

/// Serves a connection until the client leaves.
pub(super) async fn serve(stream: TcpStream, dial: Arc<Dial>, saw: Saw) {
    // From here on every close sends an RST: the endpoint never closes a healthy connection.
    if stream.set_nodelay(true).and(stream.set_zero_linger()).is_err() {
        return;
    }
    let line = Line::default();
    let theirs = Arc::clone(&line);
    let served = tokio::spawn(async move {
        // The client has gone: nothing to do.
        let Ok(mut connection) = builder().handshake::<_, Bytes>(stream).await else { return };
        while let Some(Ok((request, respond))) = connection.accept().await {
            let asked = Asked { dial: Arc::clone(&dial), saw: Arc::clone(&saw), line: Arc::clone(&theirs) };
            tokio::spawn(asked.answer(request, respond));
        }
    });
    // The task has not run yet, as both are on the same thread.
    line.get_or_init(|| served.abort_handle());
}

/// Builder with the flow-control windows of the endpoint.
pub fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(1024).initial_window_size(1 << 20).initial_connection_window_size(1 << 24);
    builder
}

/// Request with the state of its connection.
struct Asked {
    dial: Arc<Dial>,
    saw: Saw,
    line: Line,
}

impl Asked {
    /// Answers a request; `None` if the stream ends early.
    async fn answer(self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Option<()> {
        let (path, method) = (request.uri().path().to_owned(), request.method().clone());
        let id = Id::of_path(&path);
        if let Some(id) = id {
            (self.saw)(Arrival { at_ns: clock::now_ns(), id });
        }
        let mode = self.dial.mode();
        match mode {
            Mode::Hang => {
                let gone = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                return gone.ok().map(drop);
            }
            Mode::ResetAccept => return self.reset(),
            _ => (),
        }
        if path == STREAM {
            return echo(request, respond).await;
        }
        let posted = whole(request.into_body()).await?;
        let Some(id) = id else {
            let status = if path != "/health" { 404 } else { mode.health() };
            sleep(work(0, mode) / 10).await;
            return respond.send_response(head(status), true).ok().map(drop);
        };
        let calls = path.starts_with(Id::CALLS);
        let right =
            if calls { posted == message(&id.posted()) } else { method == Method::GET || posted == id.posted() };
        match (mode.status(), calls) {
            _ if !right => return respond.send_response(head(400), true).ok().map(drop),
            (Some(status), false) => return respond.send_response(head(status), true).ok().map(drop),
            // A response without a body, as gRPC allows for errors.
            (Some(503), true) => return respond.send_response(told(UNAVAILABLE), true).ok().map(drop),
            (Some(_), true) => return respond.send_response(told(INTERNAL), true).ok().map(drop),
            (None, _) => sleep(work(id.number, mode)).await,
        }
        if mode == Mode::ResetHead {
            sleep(BEFORE_RESET).await;
            return self.reset();
        }
        let (answer, head) = match calls {
            true => (message(&id.answer()), grpc()),
            false => (id.answer(), self::head(200)),
        };
        let mut answer = Bytes::from(answer);
        let mut send = respond.send_response(head, false).ok()?;
        if mode == Mode::ResetBody {
            send.send_data(answer.split_to(answer.len() / 2), false).ok()?;
            sleep(BEFORE_RESET).await;
            return self.reset();
        }
        send.send_data(answer, !calls).ok()?;
        if calls { send.send_trailers(status("0")).ok() } else { Some(()) }
    }

    /// Aborts the connection with all of its requests.
    fn reset(&self) -> Option<()> {
        self.line.get().map(AbortHandle::abort)
    }
}

/// Reads the whole body of a request.
pub async fn whole(mut body: RecvStream) -> Option<BytesMut> {
    let mut whole = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part.ok()?;
        body.flow_control().release_capacity(part.len()).ok()?;
        whole.extend_from_slice(&part);
    }
    Some(whole)
}

/// Echoes each part as it arrives.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Option<()> {
    let mut body = request.into_body();
    let mut send = respond.send_response(grpc(), false).ok()?;
    while let Some(part) = body.data().await {
        let part = part.ok()?;
        body.flow_control().release_capacity(part.len()).ok()?;
        // The end of a stream arrives as an empty part. Echoed, two in a row count as a flood in Envoy, which then
        // closes the connection.
        if !part.is_empty() {
            send.send_data(part, false).ok()?;
        }
    }
    send.send_trailers(status("0")).ok()
}

fn head(status: u16) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = ::http::StatusCode::from_u16(status).unwrap_or_default();
    head
}

/// Head of a gRPC response, with status 200.
pub fn grpc() -> Response<()> {
    let mut head = head(200);
    head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    head
}

/// gRPC response that consists of its status alone.
fn told(code: &'static str) -> Response<()> {
    let mut head = grpc();
    head.headers_mut().extend(status(code));
    head
}

/// Trailers of a gRPC response.
pub fn status(code: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers
}

#[cfg(test)]
mod tests {
    use super::super::Ask;
    use super::super::serve as http1;
    use super::*;
    use crate::client::http2::{Connection, Failed, Whole};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const ID: Id = Id { balancer: 0, number: 7 };

    /// Connects to an endpoint in this mode.
    async fn connected(mode: Mode, saw: Saw) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("ports are to be had");
        let address = listener.local_addr().expect("it listens");
        let dial = Arc::new(Dial::default());
        dial.set(mode);
        tokio::spawn(http1::serve(listener, dial, saw));
        TcpStream::connect(address).await.expect("it listens")
    }

    /// Results of these requests on a connection to an endpoint in this mode, and the number of requests it saw.
    fn in_mode(mode: Mode, asks: &[Ask]) -> (Vec<Result<Whole, Failed>>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let told = Arc::clone(&seen);
        let answers = runtime.block_on(async {
            let saw: Saw = Arc::new(move |_| _ = told.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            let stream = connected(mode, saw).await;
            let connection = Connection::open(stream).await.expect("it speaks HTTP/2");
            let mut answers = Vec::new();
            for ask in asks {
                answers.push(connection.clone().exchange(ID, *ask, &mut false).await);
            }
            answers
        });
        (answers, seen.load(std::sync::atomic::Ordering::Relaxed))
    }

    #[test]
    fn a_well_endpoint_answers_over_http2_as_over_http1_and_calls_too() {
        let (answers, seen) = in_mode(Mode::Well, &[Ask::Get, Ask::Post, Ask::Call]);
        let told: Vec<_> = answers.into_iter().map(|answer| answer.expect("it answers")).collect();
        assert!(told[..2].iter().all(|answer| answer.status == 200 && answer.body == ID.answer()));
        assert_eq!((told[2].grpc.as_deref(), &told[2].body[..]), (Some("0"), &message(&ID.answer())[..]));
        assert_eq!(seen, 3);
    }

    #[test]
    fn overload_is_unavailable_to_calls_and_a_defect_is_internal() {
        for (mode, status, code) in [(Mode::Error503, 503, UNAVAILABLE), (Mode::Error500, 500, INTERNAL)] {
            let (answers, _) = in_mode(mode, &[Ask::Get, Ask::Call]);
            let told: Vec<_> = answers.into_iter().map(|answer| answer.expect("it answers")).collect();
            assert_eq!((told[0].status, told[1].status, told[1].grpc.as_deref()), (status, 200, Some(code)));
        }
    }

    #[test]
    fn a_reset_ends_the_connection_before_the_head_or_within_the_body() {
        let (answers, seen) = in_mode(Mode::ResetBody, &[Ask::Get]);
        assert!(matches!(&answers[0], Err(failed @ Failed::Cut(_)) if failed.ends_connection()));
        assert_eq!(seen, 1);
        let (answers, _) = in_mode(Mode::ResetHead, &[Ask::Call]);
        assert!(matches!(&answers[0], Err(Failed::NoAnswer(_))));
    }

    #[test]
    fn the_end_of_a_stream_brings_its_status_and_no_empty_part() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let sent = runtime.block_on(async {
            // Keep the bytes that the endpoint sends, as a client ignores empty parts.
            let (mut from_endpoint, mut to_endpoint) = connected(Mode::Well, Arc::new(|_| ())).await.into_split();
            let (client, between) = tokio::io::duplex(1 << 16);
            let (mut from_client, mut to_client) = tokio::io::split(between);
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_endpoint).await });
            let kept = tokio::spawn(async move {
                let (mut sent, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(n @ 1..) = from_endpoint.read(&mut bytes).await {
                    sent.extend_from_slice(&bytes[..n]);
                    if to_client.write_all(&bytes[..n]).await.is_err() {
                        break;
                    }
                }
                sent
            });
            let connection = Connection::open(client).await.expect("it speaks HTTP/2");
            let mut call = connection.call().await.expect("it takes a stream");
            call.echo().await.expect("it comes back");
            call.end().await.expect("it ends well");
            kept.await.expect("it does not panic")
        });
        // RFC 9113, 4.1: three bytes of length, type, flags, stream. DATA is type 0.
        let (mut rest, mut parts) = (&sent[..], Vec::new());
        while let Some((head, more)) = rest.split_at_checked(9) {
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            if head[3] == 0 {
                parts.push(length);
            }
            rest = &more[length..];
        }
        assert!(!parts.is_empty() && !parts.contains(&0), "{parts:?}");
    }
}
