//! Questions about queues, second copies and planes, and the bounds.

use crate::{found_under, kinds, lines, policy, scenario};
use evenkeel_balance::{EndpointId, EndpointSpec, Rng, hedge};
use evenkeel_sim::replay::fit::{Sample, order};
use evenkeel_sim::replay::trace::Kind;
use evenkeel_sim::replay::{Arrival, Clients, Course, Hedging, System, Trace, Way, play};
use evenkeel_sim::scenario::{Chooser, Reference, Scenario};
use evenkeel_sim::{Policy, planes, simulate};
use evenkeel_whatif::answer::{Answer, Time};
use evenkeel_whatif::policy::Candidate;
use evenkeel_whatif::question::Conditions;
use evenkeel_whatif::{json, report, text};

const PARTS: [f64; 3] = [0.5, 0.9, 0.99];

fn answers(scenario: &Scenario, conditions: &Conditions) -> Vec<Answer> {
    let lines = lines(scenario, "round_robin").into_iter().map(|(_, line)| line);
    let found = found_under(lines, Candidate::of(&policy("round_robin")), conditions);
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    found.answers
}

fn times(answers: &[Answer], label: &str) -> [Time; 3] {
    let answer = answers.iter().find(|answer| answer.label == label).expect(label);
    answer.figures.as_ref().expect(label).times
}

/// Mean of a percentile over seeds, without the noise of one run.
fn truth(scenario: &Scenario, policy: &Policy, part: f64) -> f64 {
    (20..28).map(|seed| simulate(scenario, policy, seed).quantile(part) as f64).sum::<f64>() / 8.0
}

#[test]
fn requests_that_wait_in_a_queue_take_as_long_as_in_truth() {
    let logged = scenario(12_000);
    let answers = answers(&logged, &Conditions { queue: Some(1), ..Conditions::default() });
    let mut queued = logged.clone();
    queued.services[0].servers.iter_mut().for_each(|server| server.in_flight_max = 1);
    queued.services[0].balancing.queue = (1_000_000, u64::MAX / 2);
    for (time, part) in times(&answers, "round_robin").iter().zip(PARTS) {
        let policy = policy("round_robin");
        let truth = truth(&queued, &policy, part) - truth(&logged, &policy, part);
        assert!((time.change.low..=time.change.high).contains(&truth), "{part}: {:?} has not {truth}", time.change);
    }
}

#[test]
fn no_policy_is_better_than_a_central_queue() {
    let logged = scenario(12_000);
    let answers = answers(&logged, &Conditions::default());
    let central = times(&answers, "a central queue");
    for (time, part) in central.iter().zip(PARTS) {
        let queue = Policy { label: String::new(), chooser: Chooser::Reference(Reference::CentralQueue) };
        let truth = truth(&logged, &queue, part) - truth(&logged, &policy("round_robin"), part);
        assert!((time.change.low..=time.change.high).contains(&truth), "{part}: {:?} has not {truth}", time.change);
    }
    for answer in answers.iter().filter(|answer| !answer.is_bound) {
        let Ok(figures) = &answer.figures else { continue };
        assert!(figures.times[2].change.middle >= central[2].change.middle, "{}", answer.label);
    }
}

#[test]
fn a_plane_refuses_what_it_cannot_keep() {
    let plane = planes::find("nftables");
    let answers = answers(&scenario(12_000), &Conditions { plane, ..Conditions::default() });
    let why = |label: &str| answers.iter().find(|answer| answer.label == label).and_then(|a| a.figures.clone().err());
    assert!(why("leastconn").is_some_and(|why| why.contains("cannot compare open connections")));
    assert_eq!(why("round_robin"), None);
}

#[test]
fn all_outputs_state_the_processor_time_of_a_plane() {
    let lines = lines(&scenario(12_000), "round_robin").into_iter().map(|(_, line)| line);
    let conditions = Conditions { plane: planes::find("ebpf"), ..Conditions::default() };
    let found = found_under(lines, Candidate::of(&policy("round_robin")), &conditions);
    for said in [text::text(&found), report::page(&found)] {
        assert!(said.contains("plane ebpf: ") && said.contains(" us of processor time"), "{said}");
    }
    assert!(json::json(&found)["plane"]["processor_us"].as_f64() > Some(0.0));
}

#[test]
fn shares_have_the_names_of_the_endpoints_that_are_left() {
    let conditions = Conditions { removed: vec![1], added: 1, ..Conditions::default() };
    let answers = answers(&scenario(12_000), &conditions);
    let answer = answers.iter().find(|answer| answer.label == "round_robin").expect("it was asked about");
    let shares = &answer.figures.as_ref().expect("an answer").shares;
    let names: Vec<&str> = shares.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["10.0.0.0:80", "10.0.0.2:80", "10.0.0.3:80", "added 0"]);
    assert!(shares.iter().all(|(_, share)| (share.middle - 0.25).abs() < 0.01), "{shares:?}");
}

#[test]
fn an_added_endpoint_has_seen_as_much_as_the_others() {
    let answers = answers(&scenario(12_000), &Conditions { added: 1, ..Conditions::default() });
    let answer = answers.iter().find(|answer| answer.label == "round_robin").expect("it was asked about");
    let extrapolated = answer.figures.as_ref().expect("an answer").extrapolated;
    assert!(extrapolated < 0.01, "with more endpoints each has less: {extrapolated}");
}

/// Requests to two endpoints that share nothing, whose work is exponential with a mean of 10 ms.
fn p99_with(hedging: Option<Hedging>) -> f64 {
    let mut rng = Rng::new(3);
    let samples: Vec<Sample> = (0..5_000)
        .map(|at| Sample { at, work_ns: -1e7 * (1.0 - rng.unit()).ln(), answered: 1.0, ..Sample::default() })
        .collect();
    let way = Way { order: order(&samples), samples, ..Way::constant(1e7) };
    let arrival = |number: u64| Arrival {
        at: number * 5_000_000,
        worker: 0,
        key: None,
        endpoint: 0,
        kind: Kind::Picked,
        held_ns: 1,
        latency_ns: 1,
        failed: false,
        found: 0,
        found_in_all: 0,
        is_least: true,
        is_in_turn: true,
        after_end_ns: 0,
    };
    let arrivals: Vec<Arrival> = (0..12_000).map(arrival).collect();
    let members: Vec<EndpointSpec> =
        ["a", "b"].map(|name| EndpointSpec { id: EndpointId::of(name), ..EndpointSpec::new(name) }).into();
    let trace = Trace { span_ns: 60_000_000_000, arrivals, members: members.clone(), workers: 1, unit_ns: 1 };
    let ways = vec![&way, &way];
    let system =
        System { trace: &trace, members: &members, ways, clients: Clients::Open, answers_probes: false, ranks: None };
    let policy = Candidate::of(&policy("round_robin")).expect("an algorithm");
    play(&system, Course { hedging, ..Course::new(policy.algorithm, &policy.params, 1) }).ln_p99.value.exp()
}

#[test]
fn a_second_copy_hastens_only_requests_whose_work_is_not_their_own() {
    let hedging = |is_of_demand| Some(Hedging { settings: hedge::Settings::default(), is_of_demand });
    let (without, own, drawn) = (p99_with(None), p99_with(hedging(true)), p99_with(hedging(false)));
    assert!((own / without).ln().abs() < 0.1, "{own} and {without}");
    assert!(drawn < 0.9 * without, "{drawn} and {without}");
}
