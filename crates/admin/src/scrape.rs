//! Metrics for a client: rendered on a separate thread, in chunks that wait for the client, and compressed if it
//! accepts that. So neither the thread of the admin nor the memory is busy with a hundred megabytes of them.

use crate::exposition::{Format, Names, Native, Writer};
use axum::body::{Body, Bytes};
use evenkeel_compress::coding::{Coding, Effort};
use evenkeel_compress::encoder::{Encoder, Op, Room};
use futures_core::Stream;
use std::fmt::{self, Write};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Sleep, sleep, timeout};

/// Clients for which metrics are rendered at once. Others wait.
const PLACES: usize = 4;

/// Time for a client's turn, and then for all of its answer. Prometheus waits for 10 s by default.
const LONGEST: Duration = Duration::from_secs(60);

/// Longest answer that is collected, so that its length is known. Of longer answers the rest is a stream.
const WHOLE_MAX: usize = 1 << 20;

/// Chunks of 32 KiB that wait for the client.
const WAITING_MAX: usize = 4;

/// Writes all metrics as OpenMetrics, without the end.
pub type Metrics = Arc<dyn Fn(&mut dyn Write) -> fmt::Result + Send + Sync>;

/// Native histograms, which the text formats do not have.
pub type Histograms = Arc<dyn Fn() -> Vec<Native> + Send + Sync>;

/// Metrics that a client has asked for.
#[derive(Clone, Debug)]
pub struct Scrape {
    pub format: Format,
    pub names: Names,
    /// True if the answer is compressed.
    pub gzip: bool,
}

/// Places for clients whose metrics are rendered.
#[derive(Clone, Debug)]
pub struct Scrapes(Arc<Semaphore>);

impl Default for Scrapes {
    fn default() -> Scrapes {
        Scrapes(Arc::new(Semaphore::new(PLACES)))
    }
}

impl Scrapes {
    /// Body of the answer; `None` if there was no place for a minute, or the metrics cannot be rendered.
    pub async fn body(&self, scrape: Scrape, metrics: Metrics, native: Histograms) -> Option<Body> {
        let place = timeout(LONGEST, self.0.clone().acquire_owned()).await.ok()?.ok()?;
        let (sender, mut chunks) = mpsc::channel(WAITING_MAX);
        let until = Box::pin(sleep(LONGEST));
        tokio::task::spawn_blocking(move || {
            let _place = place;
            // Without the last chunk, the client sees that the answer is not whole.
            if scrape.render(&metrics, &native, &sender).is_ok() {
                let _ = sender.blocking_send(Chunk::End);
            }
        });
        let mut first = Vec::new();
        while first.len() <= WHOLE_MAX {
            match chunks.recv().await? {
                Chunk::Bytes(bytes) => first.extend_from_slice(&bytes),
                Chunk::End => return Some(first.into()),
            }
        }
        Some(Body::from_stream(Chunks { first: Some(first.into()), chunks, until }))
    }
}

impl Scrape {
    fn render(self, metrics: &Metrics, native: &Histograms, to: &mpsc::Sender<Chunk>) -> fmt::Result {
        let mut coded = self.gzip.then(|| Gzip::new(to));
        let pass = |bytes: &[u8]| match &mut coded {
            Some(coded) => coded.step(bytes, Op::Go),
            None => send(to, Bytes::copy_from_slice(bytes)),
        };
        let mut writer = Writer::new(self.format, self.names, pass);
        metrics(&mut writer)?;
        writer.end(|| native())?;
        coded.map_or(Ok(()), |mut coded| coded.step(&[], Op::End))
    }
}

enum Chunk {
    Bytes(Bytes),
    End,
}

/// Waits for the client. An error if it is gone.
fn send(to: &mpsc::Sender<Chunk>, bytes: Bytes) -> fmt::Result {
    if bytes.is_empty() { Ok(()) } else { to.blocking_send(Chunk::Bytes(bytes)).map_err(|_| fmt::Error) }
}

/// Sender of text as chunks of a gzip stream.
struct Gzip<'s> {
    encoder: Encoder,
    room: Vec<u8>,
    to: &'s mpsc::Sender<Chunk>,
}

impl Gzip<'_> {
    fn new(to: &mpsc::Sender<Chunk>) -> Gzip<'_> {
        let encoder = Encoder::new(Coding::Gzip, Coding::Gzip.level(Effort::Usual), Room::Usual);
        Gzip { encoder, room: vec![0; 32 << 10], to }
    }

    fn step(&mut self, mut from: &[u8], op: Op) -> fmt::Result {
        loop {
            let step = self.encoder.step(from, &mut self.room, op).map_err(|_| fmt::Error)?;
            send(self.to, Bytes::copy_from_slice(&self.room[..step.written]))?;
            from = &from[step.taken..];
            if step.is_done {
                return Ok(());
            }
        }
    }
}

/// Chunks of an answer, for a limited time.
struct Chunks {
    first: Option<Bytes>,
    chunks: mpsc::Receiver<Chunk>,
    until: Pin<Box<Sleep>>,
}

impl Stream for Chunks {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.until.as_mut().poll(cx).is_ready() {
            self.chunks.close();
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        Poll::Ready(match ready!(self.chunks.poll_recv(cx)) {
            Some(Chunk::Bytes(bytes)) => Some(Ok(bytes)),
            Some(Chunk::End) => None,
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}
