//! The control side of a pool with real balancers, in virtual time: ejection and trials over workers, first checks,
//! tiers, zones and panic.

use crate::support::rows::{self, Row};
use evenkeel_balance::control::Settings;
use evenkeel_balance::eligible::{Locality, Panic, PanicMode};
use evenkeel_balance::health::{self, Initial};
use evenkeel_balance::outlier::{self, Cause};
use evenkeel_balance::state::State;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, Exclusion, Explanation, FailureKind, Instant, NoPick, Outcome, Pool, Request,
    Seat, Ticket, endpoint, slow_start,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

fn at(seconds: u64) -> Instant {
    Instant(seconds * SECOND_NS)
}

fn names<const N: usize>(names: [&str; N]) -> [EndpointSpec; N] {
    names.map(EndpointSpec::new)
}

fn pool(settings: Settings, workers: u32, specs: &[EndpointSpec]) -> (Pool, Vec<Balancer>) {
    let mut pool = Pool::new(workers);
    pool.configure(settings, at(0));
    pool.update(specs, at(0));
    let row = Row::named("random");
    let balancers = (0..workers).map(|worker| row.balancer(&pool, Seat { worker, workers }, 1)).collect();
    (pool, balancers)
}

fn ejecting() -> Settings {
    Settings {
        outlier: Some(outlier::Settings { consecutive_5xx: 5, ..outlier::Settings::default() }),
        ..Settings::default()
    }
}

fn checking(initial: Initial) -> Settings {
    let health = health::Settings { initial, ..health::Settings::default() };
    Settings { health: Some(health), ..Settings::default() }
}

fn start_at(balancer: &mut Balancer, pool: &Pool, name: &str, now: Instant) -> Result<Ticket, NoPick> {
    balancer.start_at(pool.slot_of(EndpointId::of(name)).expect("it is configured"), now)
}

/// Makes one request there. Returns true if its end gave the control side something to decide.
fn request(balancer: &mut Balancer, pool: &Pool, name: &str, outcome: Outcome, now: Instant) -> bool {
    let ticket = start_at(balancer, pool, name, now).expect("it has room");
    balancer.end(ticket, outcome, now)
}

fn fail(kind: FailureKind) -> Outcome {
    Outcome::failed(kind)
}

/// Makes `count` requests there that fail, one after the other.
fn fails(count: u32, kind: FailureKind, balancer: &mut Balancer, pool: &Pool, name: &str, now: Instant) {
    for _ in 0..count {
        request(balancer, pool, name, fail(kind), now);
    }
}

fn failed_checks(count: u32, pool: &mut Pool, name: &str, now: Instant) {
    for _ in 0..count {
        pool.on_check(EndpointId::of(name), false, now);
    }
}

fn state(pool: &Pool, name: &str) -> State {
    pool.states().find(|(id, _)| *id == EndpointId::of(name)).expect("it is configured").1
}

/// Returns those of these endpoints that a thousand requests reach.
fn reached(balancer: &mut Balancer, pool: &Pool, of: &[&str], now: Instant) -> Vec<String> {
    let mut hits = vec![0; of.len()];
    for _ in 0..1000 {
        let ticket = balancer.start(&Request::default(), now).expect("an endpoint is there");
        let name = of.iter().position(|n| pool.slot_of(EndpointId::of(n)) == Some(ticket.slot()));
        hits[name.expect("it is one of them")] += 1;
        balancer.end(ticket, Outcome::Cancelled, now);
    }
    of.iter().zip(hits).filter(|(_, hits)| *hits > 0).map(|(name, _)| (*name).to_string()).collect()
}

#[test]
fn failures_in_a_row_over_all_workers_eject_once_and_a_success_between_breaks_the_row() {
    let (mut pool, mut workers) = pool(ejecting(), 2, &names(["a", "b", "c"]));
    for outcome in [fail(FailureKind::Connect), fail(FailureKind::Connect), Outcome::Success] {
        assert!(!request(&mut workers[0], &pool, "a", outcome, at(1)));
    }
    let mut told = |i: usize| request(&mut workers[i % 2], &pool, "a", fail(FailureKind::Connect), at(1));
    assert_eq!([0, 1, 2, 3].map(&mut told), [false, false, true, false], "the third in a row, and only that, tells");
    assert_eq!(state(&pool, "a"), State::Up, "control has not looked yet");
    assert_eq!(pool.poll(at(1)), Some(at(31)));
    assert_eq!(state(&pool, "a"), State::Ejected(Cause::Connect));
    assert_eq!(reached(&mut workers[1], &pool, &["a", "b", "c"], at(1)), ["b", "c"]);
    let changes: Vec<_> = pool.take_changes().iter().map(|c| (c.id, c.from, c.to, c.at)).collect();
    assert_eq!(changes, [(EndpointId::of("a"), State::Up, State::Ejected(Cause::Connect), at(1))]);
    assert!(pool.take_changes().is_empty());
}

#[test]
fn a_trial_is_one_request_at_a_time_and_its_first_outcome_decides() {
    let settings = Settings { slow_start: Some(RAMP), ..ejecting() };
    let (mut pool, mut workers) = pool(settings, 2, &names(["a", "b"]));
    fails(5, FailureKind::Gateway, &mut workers[0], &pool, "a", at(0));
    let straggler = start_at(&mut workers[0], &pool, "a", at(0)).expect("control has not looked yet");
    pool.poll(at(0));
    assert_eq!(start_at(&mut workers[0], &pool, "a", at(1)).unwrap_err(), NoPick::Empty);
    pool.poll(at(30));
    assert_eq!(state(&pool, "a"), State::Probation);
    assert_eq!(start_at(&mut workers[1], &pool, "a", at(30)).unwrap_err(), NoPick::AllFull, "one is there already");
    assert!(!workers[0].end(straggler, Outcome::Success, at(30)), "of before the ejection: decides nothing");
    let trial = start_at(&mut workers[1], &pool, "a", at(30)).expect("it may have one");
    assert_eq!(start_at(&mut workers[0], &pool, "a", at(30)).unwrap_err(), NoPick::AllFull);
    assert!(!workers[1].end(trial, Outcome::Cancelled, at(31)), "no outcome");
    assert!(request(&mut workers[0], &pool, "a", fail(FailureKind::Server), at(31)));
    assert!(!request(&mut workers[0], &pool, "a", Outcome::Success, at(31)), "the second outcome comes too late");
    assert_eq!(pool.poll(at(31)), Some(at(91)), "twice as long");
    pool.poll(at(91));
    assert!(request(&mut workers[0], &pool, "a", Outcome::Success, at(92)));
    pool.poll(at(92));
    assert_eq!(state(&pool, "a"), State::Ramping, "back, with slow start");
    assert_eq!(pool.view().set.members().iter().map(|m| m.weight).collect::<Vec<_>>(), [26, 256]);
    assert_eq!(pool.poll(at(200)), None);
    assert_eq!(state(&pool, "a"), State::Up);
}

const RAMP: slow_start::Settings = slow_start::Settings { window_ns: 10 * SECOND_NS, aggression: 1.0, min_weight: 0.1 };

#[test]
fn one_of_two_may_be_ejected_and_never_the_last() {
    let (mut pool, mut workers) = pool(ejecting(), 1, &names(["a", "b"]));
    for name in ["a", "b"] {
        fails(5, FailureKind::Server, &mut workers[0], &pool, name, at(0));
        pool.poll(at(0));
    }
    assert_eq!([state(&pool, "a"), state(&pool, "b")], [State::Ejected(Cause::Server), State::Up]);
    // The pool shrinks to the ejected one.
    pool.update(&names(["a"]), at(1));
    assert_eq!(state(&pool, "a"), State::Up);
    fails(9, FailureKind::Server, &mut workers[0], &pool, "a", at(1));
    pool.poll(at(1));
    assert_eq!(state(&pool, "a"), State::Up, "the only one");
}

#[test]
fn a_blocked_ejection_comes_when_there_is_room() {
    let (mut pool, mut workers) = pool(ejecting(), 1, &names(["a", "b", "c"]));
    for name in ["a", "b"] {
        fails(5, FailureKind::Server, &mut workers[0], &pool, name, at(0));
    }
    pool.poll(at(0));
    assert_eq!([state(&pool, "a"), state(&pool, "b")], [State::Ejected(Cause::Server), State::Up], "0.3 of 3 is one");
    pool.poll(at(30));
    request(&mut workers[0], &pool, "a", Outcome::Success, at(30));
    pool.poll(at(30));
    assert_eq!([state(&pool, "a"), state(&pool, "b")], [State::Up, State::Ejected(Cause::Server)]);
}

#[test]
fn slow_and_failing_endpoints_are_ejected_at_the_end_of_an_interval() {
    let success_rate = Some(outlier::SuccessRate { deviations: 1.0, min_requests: 20, min_endpoints: 3 });
    let latency = Some(outlier::Latency { factor: 3.0, min_requests: 20 });
    let outlier = outlier::Settings { success_rate, latency, eject_at_most: 0.5, ..outlier::Settings::default() };
    let settings = Settings { outlier: Some(outlier), ..Settings::default() };
    let (mut pool, mut workers) = pool(settings, 2, &names(["slow", "failing", "c", "d"]));
    for i in 0..100 {
        for name in ["slow", "failing", "c", "d"] {
            let worker = &mut workers[i % 2];
            let ticket = start_at(worker, &pool, name, at(1)).expect("no limit is set");
            let fails = name == "failing" && i % 2 == 0;
            let took = if name == "slow" { 31_000_000 } else { 10_000_000 };
            let outcome = if fails { fail(FailureKind::Server) } else { Outcome::Success };
            assert!(!worker.end(ticket, outcome, at(1).after(took)), "no row is long enough");
        }
    }
    assert_eq!(pool.poll(at(9)), Some(at(10)));
    pool.poll(at(10));
    let want = [State::Ejected(Cause::Latency), State::Ejected(Cause::SuccessRate), State::Up, State::Up];
    assert_eq!(["slow", "failing", "c", "d"].map(|n| state(&pool, n)), want);
    pool.poll(at(20));
    assert_eq!(["c", "d"].map(|n| state(&pool, n)), [State::Up; 2], "nothing happened in the second interval");
}

#[test]
fn requests_wait_for_first_checks_at_most_a_second() {
    let (mut pool, mut workers) = pool(checking(Initial::CheckFirst), 1, &names(["a", "b", "c"]));
    let start = |worker: &mut Balancer, now| worker.start(&Request::default(), now);
    let why = start(&mut workers[0], at(0)).unwrap_err();
    assert!(why == NoPick::Unchecked && why.may_wait());
    pool.on_check(EndpointId::of("a"), false, at(0));
    assert_eq!(start(&mut workers[0], at(0)).unwrap_err(), NoPick::Unchecked, "no panic while others are unchecked");
    assert_eq!(pool.on_check(EndpointId::of("b"), true, at(0)), Some(at(1)));
    assert_eq!(reached(&mut workers[0], &pool, &["a", "b", "c"], at(0)), ["b"]);
    assert_eq!(pool.poll(at(1)), None);
    assert_eq!(reached(&mut workers[0], &pool, &["a", "b", "c"], at(1)), ["b", "c"]);
    pool.on_check(EndpointId::of("c"), false, at(2));
    assert_eq!(["a", "b", "c"].map(|n| state(&pool, n)), [State::Down, State::Up, State::Down]);
}

#[test]
fn a_standby_waits_for_the_first_check_of_the_active_one() {
    let specs = [EndpointSpec::new("active"), EndpointSpec::new("standby").priority(1)];
    let (mut pool, mut workers) = pool(checking(Initial::CheckFirst), 1, &specs);
    pool.on_check(EndpointId::of("standby"), true, at(0));
    assert_eq!(workers[0].start(&Request::default(), at(0)).unwrap_err(), NoPick::Unchecked);
    pool.on_check(EndpointId::of("active"), false, at(0));
    assert_eq!(reached(&mut workers[0], &pool, &["active", "standby"], at(0)), ["standby"]);
    // The standby serves, so the pool does not wait for a new endpoint above it.
    let more = [specs[0].clone(), EndpointSpec::new("new"), specs[1].clone()];
    pool.update(&more, at(5));
    assert_eq!(reached(&mut workers[0], &pool, &["active", "new", "standby"], at(5)), ["standby"]);
}

#[test]
fn endpoints_that_serve_go_on_when_checks_are_configured_and_what_is_known_survives_a_reload() {
    let (mut pool, mut workers) = pool(ejecting(), 1, &names(["a", "b", "c"]));
    fails(3, FailureKind::Connect, &mut workers[0], &pool, "c", at(0));
    pool.poll(at(0));
    pool.configure(Settings { health: checking(Initial::CheckFirst).health, ..ejecting() }, at(5));
    assert_eq!(["a", "b"].map(|n| state(&pool, n)), [State::Up; 2]);
    failed_checks(3, &mut pool, "a", at(6));
    let next = pool.update(&names(["new", "c", "b", "a"]), at(7));
    assert_eq!(next, Some(at(8)), "the first check of the new one");
    let want = [State::Down, State::Up, State::Ejected(Cause::Connect), State::Unchecked];
    assert_eq!(["a", "b", "c", "new"].map(|n| state(&pool, n)), want);
    pool.on_check(EndpointId::of("c"), true, at(8));
    assert_eq!(state(&pool, "c"), State::Probation, "connections were the cause, and a check got through");
    pool.configure(Settings::default(), at(9));
    assert_eq!(["a", "b", "c", "new"].map(|n| state(&pool, n)), [State::Up; 4]);
}

#[test]
fn a_lower_tier_takes_what_the_first_has_no_room_for() {
    for row in rows::defaults() {
        let specs = ["a", "b", "c", "d"].map(|n| EndpointSpec::new(n).in_flight_max(2).priority(u8::from(n > "b")));
        let mut pool = Pool::new(1);
        pool.update(&specs, at(0));
        let mut worker = row.balancer(&pool, Seat::default(), 1);
        let mut start = || worker.start(&Request { key: Some(7), tried: &[], beyond: false }, at(1));
        let mut tickets: Vec<_> = (0..8).map(|_| start().expect("there is room")).collect();
        assert_eq!(start().unwrap_err(), NoPick::AllFull, "row {row}");
        let slots: Vec<_> = tickets.iter().map(|t| t.slot().index() / 2).collect();
        assert_eq!(slots, [0, 0, 0, 0, 1, 1, 1, 1], "row {row}: the first tier first");
        worker.end(tickets.remove(1), Outcome::Success, at(2));
        tickets.push(worker.start(&Request { key: Some(7), tried: &[], beyond: false }, at(2)).expect("there is room"));
        assert_eq!(tickets[7].slot().index() / 2, 0, "row {row}: as soon as it has room again");
        for ticket in tickets {
            worker.end(ticket, Outcome::Success, at(3));
        }
        assert_eq!(worker.loads().in_flight_total(), 0);
    }
}

#[test]
fn a_request_that_has_tried_all_of_a_tier_goes_to_the_next_whether_or_not_there_are_limits() {
    for row in rows::defaults() {
        for limit in [0, 5] {
            let tier = |name: &str| u8::from(name > "b") + u8::from(name > "c");
            let specs = ["a", "b", "c", "d"].map(|n| EndpointSpec::new(n).in_flight_max(limit).priority(tier(n)));
            let mut pool = Pool::new(1);
            pool.update(&specs, at(0));
            let mut worker = row.balancer(&pool, Seat::default(), 1);
            let (mut tried, mut asked) = (Vec::new(), Explanation::default());
            for _ in 0..4 {
                let request = Request { key: Some(7), tried: &tried, beyond: false };
                let ticket = worker.start_explained(&request, at(1), &mut asked).expect("one is untried");
                tried.push(ticket.slot());
                worker.end(ticket, Outcome::failed(FailureKind::Connect), at(1));
            }
            assert_eq!(tried[2..].iter().map(|slot| slot.index()).collect::<Vec<_>>(), [2, 3], "row {row}: {tried:?}");
            let request = Request { key: Some(7), tried: &tried, beyond: false };
            assert_eq!(worker.start(&request, at(1)).unwrap_err(), NoPick::AllTried, "row {row}: then there is none");
            let mut out = Vec::new();
            let request = Request { key: Some(7), tried: &tried[..2], beyond: false };
            worker.choose_k(&request, 3, at(1), &mut out).expect("the second tier is untried");
            assert_eq!(out, [tried[2]], "row {row}: an answer names one tier");
        }
    }
}

/// Returns the endpoints in the set after three failed checks of those `down`, and true if that is panic.
fn with_down(settings: Settings, specs: &[EndpointSpec], down: &[&str]) -> (Vec<u64>, bool, Vec<Exclusion>) {
    let (mut pool, _) = pool(Settings { health: checking(Initial::Healthy).health, ..settings }, 1, specs);
    for name in down {
        failed_checks(3, &mut pool, name, at(1));
    }
    let view = pool.view();
    let slots = view.set.members().iter().map(|m| m.slot.index() as u64).collect();
    (slots, view.set.in_panic(), view.set.excluded().iter().map(|e| e.2).collect())
}

#[test]
fn panic_uses_all_or_refuses_and_only_when_no_tier_can_help() {
    let panics = |mode| Settings { panic: Panic { healthy_below: 0.5, mode }, ..Settings::default() };
    let specs = names(["a", "b", "c", "d"]);
    let drained = specs.clone().map(|s| if s.id == EndpointId::of("d") { s.drain(true) } else { s });
    use Exclusion::{Draining, LowerPriority, Panic as Held, Unhealthy};
    let use_all = panics(PanicMode::UseAll);
    assert_eq!(with_down(use_all, &specs, &["a", "b"]), (vec![2, 3], false, vec![Unhealthy, Unhealthy]));
    assert_eq!(with_down(use_all, &specs, &["a", "b", "c"]), (vec![0, 1, 2, 3], true, vec![]));
    assert_eq!(with_down(use_all, &drained, &["a", "b"]), (vec![0, 1, 2], true, vec![Draining]));
    let refused = (vec![], true, vec![Unhealthy, Unhealthy, Unhealthy, Held]);
    assert_eq!(with_down(panics(PanicMode::Refuse), &specs, &["a", "b", "c"]), refused);
    // A standby helps: alone, or together with the rest of the first tier.
    let tiers = specs.clone().map(|s| if s.id == EndpointId::of("d") { s.priority(1) } else { s });
    assert_eq!(with_down(use_all, &tiers, &["a"]), (vec![1, 2], false, vec![Unhealthy, LowerPriority]));
    assert_eq!(with_down(use_all, &tiers, &["a", "b"]).0, [2, 3]);
    assert_eq!(with_down(use_all, &tiers, &["a", "b", "c"]).0, [3]);
    assert_eq!(with_down(use_all, &tiers, &["a", "b", "c", "d"]), (vec![0, 1, 2, 3], true, vec![]));
    let never = Settings { panic: Panic { healthy_below: 0.0, ..Panic::default() }, ..Settings::default() };
    assert_eq!(with_down(never, &specs, &["a", "b", "c"]).0, [3]);
    assert_eq!(with_down(never, &specs, &["a", "b", "c", "d"]), (vec![], false, vec![Unhealthy; 4]));
}

#[test]
fn the_own_zone_gets_all_until_too_little_of_it_is_left_and_then_its_part() {
    let specs: Vec<_> =
        (0..10).map(|i| EndpointSpec::new(&i.to_string()).zone(if i < 5 { "a" } else { "b" })).collect();
    let zone = endpoint::stable_hash(b"a");
    let settings = Settings { locality: Some(Locality { zone, spill_at: 0.8 }), ..Settings::default() };
    let (slots, _, excluded) = with_down(settings, &specs, &["0"]);
    assert_eq!((slots, excluded.len()), (vec![1, 2, 3, 4], 6), "4 of 5 are 0.8");
    assert_eq!(excluded[5], Exclusion::OtherZone);
    for (down, local_share) in [(vec!["0", "1"], 0.75), (vec!["0", "1", "2", "3"], 0.25)] {
        let health = checking(Initial::Healthy).health;
        let (mut pool, _) = pool(Settings { health, ..settings }, 1, &specs);
        for name in &down {
            failed_checks(3, &mut pool, name, at(1));
        }
        let set = &pool.view().set;
        let local: u32 = set.members().iter().filter(|m| m.slot.index() < 5).map(|m| m.weight).sum();
        let got = f64::from(local) / set.weight_total() as f64;
        assert!((got - local_share).abs() < 0.002, "{down:?}: {got}, not {local_share}");
    }
    // If all of the own zone is full, the others are tried.
    let specs: Vec<_> = specs.into_iter().map(|s| s.in_flight_max(1)).collect();
    let (pool, mut workers) = pool(settings, 1, &specs);
    let tickets: Vec<_> = (0..10).map(|_| workers[0].start(&Request::default(), at(1)).expect("room")).collect();
    assert!(tickets[..5].iter().all(|t| t.slot().index() < 5) && tickets[5..].iter().all(|t| t.slot().index() >= 5));
    for ticket in tickets {
        workers[0].end(ticket, Outcome::Success, at(2));
    }
    assert_eq!(pool.view().counts.in_flight_total(), 0);
}

#[test]
fn a_pool_without_settings_has_nothing_due_and_a_poll_publishes_only_what_changed() {
    let mut plain = Pool::new(1);
    assert_eq!(plain.update(&names(["a", "b"]), at(0)), None);
    assert_eq!(plain.update(&names(["a", "b", "c"]), at(1)), None);
    let before = plain.view();
    assert_eq!(plain.poll(at(1000)), None);
    assert!(Arc::ptr_eq(&before, &plain.view()) && plain.take_changes().is_empty());
    let (mut pool, _) = pool(checking(Initial::Healthy), 1, &names(["a", "b"]));
    let before = pool.view();
    failed_checks(2, &mut pool, "a", at(1));
    assert!(Arc::ptr_eq(&before, &pool.view()), "two failures change nothing");
    pool.on_check(EndpointId::of("a"), false, at(1));
    assert!(!Arc::ptr_eq(&before, &pool.view()));
}

#[test]
fn a_trial_holds_between_threads() {
    const WORKERS: u32 = 4;
    let (mut pool, workers) = pool(ejecting(), WORKERS, &names(["a", "b", "c"]));
    let broken = pool.slot_of(EndpointId::of("a")).expect("it is configured");
    let (trying, trials, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for mut worker in workers {
            let (trying, trials, done) = (&trying, &trials, &done);
            threads.push(scope.spawn(move || {
                while !done.load(SeqCst) {
                    let ticket = worker.start(&Request::default(), at(1)).expect("two are well");
                    if ticket.slot() != broken {
                        worker.end(ticket, Outcome::Success, at(1));
                        continue;
                    }
                    let on_trial = worker.set().get(broken).is_some_and(|m| m.trial != 0);
                    if on_trial {
                        assert_eq!(trying.fetch_add(1, SeqCst), 0, "two requests at once on trial");
                        trials.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        trying.fetch_sub(1, SeqCst);
                    }
                    worker.end(ticket, fail(FailureKind::Connect), at(1));
                }
            }));
        }
        // Time advances only as fast as trials fail, so that there are many; the loop ends even if there are none.
        let mut now = at(1);
        for _ in 0..2_000_000 {
            now = pool.poll(now).unwrap_or(now);
            std::thread::yield_now();
            if trials.load(SeqCst) >= 200 || threads.iter().any(|t| t.is_finished()) {
                break;
            }
        }
        done.store(true, SeqCst);
    });
    assert!(trials.load(SeqCst) >= 200, "{trials:?} trials");
    assert_eq!(pool.view().counts.in_flight_total(), 0);
}
