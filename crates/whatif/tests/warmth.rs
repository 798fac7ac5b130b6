//! Questions about endpoints that join: their warm-up, as the log shows it or not, and slow start.

use crate::{found_under, kinds, lines, policy, scenario};
use evenkeel_balance::slow_start;
use evenkeel_sim::scenario::{Cold, Scenario};
use evenkeel_whatif::answer::Figures;
use evenkeel_whatif::policy::Candidate;
use evenkeel_whatif::question::{Conditions, Join};
use evenkeel_whatif::{Findings, json, report, text};

const SECOND_NS: u64 = 1_000_000_000;

fn found(scenario: &Scenario, join: bool) -> Findings {
    let ramp = slow_start::Settings { window_ns: 8 * SECOND_NS, aggression: 1.0, min_weight: 0.1 };
    let join = join.then_some(Join { ramp, is_slow: true });
    let conditions = Conditions { added: 1, join, ..Conditions::default() };
    let lines = lines(scenario, "random").into_iter().map(|(_, line)| line);
    found_under(lines, Candidate::of(&policy("random")), &conditions)
}

fn figures(found: &Findings, label: &str) -> Figures {
    let answer = found.answers.iter().find(|answer| answer.label == label).expect(label);
    answer.figures.clone().expect(label)
}

/// Four endpoints, of which the last joins after ten seconds, at a fifth of its speed at first.
fn joins() -> Scenario {
    let mut joins = scenario(15_000);
    let last = &mut joins.services[0].servers[3];
    (last.joins_ns, last.cold) = (10 * SECOND_NS, Some(Cold { speed: 0.2, window_ns: 8 * SECOND_NS }));
    joins
}

#[test]
fn an_endpoint_that_joins_starts_as_cold_as_the_log_shows() {
    let mut joins = joins();
    joins.load = evenkeel_sim::scenario::Load::Poisson { per_second: 200.0 };
    let found = found(&joins, true);
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    let seen = found.warm_up.clone().expect("it was asked about");
    let (first, last) = (seen[0].cold[0].1, seen[0].cold[seen[0].cold.len() - 1].0);
    assert_eq!(seen[0].name, "10.0.0.3:80");
    assert!((1.8..7.0).contains(&first), "{first}");
    assert!((3 * SECOND_NS..10 * SECOND_NS).contains(&last), "{last}");
    // Slow start spares requests the cold endpoint.
    let [at_once, slow] = ["random", "random, slow start"].map(|label| figures(&found, label));
    assert!(slow.times[2].change.middle < 0.8 * at_once.times[2].change.middle, "{slow:?} {at_once:?}");
    assert!(slow.shares[4].1.middle < 0.75 * at_once.shares[4].1.middle);
    for said in [text::text(&found), report::page(&found), json::json(&found).to_string()] {
        assert!(said.contains("10.0.0.3:80 joined") || said.contains("\"warm_up\":{\"seen\":[{\"endpoint\""), "{said}");
    }
}

#[test]
fn a_log_without_a_join_knows_no_warm_up_and_says_so() {
    let found = found(&scenario(12_000), true);
    assert_eq!(found.warm_up.as_ref().map(Vec::len), Some(0));
    let [at_once, slow] = ["random", "random, slow start"].map(|label| figures(&found, label));
    assert!(slow.shares[4].1.middle < 0.75 * at_once.shares[4].1.middle);
    assert!(slow.times[0].change.middle > at_once.times[0].change.middle, "it only keeps requests away");
    assert!(text::text(&found).contains("assumed to be warm at once"));
    let refused = found.answers.iter().find(|answer| answer.label == "maglev, slow start");
    assert!(refused.is_none_or(|answer| answer.figures.is_err()));
}

#[test]
fn a_join_is_a_change_of_the_pool_for_every_other_question() {
    assert_eq!(kinds(&found(&joins(), false)), ["endpoints"]);
}
