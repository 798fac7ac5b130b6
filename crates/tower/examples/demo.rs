//! tower's demonstration of 2017 (its pull request 76), in real time: ten uneven endpoints behind tower's balancer and
//! behind this one, under the same load.
//!
//! `cargo run --release -p evenkeel-tower --example demo -- [REQUESTS] [SUBJECT..]` sends 50,000 requests by default,
//! 50 at a time. The latency of an endpoint is a random whole number of ms below its maximum, independent of load. A
//! balancer that sent all requests to the fastest endpoint would win, so do not judge balancers by this figure alone.

use evenkeel_tower::{Balance, Builder};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::balance::p2c;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwma, PendingRequests};
use tower::{BoxError, Service, ServiceExt};

const MAXIMA_MS: [u64; 10] = [1, 10, 10, 10, 10, 100, 100, 100, 100, 1000];
const CONCURRENCY: usize = 50;
const DECAY: Duration = Duration::from_secs(10);
const FIRST_GUESS: Duration = Duration::from_millis(30);

/// Published figures: seconds in total, then latency in ms at p50, p90, p95, p99 and p99.9.
const PUBLISHED: [(&str, [u64; 6]); 2] =
    [("peak EWMA", [15, 5, 56, 78, 96, 105]), ("least loaded of two", [18, 5, 57, 80, 98, 857])];

/// Endpoint that answers with its number.
struct Endpoint {
    number: usize,
    rng: evenkeel_balance::Rng,
}

impl Service<()> for Endpoint {
    type Response = usize;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<usize, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let (number, ms) = (self.number, self.rng.below_u64(MAXIMA_MS[self.number]));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(number)
        })
    }
}

fn endpoints() -> impl Iterator<Item = Endpoint> {
    (0..MAXIMA_MS.len()).map(|number| Endpoint { number, rng: evenkeel_balance::Rng::new(number as u64) })
}

fn ours(algorithm: &str) -> Balance<ServiceList<Vec<Endpoint>>, ()> {
    let builder = Builder::new(algorithm).expect("it is in the registry");
    builder.build(ServiceList::new(endpoints().collect())).expect("it needs nothing of a request")
}

/// Sends all requests through a balancer and prints a row of results.
async fn run<B>(name: &str, mut balance: B, requests: u64) -> Result<(), BoxError>
where
    B: Service<(), Response = usize, Error = BoxError>,
    B::Future: Send + 'static,
{
    let shares: Arc<[AtomicU64; MAXIMA_MS.len()]> = Arc::default();
    let (mut running, mut latencies) = (JoinSet::new(), Vec::with_capacity(requests as usize));
    let begin = Instant::now();
    for _ in 0..requests {
        if running.len() == CONCURRENCY {
            latencies.push(running.join_next().await.expect("some are running")??);
        }
        let (response, shares) = (balance.ready().await?.call(()), shares.clone());
        let sent = Instant::now();
        running.spawn(async move {
            shares[response.await?].fetch_add(1, Ordering::Relaxed);
            Ok::<_, BoxError>(sent.elapsed())
        });
    }
    while let Some(latency) = running.join_next().await {
        latencies.push(latency??);
    }
    let seconds = begin.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_millis();
    let percentiles = [0.5, 0.9, 0.95, 0.99, 0.999].map(|share| format!("{:>7}", at(share))).concat();
    let percent = |n: &AtomicU64| format!("{:>6.1}", n.load(Ordering::Relaxed) as f64 * 100.0 / requests as f64);
    println!("{name:<28}{seconds:>7.1}{percentiles}  {}", shares.each_ref().map(percent).concat());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let given = arguments.next_if(|first| first.parse::<u64>().is_ok());
    let requests: u64 = given.map_or(Ok(50_000), |number| number.parse())?;
    let wanted: Vec<String> = arguments.collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));

    println!(
        "{requests} requests, {CONCURRENCY} at a time; ms at each percentile; % of requests by maximum of the endpoint"
    );
    let percentiles = ["p50", "p90", "p95", "p99", "p99.9"].map(|p| format!("{p:>7}")).concat();
    println!("{:<28}{:>7}{percentiles}  {}", "", "s", MAXIMA_MS.map(|max| format!("{max:>6}")).concat());
    for (name, figures) in PUBLISHED {
        println!("{:<28}{}", format!("published: {name}"), figures.map(|n| format!("{n:>7}")).concat());
    }
    let complete = CompleteOnResponse::default;
    if is_wanted("tower peak-ewma") {
        let load = |endpoint| PeakEwma::new(endpoint, FIRST_GUESS, DECAY.as_nanos() as f64, complete());
        let list = ServiceList::new::<()>(endpoints().map(load).collect::<Vec<_>>());
        run("tower peak-ewma", p2c::Balance::new(list), requests).await?;
    }
    if is_wanted("tower pending-requests") {
        let load = |endpoint| PendingRequests::new(endpoint, complete());
        let list = ServiceList::new::<()>(endpoints().map(load).collect::<Vec<_>>());
        run("tower pending-requests", p2c::Balance::new(list), requests).await?;
    }
    for algorithm in ["peak_ewma", "random", "leastconn"] {
        let name = format!("evenkeel-tower {algorithm}");
        if is_wanted(&name) {
            run(&name, ours(algorithm), requests).await?;
        }
    }
    Ok(())
}
