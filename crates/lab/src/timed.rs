//! Endpoints on a thread of the lab: each serves a few requests at a time, and takes the time that a request states in
//! `X-Work-Us`, by its speed. They sleep for it, so that many of them need little CPU time.

use crate::error::{Result, While};
use crate::http::Head;
use crate::origin;
use crate::wire::Wire;
use std::io::{Error, ErrorKind};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Interval at which an endpoint checks whether it is stopped.
const GLANCE: Duration = Duration::from_millis(20);

const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// First bytes of a PROXY header of version 2.
const PROXY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

pub struct Server {
    /// Number of requests that it serves at a time.
    pub places: usize,
    /// Speed of its work; 1 is the speed that requests state.
    pub speed: f64,
    pub fault: Option<Fault>,
}

/// Fault of an endpoint during a part of each run.
#[derive(Clone, Copy)]
pub struct Fault {
    pub kind: Failure,
    /// Begin and end, as parts of the run.
    pub from: f64,
    pub until: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Answers 503 at once, except to `/healthz`.
    Errors,
    /// Closes its connections and refuses new connections.
    Refuses,
    /// Answers 503 to a tenth of its requests, after their work: those whose microseconds end in 0.
    SomeErrors,
}

impl Server {
    pub const fn new(places: usize, speed: f64) -> Server {
        Server { places, speed, fault: None }
    }

    pub const fn failing(self, kind: Failure, from: f64, until: f64) -> Server {
        Server { fault: Some(Fault { kind, from, until }), ..self }
    }
}

/// Running endpoints, until dropped.
pub struct Endpoints {
    pub ports: Vec<u16>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    servers: &'static [Server],
    places: Vec<Semaphore>,
    /// Requests of the load so far.
    requests: AtomicU64,
    /// Begin and length of the current run.
    run: Mutex<Option<(Instant, Duration)>>,
    ending: AtomicBool,
}

impl Endpoints {
    /// Starts endpoints at free ports.
    ///
    /// # Errors
    /// The system refuses a port.
    pub fn start(servers: &'static [Server]) -> Result<Endpoints> {
        let held = servers.iter().map(|_| origin::listen_anywhere(Ipv4Addr::LOCALHOST)).collect::<Result<Vec<_>>>()?;
        let ports: Vec<u16> = held.iter().map(|(_, address)| address.port()).collect();
        let shared = Arc::new(Shared {
            servers,
            places: servers.iter().map(|server| Semaphore::new(server.places)).collect(),
            requests: AtomicU64::new(0),
            run: Mutex::new(None),
            ending: AtomicBool::new(false),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.or_say(|| "no event loop".into())?;
        let (theirs, at) = (Arc::clone(&shared), ports.clone());
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                for (number, port) in at.into_iter().enumerate() {
                    tokio::spawn(Arc::clone(&theirs).listen(number, port));
                }
                while !theirs.ending.load(Ordering::Relaxed) {
                    sleep(GLANCE).await;
                }
            });
        });
        // From here on, the endpoints themselves bind their ports; until then they try again.
        drop(held);
        Ok(Endpoints { ports, shared, thread: Some(thread) })
    }

    /// Begins a run of this length: faults count from now on.
    pub fn begin(&self, length: Duration) {
        *self.shared.run.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), length));
    }

    /// Ends a run, and with it every fault.
    pub fn end(&self) {
        *self.shared.run.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Requests of the load so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed) // it guards no other data
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Relaxed); // it guards no other data
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has been printed
        }
    }
}

impl Shared {
    /// Fault of an endpoint now.
    fn fault(&self, number: usize) -> Option<Failure> {
        let fault = self.servers[number].fault?;
        let (begin, length) = (*self.run.lock().unwrap_or_else(PoisonError::into_inner))?;
        let part = begin.elapsed().as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE);
        (fault.from..fault.until).contains(&part).then_some(fault.kind)
    }

    fn refuses(&self, number: usize) -> bool {
        self.fault(number) == Some(Failure::Refuses)
    }

    async fn listen(self: Arc<Shared>, number: usize, port: u16) {
        loop {
            if self.refuses(number) {
                sleep(GLANCE).await;
                continue;
            }
            let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await else {
                sleep(GLANCE).await;
                continue;
            };
            while !self.refuses(number) {
                // The connection was gone before it was accepted, or there was none.
                let Ok(Ok((stream, _))) = timeout(GLANCE, listener.accept()).await else { continue };
                // Clients report errors.
                let shared = Arc::clone(&self);
                tokio::spawn(async move { drop(shared.connection(number, stream).await) });
            }
        }
    }

    async fn connection(&self, number: usize, mut stream: TcpStream) -> std::io::Result<()> {
        skip_proxy_header(&mut stream).await?;
        let mut wire = Wire::new(stream)?;
        loop {
            // A kept connection closes when its endpoint stops.
            let Some(head) = self.head(number, &mut wire).await? else { return Ok(()) };
            if let Some(length) = head.length() {
                wire.exactly(length).await?;
            }
            let response = self.response(number, &head).await?;
            wire.send(&response).await?;
            if head.closes() {
                return Ok(());
            }
        }
    }

    async fn head(&self, number: usize, wire: &mut Wire) -> std::io::Result<Option<Head>> {
        loop {
            match timeout(GLANCE, wire.head()).await {
                Ok(head) => return head,
                Err(_) if self.refuses(number) => return Ok(None),
                Err(_) => {}
            }
        }
    }

    async fn response(&self, number: usize, head: &Head) -> std::io::Result<Vec<u8>> {
        let path = head.words().nth(1).unwrap_or_default();
        let work_us = head.field("x-work-us").and_then(|us| us.parse::<u64>().ok());
        // Relaxed: the count guards no other data.
        self.requests.fetch_add(u64::from(work_us.is_some()), Ordering::Relaxed);
        if self.fault(number) == Some(Failure::Errors) && path != "/healthz" {
            return Ok(UNAVAILABLE.to_vec());
        }
        let Some(work_us) = work_us else {
            return Ok(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        };
        let place = self.places[number].acquire().await.map_err(|_| Error::from(ErrorKind::BrokenPipe))?;
        sleep(Duration::from_secs_f64(work_us as f64 / 1e6 / self.servers[number].speed)).await;
        drop(place);
        if self.refuses(number) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if self.fault(number) == Some(Failure::SomeErrors) && work_us.is_multiple_of(10) {
            return Ok(UNAVAILABLE.to_vec());
        }
        let body = body(path, head.field("x-size").and_then(|size| size.parse().ok()).unwrap_or(0));
        let fresh = if path.starts_with("/static/") { "Cache-Control: max-age=60\r\n" } else { "" };
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{fresh}\r\n", media_type(path));
        Ok([head.into_bytes(), body].concat())
    }
}

/// Skips a PROXY header, if a connection begins with it.
async fn skip_proxy_header(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut first = [0; 16];
    loop {
        let known = stream.peek(&mut first).await?;
        if known == 0 || !first[..known.min(PROXY.len())].starts_with(&PROXY[..known.min(PROXY.len())]) {
            return Ok(());
        }
        if known == first.len() {
            break;
        }
        // Peeking has no event for further bytes.
        sleep(Duration::from_millis(1)).await;
    }
    stream.read_exact(&mut first).await?;
    let mut rest = vec![0; usize::from(u16::from_be_bytes([first[14], first[15]]))];
    stream.read_exact(&mut rest).await.map(drop)
}

/// Records of JSON, as an application would return, cut to this size.
fn body(path: &str, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 128);
    for number in 0_u32.. {
        if bytes.len() >= size {
            break;
        }
        let id = number.wrapping_mul(0x9e37_79b9);
        let line =
            format!(r#"{{"id":{id},"path":"{path}","name":"item {number}","price":{}.95,"stock":true}},"#, id % 997);
        bytes.extend_from_slice(line.as_bytes());
    }
    bytes.truncate(size);
    bytes
}

fn media_type(path: &str) -> &'static str {
    let path = path.split('?').next().unwrap_or_default();
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("html") => "text/html",
        _ => "application/json",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_their_size_and_their_media_type() {
        assert_eq!((body("/a", 5000).len(), body("/a", 0).len()), (5000, 0));
        assert_eq!([media_type("/a.js?v=1"), media_type("/a")], ["text/javascript", "application/json"]);
    }
}
