//! Balancers for each algorithm of the registry, over mock services that a test controls.

use evenkeel_balance::algorithms;
use evenkeel_tower::{Balance, Builder, Completion, InFlight, LoadReport};
use tokio::sync::mpsc;
use tower::discover::Change;
use tower_test::mock::{Handle, Mock};

pub type Request = u64;
pub type Response = &'static str;
pub type Service = Mock<Request, Response>;

type Event = Result<Change<u32, Service>, std::convert::Infallible>;

/// Discovery whose changes come through a channel.
pub struct Discovered(mpsc::UnboundedReceiver<Event>);

impl tokio_stream::Stream for Discovered {
    type Item = Event;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// Ends requests with the head, and reports a constant load, for the algorithms that need reports.
#[derive(Clone)]
pub struct Reporting;

impl<E> Completion<Response, E> for Reporting {
    type Output = Response;
    const REPORTS: bool = true;

    fn report(&self, _: &Response) -> Option<LoadReport> {
        Some(LoadReport::new(1, 1_000_000))
    }

    fn complete(&self, in_flight: InFlight, response: Response) -> Response {
        in_flight.end_with_head();
        response
    }
}

pub type Balanced = Balance<Discovered, Request, Reporting>;

/// Balancer with reproducible picks, and the handle to change its endpoints. A request is its own key.
pub fn balancer(algorithm: &str, seed: u64) -> (Balanced, Endpoints) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let builder = Builder::new(algorithm).expect("it is in the registry");
    let builder = builder.completion(Reporting).key(|request: &Request| *request).seed(seed);
    (builder.build(Discovered(receiver)).expect("it has all that any algorithm needs"), Endpoints(sender))
}

/// Runs a test without tokio's cooperative budget, under which mocks return `Pending` after 128 polls.
pub fn steer(test: impl Future<Output = ()>) {
    tokio_test::block_on(tokio::task::unconstrained(test));
}

/// Names of all algorithms in the registry.
pub fn all() -> impl Iterator<Item = &'static str> {
    algorithms::ALL.iter().map(|algorithm| algorithm.name)
}

/// Handle that adds and removes endpoints.
pub struct Endpoints(mpsc::UnboundedSender<Event>);

impl Endpoints {
    /// Adds an endpoint that is not yet ready.
    pub fn insert(&self, key: u32) -> Handle<Request, Response> {
        let (service, mut handle) = tower_test::mock::pair();
        handle.allow(0);
        self.send(Change::Insert(key, service));
        handle
    }

    pub fn remove(&self, key: u32) {
        self.send(Change::Remove(key));
    }

    fn send(&self, change: Change<u32, Service>) {
        self.0.send(Ok(change)).unwrap_or_else(|_| panic!("the balancer listens"));
    }
}
