//! Which clients are connected while a balancer reloads? Clients of every kind that a reload might hurt, each in a
//! closed loop, and their counts.

use crate::client::{self, Answer};
use crate::endpoint::{Id, websocket};
use crate::http;
use crate::origin;
use crate::wire::Wire;
use std::collections::BTreeMap;
use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How long a client waits for a whole answer, or for a text to come back.
const PATIENCE: Duration = Duration::from_secs(10);
/// What an upload and a download move; both take about 0.2 s.
const MOVED: usize = 1 << 20;
const PIECE: usize = 64 * 1024;
const BETWEEN_PIECES: Duration = Duration::from_millis(10);
/// Between two texts on a stream.
const BETWEEN_TEXTS: Duration = Duration::from_millis(50);
/// Half of the streams last the whole run, half this long.
const SHORT_STREAM: Duration = Duration::from_secs(3);

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request after the other on a connection that is kept.
    KeepAlive,
    /// A connection for each request.
    Fresh,
    /// Sends 1 MiB in pieces.
    Upload,
    /// Receives 1 MiB in pieces.
    Download,
    /// A WebSocket on which each text must come back.
    Stream,
}

/// Every kind, with how many there are of it.
pub const KINDS: [(Kind, &str, usize); 5] = [
    (Kind::KeepAlive, "keep-alive requests", 8),
    (Kind::Fresh, "requests on new connections", 2),
    (Kind::Upload, "uploads of 1 MiB", 2),
    (Kind::Download, "downloads of 1 MiB", 2),
    (Kind::Stream, "texts over WebSocket", 8),
];

/// What the clients of one kind have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Whole and right answers; of streams, texts that came back.
    pub done: usize,
    /// What failed, by what the client saw; of streams, those that ended early.
    pub failed: BTreeMap<String, usize>,
}

impl Count {
    /// All failures.
    pub fn failures(&self) -> usize {
        self.failed.values().sum()
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Count) -> Count {
        let more =
            self.failed.iter().map(|(what, count)| (what.clone(), count - earlier.failed.get(what).unwrap_or(&0)));
        Count { done: self.done - earlier.done, failed: more.filter(|(_, count)| *count > 0).collect() }
    }
}

/// All clients of one balancer, until stopped.
pub struct Clients {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<()>>,
}

struct Shared {
    port: u16,
    ending: AtomicBool,
    numbers: AtomicUsize,
    counts: Mutex<[Count; KINDS.len()]>,
}

impl Clients {
    /// Starts them.
    pub fn start(port: u16) -> Clients {
        let shared = Arc::new(Shared {
            port,
            ending: AtomicBool::new(false),
            numbers: AtomicUsize::new(0),
            counts: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut clients = JoinSet::new();
                for (row, (kind, _, how_many)) in KINDS.into_iter().enumerate() {
                    (0..how_many).for_each(|number| drop(clients.spawn(Arc::clone(&theirs).live(row, kind, number))));
                }
                while clients.join_next().await.is_some() {}
            });
            Ok(())
        });
        Clients { shared, thread }
    }

    /// What was counted so far, a row for each of `KINDS`.
    pub fn counts(&self) -> [Count; KINDS.len()] {
        self.shared.lock().clone()
    }

    /// Lets each client finish its exchange, and returns what was counted.
    pub fn stop(self) -> [Count; KINDS.len()] {
        self.shared.ending.store(true, Ordering::Relaxed); // the flag guards no other data
        // If the clients had panicked, their counts would be 0.
        drop(self.thread.join());
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

    async fn live(self: Arc<Shared>, row: usize, kind: Kind, number: usize) {
        let mut kept = None;
        while !self.is_ending() {
            let asked = async {
                match kind {
                    Kind::KeepAlive | Kind::Fresh => self.request(&mut kept, kind == Kind::Fresh).await,
                    Kind::Upload => self.upload().await,
                    Kind::Download => self.download().await,
                    Kind::Stream => self.stream(row, number.is_multiple_of(2)).await,
                }
            };
            // A stream has a timeout of its own for each text.
            let ended = match kind {
                Kind::Stream => asked.await,
                _ => timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err("late".into())),
            };
            match ended {
                Ok(()) if kind == Kind::Stream => (),
                Ok(()) => self.done(row),
                Err(what) => {
                    kept = None;
                    *self.lock()[row].failed.entry(what).or_default() += 1;
                    // Without a listener, a loop without a pause would take the whole core.
                    sleep(BETWEEN_PIECES).await;
                }
            }
        }
    }

    async fn connect(&self) -> std::result::Result<Wire, String> {
        let stream = TcpStream::connect(http::local(self.port)).await;
        stream.and_then(Wire::new).map_err(|error| format!("connect: {}", error.kind()))
    }

    async fn request(&self, kept: &mut Option<Wire>, fresh: bool) -> std::result::Result<(), String> {
        let (mut wire, reused) = match kept.take() {
            Some(wire) => (wire, true),
            None => (self.connect().await?, false),
        };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let id = Id { balancer: 0, number };
        let bytes = match number % 5 {
            0 => client::post(&id.path(), &id.posted(), fresh),
            _ => client::get(&id.path(), fresh),
        };
        match client::exchange(&mut wire, &bytes, &mut false).await {
            // Browsers ask again then, if asking twice does no harm; a reload should not need that.
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
        let mut wire = self.connect().await?;
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
        let mut wire = self.connect().await?;
        let asked = client::exchange(&mut wire, &client::get(&format!("/download/{MOVED}"), true), &mut false).await;
        match asked.map_err(|error| format!("broken: {}", error.kind()))? {
            Answer::Whole { status: 200, body, .. } if body == origin::content(MOVED) => Ok(()),
            answer => Err(not_right(&answer)),
        }
    }

    async fn stream(&self, row: usize, long: bool) -> std::result::Result<(), String> {
        let broken = |error: std::io::Error| format!("dropped: {}", error.kind());
        let mut wire = self.connect().await?;
        wire.send(websocket::request("/echo").as_bytes()).await.map_err(broken)?;
        let head = wire.head().await.map_err(broken)?.ok_or("refused: closed")?;
        if !websocket::opens(&head) {
            return Err(format!("refused: {}", head.status().unwrap_or_default()));
        }
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
