//! What do clients send, and what do they get? Requests at moments that are drawn before the run, whatever becomes of
//! the ones before (an open loop): the same for each balancer, at the same moment.

use crate::client::{self, Answer};
use crate::clock;
use crate::endpoint::Id;
use crate::http;
use crate::rng::Rng;
use crate::wire::Wire;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// How long a client waits for a whole answer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The share of requests that are POSTs.
pub const POSTS: f64 = 0.2;
/// The share of requests on a connection of their own, closed afterwards.
pub const FRESH: f64 = 0.1;

/// An idle connection older than this is not used again: the balancers close theirs after 60 s.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// One request, to each balancer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// When it is meant to be sent, counted from the first one's second.
    pub at: Duration,
    /// POST, else GET.
    pub post: bool,
    /// Whether it has a connection of its own.
    pub fresh: bool,
}

/// Requests over `length`, `rate` per second, at random moments (a Poisson process).
pub fn plan(seed: u64, length: Duration, rate: u32) -> Vec<Request> {
    // Other numbers than those of the schedule of faults.
    let mut rng = Rng::new(seed ^ 0x7261_6666_6963);
    let mut at = Duration::ZERO;
    let next = || {
        at += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / f64::from(rate));
        let post = rng.unit() < POSTS;
        (at < length).then(|| Request { at, post, fresh: rng.unit() < FRESH })
    };
    std::iter::from_fn(next).collect()
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its own answer, whole, with status 200.
    Good,
    /// Another status.
    Status(u16),
    /// The connection to the balancer failed.
    Unreachable,
    /// The connection ended before the head of an answer.
    NoAnswer,
    /// The answer ended early.
    Cut,
    /// No whole answer within the client's patience.
    Late {
        /// Whether it had begun.
        begun: bool,
    },
    /// An answer that is not to this request.
    Wrong,
}

impl Outcome {
    /// Whether the client had the head of the answer before it failed.
    pub fn begun(self) -> bool {
        matches!(self, Outcome::Cut | Outcome::Late { begun: true } | Outcome::Wrong)
    }

    /// In words.
    pub fn name(self) -> String {
        match self {
            Outcome::Good => "good".into(),
            Outcome::Status(status) => status.to_string(),
            Outcome::Unreachable => "unreachable".into(),
            Outcome::NoAnswer => "no answer".into(),
            Outcome::Cut => "cut".into(),
            Outcome::Late { .. } => "late".into(),
            Outcome::Wrong => "wrong answer".into(),
        }
    }
}

/// A request and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub id: Id,
    /// What became of it.
    pub outcome: Outcome,
    /// From the moment it was meant to be sent to its end, nanoseconds.
    pub took_ns: u64,
}

/// Sends the plan to each of `ports` from `begin_ns` on, from a thread of its own, and reports each end. Ends when all
/// requests have ended.
pub fn start(
    plan: Arc<[Request]>,
    ports: Vec<u16>,
    begin_ns: u64,
    told: Sender<Record>,
) -> JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(send_all(&plan, &ports, begin_ns, &told));
        Ok(())
    })
}

async fn send_all(plan: &[Request], ports: &[u16], begin_ns: u64, told: &Sender<Record>) {
    let begin = Instant::now() + Duration::from_nanos(begin_ns.saturating_sub(clock::now_ns()));
    let lines: Vec<Arc<Line>> = ports.iter().map(|&port| Arc::new(Line { port, idle: Mutex::default() })).collect();
    let mut asked = JoinSet::new();
    for (number, &request) in plan.iter().enumerate() {
        sleep_until(begin + request.at).await;
        while asked.try_join_next().is_some() {}
        // The first balancer has the core first, so they take turns.
        for place in 0..lines.len() {
            let balancer = (number + place) % lines.len();
            let (line, told) = (Arc::clone(&lines[balancer]), told.clone());
            asked.spawn(async move {
                let id = Id { balancer, number };
                let outcome = line.ask(id, request).await;
                let meant_ns = begin_ns + clock::ns(request.at);
                let took_ns = clock::now_ns().saturating_sub(meant_ns);
                // After an interrupted experiment no receiver is left.
                let _ = told.send(Record { id, outcome, took_ns });
            });
        }
    }
    while asked.join_next().await.is_some() {}
}

/// The way to one balancer.
struct Line {
    port: u16,
    idle: Mutex<Vec<(Wire, Instant)>>,
}

impl Line {
    async fn ask(&self, id: Id, request: Request) -> Outcome {
        let mut begun = false;
        let asked = timeout(PATIENCE, self.ask_patiently(id, request, &mut begun)).await;
        asked.unwrap_or(Outcome::Late { begun })
    }

    async fn ask_patiently(&self, id: Id, request: Request, begun: &mut bool) -> Outcome {
        let kept = if request.fresh { None } else { self.idle_connection() };
        let mut wire = match kept {
            Some(wire) => wire,
            None => match TcpStream::connect(http::local(self.port)).await.and_then(Wire::new) {
                Ok(wire) => wire,
                Err(_) => return Outcome::Unreachable,
            },
        };
        let bytes = match request.post {
            true => client::post(&id.path(), &id.posted(), request.fresh),
            false => client::get(&id.path(), request.fresh),
        };
        match client::exchange(&mut wire, &bytes, begun).await {
            Err(_) => Outcome::NoAnswer,
            Ok(Answer::Cut) => Outcome::Cut,
            Ok(Answer::Whole { status, body, reusable }) => {
                if reusable && !request.fresh {
                    self.lock().push((wire, Instant::now()));
                }
                match status {
                    200 if body == id.answer() => Outcome::Good,
                    200 => Outcome::Wrong,
                    _ => Outcome::Status(status),
                }
            }
        }
    }

    /// The connection used last, if it is young.
    fn idle_connection(&self) -> Option<Wire> {
        let (wire, since) = self.lock().pop()?;
        (since.elapsed() < IDLE_MAX).then_some(wire)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Wire, Instant)>> {
        // A panic between push and pop leaves the list whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        // 15,000 expected; of a Poisson process 4 standard deviations are 490. Shares: 4 of 0.2's are 196 requests.
        assert!(requests.len().abs_diff(15_000) < 490, "{}", requests.len());
        let posts = requests.iter().filter(|request| request.post).count();
        assert!(posts.abs_diff(requests.len() / 5) < 196, "{posts}");
        assert!(requests.windows(2).all(|pair| pair[0].at <= pair[1].at) && requests.iter().all(|r| r.at < minute));
    }
}
