//! tower stacks over the endpoints of the demonstrations, in this process: with tower's own balancer, and with
//! evenkeel's instead.

use super::table::Table;
use crate::error::{Error, Result};
use crate::rng::Rng;
use evenkeel_tower::Builder;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::balance::p2c;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwma, PendingRequests};
use tower::{BoxError, Service, ServiceExt};

const DECAY: Duration = Duration::from_secs(10);
/// Latency that tower's Peak EWMA assumes of an endpoint that has not answered yet.
const FIRST_GUESS: Duration = Duration::from_millis(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// tower's balancer with Peak EWMA.
    PeakEwma,
    /// tower's balancer with requests in flight.
    Pending,
    /// evenkeel's balancer with this algorithm.
    Ours(&'static str),
}

/// Endpoint: any number of concurrent requests, each for a whole number of milliseconds.
struct Endpoint {
    from_ms: u64,
    below_ms: u64,
    rng: Rng,
}

impl Service<()> for Endpoint {
    type Response = ();
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<(), BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let ms = self.from_ms + self.rng.below((self.below_ms - self.from_ms).max(1) as usize) as u64;
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(())
        })
    }
}

fn endpoints(table: &Table, seed: u64) -> Vec<Endpoint> {
    let endpoint = |(at, &below_ms): (usize, &u64)| {
        let from_ms = table.from_ms.min(below_ms - 1);
        Endpoint { from_ms, below_ms, rng: Rng::new(seed << 8 | at as u64) }
    };
    table.below_ms.iter().enumerate().map(endpoint).collect()
}

/// Runs a stack. Returns the latencies in milliseconds, ascending. `seed` is the seed of the endpoints.
///
/// # Errors
/// A balancer fails a request.
pub fn run(stack: Stack, table: &Table, requests: usize, seed: u64) -> Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Os("no event loop".into(), error))?;
    let endpoints = endpoints(table, seed);
    let complete = CompleteOnResponse::default;
    let ran = runtime.block_on(async {
        match stack {
            Stack::PeakEwma => {
                let load = |endpoint| PeakEwma::new(endpoint, FIRST_GUESS, DECAY.as_nanos() as f64, complete());
                let list = ServiceList::new::<()>(endpoints.into_iter().map(load).collect::<Vec<_>>());
                send(p2c::Balance::new(list), table.at_once, requests).await
            }
            Stack::Pending => {
                let load = |endpoint| PendingRequests::new(endpoint, complete());
                let list = ServiceList::new::<()>(endpoints.into_iter().map(load).collect::<Vec<_>>());
                send(p2c::Balance::new(list), table.at_once, requests).await
            }
            Stack::Ours(algorithm) => {
                let balance = Builder::new(algorithm)?.build(ServiceList::new(endpoints))?;
                send(balance, table.at_once, requests).await
            }
        }
    });
    ran.map_err(|error| Error::Wrong(format!("a stack failed: {error}")))
}

async fn send<B>(mut balance: B, at_once: usize, requests: usize) -> std::result::Result<Vec<f64>, BoxError>
where
    B: Service<(), Response = (), Error = BoxError>,
    B::Future: Send + 'static,
{
    let (mut running, mut latencies) = (JoinSet::<std::result::Result<f64, BoxError>>::new(), Vec::new());
    for _ in 0..requests {
        if running.len() == at_once
            && let Some(ended) = running.join_next().await
        {
            latencies.push(ended??);
        }
        let response = balance.ready().await?.call(());
        let sent = Instant::now();
        running.spawn(async move {
            response.await?;
            Ok(sent.elapsed().as_secs_f64() * 1e3)
        });
    }
    while let Some(ended) = running.join_next().await {
        latencies.push(ended??);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}
