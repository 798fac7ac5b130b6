//! Readiness: the balancer is ready if an endpoint is, and calls only ready endpoints. Covers the tests of tower's own
//! balancer, for every algorithm.

use crate::rows::{self, Balanced, Request, Response};
use tokio_test::task::{self, Spawn};
use tokio_test::{assert_pending, assert_ready, assert_ready_err, assert_ready_ok};
use tower_test::mock::{Handle, Spawn as Service};
use tower_test::{assert_request_eq, mock};

fn spawned(algorithm: &str) -> (Service<Balanced>, rows::Endpoints) {
    let (balancer, endpoints) = rows::balancer(algorithm, 1);
    (mock::Spawn::new(balancer), endpoints)
}

/// Spawns a balancer with one ready endpoint that takes this many requests.
fn serving(algorithm: &str, requests: u64) -> (Service<Balanced>, rows::Endpoints, Handle<Request, Response>) {
    let (mut svc, endpoints) = spawned(algorithm);
    let mut only = endpoints.insert(1);
    only.allow(requests);
    assert_ready_ok!(svc.poll_ready(), "{algorithm}");
    (svc, endpoints, only)
}

/// Sends a request and lets the endpoint that got it answer with its name. Returns the name.
fn exchange(svc: &mut Service<Balanced>, handles: &mut [(&mut Handle<Request, Response>, Response)]) -> Response {
    let mut response = task::spawn(svc.call(7));
    let mut got = Vec::new();
    for (handle, name) in handles {
        let mut next = task::spawn(handle.next_request());
        if let std::task::Poll::Ready(Some((_, answer))) = next.poll() {
            answer.send_response(name);
            got.push(*name);
        }
    }
    assert_eq!(got.len(), 1, "one endpoint got the request: {got:?}");
    assert_eq!(assert_ready_ok!(response.poll()), got[0]);
    got[0]
}

#[test]
fn without_endpoints_it_waits_for_one() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints) = spawned(algorithm);
            assert_pending!(svc.poll_ready(), "{algorithm}");
            let mut a = endpoints.insert(1);
            a.allow(1);
            assert!(svc.is_woken(), "{algorithm}: it was discovered");
            assert_ready_ok!(svc.poll_ready(), "{algorithm}");
        }
    });
}

#[test]
fn a_single_endpoint_decides() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints) = spawned(algorithm);
            let mut a = endpoints.insert(1);
            assert_pending!(svc.poll_ready(), "{algorithm}");
            assert_eq!(svc.get_ref().len(), 1, "{algorithm}: it was discovered");
            a.allow(1);
            assert!(svc.is_woken(), "{algorithm}");
            assert_ready_ok!(svc.poll_ready(), "{algorithm}");
            let mut response = task::spawn(svc.call(7));
            assert_pending!(svc.poll_ready(), "{algorithm}: it is busy");
            assert_request_eq!(a, 7).send_response("a");
            assert_eq!(assert_ready_ok!(response.poll()), "a");
            a.allow(1);
            assert_ready_ok!(svc.poll_ready(), "{algorithm}");
            a.send_error("endpoint lost");
            assert_pending!(svc.poll_ready(), "{algorithm}: it was ready, and is lost");
            assert!(svc.get_ref().is_empty(), "{algorithm}: an endpoint that failed is dropped");
        }
    });
}

#[test]
fn of_two_endpoints_only_a_ready_one_is_called() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints) = spawned(algorithm);
            let (mut a, mut b) = (endpoints.insert(1), endpoints.insert(2));
            assert_pending!(svc.poll_ready(), "{algorithm}");
            assert_eq!(svc.get_ref().len(), 2);
            // Enough rounds that an endpoint that is not ready would be drawn.
            for round in 0..20 {
                let (ready, name) = if round % 2 == 0 { (&mut a, "a") } else { (&mut b, "b") };
                ready.allow(1);
                assert_ready_ok!(svc.poll_ready(), "{algorithm}: one is ready");
                assert_eq!(exchange(&mut svc, &mut [(&mut a, "a"), (&mut b, "b")]), name, "{algorithm}");
                assert_pending!(svc.poll_ready(), "{algorithm}: none is");
            }
            a.allow(1);
            b.allow(1);
            let first = {
                assert_ready_ok!(svc.poll_ready(), "{algorithm}: both are ready");
                exchange(&mut svc, &mut [(&mut a, "a"), (&mut b, "b")])
            };
            assert_ready_ok!(svc.poll_ready(), "{algorithm}: the other is still ready");
            let second = exchange(&mut svc, &mut [(&mut a, "a"), (&mut b, "b")]);
            assert_ne!(first, second, "{algorithm}: an endpoint that was called has to become ready first");
            a.send_error("endpoint lost");
            assert_pending!(svc.poll_ready(), "{algorithm}");
            assert_eq!(svc.get_ref().len(), 1, "{algorithm}: an endpoint that failed is dropped");
        }
    });
}

#[test]
fn an_endpoint_that_failed_while_ready_gets_no_request() {
    rows::steer(async {
        for algorithm in rows::all() {
            for lost in 0..4 {
                let (mut svc, endpoints) = spawned(algorithm);
                let mut handles: Vec<_> = (0..4).map(|key| endpoints.insert(key)).collect();
                handles.iter_mut().for_each(|handle| handle.allow(1));
                assert_ready_ok!(svc.poll_ready());
                assert_eq!(svc.get_ref().ready_len(), 4);
                handles[lost].send_error("connection closed");
                for _ in 0..3 {
                    assert_ready_ok!(svc.poll_ready(), "{algorithm}: three are ready still");
                    let mut response = task::spawn(svc.call(7));
                    assert_pending!(response.poll(), "{algorithm}: a lost endpoint would have failed the request");
                }
                assert_pending!(svc.poll_ready(), "{algorithm}: each has its one");
                assert_eq!(svc.get_ref().len(), 3, "{algorithm}");
            }
        }
    });
}

#[test]
fn it_is_woken_by_any_endpoint_that_becomes_ready() {
    rows::steer(async {
        let (mut svc, endpoints) = spawned("leastconn");
        let mut handles: Vec<_> = (0..100).map(|key| endpoints.insert(key)).collect();
        for i in [99, 0, 63, 64, 17] {
            assert_pending!(svc.poll_ready());
            assert!(!svc.is_woken());
            handles[i].allow(1);
            assert!(svc.is_woken(), "by {i}");
            assert_ready_ok!(svc.poll_ready());
            let _response: Spawn<_> = task::spawn(svc.call(7));
            assert_request_eq!(handles[i], 7);
        }
    });
}

#[test]
fn a_call_that_finds_no_endpoint_ready_is_an_error_and_no_panic() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints) = spawned(algorithm);
            let error = assert_ready_err!(task::spawn(svc.call(7)).poll(), "{algorithm}");
            assert!(error.is::<evenkeel_tower::Unready>(), "{error}");
            let mut a = endpoints.insert(1);
            a.allow(1);
            assert_ready_ok!(svc.poll_ready());
            let _response: Spawn<_> = task::spawn(svc.call(7));
            // A second call without poll_ready is a mistake of the caller, and must not panic or count.
            let error = assert_ready_err!(task::spawn(svc.call(7)).poll(), "{algorithm}");
            assert!(error.is::<evenkeel_tower::Unready>(), "{error}");
            assert_eq!(svc.get_mut().in_flight(), 1, "{algorithm}");
        }
    });
}

#[test]
fn a_source_that_fails_is_an_error_of_the_balancer() {
    rows::steer(async {
        let failing = tokio_stream::iter([Err::<tower::discover::Change<u32, rows::Service>, _>("no such name")]);
        let mut svc = mock::Spawn::new(evenkeel_tower::Balance::<_, Request>::new(failing));
        let error = assert_ready_err!(svc.poll_ready());
        assert_eq!(error.to_string(), "the source of endpoints failed: no such name");
        assert!(error.downcast::<evenkeel_tower::DiscoverError>().is_ok());
    });
}

#[test]
fn a_key_that_comes_again_replaces_its_service_once_the_new_one_is_ready() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints, mut old) = serving(algorithm, 2);
            let mut new = endpoints.insert(1);
            assert_ready_ok!(svc.poll_ready(), "{algorithm}: the old one serves on");
            assert_eq!(svc.get_ref().len(), 1);
            new.allow(1);
            assert_ready_ok!(svc.poll_ready());
            assert_eq!(exchange(&mut svc, &mut [(&mut old, "old"), (&mut new, "new")]), "new", "{algorithm}");
            assert!(
                assert_ready!(task::spawn(old.next_request()).poll()).is_none(),
                "{algorithm}: the old one is dropped"
            );
        }
    });
}

#[test]
fn a_replaced_service_is_gone_after_its_request() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints, mut old) = serving(algorithm, 2);
            let mut new = endpoints.insert(1);
            assert_ready_ok!(svc.poll_ready());
            assert_eq!(exchange(&mut svc, &mut [(&mut old, "old"), (&mut new, "new")]), "old", "{algorithm}");
            assert_pending!(svc.poll_ready(), "{algorithm}: the new one is not ready");
            new.allow(1);
            assert_ready_ok!(svc.poll_ready());
            assert_eq!(exchange(&mut svc, &mut [(&mut old, "old"), (&mut new, "new")]), "new", "{algorithm}");
        }
    });
}

#[test]
fn a_successor_that_fails_leaves_the_old_service() {
    rows::steer(async {
        for algorithm in rows::all() {
            let (mut svc, endpoints, mut old) = serving(algorithm, 1);
            endpoints.insert(1).send_error("refused");
            assert_ready_ok!(svc.poll_ready(), "{algorithm}");
            let mut response = task::spawn(svc.call(7));
            assert_request_eq!(old, 7).send_response("old");
            assert_eq!(assert_ready_ok!(response.poll()), "old", "{algorithm}");
        }
    });
}
