//! Reader of scenario files: systems, points and errors. `make bless` regenerates the reference page.

use crate::committed::same_as_committed;
use evenkeel_config::render_text;
use evenkeel_sim::file::{read, reference};
use evenkeel_sim::scenario::{Capacity, Deployment, Load, Serving, Step};
use evenkeel_sim::work::Work;
use proptest::prelude::*;

#[test]
fn the_committed_page_is_the_generated_one() {
    same_as_committed(&[("docs/reference/scenario.md".into(), reference())]);
}

const SYSTEM: &str = r#"
summary = "everything"
requests = 1000
load.share = 0.5
[machine.one]
cores = 2
[service.front]
steps = ["work", "back", "back"]
work.lognormal = { mean = "10ms", sigma = 1 }
server = [{ count = 2, sharing = 2, machine = "one", stalls = [{ every = "1s", length = "1s" }] }, { name = "last", fifo = 3, work = "5ms" }]
[service.back]
balancers = "callers"
balance = { random = { draws = 3 } }
retry = { attempts = 2, on = ["timeout"] }
slow_start = "10s"
server = [{}]
"#;

#[test]
fn a_system_is_what_its_file_says() {
    let outcome = read("folder/all.toml", SYSTEM);
    let experiment = outcome.experiment.unwrap_or_else(|| panic!("{}", render_text(&outcome.diagnostics, false)));
    let scenario = &experiment.points[0].scenario;
    let [front, back] = &scenario.services[..] else { panic!("two services") };
    assert_eq!((experiment.name.as_str(), scenario.warm_up), ("all", 100));
    assert_eq!(front.steps, [Step::Work, Step::Call(1), Step::Call(1)]);
    assert_eq!(front.servers.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["s0-1", "s0-2", "last"]);
    assert_eq!(
        (front.servers[2].serving, front.servers[2].work),
        (Serving::Fifo { cores: 3 }, Some(Work::Constant(5_000_000)))
    );
    assert!(matches!(front.servers[0].capacity[..], [Capacity::Stalls { speed: 0.0, .. }]));
    assert_eq!((front.servers[0].machine, scenario.machines.as_slice()), (Some(0), &[2.0][..]));
    assert_eq!(
        (back.balancing.deployment, back.balancing.control.slow_start.map(|s| s.window_ns)),
        (Deployment::Sidecar, Some(10_000_000_000))
    );
    assert_eq!(back.balancing.policy.as_ref().map(|p| p.label.as_str()), Some("random{draws=3}"));
    assert_eq!(back.balancing.retry.as_ref().map(|r| (r.attempts, r.on.timeout, r.on.connect)), Some((2, true, false)));
    // Half of the capacity of the busiest resource: two of the three servers are on machine `one`, so each request
    // takes two thirds of 10 ms there.
    let Load::Poisson { per_second } = scenario.load else { panic!("an open load") };
    assert!((evenkeel_sim::engine::offered(scenario) - 0.5).abs() < 1e-9, "{per_second}");
}

const VARIED: &str =
    "summary = 'x'\nalgorithms = ['random']\nrequests = 10\nload.users = 1\nservice.web.server = [{}, {}]\n";

#[test]
fn every_combination_is_a_point() {
    let text = format!(
        "{VARIED}[[case]]\nname = 'a'\nset.service.web.workers = 2\n[[case]]\nname = 'b'\nset.load.users = 7\n[vary]\n\
         service.web.server.1.count = [3, 4]\nlink = [{{ label = 'far', value = '1ms' }}]\n"
    );
    let experiment = read("x.toml", &text).experiment.expect("it is clean");
    let labels: Vec<&str> = experiment.points.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(labels, ["a, count = 3, far", "a, count = 4, far", "b, count = 3, far", "b, count = 4, far"]);
    let last = &experiment.points[3].scenario;
    assert_eq!((last.services[0].servers.len(), last.link_ns), (5, 1_000_000));
    assert!(matches!(last.load, Load::Closed { users: 7, .. }));
    assert_eq!(experiment.points[0].scenario.services[0].balancing.workers, 2);
}

#[track_caller]
fn wrong(text: &str, says: &[&str]) {
    let outcome = read("wrong.toml", text);
    let shown = render_text(&outcome.diagnostics, false);
    assert!(outcome.experiment.is_none(), "{text}");
    for part in says {
        assert!(shown.contains(part), "it does not say {part:?}:\n{shown}");
    }
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    wrong("", &["the top level has no \"summary\"", "has no \"load\"", "has no \"service\""]);
    // Regression, found by fuzzing: a share of the capacity of no service.
    wrong("summary = 'x'\nrequests = 10\nload.share = 0.5\n", &["has no \"service\""]);
    wrong(&VARIED.replace("requests = 10\n", ""), &["nothing ends a run"]);
    wrong(&VARIED.replace("users = 1", "share = 0.5"), &["\"share\" needs servers that have a limit"]);
    wrong(
        &format!("{VARIED}vary.service.web.server.2.count = [1]\n"),
        &["the array has 2 elements, and none is number 2", "wrong.toml:6:"],
    );
    wrong(&format!("{VARIED}vary.load.usres = [1]\n"), &["unknown key \"usres\"", "did you mean \"users\"?"]);
    wrong(&format!("{VARIED}vary.load.users = 3\n"), &["must be an array of values"]);
    wrong(&format!("{VARIED}service.web.steps = ['web']\n"), &["a service calls itself"]);
    wrong(
        &format!("{VARIED}service.web.steps = ['wob']\n"),
        &["neither \"work\" nor a service", "did you mean \"web\"?"],
    );
    wrong(&format!("{VARIED}service.web.work = {{}}\n"), &["needs exactly one of constant, exponential"]);
    wrong(&VARIED.replace("{}, {}", "{ fifo = 1, sharing = 1 }"), &["exclude each other"]);
    let claim = "[[claim]]\nsays = 'x'\nmetric = 'share'\nof = 'rondom'\nto = 'random'\n";
    wrong(&format!("{VARIED}{claim}"), &["needs a \"server\"", "\"rondom\" is not tried", "exactly one of at_most"]);
    wrong(
        &format!("{VARIED}[[published]]\nat = 'there'\nalgorithm = 'random'\ncells.p99 = '1s'\n"),
        &["no point is named \"there\""],
    );
    let many: String = (0..4)
        .map(|i| format!("vary.service.web.server.{}.{} = [1,2,3,4,5,6,7]\n", i / 2, ["count", "weight"][i % 2]))
        .collect();
    wrong(&format!("{VARIED}{many}"), &["more than 1000 points"]);
}

proptest! {
    #[test]
    fn any_pieces_are_read(pieces in prop::collection::vec(prop::sample::select(SYSTEM.split_inclusive(|c: char| " =\n[]{}.".contains(c)).collect::<Vec<_>>()), 0..80)) {
        let text = pieces.concat();
        let outcome = read("any.toml", &text);
        prop_assert_eq!(outcome.experiment.is_none(), outcome.diagnostics.iter().any(|d| d.severity() == evenkeel_config::Severity::Error));
    }
}

#[test]
fn servers_answer_probes_only_if_the_file_says_so_as_endpoints_of_a_pool_do() {
    let probes = |more: &str| {
        let text = format!("summary = 'x'\nrequests = 10\nload.users = 1\n[service.web]\n{more}\nserver = [{{}}]\n");
        let experiment = read("x.toml", &text).experiment.expect("it is clean");
        experiment.points[0].scenario.services[0].balancing.information.probes
    };
    assert!(!probes("") && probes("probes = true"));
}
