//! Orders of an operator: endpoints that drain with and without their sessions, that are forced up or down, and that
//! are ejected by hand.

use crate::support::rows::Row;
use evenkeel_balance::control::Settings;
use evenkeel_balance::endpoint::Forced;
use evenkeel_balance::health;
use evenkeel_balance::outlier::{self, Cause};
use evenkeel_balance::state::State;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, Exclusion, FailureKind, Instant, NoPick, Outcome, Pool, Request, Seat, sticky,
};

fn at(seconds: u64) -> Instant {
    Instant(seconds * SECOND_NS)
}

fn pool(settings: Settings, specs: &[EndpointSpec]) -> (Pool, Balancer) {
    let mut pool = Pool::new(1);
    pool.configure(settings, at(0));
    pool.update(specs, at(0));
    let balancer = Row::named("random").balancer(&pool, Seat::default(), 1);
    (pool, balancer)
}

fn state(pool: &Pool, name: &str) -> State {
    pool.states().find(|(id, _)| *id == EndpointId::of(name)).expect("it is configured").1
}

/// Number of a hundred requests that reach this endpoint.
fn share(balancer: &mut Balancer, pool: &Pool, name: &str, now: Instant) -> usize {
    let slot = pool.slot_of(EndpointId::of(name)).expect("it is configured");
    let mut picks = (0..100).map(|_| {
        let ticket = balancer.start(&Request::default(), now).expect("an endpoint is there");
        let is_there = ticket.slot() == slot;
        balancer.end(ticket, Outcome::Success, now);
        is_there
    });
    picks.by_ref().filter(|is_there| *is_there).count()
}

#[test]
fn an_endpoint_that_drains_keeps_its_sessions_unless_it_shall_not() {
    let specs = |keeps| ["a", "b"].map(|n| EndpointSpec::new(n).drain(n == "b").keeps_sessions(keeps));
    let (mut pool, mut balancer) = pool(Settings::default(), &specs(true));
    let slot = pool.slot_of(EndpointId::of("b")).expect("it is configured");
    assert_eq!(share(&mut balancer, &pool, "b", at(1)), 0);
    assert_eq!(sticky::slot(balancer.set(), EndpointId::of("b")), Some(slot));
    let ticket = balancer.start_at(slot, at(1)).expect("a session stays");
    assert_eq!(pool.in_flight(slot), 1);
    balancer.end(ticket, Outcome::Success, at(1));
    assert_eq!((pool.in_flight(slot), state(&pool, "b")), (0, State::Draining));
    assert!(pool.view().set.excluded().contains(&(slot, EndpointId::of("b"), Exclusion::Draining)));

    pool.update(&specs(false), at(2));
    balancer.refresh(at(2));
    assert_eq!(sticky::slot(balancer.set(), EndpointId::of("b")), None);
    assert_eq!(balancer.start_at(slot, at(2)).map(|_| ()), Err(NoPick::Empty));
}

#[test]
fn sessions_leave_an_endpoint_that_drains_and_fails() {
    let settings = Settings { health: Some(health::Settings::default()), ..Settings::default() };
    let (mut pool, mut balancer) = pool(settings, &["a", "b"].map(|n| EndpointSpec::new(n).drain(n == "b")));
    for _ in 0..10 {
        pool.on_check(EndpointId::of("a"), true, at(1));
        pool.on_check(EndpointId::of("b"), false, at(1));
    }
    balancer.refresh(at(1));
    assert_eq!(sticky::slot(balancer.set(), EndpointId::of("b")), None);
}

#[test]
fn a_word_of_the_operator_stands_above_checks_and_ejection() {
    let settings = Settings {
        health: Some(health::Settings::default()),
        outlier: Some(outlier::Settings::default()),
        ..Settings::default()
    };
    let specs =
        |forced: Option<Forced>| ["a", "b", "c"].map(|n| EndpointSpec::new(n).forced(forced.filter(|_| n == "b")));
    let (mut pool, mut balancer) = pool(settings, &specs(None));
    for _ in 0..10 {
        for (name, passes) in [("a", true), ("b", false), ("c", true)] {
            pool.on_check(EndpointId::of(name), passes, at(1));
        }
    }
    assert_eq!((state(&pool, "b"), share(&mut balancer, &pool, "b", at(1))), (State::Down, 0));

    pool.update(&specs(Some(Forced::Up)), at(2));
    assert_eq!(state(&pool, "b"), State::Up);
    assert!(share(&mut balancer, &pool, "b", at(2)) > 20);
    // Neither checks nor failures take it out.
    let slot = pool.slot_of(EndpointId::of("b")).expect("it is configured");
    for _ in 0..20 {
        pool.on_check(EndpointId::of("b"), false, at(3));
        let ticket = balancer.start_at(slot, at(3)).expect("it is up");
        balancer.end(ticket, Outcome::failed(FailureKind::Connect), at(3));
        pool.poll(at(3));
    }
    assert_eq!(state(&pool, "b"), State::Up);

    pool.update(&specs(Some(Forced::Down)), at(4));
    for _ in 0..10 {
        pool.on_check(EndpointId::of("b"), true, at(4));
    }
    assert_eq!((state(&pool, "b"), share(&mut balancer, &pool, "b", at(4))), (State::Down, 0));
    // Without the order its checks count, and they pass.
    pool.update(&specs(None), at(5));
    assert_eq!(state(&pool, "b"), State::Up);
}

#[test]
fn an_endpoint_is_ejected_by_hand_for_a_while_with_and_without_detection() {
    for outlier in [None, Some(outlier::Settings::default())] {
        let (mut pool, mut balancer) =
            pool(Settings { outlier, ..Settings::default() }, &["a", "b"].map(EndpointSpec::new));
        let a = EndpointId::of("a");
        assert_eq!(pool.restore(a, at(1)), None, "it is in");
        assert_eq!(pool.eject(EndpointId::of("c"), at(1)), None, "there is no such endpoint");
        assert_eq!(pool.eject(a, at(1)), Some(Some(at(31))));
        assert_eq!(pool.eject(a, at(2)), None, "it is out");
        assert_eq!((state(&pool, "a"), share(&mut balancer, &pool, "a", at(2))), (State::Ejected(Cause::Operator), 0));
        pool.poll(at(31));
        assert_ne!(share(&mut balancer, &pool, "a", at(31)), 0);
        pool.poll(at(31));
        assert_eq!(state(&pool, "a"), State::Up);

        assert!(pool.eject(a, at(40)).is_some());
        assert!(pool.restore(a, at(41)).is_some());
        assert_eq!(state(&pool, "a"), State::Up);
        assert!(share(&mut balancer, &pool, "a", at(41)) > 20);
    }
}
