//! Clients of a case: requests at times drawn beforehand, independent of earlier responses (an open loop), from
//! addresses of many clients. A seed draws the same requests, with the same work, whatever the configuration.

use super::case::{Case, Stream};
use crate::client::{get, post};
use crate::error::{Error, Result, While};
use crate::http::local;
use crate::rng::Rng;
use crate::stats::quantile;
use crate::wire::Wire;
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until, timeout};

/// Requests at the start of a run that do not count.
pub const WARM_UP: Duration = Duration::from_secs(1);

/// Maximum time that a client waits for a whole response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Clients with an address each.
const CLIENTS: usize = 16;

/// Sigma of heavy-tailed work.
const SIGMA: f64 = 1.2;

/// Request, drawn beforehand.
#[derive(Clone, Debug, PartialEq)]
struct Request {
    at: Duration,
    stream: usize,
    number: usize,
    work_us: u64,
    client: usize,
}

/// Figures of clients over a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Number of whole responses with status 200.
    pub answered: u64,
    /// Number of other outcomes.
    pub failed: u64,
    /// Latencies of all requests; failed requests count as [`PATIENCE`].
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Bytes of bodies, of responses that count.
    pub bytes: u64,
}

fn plan(case: &Case, length: Duration, seed: u64) -> Vec<Request> {
    let mut rng = Rng::new(seed);
    let (mut at, mut next_number) = (0.0, 0);
    let shares: f64 = case.streams.iter().map(|stream| stream.share).sum();
    let mut next = || {
        at += -(1.0 - rng.unit()).ln() / case.rate;
        let mut drawn = rng.unit() * shares;
        let is_it = |stream: &Stream| {
            drawn -= stream.share;
            drawn < 0.0
        };
        let stream = case.streams.iter().position(is_it).unwrap_or(0);
        let Stream { paths, work_ms, .. } = case.streams[stream];
        let number = match paths {
            0 => next_number,
            paths => rng.below(paths),
        };
        next_number += 1;
        let (work, client) = (work(&mut rng, work_ms, case.heavy), rng.below(CLIENTS));
        let request = Request { at: Duration::from_secs_f64(at), stream, number, work_us: (work * 1e3) as u64, client };
        (at < length.as_secs_f64()).then_some(request)
    };
    std::iter::from_fn(&mut next).collect()
}

/// Draws work with this mean. Both draws use two numbers.
fn work(rng: &mut Rng, mean: f64, heavy: bool) -> f64 {
    let (one, other) = (1.0 - rng.unit(), rng.unit());
    match heavy {
        false => -one.ln() * mean,
        true => {
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos(); // Box-Muller
            mean * (SIGMA * normal - SIGMA * SIGMA / 2.0).exp()
        }
    }
}

pub struct Clients(JoinHandle<Result<Figures>>);

impl Clients {
    /// Starts the clients of a case against the listeners at these ports.
    pub fn start(case: &'static Case, ports: Vec<u16>, length: Duration, seed: u64) -> Clients {
        Clients(std::thread::spawn(move || run(case, ports, length, seed)))
    }

    /// Waits for the last response and returns the figures.
    ///
    /// # Errors
    /// The clients failed by themselves.
    pub fn end(self) -> Result<Figures> {
        self.0.join().unwrap_or_else(|_| Err(Error::Wrong("a client panicked".into())))
    }
}

/// Outcome of a request: its latency if it was answered with 200, and the bytes of its body.
type Outcome = (Option<Duration>, usize);

fn run(case: &'static Case, ports: Vec<u16>, length: Duration, seed: u64) -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.or_say(|| "no event loop".into())?;
    let clients =
        Rc::new(Shared { case, ports, idle: (0..CLIENTS * case.streams.len()).map(|_| RefCell::default()).collect() });
    let outcomes = runtime.block_on(LocalSet::new().run_until(async {
        let (begin, mut asked, mut outcomes) = (Instant::now(), Vec::new(), Vec::new());
        for request in plan(case, length, seed) {
            sleep_until(begin + request.at).await;
            let (clients, meant) = (Rc::clone(&clients), begin + request.at);
            let counts = request.at >= WARM_UP;
            asked.push((counts, spawn_local(async move { clients.ask(&request, meant).await })));
        }
        for (counts, request) in asked {
            let outcome = request.await.map_err(|error| Error::Wrong(format!("a request failed: {error}")))?;
            outcomes.extend(counts.then_some(outcome));
        }
        Ok::<_, Error>(outcomes)
    }))?;
    Ok(figures(&outcomes))
}

fn figures(outcomes: &[Outcome]) -> Figures {
    // A failed request counts as the longest wait, or a change that makes fewer fail would seem to be slower.
    let mut ms: Vec<f64> = outcomes.iter().map(|(took, _)| took.unwrap_or(PATIENCE).as_secs_f64() * 1e3).collect();
    let answered = outcomes.iter().filter(|(took, _)| took.is_some()).count();
    ms.sort_by(f64::total_cmp);
    let of = |share| quantile(&ms, share).unwrap_or(f64::NAN);
    Figures {
        answered: answered as u64,
        failed: (outcomes.len() - answered) as u64,
        p50_ms: of(0.5),
        p99_ms: of(0.99),
        bytes: outcomes.iter().map(|(_, bytes)| *bytes as u64).sum(),
    }
}

struct Shared {
    case: &'static Case,
    ports: Vec<u16>,
    /// Idle connections by stream and client.
    idle: Vec<RefCell<Vec<Wire>>>,
}

impl Shared {
    /// Sends a request, whose latency counts from the planned time.
    async fn ask(&self, request: &Request, meant: Instant) -> Outcome {
        let idle = &self.idle[request.stream * CLIENTS + request.client];
        let kept = idle.borrow_mut().pop();
        match timeout(PATIENCE, self.exchange(request, kept)).await {
            Ok(Ok((status, bytes, wire))) => {
                idle.borrow_mut().extend(wire);
                ((status == 200).then(|| meant.elapsed()), bytes)
            }
            _ => (None, 0),
        }
    }

    async fn exchange(&self, request: &Request, kept: Option<Wire>) -> std::io::Result<(u16, usize, Option<Wire>)> {
        let stream = &self.case.streams[request.stream];
        let bytes = stream.bytes(request, self.case.fresh);
        let connect = async || {
            let socket = TcpSocket::new_v4()?;
            let ip = Ipv4Addr::new(127, 0, 1, 1 + request.client as u8);
            socket.bind(SocketAddr::from((ip, 0)))?;
            Wire::new(socket.connect(local(self.ports[stream.listener])).await?)
        };
        let mut wire = match kept {
            Some(wire) => wire,
            None => connect().await?,
        };
        wire.send(&bytes).await?;
        let head = wire.head().await?.ok_or(ErrorKind::UnexpectedEof)?;
        let status = head.status().ok_or(ErrorKind::InvalidData)?;
        let length = match head.length() {
            Some(length) => wire.exactly(length).await?.len(),
            None => chunks(&mut wire).await?,
        };
        let reusable = !self.case.fresh && !head.closes();
        Ok((status, length, reusable.then_some(wire)))
    }
}

impl Stream {
    fn bytes(&self, request: &Request, last: bool) -> Vec<u8> {
        let path = self.path.replace("{}", &request.number.to_string());
        let bytes = if self.method == "GET" { get(&path, last) } else { post(&path, b"order", last) };
        let fields = format!(
            "Host: {}\r\nAccept-Encoding: gzip\r\nX-Work-Us: {}\r\nX-Size: {}",
            self.host, request.work_us, self.size
        );
        String::from_utf8_lossy(&bytes).replacen("Host: lab.test", &fields, 1).into_bytes()
    }
}

/// Reads a chunked body, and returns its length on the wire, without the lines between chunks.
async fn chunks(wire: &mut Wire) -> std::io::Result<usize> {
    let mut whole = 0;
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(wire.exactly(1).await?);
        }
        let text = String::from_utf8_lossy(&line);
        let length = usize::from_str_radix(text.trim(), 16).map_err(|_| ErrorKind::InvalidData)?;
        wire.exactly(length + 2).await?;
        if length == 0 {
            return Ok(whole);
        }
        whole += length;
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;

    #[test]
    fn a_seed_draws_the_same_requests_and_another_seed_others() {
        let second = Duration::from_secs(2);
        for case in cases::ALL {
            let all = plan(case, second, 1);
            assert_eq!(all, plan(case, second, 1));
            assert_ne!(all, plan(case, second, 2));
            // Two seconds of a Poisson process: within 6 standard deviations.
            let meant = case.rate * 2.0;
            assert!((all.len() as f64 - meant).abs() < 6.0 * meant.sqrt(), "{}: {}", case.name, all.len());
        }
    }

    #[test]
    fn work_has_its_mean() {
        for heavy in [false, true] {
            let mut rng = Rng::new(3);
            let mean = (0..200_000).map(|_| work(&mut rng, 10.0, heavy)).sum::<f64>() / 200_000.0;
            // A log-normal with sigma 1.2 has a standard deviation of 1.8 means: 5 standard errors are 2 %.
            assert!((mean - 10.0).abs() < 0.2, "{heavy}: {mean}");
        }
    }
}
