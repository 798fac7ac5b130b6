//! Server of an endpoint, in each mode: a task per connection, until the client leaves.

use super::mode::{BEFORE_RESET, Dial, Mode, work};
use super::request::{Arrival, Id, Saw};
use super::{http2, websocket};
use crate::clock;
use crate::http::Head;
use crate::origin;
use crate::wire::Wire;
use std::io::Result;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Downloads are sent in pieces of this size, with pauses in between, so that they last.
const PIECE: usize = 64 * 1024;
const BETWEEN_PIECES: Duration = Duration::from_millis(10);

/// Accepts connections forever.
pub async fn serve(listener: TcpListener, dial: Arc<Dial>, saw: Saw) {
    loop {
        // The connection was gone before it was accepted.
        let Ok((stream, _)) = listener.accept().await else { continue };
        if dial.mode() == Mode::ResetAccept {
            if let Ok(wire) = Wire::new(stream) {
                wire.reset();
            }
            continue;
        }
        let (dial, saw) = (Arc::clone(&dial), Arc::clone(&saw));
        tokio::spawn(async move {
            match speaks_http2(&stream).await {
                Ok(true) => http2::serve(stream, dial, saw).await,
                // Errors are ignored here; the client reports them.
                Ok(false) => drop(connection(Wire::new(stream)?, &dial, &saw).await),
                Err(error) => return Err(error),
            }
            Ok(())
        });
    }
}

/// True if the first bytes are HTTP/2's preface; they are peeked at, not consumed.
async fn speaks_http2(stream: &TcpStream) -> Result<bool> {
    let mut first = [0; http2::PREFACE.len()];
    loop {
        let known = stream.peek(&mut first).await?;
        if known == first.len() || known == 0 || first[..known] != http2::PREFACE[..known] {
            return Ok(first == http2::PREFACE);
        }
        // Peeking has no event for further bytes.
        sleep(Duration::from_millis(1)).await;
    }
}

async fn connection(mut wire: Wire, dial: &Dial, saw: &Saw) -> Result<()> {
    while let Some(head) = wire.head().await? {
        let words: Vec<&str> = head.words().collect();
        let [method, path, _] = words[..] else { return wire.send(&answer(400, b"")).await };
        let id = Id::of_path(path);
        if let Some(id) = id {
            saw(Arrival { at_ns: clock::now_ns(), id });
        }
        let mode = dial.mode();
        if mode == Mode::Hang {
            wire.drain().await;
            return Ok(());
        }
        if mode == Mode::ResetAccept {
            wire.reset();
            return Ok(());
        }
        let posted = wire.exactly(head.length().unwrap_or(0)).await?;
        if path == "/health" {
            sleep(work(0, mode) / 10).await;
            wire.send(&answer(mode.health(), b"")).await?;
        } else if let Some(id) = id {
            let right = method == "GET" || posted == id.posted();
            if !right {
                wire.send(&answer(400, b"")).await?;
            } else if !work_on(&mut wire, id, mode).await? {
                wire.reset();
                return Ok(());
            }
        } else if head.field("upgrade").is_some() {
            return echo(wire).await;
        } else {
            other(&mut wire, &head, path, &posted).await?;
        }
        if head.closes() {
            return Ok(());
        }
    }
    Ok(())
}

/// Answers a request of the load; false if the connection is to be reset.
async fn work_on(wire: &mut Wire, id: Id, mode: Mode) -> Result<bool> {
    if let Some(status) = mode.status() {
        wire.send(&answer(status, b"")).await?;
        return Ok(true);
    }
    sleep(work(id.number, mode)).await;
    let whole = answer(200, &id.answer());
    let (sent, kept) = match mode {
        Mode::ResetHead => (20, true),
        Mode::ResetBody => (whole.len() / 2, true),
        _ => (whole.len(), false),
    };
    wire.send(&whole[..sent]).await?;
    if kept {
        sleep(BEFORE_RESET).await;
    }
    Ok(!kept)
}

/// Answers `/download/SIZE` and `/upload`, both with the content of [`origin::content`].
async fn other(wire: &mut Wire, head: &Head, path: &str, posted: &[u8]) -> Result<()> {
    if let Some(size) = path.strip_prefix("/download/").and_then(|size| size.parse().ok()) {
        wire.send(head_of(200, size).as_bytes()).await?;
        for piece in origin::content(size).chunks(PIECE) {
            wire.send(piece).await?;
            sleep(BETWEEN_PIECES).await;
        }
        return Ok(());
    }
    let uploaded = path == "/upload" && head.length().is_some() && posted == origin::content(posted.len());
    wire.send(&answer(if uploaded { 200 } else { 404 }, b"")).await
}

/// Serves a WebSocket on which each text is echoed.
async fn echo(mut wire: Wire) -> Result<()> {
    wire.send(websocket::response().as_bytes()).await?;
    loop {
        let text = websocket::read(&mut wire).await?;
        wire.send(&websocket::frame(&text, None)).await?;
    }
}

fn head_of(status: u16, length: usize) -> String {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    format!("HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
}

fn answer(status: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = head_of(status, body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Serves commands: `GET /NAME` switches the endpoint to the mode of that name.
pub async fn obey(listener: TcpListener, dial: Arc<Dial>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // The sender of the command waits for the answer and repeats it if there is none.
        drop(order(stream, &dial).await);
    }
}

async fn order(stream: TcpStream, dial: &Dial) -> Result<()> {
    let mut wire = Wire::new(stream)?;
    let Some(head) = wire.head().await? else { return Ok(()) };
    let mode = head.words().nth(1).and_then(|path| Mode::named(path.strip_prefix('/')?));
    if let Some(mode) = mode {
        dial.set(mode);
    }
    wire.send(&answer(if mode.is_some() { 200 } else { 404 }, b"")).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{self, Answer};
    use std::io::ErrorKind;
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::time::Instant;

    const ID: Id = Id { balancer: 1, number: 7 };

    /// Result that a client of an endpoint in `mode` gets, and the requests that the endpoint recorded.
    fn in_mode<T, F: Future<Output = T>>(mode: Mode, ask: impl FnOnce(SocketAddr) -> F) -> (T, Vec<Id>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let got = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("ports are to be had");
            let address = listener.local_addr().expect("it listens");
            let dial = Arc::new(Dial::default());
            dial.set(mode);
            let saw: Saw = Arc::new(move |arrival: Arrival| told.lock().expect("no thread panics").push(arrival.id));
            tokio::spawn(serve(listener, dial, saw));
            ask(address).await
        });
        let seen = seen.lock().expect("no thread panics").clone();
        (got, seen)
    }

    async fn get(address: SocketAddr) -> Result<Answer> {
        let mut wire = Wire::new(TcpStream::connect(address).await?)?;
        client::exchange(&mut wire, &client::get(&ID.path(), false), &mut false).await
    }

    fn status(answer: Result<Answer>) -> (u16, Vec<u8>) {
        match answer.expect("it answers") {
            Answer::Whole { status, body, .. } => (status, body),
            Answer::Cut => panic!("the answer is cut"),
        }
    }

    #[test]
    fn a_well_endpoint_answers_each_request_with_its_own_body() {
        let (answer, seen) = in_mode(Mode::Well, get);
        assert_eq!(status(answer), (200, ID.answer()));
        assert_eq!(seen, [ID]);
    }

    #[test]
    fn a_slow_endpoint_takes_ten_times_as_long() {
        let began = Instant::now();
        let (answer, _) = in_mode(Mode::Slow, get);
        assert_eq!(status(answer).0, 200);
        assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
        assert_eq!(work(3, Mode::Slow), work(3, Mode::Well) * 10);
    }

    #[test]
    fn a_hung_endpoint_reads_and_never_answers() {
        let (answer, seen) =
            in_mode(Mode::Hang, async |address| tokio::time::timeout(Duration::from_millis(200), get(address)).await);
        assert!(answer.is_err(), "it waits");
        assert_eq!(seen, [ID], "the request did reach it");
    }

    #[test]
    fn a_reset_on_accept_shows_no_request_to_the_endpoint() {
        let (answer, seen) = in_mode(Mode::ResetAccept, get);
        // The reset may arrive while the request is sent or while the client waits for the answer.
        let kind = answer.err().map(|error| error.kind());
        assert!(matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{kind:?}");
        assert_eq!(seen, []);
    }

    #[test]
    fn a_reset_within_the_head_leaves_no_answer() {
        let (answer, seen) = in_mode(Mode::ResetHead, get);
        assert_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::ConnectionReset));
        assert_eq!(seen, [ID]);
    }

    #[test]
    fn a_reset_within_the_body_cuts_the_answer() {
        let (answer, _) = in_mode(Mode::ResetBody, get);
        assert!(matches!(answer, Ok(Answer::Cut)));
    }

    #[test]
    fn a_defect_fails_requests_and_passes_the_check_while_overload_fails_both() {
        for (mode, work, health) in [(Mode::Error500, 500, 200), (Mode::Error503, 503, 503)] {
            let ask = async |address| {
                let mut wire = Wire::new(TcpStream::connect(address).await?)?;
                let work = client::exchange(&mut wire, &client::get(&ID.path(), false), &mut false).await?;
                let health = client::exchange(&mut wire, &client::get("/health", false), &mut false).await?;
                Ok::<_, std::io::Error>((work, health))
            };
            let (both, _) = in_mode(mode, ask);
            let both = both.expect("it answers both on one connection");
            assert_eq!((status(Ok(both.0)).0, status(Ok(both.1)).0), (work, health), "{}", mode.name());
        }
    }

    #[test]
    fn a_post_with_the_body_of_another_request_is_refused() {
        let other = Id { number: 8, ..ID };
        let (answer, _) = in_mode(Mode::Well, async |address| {
            let mut wire = Wire::new(TcpStream::connect(address).await?)?;
            let right = client::exchange(&mut wire, &client::post(&ID.path(), &ID.posted(), false), &mut false).await?;
            let wrong =
                client::exchange(&mut wire, &client::post(&ID.path(), &other.posted(), false), &mut false).await?;
            Ok::<_, std::io::Error>((right, wrong))
        });
        let (right, wrong) = answer.expect("it answers both");
        assert_eq!((status(Ok(right)), status(Ok(wrong)).0), ((200, ID.answer()), 400));
    }

    #[test]
    fn texts_come_back_over_a_websocket() {
        let (echoed, _) = in_mode(Mode::Well, async |address| {
            let mut wire = Wire::new(TcpStream::connect(address).await?)?;
            wire.send(websocket::request("/echo").as_bytes()).await?;
            let head = wire.head().await?.expect("it answers");
            assert!(websocket::opens(&head));
            wire.send(&websocket::frame(b"once", Some([1, 2, 3, 4]))).await?;
            wire.send(&websocket::frame(b"more", Some([5, 6, 7, 8]))).await?;
            Ok::<_, std::io::Error>([websocket::read(&mut wire).await?, websocket::read(&mut wire).await?])
        });
        assert_eq!(echoed.expect("it echoes"), [b"once", b"more"]);
    }

    #[test]
    fn uploads_and_downloads_are_checked_byte_for_byte() {
        let size = 150_000;
        let (answers, _) = in_mode(Mode::Well, async |address| {
            let mut wire = Wire::new(TcpStream::connect(address).await?)?;
            let down =
                client::exchange(&mut wire, &client::get(&format!("/download/{size}"), false), &mut false).await?;
            let up = client::exchange(&mut wire, &client::post("/upload", &origin::content(size), false), &mut false)
                .await?;
            let wrong =
                client::exchange(&mut wire, &client::post("/upload", &vec![0; size], false), &mut false).await?;
            Ok::<_, std::io::Error>([down, up, wrong])
        });
        let [down, up, wrong] = answers.expect("it answers all").map(|answer| status(Ok(answer)));
        assert_eq!((down.0, down.1 == origin::content(size)), (200, true));
        assert_eq!((up.0, wrong.0), (200, 404));
    }
}
