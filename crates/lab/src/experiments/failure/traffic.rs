//! Clients of a failure run: requests at times drawn beforehand, independent of earlier responses (an open loop), and
//! the same for each balancer.

use crate::client::connector::Connector;
use crate::client::http2::{Connection, Failed};
use crate::client::{self, Answer};
use crate::clock;
use crate::endpoint::http2::message;
use crate::endpoint::{Ask, Id};
use crate::rng::Rng;
use crate::wire::Wire;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum time that a client waits for a complete answer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Share of POSTs among the requests that are not gRPC calls.
pub const POSTS: f64 = 0.2;
/// Share of requests on separate connections, closed afterwards.
pub const FRESH: f64 = 0.1;

/// Maximum age of an idle connection to reuse: the balancers close theirs after 60 s.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Protocol between client and balancer. Endpoints get HTTP/2 for gRPC calls, and HTTP/1.1 for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// HTTP/1.1 without TLS.
    Clear,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TLS.
    Http2,
    /// gRPC calls, over HTTP/2 without TLS.
    Grpc,
}

/// All kinds, with their names and shares of the requests.
pub const KINDS: [(Over, &str, f64); 4] = [
    (Over::Clear, "HTTP/1.1", 0.4),
    (Over::Tls, "HTTP/1.1 over TLS", 0.2),
    (Over::Http2, "HTTP/2 over TLS", 0.2),
    (Over::Grpc, "gRPC", 0.2),
];

/// Request to each of the balancers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Planned time since the start of the run.
    pub at: Duration,
    pub ask: Ask,
    /// Protocol to the balancer.
    pub over: Over,
    /// True if it uses a separate connection.
    pub fresh: bool,
}

/// Requests over `length`, `rate` per second, at random moments (a Poisson process).
pub fn plan(seed: u64, length: Duration, rate: u32) -> Vec<Request> {
    // A different stream than the stream of the fault schedule.
    let mut rng = Rng::new(seed ^ 0x7261_6666_6963);
    let mut at = Duration::ZERO;
    let next = || {
        at += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / f64::from(rate));
        let post = rng.unit() < POSTS;
        let mut drawn = rng.unit();
        let over = KINDS.iter().find(|(.., share)| {
            drawn -= share;
            drawn < 0.0
        });
        let over = over.map_or(Over::Clear, |(over, ..)| *over);
        let ask = match (over, post) {
            (Over::Grpc, _) => Ask::Call,
            (_, true) => Ask::Post,
            (_, false) => Ask::Get,
        };
        (at < length).then(|| Request { at, ask, over, fresh: rng.unit() < FRESH })
    };
    std::iter::from_fn(next).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its own answer, complete, with status 200.
    Good,
    /// A status other than 200.
    Status(u16),
    /// A gRPC status other than 0; `None` if there was none.
    Grpc(Option<u16>),
    /// The connection to the balancer failed.
    Unreachable,
    /// The connection, or the stream, ended before the head of an answer.
    NoAnswer,
    /// The answer ended prematurely.
    Cut,
    /// No complete answer within the client's patience.
    Late {
        /// True if the answer had begun.
        begun: bool,
    },
    /// An answer that belongs to another request.
    Wrong,
}

impl Outcome {
    /// True if the client had the head of the answer before the failure.
    pub fn begun(self) -> bool {
        matches!(self, Outcome::Cut | Outcome::Late { begun: true } | Outcome::Wrong)
    }

    /// Name of the result, for tables.
    pub fn name(self) -> String {
        match self {
            Outcome::Good => "good".into(),
            Outcome::Status(status) => status.to_string(),
            Outcome::Grpc(Some(status)) => format!("gRPC {status}"),
            Outcome::Grpc(None) => "gRPC without a status".into(),
            Outcome::Unreachable => "unreachable".into(),
            Outcome::NoAnswer => "no answer".into(),
            Outcome::Cut => "cut".into(),
            Outcome::Late { .. } => "late".into(),
            Outcome::Wrong => "wrong answer".into(),
        }
    }
}

/// Record of a request and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: Id,
    pub outcome: Outcome,
    /// Time from its planned moment to its end, in nanoseconds.
    pub took_ns: u64,
}

/// Starts a thread that sends the plan through each of `connectors` from `begin_ns` on and reports each result. It ends
/// when all requests have ended.
pub fn start(
    plan: Arc<[Request]>,
    connectors: Vec<Connector>,
    begin_ns: u64,
    told: Sender<Record>,
) -> JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(send_all(&plan, connectors, begin_ns, &told));
        Ok(())
    })
}

async fn send_all(plan: &[Request], connectors: Vec<Connector>, begin_ns: u64, told: &Sender<Record>) {
    let begin = Instant::now() + Duration::from_nanos(begin_ns.saturating_sub(clock::now_ns()));
    let line = |connector| Arc::new(Line { connector, idle: Mutex::default(), shared: Mutex::default() });
    let lines: Vec<Arc<Line>> = connectors.into_iter().map(line).collect();
    let mut asked = JoinSet::new();
    for (number, &request) in plan.iter().enumerate() {
        sleep_until(begin + request.at).await;
        while asked.try_join_next().is_some() {}
        // The balancer that is asked first gets the core first, so they take turns.
        for place in 0..lines.len() {
            let balancer = (number + place) % lines.len();
            let (line, told) = (Arc::clone(&lines[balancer]), told.clone());
            asked.spawn(async move {
                let id = Id { balancer, number };
                let outcome = line.ask(id, request).await;
                let meant_ns = begin_ns + clock::ns(request.at);
                let took_ns = clock::now_ns().saturating_sub(meant_ns);
                // The receiver is gone after an interrupted experiment.
                let _ = told.send(Record { id, outcome, took_ns });
            });
        }
    }
    while asked.join_next().await.is_some() {}
}

/// Client side of a balancer: idle HTTP/1.1 connections and a shared HTTP/2 connection, without and with TLS.
struct Line {
    connector: Connector,
    idle: Mutex<[Vec<(Wire, Instant)>; 2]>,
    shared: Mutex<[Option<Connection>; 2]>,
}

impl Line {
    async fn ask(&self, id: Id, request: Request) -> Outcome {
        let mut begun = false;
        let asked = async {
            match request.over {
                Over::Clear | Over::Tls => self.ask_http1(id, request, &mut begun).await,
                Over::Http2 | Over::Grpc => self.ask_http2(id, request, &mut begun).await,
            }
        };
        let asked = timeout(PATIENCE, asked).await;
        asked.unwrap_or(Outcome::Late { begun })
    }

    async fn ask_http1(&self, id: Id, request: Request, begun: &mut bool) -> Outcome {
        let tls = request.over == Over::Tls;
        let kept = if request.fresh { None } else { self.idle_connection(tls) };
        let mut wire = match kept {
            Some(wire) => wire,
            None => match self.connector.http1(tls).await {
                Ok(wire) => wire,
                Err(_) => return Outcome::Unreachable,
            },
        };
        let bytes = match request.ask {
            Ask::Post => client::post(&id.path(), &id.posted(), request.fresh),
            Ask::Get | Ask::Call => client::get(&id.path(), request.fresh),
        };
        match client::exchange(&mut wire, &bytes, begun).await {
            Err(_) => Outcome::NoAnswer,
            Ok(Answer::Cut) => Outcome::Cut,
            Ok(Answer::Whole { status, body, reusable }) => {
                if reusable && !request.fresh {
                    lock(&self.idle)[usize::from(tls)].push((wire, Instant::now()));
                }
                match status {
                    200 if body == id.answer() => Outcome::Good,
                    200 => Outcome::Wrong,
                    _ => Outcome::Status(status),
                }
            }
        }
    }

    /// Idle connection used last, if younger than [`IDLE_MAX`].
    fn idle_connection(&self, tls: bool) -> Option<Wire> {
        let (wire, since) = lock(&self.idle)[usize::from(tls)].pop()?;
        (since.elapsed() < IDLE_MAX).then_some(wire)
    }

    async fn ask_http2(&self, id: Id, request: Request, begun: &mut bool) -> Outcome {
        let tls = request.over == Over::Http2;
        loop {
            let kept = if request.fresh { None } else { lock(&self.shared)[usize::from(tls)].clone() };
            let connection = match kept {
                Some(connection) => connection,
                None => match self.connector.http2(tls).await {
                    Ok(connection) => connection,
                    Err(_) => return Outcome::Unreachable,
                },
            };
            if !request.fresh {
                lock(&self.shared)[usize::from(tls)] = Some(connection.clone());
            }
            let failed = match connection.exchange(id, request.ask, begun).await {
                Ok(whole) if whole.status != 200 => return Outcome::Status(whole.status),
                Ok(whole) if request.ask == Ask::Call => {
                    return match whole.grpc.as_deref() {
                        Some("0") if whole.body == message(&id.answer()) => Outcome::Good,
                        Some("0") => Outcome::Wrong,
                        status => Outcome::Grpc(status.and_then(|status| status.parse().ok())),
                    };
                }
                Ok(whole) if whole.body == id.answer() => return Outcome::Good,
                Ok(_) => return Outcome::Wrong,
                Err(failed) => failed,
            };
            // The next request opens another connection.
            if failed.ends_connection() && !request.fresh {
                lock(&self.shared)[usize::from(tls)] = None;
            }
            match failed {
                // Nothing was sent, so retry as every client does.
                Failed::Announced => continue,
                Failed::NoAnswer(_) => return Outcome::NoAnswer,
                Failed::Cut(_) => return Outcome::Cut,
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic between two changes leaves each list whole.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_load_at_the_rate_asked_for() {
        let minute = Duration::from_secs(60);
        let requests = plan(1, minute, 250);
        assert_eq!(requests, plan(1, minute, 250));
        assert_ne!(requests, plan(2, minute, 250));
        // 15,000 expected; of a Poisson process 4 standard deviations are 490.
        assert!(requests.len().abs_diff(15_000) < 490, "{}", requests.len());
        // For shares of at most 0.4, 4 standard deviations are 240 requests.
        let near = |count: usize, share: f64| (count as f64 - requests.len() as f64 * share).abs() < 240.0;
        for (over, name, share) in KINDS {
            let count = requests.iter().filter(|request| request.over == over).count();
            assert!(near(count, share), "{name}: {count}");
        }
        let posts = requests.iter().filter(|request| request.ask == Ask::Post).count();
        assert!(near(posts, POSTS * 0.8), "{posts}");
        assert!(requests.iter().all(|request| (request.over == Over::Grpc) == (request.ask == Ask::Call)));
        assert!(requests.windows(2).all(|pair| pair[0].at <= pair[1].at) && requests.iter().all(|r| r.at < minute));
    }
}
