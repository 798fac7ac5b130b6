//! Logs with explored picks, which the model agrees with or not.

use super::{findings, kinds, line, lines, scenario};
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::{EndpointSpec, Instant, Outcome, Pool, Request, Rng, Seat};
use evenkeel_whatif::Findings;
use evenkeel_whatif::explored::{Beside, Shares};
use evenkeel_whatif::policy::Candidate;
use evenkeel_whatif::{json, report, text};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

fn rows(found: &Findings) -> &[Beside] {
    &found.explored.as_ref().expect("the log has explored picks").rows
}

#[test]
fn the_model_agrees_with_explored_picks_of_endpoints_that_serve_any_request() {
    let mut scenario = scenario(12_000);
    scenario.services[0].balancing.explore = 0.05;
    for name in ["leastconn", "round_robin"] {
        let found = findings(lines(&scenario, name).into_iter().map(|(_, line)| line), None);
        assert_eq!(found.model.as_ref().map(|model| &*model.policy.label), Some(name), "{:?}", found.doubts);
        assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
        // All, four endpoints, and the two usual policies that ignore the state of endpoints.
        let of: Vec<&Shares> = rows(&found).iter().map(|row| &row.of).collect();
        let policies = ["first", "round_robin"].map(|label| Shares::Policy(label.to_string()));
        assert!(of.len() == 7 && policies.iter().all(|policy| of.contains(&policy)), "{of:?}");
        assert!(rows(&found).iter().all(Beside::agrees), "{:?}", rows(&found));
        let shown = text::text(&found);
        assert!(
            shown.contains("explored picks agree: mean ")
                && shown.contains("a request at a time by round_robin: mean "),
            "{shown}"
        );
        assert_eq!(json::json(&found)["explored"]["uniform"]["agrees"], true);
        assert!(report::page(&found).contains("Explored picks"));
    }
}

#[test]
fn explored_picks_are_not_taken_for_picks_of_the_policy() {
    let mut scenario = scenario(12_000);
    scenario.services[0].balancing.explore = 0.2;
    let lines = lines(&scenario, "round_robin");
    let found = findings(lines.iter().map(|(_, line)| line.clone()), Some("round_robin"));
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    let unmarked = |(_, line): &(u64, String)| line.replace("probability", "unknown");
    let found = findings(lines.iter().map(unmarked), Some("round_robin"));
    assert_eq!(kinds(&found), ["policy"], "{:?}", found.doubts);
}

#[test]
fn few_explored_picks_check_nothing_and_refuse_nothing() {
    let mut scenario = scenario(12_000);
    scenario.services[0].balancing.explore = 0.005;
    let found = findings(lines(&scenario, "leastconn").into_iter().map(|(_, line)| line), Some("leastconn"));
    assert_eq!((kinds(&found), rows(&found).len()), (Vec::new(), 0), "{:?}", found.doubts);
    let shown = text::text(&found);
    assert!(shown.contains("explored picks are too few to check the model by (100)"), "{shown}");
}

/// Lines of clients whose requests take 10 ms on average, except for a client with a fifth of the requests, which take 50.
/// Endpoints are all alike, and work on any number of requests at once.
fn lines_of_clients(policy: &Candidate, explore: f64) -> Vec<String> {
    const CLIENTS: u64 = 100;
    let names: Vec<String> = (0..4).map(|server| format!("10.0.0.{server}:80")).collect();
    let mut pool = Pool::new(1);
    let specs: Vec<EndpointSpec> = names.iter().map(|name| EndpointSpec::new(name)).collect();
    pool.update(&specs, Instant(0));
    let made = pool.balancer(policy.algorithm, &policy.params, Seat::default(), 1).expect("checked parameters");
    let (mut balancer, mut rng) = (made.exploring(explore, 1), Rng::new(9));
    let mut exponential = |mean_ms: f64| -mean_ms * 1e6 * (1.0 - rng.unit()).ln();
    let (mut ends, mut open, mut lines) = (BinaryHeap::new(), Vec::new(), Vec::new());
    let mut now = 0u64;
    for number in 0..20_000usize {
        now += exponential(2.0) as u64;
        while let Some(Reverse((end, at))) = ends.pop_if_before(now) {
            if let Some(ticket) = Option::take(&mut open[at]) {
                balancer.end(ticket, Outcome::Success, Instant(end));
            }
        }
        let luck = evenkeel_balance::rng::mix(number as u64);
        let client = if luck.is_multiple_of(5) { 0 } else { (luck >> 8) % CLIENTS + 1 };
        let key = Some(stable_hash(format!("192.0.2.{client}").as_bytes()));
        let ticket = balancer.start(&Request { key, ..Request::default() }, Instant(now)).expect("no limits");
        let server = specs.iter().position(|spec| pool.slot_of(spec.id) == Some(ticket.slot())).expect("a member");
        let took = exponential(if client == 0 { 50.0 } else { 10.0 }) as u64;
        lines.push((now + took, line(now, took, server as u32, client as u32, balancer.drawn_from())));
        ends.push(Reverse((now + took, number)));
        open.push(Some(ticket));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

trait PopIfBefore {
    fn pop_if_before(&mut self, now: u64) -> Option<Reverse<(u64, usize)>>;
}

impl PopIfBefore for BinaryHeap<Reverse<(u64, usize)>> {
    fn pop_if_before(&mut self, now: u64) -> Option<Reverse<(u64, usize)>> {
        self.peek().filter(|Reverse((end, _))| *end <= now)?;
        self.pop()
    }
}

fn candidate(text: &str) -> Candidate {
    let policies = evenkeel_sim::file::policies(text).expect("an algorithm");
    Candidate::of(&policies[0]).expect("no yardstick")
}

#[test]
fn a_policy_that_sends_heavy_requests_to_an_endpoint_is_found_by_explored_picks() {
    let by_client = candidate("maglev{bound=10}");
    let in_force = |explore| super::found(lines_of_clients(&by_client, explore).into_iter(), Some(by_client.clone()));
    // Without exploration, the endpoint of the client seems to be slow.
    let blind = in_force(0.0);
    assert_eq!(kinds(&blind), Vec::<&str>::new(), "{:?}", blind.doubts);
    assert!(blind.explored.is_none());
    let found = in_force(0.05);
    assert_eq!(kinds(&found), ["explored"], "{:?}", found.doubts);
    let [doubt] = &found.doubts[..] else { panic!("{:?}", found.doubts) };
    assert!(doubt.text.contains("at 10.0.0.") && doubt.text.contains(", the model "), "{}", doubt.text);
    assert!(found.answers.is_empty() && found.verdict.is_none());
    assert!(text::text(&found).contains("This log cannot answer"));
    // The same clients under a policy that does not know them.
    let found = super::found(lines_of_clients(&candidate("leastconn"), 0.05).into_iter(), Some(candidate("leastconn")));
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    assert!(rows(&found).iter().all(Beside::agrees), "{:?}", rows(&found));
}
