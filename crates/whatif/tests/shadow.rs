//! Comparison of a pool's shadows with answers from the lines of its log, for the same requests: both agree, and both refuse
//! broken recordings.

use super::{found, kinds, line, policy, scenario};
use evenkeel_balance::EndpointId;
use evenkeel_balance::recent::{Recent, Row};
use evenkeel_sim::scenario::{Chooser, Policy, Scenario};
use evenkeel_sim::shadow::{self, Known, Prediction, SHARE_WITHIN, Shadow, TIMES_WITHIN};
use evenkeel_sim::simulate_remembered;
use evenkeel_whatif::Findings;
use evenkeel_whatif::answer::Figures;
use evenkeel_whatif::policy::{Candidate, usual};

fn choice(policy: &Policy) -> shadow::Choice<'_> {
    let Chooser::Algorithm(algorithm, params) = &policy.chooser else { panic!("an algorithm") };
    (algorithm, params)
}

/// Index of the server by its slot.
fn servers(scenario: &Scenario, recent: &Recent) -> Vec<usize> {
    let members = recent.set.members();
    let slots = members.iter().map(|m| m.slot.index()).max().map_or(0, |most| most + 1);
    let mut servers = vec![usize::MAX; slots];
    for m in members {
        let at = scenario.services[0].servers.iter().position(|server| EndpointId::of(&server.name) == m.id);
        servers[m.slot.index()] = at.expect("a server of the scenario");
    }
    servers
}

/// Predictions by both: of the shadows from what a worker remembers, and of `whatif` from the same requests as lines.
/// `keep` has the rest of the recording.
fn both(scenario: &Scenario, name: &str, claimed: &str, keep: impl Fn(usize) -> bool) -> (Prediction, Findings) {
    let (_, mut recent) = simulate_remembered(scenario, &policy(name), 7);
    let [only] = &mut recent[..] else { panic!("a worker") };
    let mut number = 0;
    only.rows.retain(|row| {
        number += 1;
        keep(number) && row.held_ns != Row::OPEN
    });
    let server = servers(scenario, only);
    let of_row = |row: &Row| {
        let text = line(row.began.0, row.held_ns, server[row.slot.index()] as u32, 1, 0);
        let text = if row.failed { text.replace("\"status\":200", "\"status\":503") } else { text };
        (row.began.0 + row.held_ns, text)
    };
    let mut lines: Vec<(u64, String)> = only.rows.iter().map(of_row).collect();
    lines.sort();
    let in_force = policy(claimed);
    let known = Known { recent, balance: choice(&in_force), answers_probes: false };
    let policies: Vec<Candidate> = usual();
    let choices: Vec<shadow::Choice<'_>> = policies.iter().map(|of| (of.algorithm, &of.params)).collect();
    let prediction = shadow::predict(&known, &choices, |_| "an endpoint".to_string());
    (prediction, found(lines.into_iter().map(|(_, line)| line), Candidate::of(&in_force)))
}

/// Asserts that figures of a shadow with their errors overlap with the intervals of an answer. Returns the number of
/// figures that both have.
fn compare(pair: &str, shadow: &Shadow, answer: &Figures) -> usize {
    let mut compared = 0;
    for (share, range) in shadow.figures.shares.iter().flatten().zip(&answer.shares) {
        let (low, high) = (range.1.low - SHARE_WITHIN, range.1.high + SHARE_WITHIN);
        assert!((low..=high).contains(share), "{pair}: a share of {share:.3}, and {range:.3?}");
        compared += 1;
    }
    if let Some(p99_ns) = shadow.figures.p99_ns {
        let time = answer.times[2];
        let of_log = time.value - time.change.middle;
        let (low, high) = (of_log + time.change.low, of_log + time.change.high);
        let range = low / (1.0 + TIMES_WITHIN)..=high * (1.0 + TIMES_WITHIN);
        assert!(range.contains(&p99_ns), "{pair}: a p99 of {:.1} ms, and {low:.0} to {high:.0} ns", p99_ns / 1e6);
        compared += 1;
    }
    compared
}

#[test]
fn both_give_the_same_figures_for_the_same_requests() {
    let scenario = scenario(12_000);
    for name in ["round_robin", "leastconn", "random"] {
        let (prediction, found) = both(&scenario, name, name, |_| true);
        assert_eq!((prediction.nothing, kinds(&found)), (None, Vec::new()), "{:?}", found.doubts);
        assert_eq!(prediction.requests, found.requests as u64);
        let mut compared = 0;
        for (candidate, shadow) in usual().iter().zip(&prediction.shadows) {
            let answer = found.answers.iter().find(|answer| answer.label == candidate.label).expect("it was asked");
            let pair = format!("{} instead of {name}", candidate.label);
            match &answer.figures {
                Ok(figures) => compared += compare(&pair, shadow, figures),
                // Shares that follow from the algorithm alone need no model.
                Err(why) => assert!(shadow.exact && shadow.figures.p99_ns.is_none(), "{pair}: {why}, and {shadow:?}"),
            }
        }
        // Shares of four endpoints, and some p99: the shadow gives few figures that its models differ on.
        assert!(compared >= 12, "{name}: {compared} figures, {:?}", prediction.shadows);
    }
}

#[test]
fn both_refuse_the_same_broken_recordings() {
    /// Name, policy, policy that is claimed, requests that are kept, and kinds of doubts of which `whatif` has the first.
    type Case<'a> = (&'a str, &'a str, &'a str, &'a dyn Fn(usize) -> bool, &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        ("half is missing", "leastconn", "leastconn", &|number| number % 7 < 3, &["policy", "coherence", "fit"]),
        ("another algorithm", "random", "leastconn", &|_| true, &["policy"]),
        ("another algorithm, by name", "leastconn", "round_robin", &|_| true, &["policy"]),
        ("few", "leastconn", "leastconn", &|number| number < 60, &["coverage"]),
    ];
    for (label, name, claimed, keep, expected) in cases {
        let (prediction, found) = both(&scenario(12_000), name, claimed, keep);
        let doubts = kinds(&found);
        assert!(doubts.first().is_some_and(|kind| expected.contains(kind)), "{label}: {:?}", found.doubts);
        // Of the algorithm in force, the shadow has the measurements.
        let others = usual().into_iter().zip(&prediction.shadows).filter(|(of, _)| of.label != claimed);
        let gives = others.filter(|(_, shadow)| !shadow.exact && shadow.figures.shares.is_some()).count();
        assert!(prediction.nothing.is_some() || gives == 0, "{label}: {:?}", prediction.shadows);
    }
}

#[test]
fn both_refuse_requests_that_failed() {
    let mut failing = scenario(12_000);
    let fault = evenkeel_sim::file::read(
        "test.toml",
        "summary = 'test'\nalgorithms = ['random']\nrequests = 10\nload.rate = 1\n[service.web]\nwork.constant = '1ms'\nserver = \
         [{ faults = [{ mode = 'fail-fast' }] }]\n",
    );
    let mut experiment = fault.experiment.unwrap_or_else(|| panic!("{:?}", fault.diagnostics));
    failing.services[0].servers[3].faults = experiment.points.remove(0).scenario.services[0].servers[0].faults.clone();
    let (prediction, found) = both(&failing, "round_robin", "round_robin", |_| true);
    assert_eq!(kinds(&found), ["failures"], "{:?}", found.doubts);
    let odd = prediction.shadows.iter().find(|shadow| !shadow.withheld.is_empty());
    assert!(odd.is_some_and(|shadow| shadow.withheld[0].contains("failed")), "{:?}", prediction.shadows);
}
