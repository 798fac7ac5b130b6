//! Answers to logs of simulated systems, whose truth is run, and refusals of logs that were spoilt.

mod closed;
mod conditions;
mod explored;
mod shadow;
mod warmth;

use evenkeel_logs::Logs;
use evenkeel_logs::read::Source;
use evenkeel_sim::engine::simulate_logged;
use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::{Policy, file, simulate};
use evenkeel_whatif::policy::Candidate;
use evenkeel_whatif::question::Conditions;
use evenkeel_whatif::{Asked, Findings, find, record};

/// Four endpoints with a core each, at 75 % of what they can do.
fn scenario(requests: u64) -> Scenario {
    let text = format!(
        "summary = 'test'\nalgorithms = ['leastconn']\nrequests = {requests}\nwarm_up = 0\nload.rate = 300\n[service.web]\n\
         work.exponential = '10ms'\nprobes = false\nserver = [{{ count = 4, fifo = 1 }}]\n"
    );
    let read = file::read("test.toml", &text);
    let mut experiment = read.experiment.unwrap_or_else(|| panic!("{text}\n{:?}", read.diagnostics));
    experiment.points.remove(0).scenario
}

fn policy(name: &str) -> Policy {
    Policy::named(name).expect("it is registered")
}

/// A line of evenkeel's JSON, in microseconds. `drawn_from`: number of endpoints that an explored request was drawn from,
/// or 0.
fn line(arrived_ns: u64, total_ns: u64, server: u32, client: u32, drawn_from: u32) -> String {
    let explored = match drawn_from {
        0 => String::new(),
        from => format!(",\"probability\":{}", 1.0 / f64::from(from)),
    };
    let (second, micro) = (arrived_ns / 1_000_000_000, arrived_ns / 1_000 % 1_000_000);
    format!(
        "{{\"ts\":\"2026-11-30T10:{:02}:{:02}.{micro:06}Z\",\"client\":\"192.0.2.{client}\",\"pool\":\"web\",\"endpoint\":\"10.0.0.{server}:80\",\"tries\":1,\"status\":200,\
         \"t_queue\":0.000,\"t_ttfb\":{ms:.3},\"t_total\":{ms:.3},\"term\":\"--\"{explored}}}",
        second / 60,
        second % 60,
        ms = total_ns as f64 / 1e6
    )
}

/// Lines of a run under a policy, in the order of the ends.
fn lines(scenario: &Scenario, name: &str) -> Vec<(u64, String)> {
    let (_, log) = simulate_logged(scenario, &policy(name), 0, 7);
    let ended = log.iter().filter_map(|one| {
        let total = one.total_ns()?;
        Some((one.arrived_ns + total, line(one.arrived_ns, total, one.tries.first()?.server, 1, one.drawn_from)))
    });
    let mut lines: Vec<(u64, String)> = ended.collect();
    lines.sort();
    lines
}

fn findings(lines: impl Iterator<Item = String>, in_force: Option<&str>) -> Findings {
    found(lines, in_force.and_then(|name| Candidate::of(&policy(name))))
}

fn found(lines: impl Iterator<Item = String>, in_force: Option<Candidate>) -> Findings {
    found_under(lines, in_force, &Conditions::default())
}

fn found_under(lines: impl Iterator<Item = String>, in_force: Option<Candidate>, conditions: &Conditions) -> Findings {
    let text: Vec<String> = lines.collect();
    let reader = std::io::Cursor::new(text.join("\n").into_bytes());
    let logs = Logs::open(vec![Source::Reader(Box::new(reader), "test".to_string())], None, None).expect("a format");
    let record = record::read(logs, |_| ());
    let asked = Asked {
        pool: 0,
        members: None,
        workers: 1,
        answers_probes: false,
        in_force,
        policies: Vec::new(),
        conditions: &|_| Ok(conditions.clone()),
        worlds: 12,
        seed: 1,
        threads: 2,
    };
    find(&record, &asked, &|_, _| ()).expect("conditions that can be applied")
}

fn kinds(found: &Findings) -> Vec<&'static str> {
    found.doubts.iter().map(|doubt| doubt.kind).collect()
}

#[test]
fn the_change_is_the_true_change_and_the_best_is_recommended() {
    let scenario = scenario(12_000);
    let found = findings(lines(&scenario, "round_robin").into_iter().map(|(_, line)| line), Some("round_robin"));
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    assert_eq!(found.verdict.as_ref().and_then(|verdict| verdict.best.as_deref()), Some("leastconn"));
    let answer = found.answers.iter().find(|answer| answer.label == "leastconn").expect("it is usual");
    let figures = answer.figures.as_ref().expect("an answer");
    for (time, part) in figures.times.iter().zip([0.5, 0.9, 0.99]) {
        // Mean over other seeds, without the noise of one run.
        let seeds = 20..28;
        let of = |name: &str| {
            seeds.clone().map(|seed| simulate(&scenario, &policy(name), seed).quantile(part) as f64).sum::<f64>() / 8.0
        };
        let truth = of("leastconn") - of("round_robin");
        assert!((time.change.low..=time.change.high).contains(&truth), "{part}: {:?} has not {truth}", time.change);
        assert!(time.change.high < 0.0, "{part}: {:?}", time.change);
    }
}

/// Line whose time is in whole milliseconds.
fn in_milliseconds(line: &str) -> String {
    let end = line.find("Z\"").expect("a time");
    format!("{}{}", &line[..end - 3], &line[end..])
}

#[test]
fn endpoints_that_serve_a_request_at_a_time_are_known_by_a_clock_of_milliseconds() {
    // Two endpoints with a core, at 70 % of what they can do: every tenth request starts in the same millisecond as another.
    let mut scenario = scenario(12_000);
    scenario.services[0].servers.truncate(2);
    scenario.services[0].work = evenkeel_sim::work::Work::Exponential { mean_ns: 4e6 };
    scenario.load = evenkeel_sim::scenario::Load::Poisson { per_second: 350.0 };
    let lines = lines(&scenario, "random").into_iter().map(|(_, line)| in_milliseconds(&line));
    let found = findings(lines, Some("random"));
    assert_eq!(kinds(&found), Vec::<&str>::new(), "{:?}", found.doubts);
    let best = found.model.expect("a model").systems.swap_remove(0);
    assert!(best.ways.iter().all(|way| way.serving == evenkeel_sim::scenario::Serving::Fifo { cores: 1 }), "{best:?}");
}

#[test]
fn the_policy_is_found_by_its_picks() {
    let scenario = scenario(12_000);
    for name in ["round_robin", "leastconn"] {
        let found = findings(lines(&scenario, name).into_iter().map(|(_, line)| line), None);
        assert_eq!(found.model.as_ref().map(|model| &*model.policy.label), Some(name), "{:?}", found.doubts);
    }
}

#[test]
fn logs_that_cannot_know_are_refused() {
    let scenario = scenario(8_000);
    let whole = lines(&scenario, "leastconn");
    let spoilt = |keep: &dyn Fn(usize, u64) -> bool| {
        let kept: Vec<String> = whole
            .iter()
            .enumerate()
            .filter(|(at, (end, _))| keep(*at, *end))
            .map(|(_, (_, line))| line.clone())
            .collect();
        findings(kept.into_iter(), Some("leastconn"))
    };
    let second = 1_000_000_000;
    assert_eq!(kinds(&spoilt(&|_, _| true)), Vec::<&str>::new());
    assert_eq!(kinds(&spoilt(&|_, end| !(8 * second..11 * second).contains(&end))), ["gap"]);
    let sampled = kinds(&spoilt(&|at, _| at % 5 < 2));
    assert!(["policy", "coherence", "fit"].contains(&sampled[0]), "{sampled:?}");
    let said = findings(whole.iter().map(|(_, line)| line.clone()), Some("random"));
    assert_eq!(kinds(&said), ["policy"]);
    let mut mixed: Vec<String> = whole.iter().map(|(_, line)| line.clone()).collect();
    mixed.rotate_left(3_000);
    assert_eq!(kinds(&findings(mixed.into_iter(), None)), ["clock"]);
    // A worker writes its lines once a second, the other half a second later: each batch is in order.
    let mut batches: Vec<(u64, String)> = whole
        .iter()
        .enumerate()
        .map(|(at, (end, line))| {
            let turn = (at % 2) as u64 * second / 2;
            ((end + turn) / second * second + second - turn, line.clone())
        })
        .collect();
    batches.sort_by_key(|(written, _)| *written);
    assert_eq!(kinds(&findings(batches.into_iter().map(|(_, line)| line), None)), Vec::<&str>::new());
    // Times of whole seconds go back as often, and are no batches.
    let seconds = whole.iter().map(|(_, line)| {
        let (start, rest) = line.split_at(line.find('.').expect("a fraction") + 1);
        format!("{start}000000{}", &rest[6..])
    });
    assert!(!kinds(&findings(seconds, None)).is_empty());
    let twice = whole.iter().flat_map(|(_, line)| [line.clone(), line.clone()]);
    assert_eq!(kinds(&findings(twice, None)), ["order"]);
    assert_eq!(kinds(&spoilt(&|at, _| at < 500)), ["coverage"]);
}
