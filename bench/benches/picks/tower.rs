//! tower's power of two choices, by requests in flight and by peak EWMA. It is one task's own, so one thread; and it
//! knows no weights.

use crate::harness::{self, Case, Measured};
use crate::{IN_FLIGHT, Subject};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, Load, PeakEwma, PendingRequests};
use tower::{BoxError, Service};

/// Finagle's defaults, which tower's documentation repeats.
const FIRST_GUESS: Duration = Duration::from_millis(30);
const MEMORY_NS: f64 = 10e9;

/// An endpoint that answers at once.
struct Endpoint;

impl Service<()> for Endpoint {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

/// Both of tower's loads.
pub fn subjects() -> Vec<Subject> {
    let subject = |name: &str, run: fn(Case) -> Measured| Subject {
        name: format!("tower {name}"),
        operation: "ready, call and complete",
        weighs: false,
        shares: false,
        run: Box::new(run),
    };
    let pending = |case| run(case, || PendingRequests::new(Endpoint, CompleteOnResponse::default()));
    let ewma = |case| run(case, || PeakEwma::new(Endpoint, FIRST_GUESS, MEMORY_NS, CompleteOnResponse::default()));
    vec![subject("p2c pending-requests", pending), subject("p2c peak-ewma", ewma)]
}

fn run<S>(case: Case, endpoint: impl Fn() -> S + Sync) -> Measured
where
    S: Service<(), Response = (), Error = Infallible> + Load,
    S::Metric: std::fmt::Debug,
    S::Future: Unpin,
{
    harness::measure(case, |_| {
        let endpoints: Vec<S> = (0..case.endpoints).map(|_| endpoint()).collect();
        let mut balance = Balance::new(ServiceList::new::<()>(endpoints));
        let mut flying = VecDeque::with_capacity(IN_FLIGHT);
        let mut cx = Context::from_waker(Waker::noop());
        move |_| {
            if flying.len() == IN_FLIGHT {
                let mut oldest = flying.pop_front().expect("it is full");
                complete(Pin::new(&mut oldest), &mut cx);
            }
            assert!(matches!(balance.poll_ready(&mut cx), Poll::Ready(Ok(()))), "every endpoint is ready");
            flying.push_back(balance.call(()));
        }
    })
}

fn complete(future: Pin<&mut impl Future<Output = Result<(), BoxError>>>, cx: &mut Context<'_>) {
    assert!(matches!(future.poll(cx), Poll::Ready(Ok(()))), "every endpoint answers at once");
}
