//! Ends of requests: with the head, with the last byte, by cancellation, by an error.

use crate::rows;
use evenkeel_tower::{Balance, Builder, Clock, Completion, FailureKind, InFlight, Instant, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};
use tower::Service;
use tower::discover::ServiceList;
use tower_test::{assert_request_eq, mock};

#[test]
fn a_request_counts_until_its_head_or_until_it_is_dropped() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (balancer, endpoints) = rows::balancer(algorithm, 1);
            let mut svc = mock::Spawn::new(balancer);
            let mut a = endpoints.insert(1);
            a.allow(3);
            let mut responses: Vec<_> = (0..3)
                .map(|key| {
                    assert_ready_ok!(svc.poll_ready());
                    task::spawn(svc.call(key))
                })
                .collect();
            assert_eq!(svc.get_mut().in_flight(), 3, "{algorithm}");
            assert_request_eq!(a, 0).send_response("a");
            assert_ready_ok!(responses[0].poll());
            assert_eq!(svc.get_mut().in_flight(), 2, "{algorithm}: one has its head");
            drop(responses.remove(1));
            assert_eq!(svc.get_mut().in_flight(), 1, "{algorithm}: one went away");
            drop(a);
            assert_ready_err!(responses[1].poll());
            assert_eq!(svc.get_mut().in_flight(), 0, "{algorithm}: one failed");
        }
    });
}

#[test]
fn requests_of_an_endpoint_that_left_still_end() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (balancer, endpoints) = rows::balancer(algorithm, 1);
            let mut svc = mock::Spawn::new(balancer);
            let mut a = endpoints.insert(1);
            a.allow(1);
            assert_ready_ok!(svc.poll_ready());
            let mut response = task::spawn(svc.call(7));
            endpoints.remove(1);
            assert_pending!(svc.poll_ready(), "{algorithm}");
            assert!(svc.get_ref().is_empty(), "{algorithm}");
            assert_eq!(svc.get_mut().in_flight(), 1, "{algorithm}: the request goes on");
            let mut b = endpoints.insert(2);
            b.allow(1);
            assert_ready_ok!(svc.poll_ready(), "{algorithm}: others come and are used");
            assert_request_eq!(a, 7).send_response("a");
            assert_eq!(assert_ready_ok!(response.poll()), "a");
            assert_eq!(svc.get_mut().in_flight(), 0, "{algorithm}");
        }
    });
}

#[test]
fn a_response_may_outlive_its_balancer() {
    rows::steer(async {
        let (balancer, endpoints) = rows::balancer("peak_ewma", 1);
        let mut svc = mock::Spawn::new(balancer);
        let mut a = endpoints.insert(1);
        a.allow(1);
        assert_ready_ok!(svc.poll_ready());
        let mut response = task::spawn(svc.call(7));
        drop(svc);
        assert_request_eq!(a, 7).send_response("a");
        assert_eq!(assert_ready_ok!(response.poll()), "a");
    });
}

/// A body that is in flight until it is dropped.
struct Body(InFlight);

#[derive(Clone)]
struct AtLastByte;

impl<T, E> Completion<T, E> for AtLastByte {
    type Output = Body;

    fn complete(&self, in_flight: InFlight, _: T) -> Body {
        Body(in_flight)
    }
}

#[test]
fn a_body_keeps_its_request_in_flight() {
    rows::steer(async {
        let (service, mut a) = mock::pair::<u64, &'static str>();
        let builder = Builder::new("leastconn").unwrap().completion(AtLastByte);
        let mut svc = mock::Spawn::new(builder.build(ServiceList::new(vec![service])).unwrap());
        a.allow(1);
        assert_ready_ok!(svc.poll_ready());
        let mut response = task::spawn(svc.call(7));
        assert_request_eq!(a, 7).send_response("a");
        let mut body = assert_ready_ok!(response.poll());
        drop(response);
        assert_eq!(svc.get_mut().in_flight(), 1, "its head is there, its end is not");
        body.0.set_outcome(Outcome::failed(FailureKind::Gateway));
        std::thread::spawn(move || drop(body)).join().unwrap();
        assert_eq!(svc.get_mut().in_flight(), 0);
    });
}

/// Clock that a test advances.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }
}

/// Number of 100 requests that go to the first of two endpoints, after each had one that took `ms` and was judged by
/// `completion`.
async fn share_of_first<C>(ms: [u64; 2], completion: C) -> usize
where
    C: Completion<&'static str, tower::BoxError, Output = &'static str>,
{
    let hand = Hand::default();
    let ((a, mut handle_a), (b, mut handle_b)) = (mock::pair::<u64, &'static str>(), mock::pair());
    let builder = Builder::new("peak_ewma").unwrap().clock(hand.clone()).seed(1).completion(completion);
    let mut svc: Balance<_, u64, C> = builder.build(ServiceList::new(vec![a, b])).unwrap();
    let mut cx = task::spawn(());
    let mut to_first = 0;
    // The first two requests go to one endpoint each, as only that one is ready.
    for (round, ms) in (0..102).zip(ms.into_iter().chain(std::iter::repeat(0))) {
        handle_a.allow(u64::from(round != 1));
        handle_b.allow(u64::from(round != 0));
        assert_ready_ok!(cx.enter(|cx, _| svc.poll_ready(cx)));
        let mut response = task::spawn(svc.call(round));
        let at_a = task::spawn(handle_a.next_request()).poll();
        let first = at_a.is_ready();
        let (asked, name) = match at_a {
            Poll::Ready(asked) => (asked, "a"),
            Poll::Pending => (handle_b.next_request().await, "b"),
        };
        hand.advance_ms(ms);
        asked.expect("the balancer has it").1.send_response(name);
        assert_ready_ok!(response.poll());
        to_first += usize::from(round > 1 && first);
    }
    to_first
}

#[test]
fn latencies_are_what_the_clock_says() {
    rows::steer(async {
        assert_eq!(share_of_first([1, 100], evenkeel_tower::AtHead).await, 100);
        assert_eq!(share_of_first([100, 1], evenkeel_tower::AtHead).await, 0);
    });
}

#[test]
fn a_closure_says_which_responses_are_failures() {
    rows::steer(async {
        let broken = |result: &Result<&'static str, tower::BoxError>| match result {
            Ok("a") => Outcome::failed(FailureKind::Gateway),
            _ => Outcome::Success,
        };
        // The first endpoint answers faster, but with a failure: without the closure it would get all requests.
        assert_eq!(share_of_first([1, 100], broken).await, 0);
        // A server error may be the request's fault, so it is neither penalised nor used as a latency sample.
        let wrong = |result: &Result<&'static str, tower::BoxError>| match result {
            Ok("a") => Outcome::failed(FailureKind::Server),
            _ => Outcome::Success,
        };
        let share = share_of_first([1, 100], wrong).await;
        // 100 draws between equals: six standard deviations to either side.
        assert!((20..=80).contains(&share), "{share}");
    });
}
