//! Load over HTTP/1.1: clients that keep their connections, and count which pod answers.

use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Age at which a request without an answer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests after which a client takes a new connection.
const EACH: usize = 50;

/// Answers and failures of a load.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub answered: u64,
    pub failed: u64,
    /// Reason of the last failure.
    pub failure: Option<String>,
    pub slowest: Duration,
    /// Requests by the pod that answered.
    pub by_pod: BTreeMap<String, u64>,
}

/// Clients that send requests, until this is dropped.
pub struct Load {
    counts: Arc<Mutex<Counts>>,
    _clients: JoinSet<()>,
}

impl Load {
    /// Starts clients. Each sends a request, and the next `pause` after the response.
    pub fn begin(addr: SocketAddr, clients: usize, pause: Duration) -> Load {
        let counts = Arc::<Mutex<Counts>>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            tasks.spawn(client(addr, pause, counts.clone()));
        }
        Load { counts, _clients: tasks }
    }

    /// Returns the counts since the last call.
    pub fn counts(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().expect("no client panics"))
    }
}

async fn client(addr: SocketAddr, pause: Duration, counts: Arc<Mutex<Counts>>) {
    loop {
        let mut connection = None;
        for _ in 0..EACH {
            let began = Instant::now();
            let answer = tokio::time::timeout(PATIENCE, request(addr, &mut connection)).await;
            let answer = answer.unwrap_or_else(|_| Err("no answer".into()));
            let failed = answer.is_err();
            {
                let mut counts = counts.lock().expect("no client panics");
                counts.slowest = counts.slowest.max(began.elapsed());
                match answer {
                    Ok(pod) => {
                        counts.answered += 1;
                        *counts.by_pod.entry(pod).or_default() += 1;
                    }
                    Err(error) => {
                        counts.failed += 1;
                        counts.failure = Some(error);
                    }
                }
            }
            tokio::time::sleep(pause).await;
            if failed {
                break;
            }
        }
    }
}

/// Sends a request, and returns the pod that answered.
///
/// # Errors
/// The response is missing or not a 200.
pub async fn request(addr: SocketAddr, connection: &mut Option<BufReader<TcpStream>>) -> Result<String, String> {
    request_for(addr, "web", connection).await
}

/// Sends a request for a host, and returns the pod that answered.
///
/// # Errors
/// The response is missing or not a 200.
pub async fn request_for(
    addr: SocketAddr,
    host: &str,
    connection: &mut Option<BufReader<TcpStream>>,
) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(BufReader::new(TcpStream::connect(addr).await.map_err(failed)?)),
    };
    let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.map_err(failed)?;
    let (mut status, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.map_err(failed)? == 0 {
            return Err("the connection was closed".into());
        }
        let line = line.trim_end();
        if status.is_empty() {
            status = line.to_owned();
        } else if line.is_empty() {
            break;
        } else if let Some((_, value)) =
            line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            length = value.trim().parse().map_err(|_| format!("{line:?}"))?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.map_err(failed)?;
    if status != "HTTP/1.1 200 OK" {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body).trim()));
    }
    let body: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    Ok(body["pod"].as_str().unwrap_or_default().to_owned())
}
