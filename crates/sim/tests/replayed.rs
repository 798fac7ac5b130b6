//! Replay of recorded requests that the algorithm did not pick for.

use evenkeel_balance::{EndpointSpec, Params, algorithms};
use evenkeel_sim::replay::trace::{Kind, Seen};
use evenkeel_sim::replay::{Clients, Course, Drawn, Played, System, Trace, Way, play};

const MEMBERS: usize = 3;
const REQUESTS: usize = 9_000;

/// Every tenth request was explored, and drawn to the last member.
fn trace() -> Trace {
    let seen = |number: usize| {
        let is_explored = number.is_multiple_of(10);
        Seen {
            at: number as u64 * 1_000,
            worker: 0,
            key: None,
            endpoint: Some(if is_explored { MEMBERS - 1 } else { 0 }),
            kind: if is_explored { Kind::Explored(MEMBERS as u32) } else { Kind::Picked },
            held_ns: 500,
            latency_ns: 500,
            failed: false,
        }
    };
    let members = (0..MEMBERS).map(|at| EndpointSpec::new(&at.to_string())).collect();
    Trace::of(&(0..REQUESTS).map(seen).collect::<Vec<_>>(), members, 1, 1)
}

/// Replays the trace under an algorithm that always picks the first member.
fn played(trace: &Trace, members: &[EndpointSpec]) -> Played {
    let way = Way::constant(500.0);
    let ways = members.iter().map(|_| &way).collect();
    let algorithm = algorithms::find("first").expect("it is registered");
    let params = Params::defaults(algorithm.params);
    let system = System { trace, members, ways, clients: Clients::Open, answers_probes: false, ranks: None };
    play(&system, Course::new(algorithm, &params, 1))
}

/// Explored requests of the run behind the third in which it settles.
const EXPLORED: f64 = REQUESTS as f64 * 2.0 / 3.0 / 10.0;

#[test]
fn explored_requests_are_replayed_where_they_were_and_weigh_as_many_as_they_were_drawn_from() {
    let trace = trace();
    let run = played(&trace, &trace.members);
    assert!((run.shares[0].value - 0.9).abs() < 0.01 && (run.shares[2].value - 0.1).abs() < 0.01, "{:?}", run.shares);
    let Drawn { count, weight, squares, latency_ns, failed } = run.drawn[2];
    assert!((count - EXPLORED).abs() <= 2.0, "{count}");
    assert_eq!((weight, squares, latency_ns, failed), (3.0 * count, 9.0 * count, 3.0 * 500.0 * count, 0.0));
    assert_eq!(run.drawn[..2], [Drawn::default(); 2]);
}

#[test]
fn explored_requests_are_drawn_anew_among_other_members() {
    let trace = trace();
    let run = played(&trace, &trace.members[..2]);
    let [first, second] = &run.drawn[..] else { panic!("{:?}", run.drawn) };
    // Binomial: 300 of 600, with a standard deviation of 12.2; five of them.
    assert!((first.count - second.count).abs() < 122.0, "{first:?} {second:?}");
    assert!((first.count + second.count - EXPLORED).abs() <= 2.0);
}
