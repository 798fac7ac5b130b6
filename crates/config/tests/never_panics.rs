//! The reader does not panic on any text: it returns a plan or errors.

use evenkeel_config::plan::{Pool, Secret};
use evenkeel_config::{Severity, parse_str, render_text, to_json};
use proptest::prelude::*;
use std::sync::Arc;

fn check(text: &str) {
    let outcome = parse_str("any.toml", text, &|name| (name.len() % 2 == 0).then(|| name.to_lowercase()));
    let errors = outcome.diagnostics.iter().any(|d| d.severity() == Severity::Error);
    assert_eq!(outcome.plan.is_none(), errors);
    let shown = render_text(&outcome.diagnostics, true);
    assert_eq!(shown.is_empty(), outcome.diagnostics.is_empty());
    assert_eq!(to_json(&outcome.diagnostics).as_array().map(Vec::len), Some(outcome.diagnostics.len()));
    if let Some(plan) = outcome.plan {
        let again = parse_str("again.toml", &plan.to_toml(), &|_| None);
        // The placeholder for a secret is not a valid key, so the written file is rejected.
        let secret = |pool: &Arc<Pool>| pool.sticky.as_ref().is_some_and(|s| matches!(s.secret, Secret::Inline(_)));
        match plan.pools.iter().any(secret) {
            true => assert!(again.plan.is_none()),
            false => assert_eq!(again.plan, Some(plan)),
        }
    }
}

/// Fragments of configurations, so that tests reach the readers behind the parser.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "[listener.web]\n",
        "[pool.web]\n",
        "[pool.web.limits]\n",
        "[pool.web.health]\n",
        "[pool.web.outlier]\n",
        "[pool.web.retry]\n",
        "[pool.web.sticky]\n",
        "[defaults.retry]\n",
        "[[route]]\n",
        "[runtime]\n",
        "[include]\n",
        "[defaults.timeouts]\n",
        "[admin]\n",
        "[telemetry]\n",
        "bind = ",
        "endpoints = ",
        "balance = ",
        "match = ",
        "pool = ",
        "host = ",
        "path = ",
        "prefix = ",
        "files = ",
        "http = ",
        "timeouts = ",
        "limits = ",
        "name = ",
        "version = ",
        "workers = ",
        "connect = ",
        "addr = ",
        "weight = ",
        "tcp = ",
        "expect = ",
        "interval = ",
        "outlier = ",
        "slow_start = ",
        "concurrency = ",
        "on = ",
        "backoff = ",
        "hedge_after = ",
        "try_timeout = ",
        "secret = ",
        "zone = ",
        "trusted_proxies = ",
        "[",
        "]",
        "{ ",
        " }",
        ", ",
        "\n",
        "=",
        ".",
        "\"",
        "'",
        "1",
        "-1",
        "1.5",
        "true",
        "\"127.0.0.1:8080\"",
        "[\"127.0.0.1:8080\"]",
        "\"web\"",
        "\"/v1/{*rest}\"",
        "\"/{a}\"",
        "[\"*.example.com\"]",
        "{ path = \"/x\" }",
        "\"10s\"",
        "\"16KiB\"",
        "\"25ms..250ms\"",
        "\"p99.5\"",
        "\"off\"",
        "\"adaptive\"",
        "[\"5xx\", 404, \"200..=299\", \"reset\"]",
        "[\"10.0.0.0/8\", \"::1\"]",
        "\"unix:/run/a.sock\"",
        "\"0123456789abcdef\"",
        "{ min = 1, max = 9 }",
        "\"${AB}\"",
        "\"${A}\"",
        "\"random\"",
        "{ random = { draws = 2 } }",
        "{ maglev = { key = \"header:a\" } }",
        "\"é\"",
        "nan",
        "inf",
        "1979-05-27",
        "#",
        "\"\"\"",
        "\\u0000",
        "0x1F",
    ]);
    prop_oneof![8 => words.prop_map(str::to_string), 1 => "\\PC{0,4}", 1 => any::<char>().prop_map(String::from)]
}

/// A valid file with one part replaced, so that most of it stays valid.
fn nearly_good(good: &'static str) -> impl Strategy<Value = String> {
    (0..good.len(), 0..24_usize, piece()).prop_map(move |(start, length, piece)| {
        let floor = |mut at: usize| {
            while !good.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(start), floor((start + length).min(good.len())));
        format!("{}{piece}{}", &good[..start], &good[end.max(start)..])
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        // PROPTEST_CASES can only raise this.
        cases: ProptestConfig::default().cases.max(512),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_pieces_are_read(pieces in prop::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn a_nearly_good_file_is_read(text in nearly_good(include_str!("../../../examples/edge.toml"))) {
        check(&text);
    }

    #[test]
    fn a_nearly_good_file_about_discovery_is_read(text in nearly_good(include_str!("../../../examples/discovery.toml"))) {
        check(&text);
    }

    #[test]
    fn a_nearly_good_file_about_failures_is_read(text in nearly_good(include_str!("../../../examples/resilient.toml"))) {
        check(&text);
    }
}

#[test]
fn deep_nesting_and_long_lines_are_read() {
    check(&"[".repeat(100_000));
    check(&format!("a = {}", "[".repeat(100_000)));
    check(&format!("a = {}", "{ a = ".repeat(10_000)));
    check(&format!("{} = 1", "a.".repeat(300_000)));
    check(&format!("[pool.web]\nbalance = \"{}\"", "x".repeat(1_000_000)));
}
