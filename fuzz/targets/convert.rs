//! `evenkeel convert` on any text: it does not panic, does the same each time, settles every directive, and writes TOML.
#![no_main]

use evenkeel_config::{Code, NoFiles, parse_str};
use evenkeel_convert::{From, convert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for from in [From::Haproxy, From::Nginx, From::Traefik, From::Caddy, From::Envoy] {
        let converted = convert("any.conf", text, Some(from), &NoFiles).expect("the program is named");
        assert_eq!(convert("any.conf", text, Some(from), &NoFiles), Some(converted.clone()));
        let report = &converted.report;
        assert!(report.carried + report.named().count() + report.lossless.len() >= report.directives);
        assert!(!report.to_text().is_empty());
        let outcome = parse_str("any.toml", &converted.toml, &|_| Some("x".to_string()));
        assert!(outcome.diagnostics.iter().all(|found| found.code != Code::Syntax), "{}", converted.toml);
    }
});
