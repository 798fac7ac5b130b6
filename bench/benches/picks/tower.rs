//! Balancers in a tower stack: tower's power of two choices, by requests in flight and by peak EWMA, and ours
//! over the same services. Each belongs to one task, so there is one thread; tower's does not support
//! weights.

use crate::harness::{self, Case, Measured};
use crate::{IN_FLIGHT, Subject};
use evenkeel_balance::algorithms;
use evenkeel_tower::Builder;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwma, PendingRequests};
use tower::{BoxError, Service};

/// Finagle's defaults, which tower's documentation repeats.
const FIRST_GUESS: Duration = Duration::from_millis(30);
const MEMORY_NS: f64 = 10e9;

/// An endpoint that responds immediately.
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

/// Both loads of tower, and our algorithms that need nothing from the request.
pub fn subjects() -> Vec<Subject> {
    let subject = |name: &str, run: Box<dyn Fn(Case) -> Measured>| Subject {
        name: name.to_string(),
        operation: "ready, call and complete",
        weighs: false,
        shares: false,
        run,
    };
    let pending = |case| run(case, || Balance::new(list(case, pending_requests)));
    let ewma = |case| run(case, || Balance::new(list(case, peak_ewma)));
    let mut subjects =
        vec![subject("tower p2c pending-requests", Box::new(pending)), subject("tower p2c peak-ewma", Box::new(ewma))];
    let needs_nothing = algorithms::ALL.iter().filter(|a| !a.needs.key && !a.needs.probes);
    subjects.extend(needs_nothing.map(|a| a.name).map(|name| {
        let balance = move |case| {
            let builder = Builder::new(name).expect("it is in the registry").seed(1);
            builder.build(list(case, || Endpoint)).expect("it needs nothing")
        };
        subject(&format!("evenkeel-tower {name}"), Box::new(move |case| run(case, || balance(case))))
    }));
    subjects
}

fn list<S: Service<()>>(case: Case, endpoint: impl Fn() -> S) -> ServiceList<Vec<S>> {
    ServiceList::new::<()>((0..case.endpoints).map(|_| endpoint()).collect())
}

fn pending_requests() -> PendingRequests<Endpoint> {
    PendingRequests::new(Endpoint, CompleteOnResponse::default())
}

fn peak_ewma() -> PeakEwma<Endpoint> {
    PeakEwma::new(Endpoint, FIRST_GUESS, MEMORY_NS, CompleteOnResponse::default())
}

fn run<B>(case: Case, balance: impl Fn() -> B + Sync) -> Measured
where
    B: Service<(), Response = (), Error = BoxError>,
    B::Future: Unpin,
{
    harness::measure(case, |_| {
        let mut balance = balance();
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
