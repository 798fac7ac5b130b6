//! Clients that wait for their responses and think.

use crate::{kinds, policy, scenario};
use evenkeel_sim::engine::simulate_logged;
use evenkeel_sim::replay::Clients;
use evenkeel_sim::scenario::{Load, Scenario};
use evenkeel_sim::simulate;
use evenkeel_sim::work::Work;

/// Four endpoints and twelve users, who think for 30 ms on average.
fn closed(requests: u64) -> Scenario {
    let mut closed = scenario(requests);
    closed.load = Load::Closed { users: 12, think: Work::Exponential { mean_ns: 30e6 } };
    closed
}

/// Lines of a run, whose clients have the address that `client` gives a user.
fn lines(scenario: &Scenario, client: impl Fn(u32) -> u32) -> Vec<String> {
    let (_, log) = simulate_logged(scenario, &policy("random"), 0, 7);
    let ended = log.iter().filter_map(|one| {
        let (total, server) = (one.total_ns()?, one.tries.first()?.server);
        Some((one.arrived_ns + total, crate::line(one.arrived_ns, total, server, 1 + client(one.user), 0)))
    });
    let mut lines: Vec<(u64, String)> = ended.collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn users_that_the_log_tells_apart_send_their_next_request_after_they_thought() {
    let scenario = closed(12_000);
    let found = crate::findings(lines(&scenario, |user| user).into_iter(), Some("random"));
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    let model = found.model.as_ref().expect("a model");
    assert!(model.systems.iter().all(|system| system.clients == Clients::Thinking));
    let answer = found.answers.iter().find(|answer| answer.label == "leastconn").expect("it is usual");
    for (time, part) in answer.figures.as_ref().expect("an answer").times.iter().zip([0.5, 0.9, 0.99]) {
        let of = |name: &str| {
            (20..28).map(|seed| simulate(&scenario, &policy(name), seed).quantile(part) as f64).sum::<f64>() / 8.0
        };
        let truth = of("leastconn") - of("random");
        assert!((time.change.low..=time.change.high).contains(&truth), "{part}: {:?} has not {truth}", time.change);
    }
}

#[test]
fn users_behind_one_address_are_not_told_apart() {
    let found = crate::findings(lines(&closed(12_000), |_| 0).into_iter(), Some("random"));
    let thinks = found.model.as_ref().is_some_and(|of| of.systems.iter().any(|of| of.clients == Clients::Thinking));
    assert!(!thinks);
}

#[test]
fn clients_of_an_open_load_do_not_wait() {
    // Every address has requests at the same time by chance.
    let found =
        crate::findings(crate::lines(&scenario(12_000), "random").into_iter().map(|(_, line)| line), Some("random"));
    let model = found.model.expect("a model");
    assert!(model.systems.iter().all(|system| system.clients == Clients::Open));
}
