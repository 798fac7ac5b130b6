//! Roles of requests in a fetch, whatever becomes of it.

use super::*;
use crate::cache::growing::tests::{head, request};
use evenkeel_cache::key::{KeyRules, Place};
use evenkeel_cache::store::{Options, Store};
use evenkeel_cache::vary;
use std::pin::pin;

/// Fields of a request for a path.
struct Asks {
    path: &'static str,
    fields: Table,
}

fn asks(path: &'static str, accept: &str) -> Asks {
    let mut fields = Table::default();
    fields.push(b"accept", accept.as_bytes());
    Asks { path, fields }
}

impl Asks {
    fn key(&mut self) -> Key {
        KeyRules::default().key(&request(self.path, &mut self.fields), &Place::default()).expect("a plain request")
    }

    fn varying(&mut self, vary: &Fields<'_, '_>) -> Option<Vec<u8>> {
        vary::write(&request(self.path, &mut self.fields), vary)
    }

    fn join(&mut self, flights: &Arc<Flights>, seconds: u64) -> Role {
        let key = self.key();
        flights.join(&key, |vary| self.varying(vary), at(seconds), |_| true)
    }
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * SECOND_NS)
}

fn leads(role: Role) -> Lead {
    let Role::Leads(lead) = role else { panic!("it leads") };
    lead
}

fn follows(role: Role) -> Follow {
    let Role::Follows(follow) = role else { panic!("it follows") };
    follow
}

fn polled(follow: &mut Follow) -> Option<Followed> {
    match pin!(follow).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(followed) => Some(followed),
        Poll::Pending => None,
    }
}

fn growing(vary: Option<&str>, accept: &str) -> Arc<Growing> {
    let store = Store::<evenkeel_cache::stored::Stored>::new(&Options::default());
    Growing::new(head(vary, accept), None, store.begin(), at(0))
}

#[test]
fn one_request_fetches_and_the_others_read_the_response_from_its_head_on() {
    let (flights, mut a) = (Arc::new(Flights::default()), asks("/a", "x"));
    let key = a.key();
    let lead = leads(a.join(&flights, 0));
    let mut first = follows(a.join(&flights, 0));
    drop(leads(asks("/b", "x").join(&flights, 0)));
    assert!(polled(&mut first).is_none());
    let body = growing(None, "x");
    lead.begin(&a.key(), &body);
    assert!(matches!(polled(&mut first), Some(Followed::Reads(reads)) if Arc::ptr_eq(&reads, &body)));
    assert!(matches!(a.join(&flights, 0), Role::Reads(_)));
    assert!(flights.growing(&key, |vary| a.varying(vary)).is_some());
    lead.end(End::Stored, at(1));
    drop(leads(a.join(&flights, 1)));
}

#[test]
fn a_fetch_that_fails_passes_to_the_oldest_request_that_waits() {
    let (flights, mut a) = (Arc::new(Flights::default()), asks("/a", "x"));
    let key = a.key();
    let lead = leads(a.join(&flights, 0));
    let mut waiting: Vec<Follow> = (0..4).map(|_| follows(a.join(&flights, 0))).collect();
    assert!(waiting.iter_mut().all(|follow| polled(follow).is_none()));
    drop(lead);
    assert!(polled(&mut waiting[1]).is_none(), "the oldest leads, whichever is polled first");
    drop(waiting.remove(0));
    let Some(Followed::Leads(lead)) = polled(&mut waiting[0]) else { panic!("the next one leads") };
    assert!(polled(&mut waiting[1]).is_none());
    assert!(flights.is_under_way(&key, |vary| a.varying(vary)));
    lead.end(End::Failed, at(0));
    waiting.clear();
    assert!(!flights.is_under_way(&key, |vary| a.varying(vary)), "no request is left to lead");
    drop(leads(a.join(&flights, 0)));
}

#[test]
fn those_who_wait_for_a_response_that_is_not_stored_go_at_once() {
    for end in [End::Apart, End::Erred] {
        let (flights, mut a) = (Arc::new(Flights::default()), asks("/a", "x"));
        let lead = leads(a.join(&flights, 0));
        let mut waiting: Vec<Follow> = (0..4).map(|_| follows(a.join(&flights, 0))).collect();
        lead.end(end, at(0));
        for follow in &mut waiting {
            assert!(matches!(polled(follow), Some(Followed::Ended(known)) if known == end));
        }
        assert_eq!(matches!(a.join(&flights, 0), Role::Alone(Some(_))), end == End::Apart);
    }
}

#[test]
fn after_a_response_that_is_not_stored_requests_do_not_wait_for_a_while() {
    let (flights, mut a) = (Arc::new(Flights::default()), asks("/a", "x"));
    leads(a.join(&flights, 0)).end(End::Apart, at(0));
    let Role::Alone(Some(second)) = a.join(&flights, 9) else { panic!("it is alone") };
    assert!(second.is_alone() && matches!(a.join(&flights, 9), Role::Alone(Some(_))));
    drop(leads(asks("/b", "x").join(&flights, 9)));
    second.end(End::Apart, at(9));
    assert!(matches!(a.join(&flights, 18), Role::Alone(_)));
    drop(leads(a.join(&flights, 19)));
}

#[test]
fn the_head_of_a_response_that_may_be_stored_ends_that_while() {
    let (flights, mut a) = (Arc::new(Flights::default()), asks("/a", "x"));
    leads(a.join(&flights, 0)).end(End::Apart, at(0));
    let [first, second] = [0, 0].map(|seconds| a.join(&flights, seconds));
    let (Role::Alone(Some(first)), Role::Alone(Some(second))) = (first, second) else { panic!("they are alone") };
    let body = growing(None, "x");
    first.begin(&a.key(), &body);
    assert!(matches!(a.join(&flights, 0), Role::Reads(reads) if Arc::ptr_eq(&reads, &body)));
    second.end(End::Apart, at(0));
    assert!(matches!(a.join(&flights, 0), Role::Reads(_)), "what arrives is read in any case");
    first.end(End::Stored, at(0));
    assert!(matches!(a.join(&flights, 0), Role::Alone(_)), "the last response was not stored");
}

/// A client that provokes errors with values that others do not send costs itself only.
#[test]
fn requests_with_other_values_of_vary_still_share_a_fetch() {
    let (flights, mut x, mut y) = (Arc::new(Flights::default()), asks("/a", "x"), asks("/a", "y"));
    let lead = leads(x.join(&flights, 0));
    lead.begin(&x.key(), &growing(Some("Accept"), "x"));
    lead.end(End::Stored, at(0));
    leads(y.join(&flights, 0)).end(End::Apart, at(0));
    assert!(matches!(y.join(&flights, 0), Role::Alone(_)));
    let _lead = leads(x.join(&flights, 0));
    drop(follows(x.join(&flights, 0)));
}

#[test]
fn the_last_known_vary_tells_fetches_apart() {
    let flights = Arc::new(Flights::default());
    let (mut x, mut y) = (asks("/a", "x"), asks("/a", "y"));
    let lead = leads(x.join(&flights, 0));
    let mut other = follows(y.join(&flights, 0));
    lead.begin(&x.key(), &growing(Some("Accept"), "x"));
    assert!(matches!(polled(&mut other), Some(Followed::Reads(_))), "it finds out that this is for others");
    assert!(matches!(x.join(&flights, 0), Role::Reads(_)));
    let second = leads(y.join(&flights, 0));
    assert!(matches!(asks("/a", "x").join(&flights, 0), Role::Reads(_)));
    drop(follows(asks("/a", "y").join(&flights, 0)));
    lead.end(End::Stored, at(0));
    second.end(End::Stored, at(0));
    // Remembered for the next fetches.
    let (_x, _y) = (leads(x.join(&flights, 1)), leads(y.join(&flights, 1)));
}

#[test]
fn a_response_that_is_no_longer_current_is_fetched_again() {
    let (flights, mut a) = (Arc::new(Flights::default()), asks("/a", "x"));
    let first = leads(a.join(&flights, 0));
    first.begin(&a.key(), &growing(None, "x"));
    let key = a.key();
    let second = leads(flights.join(&key, |vary| a.varying(vary), at(0), |_| false));
    first.end(End::Stored, at(0));
    assert!(matches!(a.join(&flights, 0), Role::Follows(_)), "the end of the first leaves the second alone");
    drop(second);
}
