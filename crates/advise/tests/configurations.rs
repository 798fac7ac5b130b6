//! Configurations with a known weakness, and sound ones.

use evenkeel_advise::inputs::Effort;
use evenkeel_advise::traffic::{OfRoute, Traffic};
use evenkeel_advise::{Advice, Inputs, advise};
use evenkeel_config::{Plan, parse_str, render_text};
use evenkeel_view::Status;
use evenkeel_view::advice::Verdict;
use evenkeel_view::shadows::{PoolShadows, Shadow};
use std::collections::HashMap;

const EFFORT: Effort = Effort { seeds: 4, requests: 4_000, threads: 2 };

fn read(text: &str) -> Result<Plan, String> {
    let outcome = parse_str("evenkeel.toml", text, &|_| None);
    outcome.plan.ok_or_else(|| render_text(&outcome.diagnostics, false))
}

struct Asked<'a> {
    text: &'a str,
    only: &'a str,
    balancers: u32,
    traffic: Option<Traffic>,
    status: Option<Status>,
    shadows: Vec<PoolShadows>,
}

fn asked<'a>(text: &'a str, only: &'a str) -> Asked<'a> {
    Asked { text, only, balancers: 1, traffic: None, status: None, shadows: Vec::new() }
}

impl Asked<'_> {
    /// Advice of one kind. Checks each patch.
    fn advice(&self) -> Vec<Advice> {
        let plan = read(self.text).unwrap_or_else(|e| panic!("{e}"));
        let inputs = Inputs {
            file: "evenkeel.toml",
            text: self.text,
            plan: &plan,
            check: &|text| read(text),
            cores: 2,
            balancers: self.balancers,
            work: None,
            effort: EFFORT,
            traffic: self.traffic.as_ref(),
            record: None,
            status: self.status.as_ref(),
            shadows: &self.shadows,
            admin: None,
            until: None,
        };
        let all = advise(&inputs, &[self.only.to_string()], &|_| {}).advice;
        for patch in all.iter().filter_map(|advice| advice.patch.as_ref()) {
            assert_ne!(read(&patch.text).unwrap_or_else(|e| panic!("{e}\n{}", patch.text)), plan);
            assert_eq!(applied(self.text, &patch.diff), patch.text, "{}", patch.diff);
        }
        all
    }
}

/// Text after a unified difference of one hunk.
fn applied(text: &str, diff: &str) -> String {
    let mut lines = diff.lines().skip(2);
    let header = lines.next().expect("a hunk");
    let start: usize = header.split(['-', ',']).nth(1).and_then(|n| n.parse().ok()).expect("a line number");
    let mut out: Vec<&str> = text.lines().take(start - 1).collect();
    let mut rest = text.lines().skip(start - 1);
    for line in lines {
        match line.split_at(1) {
            ("-", old) => assert_eq!(rest.next(), Some(old)),
            (" ", same) => {
                assert_eq!(rest.next(), Some(same));
                out.push(same);
            }
            ("+", new) => out.push(new),
            _ => panic!("{diff}"),
        }
    }
    out.extend(rest);
    out.join("\n") + "\n"
}

fn http(pool: &str) -> String {
    format!(
        "[listener.web]\nbind = [\"127.0.0.1:8080\"]\n\n[[route]]\nname = \"all\"\npool = \"web\"\n\n[pool.web]\n{pool}\n\
         endpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\", \"127.0.0.1:8083\", \"127.0.0.1:8084\"]\n"
    )
}

#[test]
fn a_better_algorithm_is_found_with_its_evidence() {
    let text = http("balance = \"round_robin\" # as ever");
    let all = asked(&text, "algorithm").advice();
    let [advice] = &all[..] else { panic!("{all:?}") };
    assert_eq!(advice.verdict, Verdict::Change, "{advice:?}");
    assert!(
        advice.says.starts_with("set balance = \"leastconn\""),
        "the simplest of those that are alike: {}",
        advice.says
    );
    let effect = advice.effect.as_ref().expect("it was simulated");
    assert!(effect.change[2] < 0.0 && effect.change[1] < -0.05, "{effect:?}");
    let patch = advice.patch.as_ref().expect("a key that is there can be replaced");
    assert!(patch.diff.contains("-balance = \"round_robin\" # as ever\n+balance = "), "{}", patch.diff);
    assert_eq!(
        advice.repeat.as_deref(),
        Some("evenkeel advise -c evenkeel.toml --only algorithm --seeds 4 --requests 4000")
    );
    assert!(advice.evidence.iter().any(|line| line.contains("assumption")), "{:?}", advice.evidence);
}

#[test]
fn the_best_algorithm_and_those_with_a_purpose_are_left_alone() {
    for balance in ["\"leastconn\"", "{ maglev = { key = \"client-ip\" } }", "\"first\""] {
        let text = http(&format!("balance = {balance}"));
        let all = asked(&text, "algorithm").advice();
        assert!(all.iter().all(|advice| advice.verdict == Verdict::Leave && advice.patch.is_none()), "{all:?}");
    }
}

#[test]
fn a_pool_that_keeps_failing_endpoints_gets_checks_or_ejection() {
    let text = http("outlier = \"off\"\nretry = { attempts = 0 }");
    let all = asked(&text, "health").advice();
    let [advice] = &all[..] else { panic!("{all:?}") };
    assert_eq!(advice.verdict, Verdict::Change, "{advice:?}");
    assert!(advice.patch.is_some());
    let sound = http("health = { http = \"/\" }");
    assert!(asked(&sound, "health").advice().iter().all(|advice| advice.verdict == Verdict::Leave));
}

#[test]
fn retries_that_repeat_writes_are_dangerous() {
    let verdict = |retry: &str| {
        let advice = asked(&http(retry), "retries").advice().remove(0);
        assert_eq!(advice.patch.is_some(), advice.verdict != Verdict::Leave, "{advice:?}");
        advice.verdict
    };
    assert_eq!(verdict("retry = { non_idempotent = true }"), Verdict::Danger);
    assert_eq!(verdict("retry = { budget = 1 }"), Verdict::Danger);
    assert_eq!(verdict("retry = { attempts = 0 }"), Verdict::Change);
    assert_eq!(verdict(""), Verdict::Leave);
}

#[test]
fn a_limit_that_requests_reach_is_raised() {
    let text = http("balance = \"leastconn\"\nlimits = { requests_per_endpoint = 1 }\nqueue = { max = 0 }");
    let all = asked(&text, "limits").advice();
    let [advice] = &all[..] else { panic!("{all:?}") };
    assert_eq!(advice.verdict, Verdict::Change, "{advice:?}");
    assert!(advice.patch.as_ref().is_some_and(|patch| patch.text.contains("requests_per_endpoint = 4")));
    let wide = http("balance = \"leastconn\"\nlimits = { requests_per_endpoint = 1000 }");
    assert!(asked(&wide, "limits").advice().iter().all(|advice| advice.verdict == Verdict::Leave));
}

#[test]
fn a_cold_endpoint_matters_to_turns() {
    let all = asked(&http("balance = \"round_robin\""), "slow-start").advice();
    let [advice] = &all[..] else { panic!("{all:?}") };
    assert!([Verdict::Depends, Verdict::Leave].contains(&advice.verdict), "{advice:?}");
}

#[test]
fn several_balancers_gain_from_reports() {
    let text = http("balance = \"leastconn\"");
    let all = Asked { balancers: 8, ..asked(&text, "topology") }.advice();
    let [advice] = &all[..] else { panic!("{all:?}") };
    assert!([Verdict::Depends, Verdict::Leave].contains(&advice.verdict), "{advice:?}");
    assert!(asked(&text, "topology").advice().is_empty());
}

const TCP: &str = "[listener.db]\nbind = [\"127.0.0.1:5000\"]\nmode = \"tcp\"\npool = \"db\"\n\n[pool.db]\n\
                   balance = \"round_robin\"\nendpoints = [\"127.0.0.1:5001\", \"127.0.0.1:5002\"]\n";

fn connections(per_second: u64) -> Option<Traffic> {
    let listeners = HashMap::from([("db".to_string(), per_second * 100)]);
    Some(Traffic { span_s: 100.0, listeners, ..Traffic::default() })
}

#[test]
fn a_plane_of_the_kernel_is_advised_by_the_rate_of_connections() {
    let advice = |traffic| Asked { traffic, ..asked(TCP, "plane") }.advice().remove(0);
    let many = advice(connections(5000));
    assert_eq!(many.verdict, Verdict::Change, "{many:?}");
    assert!(many.patch.as_ref().is_some_and(|patch| patch.diff.contains("+plane = \"")), "{many:?}");
    assert_eq!(advice(connections(1)).verdict, Verdict::Leave);
    assert_eq!(advice(None).verdict, Verdict::Depends);
    let kept =
        TCP.replace("balance = \"round_robin\"", "balance = \"round_robin\"\nlimits = { requests_per_endpoint = 9 }");
    let refused = Asked { traffic: connections(5000), ..asked(&kept, "plane") }.advice().remove(0);
    assert_eq!((refused.verdict, refused.patch), (Verdict::Leave, None));
}

#[test]
fn routes_gain_by_what_the_log_shows() {
    let text = http("");
    let of = OfRoute { requests: 1000, gets: 900, repeated: 700, bytes_out: 1_000_000, text_bytes: 600_000 };
    let traffic =
        |of: OfRoute| Some(Traffic { routes: HashMap::from([("all".to_string(), of)]), ..Traffic::default() });
    for (kind, key) in [("cache", "cache = true"), ("compression", "compress = true")] {
        let advice = Asked { traffic: traffic(of.clone()), ..asked(&text, kind) }.advice().remove(0);
        assert_eq!(advice.verdict, Verdict::Depends, "{advice:?}");
        assert!(advice.patch.as_ref().is_some_and(|patch| patch.diff.contains(key)), "{advice:?}");
        let has_price = advice.evidence.iter().any(|line| line.contains("7 us of processor time"));
        assert_eq!(has_price, kind == "compression", "600 bytes of text a request, at 11 ns: {advice:?}");
        let none = OfRoute { repeated: 0, text_bytes: 0, ..of.clone() };
        let advice = Asked { traffic: traffic(none), ..asked(&text, kind) }.advice().remove(0);
        assert_eq!(advice.verdict, Verdict::Leave);
    }
}

#[test]
fn a_slow_and_a_failing_endpoint_of_a_running_instance_are_named() {
    let text = http("balance = \"round_robin\"\noutlier = \"off\"");
    let endpoint = |port: u16, p50_ms: f64, failed: u64| evenkeel_view::Endpoint {
        name: format!("127.0.0.1:{port}"),
        requests: 1000,
        failed,
        latency: Some(evenkeel_view::LatencyOfLate { responses: 500, p50_ms, p99_ms: p50_ms }),
        ..evenkeel_view::Endpoint::default()
    };
    let status = |endpoints: Vec<evenkeel_view::Endpoint>| {
        let pool = evenkeel_view::Pool { name: "web".into(), endpoints, ..evenkeel_view::Pool::default() };
        Some(Status { pools: vec![pool], ..Status::default() })
    };
    let ill = vec![endpoint(8081, 1.0, 0), endpoint(8082, 1.2, 0), endpoint(8083, 9.0, 0), endpoint(8084, 1.0, 50)];
    let all = Asked { status: status(ill), ..asked(&text, "running") }.advice();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|advice| advice.patch.is_some()));
    let well = (8081..8085).map(|port| endpoint(port, 1.0, 0)).collect();
    let all = Asked { status: status(well), ..asked(&text, "running") }.advice();
    assert!(all.iter().all(|advice| advice.verdict == Verdict::Leave), "{all:?}");
}

#[test]
fn the_order_is_that_of_effect_and_the_text_has_the_patches() {
    let text = http("balance = \"round_robin\"\nretry = { non_idempotent = true }");
    let plan = read(&text).expect("it is valid");
    let check = |text: &str| read(text);
    let inputs = Inputs { cores: 2, effort: EFFORT, ..Inputs::of("evenkeel.toml", &text, &plan, &check) };
    let found = advise(&inputs, &[], &|_| {});
    assert_eq!(found.unfinished, Vec::<String>::new());
    let all = &found.advice;
    assert!(all.is_sorted_by(|a, b| a.verdict <= b.verdict), "{all:?}");
    assert_eq!((all[0].kind, all[0].verdict), ("retries", Verdict::Danger));
    let advised = found.shown("evenkeel.toml");
    let shown = evenkeel_advise::text::text(&advised);
    assert!(
        shown.starts_with("1. pool \"web\": set non_idempotent = false") && shown.contains("     +balance = "),
        "{shown}"
    );
    assert_eq!((&*advised.config, advised.advice[0].verdict), ("evenkeel.toml", Verdict::Danger));
}

/// Predictions for a pool of 2,000 requests: its p99, and those of two shadows, in milliseconds.
fn predicted(now: f64, random: Option<f64>, leastconn: Option<f64>) -> Vec<PoolShadows> {
    let shadow = |algorithm: &str, ms: Option<f64>| Shadow {
        algorithm: algorithm.to_string(),
        p99_ns: ms.map(|ms| ms * 1e6),
        withheld: if ms.is_none() { vec!["that depends on the weather".to_string()] } else { Vec::new() },
        ..Shadow::default()
    };
    vec![PoolShadows {
        pool: "web".to_string(),
        balance: "round_robin".to_string(),
        requests: 2_000,
        span_ns: 10_000_000_000,
        p99_ns: Some(now * 1e6),
        shadows: vec![shadow("random{draws=3}", random), shadow("leastconn", leastconn)],
        ..PoolShadows::default()
    }]
}

#[test]
fn the_shadows_of_a_running_pool_judge_its_algorithm() {
    let text = http("balance = \"round_robin\"\nshadow = [{ random = { draws = 3 } }, \"leastconn\"]");
    let judged = |shadows: Vec<PoolShadows>| {
        let status = Some(Status::default());
        Asked { status, shadows, ..asked(&text, "algorithm") }.advice().remove(0)
    };
    let better = judged(predicted(100.0, Some(50.0), Some(60.0)));
    assert_eq!(better.verdict, Verdict::Change, "{better:?}");
    assert_eq!(better.says, "set balance = { random = { draws = 3 } } instead of round_robin");
    let effect = better.effect.expect("it is predicted");
    assert!((effect.change[1] + 0.5).abs() < 1e-9 && (effect.change[2] + 0.35).abs() < 1e-9, "{effect:?}");
    assert!(better.patch.is_some_and(|patch| patch.diff.contains("+balance = { random = { draws = 3 } }")));
    assert!(better.evidence[0].starts_with("by the shadows, from 2000 requests in 10.0 s: p99 100.0 ms now"));

    // Within the error of predictions.
    let alike = judged(predicted(100.0, Some(80.0), None));
    assert_eq!((alike.verdict, alike.patch.is_none()), (Verdict::Leave, true), "{alike:?}");
    assert!(alike.says.contains("(random{draws=3})"), "{}", alike.says);
    assert!(alike.evidence.iter().any(|line| line.contains("leastconn: p99 unknown")), "{:?}", alike.evidence);
}

#[test]
fn shadows_that_cannot_answer_leave_it_to_assumptions() {
    let text = http("balance = \"round_robin\"\nshadow = [\"leastconn\"]");
    let other = |change: &dyn Fn(&mut PoolShadows)| {
        let mut all = predicted(100.0, Some(50.0), Some(60.0));
        change(&mut all[0]);
        all
    };
    let cases = [
        (Vec::new(), "the pool has no shadows"),
        (predicted(100.0, None, None), "the shadows cannot answer: random{draws=3}: that depends on the weather"),
        (other(&|of| of.nothing = Some("12 requests".to_string())), "the shadows know nothing yet: 12 requests"),
        (other(&|of| of.requests = 999), "the shadows know 999 requests, and a p99 takes 1000"),
        (other(&|of| of.balance = "first".to_string()), "the running pool is balanced by first"),
    ];
    for (shadows, why) in cases {
        let status = Some(Status::default());
        let advice = Asked { status, shadows, ..asked(&text, "algorithm") }.advice().remove(0);
        assert!(advice.evidence[0].starts_with(why), "{why}: {:?}", advice.evidence);
        assert!(advice.evidence[1].starts_with("simulated with the settings of the pool"), "{:?}", advice.evidence);
    }
}

#[test]
fn pools_without_time_for_trials_are_named_and_rules_still_count() {
    let text = http("balance = \"round_robin\"\nretry = { non_idempotent = true }");
    let plan = read(&text).expect("it is valid");
    let check = |text: &str| read(text);
    let until = Some(std::time::Instant::now());
    let inputs = Inputs { until, ..Inputs::of("evenkeel.toml", &text, &plan, &check) };
    let found = advise(&inputs, &[], &|_| {});
    assert_eq!(found.unfinished, ["web"]);
    let kinds: Vec<&str> = found.advice.iter().map(|advice| advice.kind).collect();
    assert_eq!(kinds, ["retries"]);
}

#[test]
fn a_route_that_no_section_has_is_written_out() {
    let pools = "[pool.web]\nendpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\"]\n";
    let of_listener = |key: &str| format!("[listener.web]\nbind = [\"127.0.0.1:8080\"]\n{key}\n{pools}");
    let advice = |text: &str, name: &str| {
        let of = OfRoute { requests: 1000, gets: 900, repeated: 700, bytes_out: 1_000_000, text_bytes: 600_000 };
        let traffic = Some(Traffic { routes: HashMap::from([(name.to_string(), of)]), ..Traffic::default() });
        Asked { traffic, ..asked(text, "cache") }.advice().remove(0)
    };
    let only = advice(&of_listener(""), "default");
    let patch = only.patch.as_ref().unwrap_or_else(|| panic!("{only:?}"));
    let plan = read(&patch.text).unwrap_or_else(|e| panic!("{e}"));
    assert!(plan.routes.iter().all(|route| route.filters.cache.is_some()), "{}", patch.diff);
    // The listener's pool and a route would match the same requests.
    let listener = advice(&of_listener("pool = \"web\""), "web");
    assert!(listener.patch.is_none() && listener.evidence.iter().any(|line| line.contains("write a [[route]]")));
}

#[test]
fn a_claim_by_assumptions_spans_the_scenes() {
    let advice = asked(&http("balance = \"round_robin\""), "algorithm").advice().remove(0);
    let [low, middle, high] = advice.effect.as_ref().expect("it was simulated").change;
    // Scenes at half the capacity gain less than scenes near it, by much more than the spread of seeds.
    assert!(low < middle - 0.05 && high > middle + 0.05 && high < 0.0, "{low} {middle} {high}");
}

#[test]
fn an_algorithm_that_prefers_a_failing_endpoint_is_not_advised_without_ejection() {
    let pool = "balance = \"round_robin\"\nretry = { attempts = 0 }\n";
    let without = asked(&http(&format!("{pool}outlier = \"off\"")), "algorithm").advice().remove(0);
    assert_eq!((without.verdict, without.patch.is_some()), (Verdict::Leave, false), "{without:?}");
    assert!(without.says.contains("nothing ejects it"), "{without:?}");
    assert_eq!(asked(&http(pool), "algorithm").advice().remove(0).verdict, Verdict::Change);
}

#[test]
fn sessions_get_no_algorithm_that_needs_latencies() {
    let advice = asked(TCP, "algorithm").advice().remove(0);
    assert!(!advice.says.contains("peak_ewma"), "{advice:?}");
    assert!(advice.evidence.iter().all(|line| !line.starts_with("peak_ewma")), "{advice:?}");
    assert!(advice.evidence.iter().any(|line| line.starts_with("leastconn")), "{advice:?}");
}
