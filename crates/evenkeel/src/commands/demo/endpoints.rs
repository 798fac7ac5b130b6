//! Endpoints of the demo: ten HTTP servers on one thread, each of which answers after a random time.

use crate::failure::Failure;
use bytes::Bytes;
use evenkeel_balance::rng::mix;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Each endpoint responds after a whole number of milliseconds, drawn evenly from 0 up to its maximum, which is
/// excluded. The maxima come from the demo in the change that brought power of two choices to tower (tower-balance,
/// commit fcdc9d27).
pub const MAXIMA_MS: [u64; 10] = [1, 10, 10, 10, 10, 100, 100, 100, 100, 1000];

/// The running servers. They end with the process.
pub struct Endpoints {
    all: Vec<Arc<Endpoint>>,
}

/// Server that plays an endpoint of the demo.
pub struct Endpoint {
    /// Name, which includes its latency.
    pub name: String,
    /// Longest latency, milliseconds.
    pub max_ms: u64,
    /// Address on which it listens.
    pub addr: SocketAddr,
    seed: u64,
    asked: AtomicU64,
    answered: AtomicU64,
    is_up: watch::Sender<bool>,
}

impl Endpoint {
    /// Closes its socket and its connections, as the system does for a process that was killed.
    pub fn kill(&self) {
        self.is_up.send_replace(false);
    }

    /// Has it listen again after [`kill`](Self::kill).
    pub fn revive(&self) {
        self.is_up.send_replace(true);
    }

    /// Latency of the n-th request. Counted, not drawn in turn: each algorithm meets the same endpoints.
    fn latency(&self, n: u64) -> Duration {
        Duration::from_millis(mix(self.seed ^ mix(n)) % self.max_ms)
    }

    /// Requests answered since the last [`Endpoints::reset`].
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }
}

impl Endpoints {
    /// Starts them on addresses that the system chooses.
    pub fn start(seed: u64) -> Result<Endpoints, Failure> {
        Self::try_start(seed).map_err(|e| Failure::running(format!("demo: cannot start its endpoints: {e}")))
    }

    fn try_start(seed: u64) -> io::Result<Endpoints> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let mut all = Vec::new();
        for (index, max_ms) in MAXIMA_MS.into_iter().enumerate() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let alike = MAXIMA_MS[..index].iter().filter(|max| **max == max_ms).count();
            let endpoint = Arc::new(Endpoint {
                name: format!("{max_ms}ms-{}", alike + 1),
                max_ms,
                addr: listener.local_addr()?,
                seed: mix(seed ^ mix(index as u64)),
                asked: AtomicU64::new(0),
                answered: AtomicU64::new(0),
                is_up: watch::Sender::new(true),
            });
            all.push(endpoint.clone());
            let _inside = runtime.enter();
            runtime.spawn(serve(endpoint, TcpListener::from_std(listener)?));
        }
        let forever = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("endpoints".into()).spawn(forever)?;
        Ok(Endpoints { all })
    }

    pub fn all(&self) -> &[Arc<Endpoint>] {
        &self.all
    }

    /// Starts counting from 0 again.
    pub fn reset(&self) {
        for endpoint in &self.all {
            endpoint.asked.store(0, Relaxed);
            endpoint.answered.store(0, Relaxed);
        }
    }
}

async fn serve(endpoint: Arc<Endpoint>, mut listener: TcpListener) {
    let mut is_up = endpoint.is_up.subscribe();
    loop {
        // Connections end with the set that they are in.
        tokio::select! {
            () = accept(&endpoint, listener) => {}
            _ = is_up.wait_for(|is_up| !is_up) => {}
        }
        if is_up.wait_for(|is_up| *is_up).await.is_err() {
            return;
        }
        // The port is free, unless another process took it while the endpoint was down: then it stays down.
        let Ok(again) = TcpListener::bind(endpoint.addr).await else { return };
        listener = again;
    }
}

async fn accept(endpoint: &Arc<Endpoint>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        // Out of descriptors, most likely: the others may give some back.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let _ = stream.set_nodelay(true);
        let endpoint = endpoint.clone();
        connections.spawn(async move {
            let answer = service_fn(|_: Request<Incoming>| answer(&endpoint));
            // A connection that ends in the midst of something is the proxy's right.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(endpoint: &Endpoint) -> Result<Response<Full<Bytes>>, Infallible> {
    let latency = endpoint.latency(endpoint.asked.fetch_add(1, Relaxed));
    if !latency.is_zero() {
        // Timers have a granularity of 1 ms and round up, so it takes up to a millisecond more.
        tokio::time::sleep(latency).await;
    }
    endpoint.answered.fetch_add(1, Relaxed);
    Ok(Response::new(Full::from(format!("{} answered after {} ms\n", endpoint.name, latency.as_millis()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_even_and_repeat() {
        let endpoint = |seed| Endpoint {
            name: String::new(),
            max_ms: 10,
            addr: ([127, 0, 0, 1], 1).into(),
            seed,
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            is_up: watch::Sender::new(true),
        };
        let mut seen = [0u32; 10];
        for n in 0..10_000 {
            seen[endpoint(7).latency(n).as_millis() as usize] += 1;
            assert_eq!(endpoint(7).latency(n), endpoint(7).latency(n));
        }
        // Binomial with mean 1000 and deviation 30: 5 deviations, ten times, fail once in 10^5 seeds; the seed is fixed.
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }
}
