//! Configuration of every algorithm in the registry, so that new ones are covered too.

use evenkeel_balance::algorithms;
use evenkeel_balance::params::{Kind, Value};
use evenkeel_config::plan::HashKey;
use evenkeel_config::{Outcome, Plan, parse_str, render_text};

fn with(balance: &str) -> Outcome {
    with_reports(balance, "{ probe = 'udp' }")
}

fn with_reports(balance: &str, reports: &str) -> Outcome {
    let text = format!(
        "[listener.web]\nbind = ['127.0.0.1:8080']\n\
         [pool.web]\nbalance = {balance}\nload_reports = {reports}\nendpoints = ['127.0.0.1:1']\n"
    );
    parse_str("test.toml", &text, &|_| None)
}

fn codes(outcome: &Outcome) -> Vec<&'static str> {
    outcome.diagnostics.iter().map(|d| d.code.as_str()).collect()
}

#[track_caller]
fn plan(balance: &str) -> Plan {
    let outcome = with(balance);
    assert!(outcome.diagnostics.is_empty(), "{balance}\n{}", render_text(&outcome.diagnostics, false));
    outcome.plan.expect("a plan without an error")
}

#[test]
fn each_is_found_by_its_name_and_aliases() {
    for algorithm in algorithms::ALL {
        for name in [algorithm.name].iter().chain(algorithm.aliases) {
            let balance = format!("\"{name}\"");
            assert_eq!(plan(&balance).pools[0].balance.algorithm.name, algorithm.name);
            assert_eq!(plan(&format!("{{ {name} = {{}} }}")), plan(&balance));
        }
    }
}

#[test]
fn those_that_need_probes_need_a_pool_that_sends_them() {
    for algorithm in algorithms::ALL {
        let balance = format!("\"{}\"", algorithm.name);
        let wanted: &[&str] = if algorithm.needs.probes { &["EK0208"] } else { &[] };
        for reports in ["true", "false", "{ in_band = true, probe = 'off' }"] {
            assert_eq!(codes(&with_reports(&balance, reports)), wanted, "{balance} with {reports}");
        }
        assert!(codes(&with_reports(&balance, "{ probe = 'http' }")).is_empty(), "{balance}");
    }
}

fn written(value: Value) -> String {
    match value {
        Value::Int(_) => value.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Duration(_) | Value::Text(_) => format!("\"{value}\""),
    }
}

#[test]
fn each_parameter_takes_its_default_and_refuses_what_is_out_of_range() {
    for algorithm in algorithms::ALL {
        for param in algorithm.params {
            let set = |value: &str| format!("{{ {} = {{ {} = {value} }} }}", algorithm.name, param.name);
            let default = plan(&set(&written(param.default)));
            assert_eq!(default, plan(&format!("\"{}\"", algorithm.name)), "{} of {}", param.name, algorithm.name);
            let (wrong, code) = match param.kind {
                Kind::Int { max, .. } => ((u128::from(max) + 1).to_string(), "EK0104"),
                Kind::Float { .. } => ("nan".to_string(), "EK0104"),
                Kind::Duration { .. } => ("5".to_string(), "EK0106"),
                Kind::HashKey => ("\"header:\"".to_string(), "EK0112"),
            };
            assert_eq!(codes(&with(&set(&wrong))), [code], "{} of {}", param.name, algorithm.name);
        }
    }
}

#[test]
fn hash_keys_are_typed_and_survive_being_written() {
    for algorithm in algorithms::ALL {
        for param in algorithm.params.iter().filter(|p| p.kind == Kind::HashKey) {
            let first = plan(&format!("{{ {} = {{ {} = \"header:X-Tenant\" }} }}", algorithm.name, param.name));
            let key = first.pools[0].balance.keys.get(param.name);
            assert_eq!(key, Some(&HashKey::Header("x-tenant".to_string())));
            let again = parse_str("again.toml", &first.to_toml(), &|_| None);
            assert_eq!(again.plan.as_ref(), Some(&first), "{}", first.to_toml());
        }
    }
}
