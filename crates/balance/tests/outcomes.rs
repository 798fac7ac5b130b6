//! Effects of an outcome on later picks. A failure of the endpoint may move them elsewhere. An outcome that may be the
//! fault of one request or client must not, or that client would steer the load.

use crate::support::rows::{self, Row};
use evenkeel_balance::control::Settings;
use evenkeel_balance::time::MILLISECOND_NS;
use evenkeel_balance::{EndpointSpec, FailureKind, Instant, LoadReport, Outcome, Pool, Request, Rng, Seat, outlier};

const WARM: u64 = 400;
const AFTER: u64 = 300;

/// Makes a request with this outcome and then 300 more, of two equal endpoints. Returns the number that go to its
/// endpoint.
fn after(row: &Row, outcome: Outcome, settings: outlier::Settings, seed: u64) -> u64 {
    let mut pool = Pool::new(1);
    pool.configure(Settings { outlier: Some(settings), ..Settings::default() }, Instant(0));
    pool.update(&["a", "b"].map(EndpointSpec::new), Instant(0));
    let mut balancer = row.balancer(&pool, Seat::default(), seed);
    let (mut rng, mut first, mut hits) = (Rng::new(seed ^ 0x5eed), None, 0);
    for i in 0..=WARM + AFTER {
        let now = Instant(i * 20 * MILLISECOND_NS);
        let request = Request { key: Some(rng.next_u64()), ..Request::default() };
        let ticket = balancer.start(&request, now).expect("two are up");
        let slot = ticket.slot();
        while let Some(slot) = balancer.poll_probe(now) {
            let _ = balancer.report(slot, &LoadReport::new(1, 10 * MILLISECOND_NS), now);
        }
        let took = 5 * MILLISECOND_NS + rng.below_u64(10 * MILLISECOND_NS);
        hits += u64::from(first == Some(slot));
        let is_it = i == WARM;
        if is_it {
            first = Some(slot);
        }
        balancer.end(ticket, if is_it { outcome } else { Outcome::Success }, now.after(took));
    }
    hits
}

fn shares(row: &Row, outcome: Outcome, settings: outlier::Settings) -> f64 {
    let seeds = 20;
    let hits: u64 = (0..seeds).map(|seed| after(row, outcome, settings, seed)).sum();
    hits as f64 / (seeds * AFTER) as f64
}

#[test]
fn one_answer_that_may_be_the_fault_of_its_request_steers_nothing() {
    for row in rows::defaults() {
        let usual = shares(&row, Outcome::Success, outlier::Settings::default());
        for kind in [FailureKind::Server, FailureKind::Busy] {
            let retry_after = Outcome::Failure { kind, retry_after_ns: Some(60_000 * MILLISECOND_NS) };
            for outcome in [Outcome::failed(kind), retry_after] {
                let share = shares(&row, outcome, outlier::Settings::default());
                // With the picks of 20 x 300 requests, five standard deviations of a share are at most 3.3 points.
                assert!((share - usual).abs() < 0.033, "row {row}: {share} after {outcome:?}, {usual} after a success");
            }
        }
    }
}

#[test]
fn a_gateway_error_does_and_so_does_a_500_where_it_ejects() {
    let with_500 = outlier::Settings { consecutive_5xx: 5, ..outlier::Settings::default() };
    let row = Row::named("peak_ewma");
    let share = |kind, settings| shares(&row, Outcome::failed(kind), settings);
    let gateway = share(FailureKind::Gateway, outlier::Settings::default());
    let connect = share(FailureKind::Connect, outlier::Settings::default());
    assert!(gateway < 0.1 && connect < 0.1, "{gateway} after a 503, {connect} after a refusal");
    let server = share(FailureKind::Server, with_500);
    assert!((server - gateway).abs() < 0.033, "{server} after a 500, {gateway} after a 503");
}

/// An endpoint that answers each request with 500 at once must not look like the fastest.
#[test]
fn an_endpoint_that_fails_at_once_does_not_draw_the_load() {
    for row in rows::defaults().filter(|row| row.algorithm.name != "first") {
        let mut pool = Pool::new(1);
        pool.update(&["well", "broken"].map(EndpointSpec::new), Instant(0));
        let broken = pool.slot_of(evenkeel_balance::EndpointId::of("broken"));
        let mut balancer = row.balancer(&pool, Seat::default(), 3);
        let (mut rng, mut hits) = (Rng::new(3), 0);
        for i in 0..3000u64 {
            let now = Instant(i * 20 * MILLISECOND_NS);
            let request = Request { key: Some(rng.next_u64()), ..Request::default() };
            let ticket = balancer.start(&request, now).expect("two are up");
            let is_broken = Some(ticket.slot()) == broken;
            hits += u32::from(is_broken);
            let (took, outcome) = match is_broken {
                true => (MILLISECOND_NS, Outcome::failed(FailureKind::Server)),
                false => (15 * MILLISECOND_NS, Outcome::Success),
            };
            balancer.end(ticket, outcome, now.after(took));
        }
        assert!(hits <= 1650, "row {row}: {hits} of 3000 went to the endpoint that fails at once");
    }
}
