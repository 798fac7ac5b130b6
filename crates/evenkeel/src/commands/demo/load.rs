//! Load of the demo: clients that keep their connection and send the next request as soon as they are answered. The loop is
//! closed, so a slow answer also keeps its client from asking.

use hdrhistogram::Histogram;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Number of clients. Each has a single request at a time.
pub const CLIENTS: usize = 50;

/// Pause of a client after a request without an answer.
const PAUSE: Duration = Duration::from_millis(100);

/// Different values of the `x-user` field, for algorithms that go by a key.
pub const USERS: u64 = 10_000;

/// Measurements of the clients.
pub struct Seen {
    /// Microseconds from the request to the last byte of its answer; answers with status 200 only.
    pub latency_us: Histogram<u64>,
    /// Answers with another status, and requests without an answer.
    pub errors: u64,
    /// From the first request to the last answer.
    pub wall: Duration,
    /// True if the time was over before all requests were sent.
    pub capped: bool,
}

/// Progress of the clients together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Requests that ended, well or not.
    pub done: u64,
    /// Failed requests among them: another status than 200, or no answer.
    pub errors: u64,
}

/// State that the clients share.
struct Shared {
    addr: SocketAddr,
    requests: u64,
    until: Instant,
    sent: AtomicU64,
    done: AtomicU64,
    errors: AtomicU64,
}

impl Shared {
    fn progress(&self) -> Progress {
        Progress { done: self.done.load(Relaxed), errors: self.errors.load(Relaxed) }
    }
}

/// Sends this many requests, or as many as fit into `limit`, from concurrent clients. `progress` is called every 100 ms,
/// and once more at the end.
///
/// # Errors
/// No event loop can be made.
pub fn run(
    addr: SocketAddr,
    clients: usize,
    requests: u64,
    limit: Duration,
    mut progress: impl FnMut(Progress),
) -> io::Result<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let began = Instant::now();
        let [sent, done, errors] = [const { AtomicU64::new(0) }; 3];
        let shared = Arc::new(Shared { addr, requests, until: began + limit, sent, done, errors });
        let mut running = JoinSet::new();
        for _ in 0..clients {
            running.spawn(client(shared.clone()));
        }
        let mut seen = Seen { latency_us: histogram(), errors: 0, wall: Duration::ZERO, capped: false };
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tokio::select! {
                _ = tick.tick() => progress(shared.progress()),
                ended = running.join_next() => match ended {
                    None => break,
                    // Made alike, so they fit.
                    Some(Ok(latency_us)) => drop(seen.latency_us.add(&latency_us)),
                    Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                },
            }
        }
        seen.wall = began.elapsed();
        seen.errors = shared.progress().errors;
        seen.capped = seen.latency_us.len() + seen.errors < requests;
        progress(shared.progress());
        Ok(seen)
    })
}

/// Three digits, and as large as it must be: a client may wait long.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

async fn client(shared: Arc<Shared>) -> Histogram<u64> {
    let mut latency_us = histogram();
    let (mut stream, mut buf) = (None, Vec::with_capacity(1024));
    while Instant::now() < shared.until {
        let n = shared.sent.fetch_add(1, Relaxed);
        if n >= shared.requests {
            break;
        }
        let began = Instant::now();
        let status = ask(&mut stream, &mut buf, shared.addr, n).await;
        match status {
            Ok(200) => latency_us.record(began.elapsed().as_micros() as u64).expect("it grows"),
            _ => drop(shared.errors.fetch_add(1, Relaxed)),
        }
        shared.done.fetch_add(1, Relaxed);
        if status.is_err() {
            stream = None;
            // A proxy that ends refuses each connection at once.
            tokio::time::sleep(PAUSE).await;
        }
    }
    latency_us
}

/// Sends a request and reads its answer; the status. An error leaves the connection unusable.
async fn ask(stream: &mut Option<TcpStream>, buf: &mut Vec<u8>, addr: SocketAddr, n: u64) -> io::Result<u16> {
    let stream = match stream {
        Some(stream) => stream,
        None => {
            let new = TcpStream::connect(addr).await?;
            new.set_nodelay(true)?;
            stream.insert(new)
        }
    };
    let user = evenkeel_balance::rng::mix(n) % USERS;
    buf.clear();
    buf.extend_from_slice(format!("GET / HTTP/1.1\r\nhost: demo\r\nx-user: {user}\r\n\r\n").as_bytes());
    stream.write_all(buf).await?;
    buf.clear();
    loop {
        if stream.read_buf(buf).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((status, len)) = answer(buf)? {
            return if buf.len() == len { Ok(status) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
    }
}

/// Status and length of a response, once it is whole. Relies on `content-length`, which the proxy sends for these
/// endpoints.
fn answer(buf: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let Some(end) = buf.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&buf[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    match (status, length) {
        (Some(status), Some(length)) if buf.len() >= end + 4 + length => Ok(Some((status, end + 4 + length))),
        (Some(_), Some(_)) => Ok(None),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let whole = b"HTTP/1.1 503 x\r\nContent-Length: 3\r\n\r\nabc";
        for len in 0..whole.len() {
            assert_eq!(answer(&whole[..len]).unwrap(), None);
        }
        assert_eq!(answer(whole).unwrap(), Some((503, whole.len())));
        assert!(answer(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
