//! Use of endpoints' load reports by `leastconn`.

use crate::support::rows::Row;
use evenkeel_balance::time::{MILLISECOND_NS as MS, SECOND_NS};
use evenkeel_balance::{Balancer, EndpointSpec, Instant, LoadReport, Outcome, Pool, Request, Seat, Ticket};

/// Returns a pool of endpoints with these weights, and its workers.
fn pool<const WORKERS: usize>(weights: &[u32]) -> (Pool, [Balancer; WORKERS]) {
    let workers = WORKERS as u32;
    let mut pool = Pool::new(workers);
    let spec = |(i, &w): (usize, &u32)| EndpointSpec::new(&i.to_string()).weight(w);
    pool.update(&weights.iter().enumerate().map(spec).collect::<Vec<_>>(), Instant(0));
    let seat = |worker: usize| Seat { worker: worker as u32, workers };
    let mut balancers = std::array::from_fn(|worker| Row::named("leastconn").balancer(&pool, seat(worker), 1));
    balancers.iter_mut().for_each(|b| ask(b, Instant(0)));
    (pool, balancers)
}

/// Makes a request and sends the probes that it asks for, as reports count only where endpoints are asked.
fn ask(b: &mut Balancer, now: Instant) {
    let ticket = b.start(&Request::default(), now).unwrap();
    while b.poll_probe(now).is_some() {}
    b.end(ticket, Outcome::Success, now);
}

fn end(b: &mut Balancer, t: Ticket) {
    b.end(t, Outcome::Success, Instant(0));
}

/// Reports at `now` the requests in flight of each of these endpoints, by index.
fn report_loads(b: &mut Balancer, in_flight: &[(usize, u32)], now: Instant) {
    b.refresh(now);
    for &(index, in_flight) in in_flight {
        let slot = b.set().members()[index].slot;
        b.report(slot, &LoadReport::new(in_flight, 0), now).unwrap();
    }
}

/// Returns the slots of `count` requests at `now` that overlap; they end afterwards.
fn together(b: &mut Balancer, count: usize, now: Instant) -> Vec<usize> {
    let tickets: Vec<_> = (0..count).map(|_| b.start(&Request::default(), now).unwrap()).collect();
    let slots = tickets.iter().map(|t| t.slot().index()).collect();
    tickets.into_iter().for_each(|t| end(b, t));
    slots
}

fn count(slots: &[usize], slot: usize) -> usize {
    slots.iter().filter(|&&s| s == slot).count()
}

#[test]
fn what_others_have_in_flight_counts_at_every_worker() {
    let (_pool, [mut us, mut them]) = pool(&[1; 4]);
    report_loads(&mut us, &[(0, 9), (1, 5), (2, 0), (3, 9)], Instant(0));
    for b in [&mut us, &mut them] {
        let got = together(b, 9, Instant(MS));
        assert_eq!([0, 1, 2, 3].map(|slot| count(&got, slot)), [0, 2, 7, 0], "up to seven each");
    }
}

#[test]
fn an_endpoint_without_reports_counts_like_the_others() {
    let (_pool, [mut b]) = pool(&[1, 1, 1, 2]);
    report_loads(&mut b, &[(0, 6), (1, 10)], Instant(0));
    let got = together(&mut b, 2, Instant(MS));
    assert_eq!(count(&got, 0), 2, "6 and 7; the third counts as 8, the fourth as 16: {got:?}");
    let got = together(&mut b, 5 + 1 + 3 + 6, Instant(2 * MS));
    assert_eq!([0, 1, 2, 3].map(|slot| count(&got, slot)), [5, 1, 3, 6], "11 for each weight");
}

#[test]
fn a_second_after_the_last_report_only_what_is_known_here_counts() {
    let (_pool, [mut b]) = pool(&[1; 100]);
    report_loads(
        &mut b,
        &(0..100).map(|slot| (slot, if slot < 50 { 0 } else { 1000 })).collect::<Vec<_>>(),
        Instant(0),
    );
    let believed = together(&mut b, 100, Instant(SECOND_NS));
    assert!(believed.iter().all(|&slot| slot < 50));
    let alone = together(&mut b, 100, Instant(SECOND_NS + 2 * MS));
    assert!((0..100).all(|slot| count(&alone, slot) == 1), "one each at once: {alone:?}");
}

/// Reports at `now` that each endpoint is idle and takes `ms` milliseconds, plus a little that never repeats.
fn takes(b: &mut Balancer, ms: &[u64], now: Instant) {
    b.refresh(now);
    for (index, ms) in ms.iter().enumerate() {
        let slot = b.set().members()[index].slot;
        b.report(slot, &LoadReport::new(b.loads().in_flight(slot), ms * MS + now.0 / MS), now).unwrap();
    }
}

#[test]
fn an_endpoint_four_times_slower_gets_the_request_that_would_wait_as_long_elsewhere() {
    let (_pool, [mut b]) = pool(&[1; 4]);
    takes(&mut b, &[10, 10, 40, 10], Instant(MS));
    let got = together(&mut b, 9, Instant(2 * MS));
    assert_eq!([0, 1, 2, 3].map(|slot| count(&got, slot)), [3, 3, 0, 3]);
    let got = together(&mut b, 3 * 7 + 4, Instant(3 * MS));
    assert_eq!([0, 1, 2, 3].map(|slot| count(&got, slot)), [7, 7, 4, 7], "three more");
}

#[test]
fn an_endpoint_is_slow_compared_with_others_of_its_weight() {
    let (_pool, [mut b]) = pool(&[4, 4, 4, 1, 1, 1]);
    takes(&mut b, &[10, 10, 10, 40, 40, 40], Instant(MS));
    let got = together(&mut b, 15 * 4, Instant(2 * MS));
    assert_eq!([0, 1, 2, 3, 4, 5].map(|slot| count(&got, slot)), [16, 16, 16, 4, 4, 4], "its weight says so already");
}

#[test]
fn a_second_after_the_last_report_no_endpoint_is_slow() {
    let (_pool, [mut b]) = pool(&[1; 4]);
    takes(&mut b, &[10, 10, 40, 10], Instant(MS));
    assert_eq!(count(&together(&mut b, 8, Instant(2 * MS)), 2), 0);
    assert_eq!(count(&together(&mut b, 8, Instant(SECOND_NS + 3 * MS)), 2), 2);
}

/// An endpoint was slow, and gets no requests that could show that it no longer is.
#[test]
fn an_endpoint_that_was_slow_does_not_starve() {
    let (_pool, [mut b]) = pool(&[1; 6]);
    let mut first = None;
    for i in 1..12_000 {
        let now = Instant(i * MS);
        let ticket = b.start(&Request::default(), now).unwrap();
        if ticket.slot().index() == 0 && i > 100 {
            first.get_or_insert(i);
        }
        while let Some(slot) = b.poll_probe(now) {
            let latency_ns = if slot.index() == 0 { 40 * MS } else { 10 * MS + i };
            let report = LoadReport::new(b.loads().in_flight(slot), latency_ns);
            b.report(slot, &report, now).unwrap();
        }
        end(&mut b, ticket);
    }
    // It repeats the same report for five seconds; slow ones are searched every 32 requests.
    assert!(first.is_some_and(|first| (5000..5100).contains(&first)), "first at {first:?} ms");
}

/// An endpoint that was busy when asked, and is never next, is asked again by chance, or else counts as usual after a
/// second.
#[test]
fn an_endpoint_that_was_overrun_does_not_starve() {
    for answers in [true, false] {
        let (_pool, [mut b]) = pool(&[1; 10]);
        report_loads(&mut b, &[(0, 500)], Instant(0));
        let mut first = None;
        for i in 0..3000 {
            let now = Instant(i * MS);
            let ticket = b.start(&Request::default(), now).unwrap();
            if ticket.slot().index() == 0 {
                first.get_or_insert(i);
            }
            while let Some(slot) = b.poll_probe(now) {
                if answers || slot.index() != 0 {
                    let in_flight = 3 + b.loads().in_flight(slot);
                    report_loads(&mut b, &[(slot.index(), in_flight)], now);
                }
            }
            end(&mut b, ticket);
        }
        // Asked by chance, one in nine each time. Not within 100 tries: 8 in a million.
        let bound = if answers { 110 } else { 1100 };
        assert!(first.is_some_and(|first| first <= bound), "answers: {answers}, first at {first:?} ms");
    }
}

#[test]
fn the_next_one_is_asked_and_another() {
    let (_pool, [mut b]) = pool(&[1; 10]);
    for i in 0..100 {
        let now = Instant(i * 10 * MS);
        let ticket = b.start(&Request::default(), now).unwrap();
        let asked = [b.poll_probe(now), b.poll_probe(now)].map(Option::unwrap);
        assert_eq!((asked[0] == asked[1], b.poll_probe(now)), (false, None));
        let next = b.start(&Request::default(), now).unwrap();
        assert_eq!(asked[0], next.slot());
        while b.poll_probe(now).is_some() {}
        end(&mut b, ticket);
        end(&mut b, next);
    }
}

/// Reports that only come with responses are recent for endpoints that answer fast, and old for the others.
#[test]
fn where_no_endpoint_can_be_asked_reports_do_not_count() {
    let mut pool = Pool::new(1);
    pool.update(&[EndpointSpec::new("a"), EndpointSpec::new("b")], Instant(0));
    let mut b = Row::named("leastconn").balancer(&pool, Seat { worker: 0, workers: 1 }, 1);
    report_loads(&mut b, &[(0, 9), (1, 0)], Instant(0));
    assert_eq!(count(&together(&mut b, 8, Instant(MS)), 0), 4);
}
