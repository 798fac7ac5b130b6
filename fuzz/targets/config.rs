//! The configuration reader on any text: it does not panic, returns a plan or errors, does so
//! deterministically, and a written plan reads back as itself.
#![no_main]

use evenkeel_config::{Severity, parse_str, render_text, to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let env = |name: &str| name.len().is_multiple_of(2).then(|| name.to_lowercase());
    let outcome = parse_str("any.toml", text, &env);
    assert_eq!(outcome, parse_str("any.toml", text, &env));
    let errors = outcome.diagnostics.iter().any(|d| d.severity() == Severity::Error);
    assert_eq!(outcome.plan.is_none(), errors);
    assert_eq!(render_text(&outcome.diagnostics, true).is_empty(), outcome.diagnostics.is_empty());
    assert_eq!(to_json(&outcome.diagnostics).as_array().map(Vec::len), Some(outcome.diagnostics.len()));
    let Some(plan) = outcome.plan else { return };
    // Assumptions of the planes.
    assert!(!plan.listeners.is_empty() && !plan.routes.is_empty());
    for name in plan.routes.iter().flat_map(|route| route.action.pools()) {
        assert!(plan.pools.iter().any(|pool| pool.name == *name), "a route to no pool");
    }
    assert!(plan.pools.iter().all(|pool| pool.discover.is_some() || !pool.endpoints.is_empty()));
    let again = parse_str("again.toml", &plan.to_toml(), &|_| None);
    assert_eq!(again.plan, Some(plan), "{:?}", again.diagnostics);
});
