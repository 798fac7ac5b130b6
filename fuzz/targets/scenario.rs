//! The scenario reader on any text: it does not panic, and returns an experiment or errors deterministically.
#![no_main]

use evenkeel_config::Severity;
use evenkeel_sim::file::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let outcome = read("any.toml", text);
    assert_eq!(outcome.diagnostics, read("any.toml", text).diagnostics);
    let errors = outcome.diagnostics.iter().any(|d| d.severity() == Severity::Error);
    assert_eq!(outcome.experiment.is_none(), errors);
    let Some(experiment) = outcome.experiment else { return };
    // Assumptions of the engine.
    assert!(!experiment.points.is_empty());
    for point in &experiment.points {
        assert!(point.scenario.services.iter().all(|service| !service.servers.is_empty()));
        assert!(point.scenario.requests < u64::MAX || point.scenario.until_ns < u64::MAX);
    }
});
