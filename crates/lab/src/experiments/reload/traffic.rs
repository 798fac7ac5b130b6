//! Clients during reloads: every kind that a reload might disturb, each in a closed loop, and their counts.

use crate::client::connector::{Connector, Ports};
use crate::client::http2::{Connection, Failed, saw};
use crate::client::{self, Answer};
use crate::endpoint::{Ask, Id, websocket};
use crate::error::Result as Outcome;
use crate::load::http3::{self, Observer};
use crate::origin;
use crate::wire::Wire;
use std::collections::BTreeMap;
use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Maximum time that a client waits for a complete answer or an echo.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an upload or download; both take about 0.2 s.
const MOVED: usize = 1 << 20;
const PIECE: usize = 64 * 1024;
const BETWEEN_PIECES: Duration = Duration::from_millis(10);
/// Concurrent requests on an HTTP/2 connection.
const AT_A_TIME: usize = 4;
/// Pause between two texts on a stream.
const BETWEEN_TEXTS: Duration = Duration::from_millis(50);
/// Duration of every second stream; the others last the whole run.
const SHORT_STREAM: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Consecutive requests on a kept connection.
    KeepAlive,
    /// A new connection for each request.
    Fresh,
    /// Sends 1 MiB in pieces.
    Upload,
    /// Receives 1 MiB in pieces.
    Download,
    /// WebSocket on which each text must be echoed.
    WebSocket,
    /// Batches of concurrent requests on a kept HTTP/2 connection.
    Http2,
    /// Concurrent requests on a kept HTTP/3 connection.
    Http3,
    /// Downloads of 1 MiB on a kept HTTP/3 connection.
    Http3Download,
    /// gRPC stream on an separate HTTP/2 connection, on which each message must be echoed.
    Grpc,
}

impl Kind {
    /// Short name, for narrow columns.
    pub fn short(self) -> &'static str {
        match self {
            Kind::KeepAlive => "keep-alive",
            Kind::Fresh => "new connections",
            Kind::Upload => "uploads",
            Kind::Download => "downloads",
            Kind::WebSocket => "WebSocket",
            Kind::Http2 => "HTTP/2",
            Kind::Http3 => "HTTP/3",
            Kind::Http3Download => "HTTP/3 downloads",
            Kind::Grpc => "gRPC",
        }
    }

    /// True for clients with a thread of their own.
    fn is_http3(self) -> bool {
        matches!(self, Kind::Http3 | Kind::Http3Download)
    }

    /// True for a single stream, which counts its own echoes.
    pub fn is_stream(self) -> bool {
        matches!(self, Kind::WebSocket | Kind::Grpc)
    }
}

/// Group of clients of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub kind: Kind,
    /// True if they connect over TLS.
    pub tls: bool,
    pub name: &'static str,
    pub clients: usize,
}

impl Row {
    const fn new(kind: Kind, tls: bool, name: &'static str, clients: usize) -> Row {
        Row { kind, tls, name, clients }
    }
}

/// All groups of clients, with their numbers.
pub const KINDS: [Row; 14] = [
    Row::new(Kind::KeepAlive, false, "keep-alive requests", 8),
    Row::new(Kind::Fresh, false, "requests on new connections", 2),
    Row::new(Kind::Upload, false, "uploads of 1 MiB", 2),
    Row::new(Kind::Download, false, "downloads of 1 MiB", 2),
    Row::new(Kind::WebSocket, false, "texts over WebSocket", 8),
    Row::new(Kind::KeepAlive, true, "keep-alive requests over TLS", 4),
    Row::new(Kind::Fresh, true, "requests on new connections of TLS", 1),
    Row::new(Kind::WebSocket, true, "texts over WebSocket and TLS", 4),
    Row::new(Kind::Http2, false, "requests over HTTP/2", 2),
    Row::new(Kind::Http2, true, "requests over HTTP/2 and TLS", 2),
    Row::new(Kind::Grpc, false, "messages over gRPC", 4),
    Row::new(Kind::Grpc, true, "messages over gRPC and TLS", 4),
    Row::new(Kind::Http3, true, "requests over HTTP/3", 2),
    Row::new(Kind::Http3Download, true, "downloads of 1 MiB over HTTP/3", 2),
];

/// Counts of the clients of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Complete and correct answers; for streams, echoes.
    pub done: usize,
    /// Failures by the client's view; for streams, early ends.
    pub failed: BTreeMap<String, usize>,
}

impl Count {
    pub fn failures(&self) -> usize {
        self.failed.values().sum()
    }

    /// Counts since `earlier`.
    pub fn since(&self, earlier: &Count) -> Count {
        let more =
            self.failed.iter().map(|(what, count)| (what.clone(), count - earlier.failed.get(what).unwrap_or(&0)));
        Count { done: self.done - earlier.done, failed: more.filter(|(_, count)| *count > 0).collect() }
    }
}

/// Running clients of a balancer, until stopped.
pub struct Clients {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<()>>,
    over_http3: Vec<JoinHandle<Outcome<()>>>,
}

struct Shared {
    connector: Connector,
    h3: Option<u16>,
    ending: AtomicBool,
    numbers: AtomicUsize,
    counts: Mutex<[Count; KINDS.len()]>,
}

impl Clients {
    /// Starts all clients in a thread.
    ///
    /// # Errors
    /// If a TLS client cannot be configured.
    pub fn start(ports: Ports) -> Outcome<Clients> {
        let shared = Arc::new(Shared {
            connector: Connector::new(ports)?,
            h3: ports.h3,
            ending: AtomicBool::new(false),
            numbers: AtomicUsize::new(0),
            counts: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let kept = KINDS.into_iter().enumerate().filter(|(_, of)| of.kind.is_http3());
        let over_http3 = kept.flat_map(|(row, of)| std::iter::repeat_n((row, of), of.clients));
        let over_http3 = over_http3.map(|(row, of)| Kept { shared: Arc::clone(&shared), row }.start(of.kind)).collect();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut clients = JoinSet::new();
                for (row, kind) in KINDS.into_iter().enumerate().filter(|(_, of)| !of.kind.is_http3()) {
                    (0..kind.clients)
                        .for_each(|number| drop(clients.spawn(Arc::clone(&theirs).live(row, kind, number))));
                }
                while clients.join_next().await.is_some() {}
            });
            Ok(())
        });
        Ok(Clients { shared, thread, over_http3 })
    }

    /// Counts so far, by row of `KINDS`.
    pub fn counts(&self) -> [Count; KINDS.len()] {
        self.shared.lock().clone()
    }

    /// Lets each client finish its exchange, and returns the counts.
    pub fn stop(self) -> [Count; KINDS.len()] {
        self.shared.ending.store(true, Ordering::Relaxed); // the flag guards no other data
        // A panic of the clients shows in their counts.
        drop(self.thread.join());
        self.over_http3.into_iter().for_each(|thread| drop(thread.join()));
        self.shared.lock().clone()
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, [Count; KINDS.len()]> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn done(&self, row: usize) {
        self.lock()[row].done += 1;
    }

    fn failed(&self, row: usize, what: String) {
        *self.lock()[row].failed.entry(what).or_default() += 1;
    }

    async fn live(self: Arc<Shared>, row: usize, Row { kind, tls, .. }: Row, number: usize) {
        let (mut kept, mut connection) = (None, None);
        while !self.is_ending() {
            let asked = async {
                match kind {
                    Kind::KeepAlive | Kind::Fresh => self.request(&mut kept, tls, kind == Kind::Fresh).await,
                    Kind::Upload => self.upload().await,
                    Kind::Download => self.download().await,
                    Kind::WebSocket => self.stream(row, tls, number.is_multiple_of(2)).await,
                    Kind::Http2 => self.requests(row, tls, &mut connection).await,
                    Kind::Grpc => self.messages(row, tls, number.is_multiple_of(2)).await,
                    // They have threads of their own.
                    Kind::Http3 | Kind::Http3Download => Ok(()),
                }
            };
            // Streams have a timeout per text instead.
            let ended = match kind {
                Kind::WebSocket | Kind::Grpc => asked.await,
                _ => timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err("late".into())),
            };
            match ended {
                Ok(()) if kind.is_stream() || kind == Kind::Http2 => (),
                Ok(()) => self.done(row),
                Err(what) => {
                    (kept, connection) = (None, None);
                    self.failed(row, what);
                    // Without a pause, the loop would use a whole core if nothing listens.
                    sleep(BETWEEN_PIECES).await;
                }
            }
        }
    }

    /// Sends a batch of concurrent requests. A connection that has announced its end is replaced, as every client does.
    async fn requests(&self, row: usize, tls: bool, kept: &mut Option<Connection>) -> std::result::Result<(), String> {
        let reused = match kept.take() {
            Some(connection) => connection.takes_more().await?.then_some(connection),
            None => None,
        };
        let connection = match reused {
            Some(connection) => connection,
            None => self.connector.http2(tls).await?,
        };
        let mut asked = JoinSet::new();
        for _ in 0..AT_A_TIME {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            asked.spawn(ask(connection.clone(), Id { balancer: 0, number }));
        }
        let (mut failed, mut takes_more) = (Vec::new(), true);
        while let Some(answered) = asked.join_next().await {
            match answered.unwrap_or_else(|_| Err("a client panicked".to_owned())) {
                Ok(true) => self.done(row),
                Ok(false) => takes_more = false,
                Err(what) => failed.push(what),
            }
        }
        // The caller counts the last failure.
        let Some(last) = failed.pop() else {
            *kept = takes_more.then_some(connection);
            return Ok(());
        };
        failed.into_iter().for_each(|what| self.failed(row, what));
        Err(last)
    }

    async fn messages(&self, row: usize, tls: bool, long: bool) -> std::result::Result<(), String> {
        let opened = async { self.connector.http2(tls).await?.call().await };
        let mut stream = timeout(PATIENCE, opened).await.map_err(|_| "refused: late")??;
        let opened = Instant::now();
        while !self.is_ending() && (long || opened.elapsed() < SHORT_STREAM) {
            timeout(PATIENCE, stream.echo()).await.map_err(|_| "late")??;
            self.done(row);
            sleep(BETWEEN_TEXTS).await;
        }
        timeout(PATIENCE, stream.end()).await.map_err(|_| "late end")?
    }

    async fn request(&self, kept: &mut Option<Wire>, tls: bool, fresh: bool) -> std::result::Result<(), String> {
        let (mut wire, reused) = match kept.take() {
            Some(wire) => (wire, true),
            None => (self.connector.http1(tls).await?, false),
        };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let id = Id { balancer: 0, number };
        let bytes = match number % 5 {
            0 => client::post(&id.path(), &id.posted(), fresh),
            _ => client::get(&id.path(), fresh),
        };
        match client::exchange(&mut wire, &bytes, &mut false).await {
            // Browsers retry idempotent requests then, but a reload should not require that.
            Err(_) if reused => Err("closed instead of an answer, on a kept connection".into()),
            Err(error) => Err(format!("no answer: {}", error.kind())),
            Ok(Answer::Whole { status: 200, body, reusable }) if body == id.answer() => {
                *kept = (reusable && !fresh).then_some(wire);
                Ok(())
            }
            Ok(answer) => Err(not_right(&answer)),
        }
    }

    async fn upload(&self) -> std::result::Result<(), String> {
        let mut wire = self.connector.http1(false).await?;
        let broken = |error: std::io::Error| format!("broken: {}", error.kind());
        let content = origin::content(MOVED);
        wire.send(client::post_head("/upload", content.len(), true).as_bytes()).await.map_err(broken)?;
        for piece in content.chunks(PIECE) {
            wire.send(piece).await.map_err(broken)?;
            sleep(BETWEEN_PIECES).await;
        }
        match client::answer(&mut wire, &mut false).await.map_err(broken)? {
            Answer::Whole { status: 200, .. } => Ok(()),
            answer => Err(not_right(&answer)),
        }
    }

    async fn download(&self) -> std::result::Result<(), String> {
        let mut wire = self.connector.http1(false).await?;
        let asked = client::exchange(&mut wire, &client::get(&format!("/download/{MOVED}"), true), &mut false).await;
        match asked.map_err(|error| format!("broken: {}", error.kind()))? {
            Answer::Whole { status: 200, body, .. } if body == origin::content(MOVED) => Ok(()),
            answer => Err(not_right(&answer)),
        }
    }

    async fn stream(&self, row: usize, tls: bool, long: bool) -> std::result::Result<(), String> {
        let broken = |error: std::io::Error| format!("dropped: {}", error.kind());
        let opened = async {
            let mut wire = self.connector.http1(tls).await?;
            wire.send(websocket::request("/echo").as_bytes()).await.map_err(broken)?;
            let head = wire.head().await.map_err(broken)?.ok_or("refused: closed")?;
            match websocket::opens(&head) {
                true => Ok(wire),
                false => Err(format!("refused: {}", head.status().unwrap_or_default())),
            }
        };
        let mut wire = timeout(PATIENCE, opened).await.map_err(|_| "refused: late")??;
        let opened = Instant::now();
        let mut number = 0_u32;
        while !self.is_ending() && (long || opened.elapsed() < SHORT_STREAM) {
            let text = format!("text {number}");
            wire.send(&websocket::frame(text.as_bytes(), Some(number.to_be_bytes()))).await.map_err(broken)?;
            let back = timeout(PATIENCE, websocket::read(&mut wire)).await.map_err(|_| "late")?.map_err(broken)?;
            if back != text.as_bytes() {
                return Err("another text came back".into());
            }
            self.done(row);
            number += 1;
            sleep(BETWEEN_TEXTS).await;
        }
        Ok(())
    }
}

/// Client of HTTP/3 with a kept connection.
struct Kept {
    shared: Arc<Shared>,
    row: usize,
}

impl Kept {
    fn start(self, kind: Kind) -> JoinHandle<Outcome<()>> {
        std::thread::spawn(move || {
            let Some(port) = self.shared.h3 else { return Ok(()) };
            let (len, streams) = if kind == Kind::Http3 { (1000, AT_A_TIME) } else { (MOVED, 1) };
            http3::keep(port, &format!("/download/{len}"), len as u64, streams as u32, &self)
        })
    }
}

impl Observer for Kept {
    fn is_ending(&self) -> bool {
        self.shared.is_ending()
    }

    fn done(&self, count: u64) {
        self.shared.lock()[self.row].done += usize::try_from(count).unwrap_or(usize::MAX);
    }

    fn failed(&self, count: usize, why: String) {
        *self.shared.lock()[self.row].failed.entry(why).or_default() += count;
    }
}

/// Sends a request. Returns `false` if the peer had announced that it accepts no more.
async fn ask(connection: Connection, id: Id) -> std::result::Result<bool, String> {
    let ask = if id.number.is_multiple_of(5) { Ask::Post } else { Ask::Get };
    match connection.exchange(id, ask, &mut false).await {
        Ok(whole) if whole.status != 200 => Err(whole.status.to_string()),
        Ok(whole) if whole.body == id.answer() => Ok(true),
        Ok(_) => Err("wrong answer".into()),
        Err(Failed::Announced) => Ok(false),
        Err(Failed::NoAnswer(error)) => Err(saw("no answer", &error)),
        Err(Failed::Cut(error)) => Err(saw("cut", &error)),
    }
}

fn not_right(answer: &Answer) -> String {
    match answer {
        Answer::Cut => "cut".into(),
        Answer::Whole { status: 200, .. } => "wrong answer".into(),
        Answer::Whole { status, .. } => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn counts_are_told_since_an_earlier_moment() {
        let count = |done, failed: &[(&str, usize)]| Count {
            done,
            failed: failed.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect(),
        };
        let more = count(9, &[("cut", 3), ("502", 1)]).since(&count(4, &[("502", 1)]));
        assert_eq!(more, count(5, &[("cut", 3)]));
        assert_eq!(more.failures(), 3);
    }
}
