//! Endpoint with a known amount of work per request: a process whose requests state their work: `GET /1500` is 1.5 ms.
//! Serves a few requests at a time, first come, first served, and can be slowed down at run time by `GET
//! /slow/THOUSANDTHS`.

use crate::child::{self, Child};
use crate::clock;
use crate::error::{Error, Result, While};
use crate::hosts::listens;
use crate::rng::Rng;
use crate::wire::Wire;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

pub const NAME: &str = "worker";

/// Step of work that sleeps, in nanoseconds.
const STEP_NS: u64 = 2_000_000;

/// Arguments of the subcommand.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Address to listen on, which is also printed; port 0 picks a free one.
    pub bind: SocketAddr,
    /// Number of requests served at a time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub places: usize,
    /// Ignore the work in requests; each takes a random whole number of milliseconds below this.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub below_ms: Option<u64>,
    /// Use CPU time for work instead of sleeping.
    #[arg(long)]
    pub spin: bool,
}

impl Arguments {
    /// Starts a worker and waits until it listens. `at`: command prefix, for a core or control group. `folder`: for its
    /// output.
    ///
    /// # Errors
    /// The worker does not listen in time.
    pub fn start(&self, at: Vec<String>, folder: &Path) -> Result<Child> {
        let mut command = at;
        command.extend([child::this()?, NAME.to_owned(), "--places".into(), self.places.to_string()]);
        command.extend(self.below_ms.into_iter().flat_map(|ms| ["--below-ms".to_owned(), ms.to_string()]));
        command.extend(self.spin.then(|| "--spin".to_owned()));
        command.push(self.bind.to_string());
        let said = folder.join("said");
        Child::start("an endpoint", &command, None, &said, |pid| listens(pid, "tcp", self.bind.port()))
    }
}

/// Adds the arguments of the subcommand.
pub fn arguments(command: Command) -> Command {
    Arguments::augment_args(command)
}

/// Work of a request, and the channel that signals its end.
struct Job {
    work_ns: u64,
    done: oneshot::Sender<()>,
}

/// Runs the subcommand: serves until it is ended.
///
/// # Errors
/// The address cannot be bound.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Error::Wrong(error.to_string()))?;
    crate::machine::allow_files(20_000);
    let (jobs, queue) = channel::<Job>();
    let (queue, slow) = (Arc::new(Mutex::new(queue)), Arc::new(AtomicU64::new(1000)));
    for _ in 0..arguments.places.max(1) {
        let (queue, slow, spin) = (queue.clone(), slow.clone(), arguments.spin);
        std::thread::spawn(move || work(&queue, &slow, spin));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.or_say(|| "no event loop".into())?.block_on(async {
        let doing = || format!("cannot listen at {}", arguments.bind);
        let listener = TcpListener::bind(arguments.bind).await.or_say(doing)?;
        println!("{}", listener.local_addr().or_say(doing)?);
        loop {
            // The connection was gone before it was accepted.
            let Ok((stream, _)) = listener.accept().await else { continue };
            let (jobs, slow) = (jobs.clone(), slow.clone());
            let below_ms = arguments.below_ms;
            tokio::spawn(async move { drop(serve(stream, below_ms, &jobs, &slow).await) });
        }
    })
}

/// Processes the queue until it closes.
fn work(queue: &Mutex<Receiver<Job>>, slow: &AtomicU64, spin: bool) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { work_ns, done }) = next else { return };
        // Relaxed: the number guards no other data.
        match spin {
            true => {
                let (begin, time) = (used(), Duration::from_nanos(work_ns * slow.load(Ordering::Relaxed) / 1000));
                while used().saturating_sub(begin) < time {
                    std::hint::black_box((0..200_u64).fold(1, |hash, n| std::hint::black_box(hash ^ n)));
                }
            }
            // In steps, so that changes of speed apply within a request. Each ends at its planned time, however late
            // the last one woke.
            false => {
                let (mut left_ns, mut until) = (work_ns, Instant::now());
                while left_ns > 0 {
                    let step_ns = left_ns.min(STEP_NS);
                    until += Duration::from_nanos(step_ns * slow.load(Ordering::Relaxed) / 1000);
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    left_ns -= step_ns;
                }
            }
        }
        let _ = done.send(()); // the client may have gone
    }
}

/// CPU time used by this thread.
fn used() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

async fn serve(stream: TcpStream, below_ms: Option<u64>, jobs: &Sender<Job>, slow: &AtomicU64) -> std::io::Result<()> {
    let mut wire = Wire::new(stream)?;
    // Seeded by the time of the connection, so that connections differ.
    let mut rng = Rng::new(clock::now_ns());
    while let Some(head) = wire.head().await? {
        let path = head.words().nth(1).unwrap_or_default().to_owned();
        match path.strip_prefix("/slow/") {
            Some(thousandths) => slow.store(thousandths.parse().unwrap_or(1000), Ordering::Relaxed),
            None => {
                let work_us = match below_ms {
                    Some(below) => rng.below(below as usize) as u64 * 1000,
                    None => path[1..].parse().unwrap_or(0),
                };
                let work_ns = work_us * 1000;
                let (done, waits) = oneshot::channel();
                if jobs.send(Job { work_ns, done }).is_err() || waits.await.is_err() {
                    return Ok(());
                }
            }
        }
        // An HTTP/1.0 client gets `Connection: keep-alive` if it asked for it; otherwise the connection is closed.
        let asks = head.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("keep-alive"));
        let stays = if asks { "Connection: keep-alive\r\n" } else { "" };
        wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{stays}\r\nok").as_bytes()).await?;
        if head.closes() || (head.words().nth(2) == Some("HTTP/1.0") && !asks) {
            return Ok(());
        }
    }
    Ok(())
}
