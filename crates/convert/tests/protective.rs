//! Assertions on conversions of configurations that refuse requests.

use evenkeel_config::{NoFiles, Severity, parse_str, render_text};
use evenkeel_convert::{From, convert};

/// Expected result: the refusal itself, or routes that refuse every client.
pub enum End {
    /// The refusal is in the output: a route, or a listener, has all of these keys.
    Kept(&'static [&'static str]),
    /// The routes are closed, and `must decide` names a line with this text.
    Closed(&'static str),
}

/// A configuration with a refusal.
pub struct Case {
    pub text: &'static str,
    pub end: End,
    /// Text in matches of routes that are not refused. All other routes to endpoints must be refused.
    pub open: &'static [&'static str],
}

/// Text of a route that no client may use.
const CLOSED: [&str; 2] = ["access = { deny = [\"0.0.0.0/0\", \"::/0\"] }", "access.deny = [\"0.0.0.0/0\", \"::/0\"]"];

/// Converts each configuration, and checks that its refusal is kept or closed.
pub fn check(from: From, file: &str, cases: &[Case]) {
    let mut failures = Vec::new();
    for case in cases {
        let converted = convert(file, case.text, Some(from), &NoFiles).expect("it is named");
        let (toml, report) = (&converted.toml, converted.report.to_text());
        let mut fail = |why: String| failures.push(format!("{why}:\n{}\n---\n{toml}\n{report}", case.text));
        if report.contains("does not know this directive") {
            fail("a directive is forgotten".into());
        }
        let outcome = parse_str("evenkeel.toml", toml, &|_| Some("127.0.0.1".to_string()));
        if outcome.diagnostics.iter().any(|d| d.severity() == Severity::Error) {
            fail(format!("`check` refuses it: {}", render_text(&outcome.diagnostics, false)));
        }
        let tables: Vec<&str> = toml.split("\n\n").collect();
        let is_closed = |table: &str| CLOSED.iter().any(|closed| table.contains(closed));
        let is_refused = |table: &str| match &case.end {
            End::Kept(keys) => is_closed(table) || keys.iter().all(|key| table.contains(key)),
            End::Closed(_) => is_closed(table),
        };
        let is_of_listener = matches!(&case.end, End::Kept(keys) if tables.iter().any(|table| {
            table.contains("[listener.") && keys.iter().all(|key| table.contains(key))
        }));
        for route in tables.iter().filter(|table| table.contains("[[route]]")) {
            let leads = route.contains("\npool = ") || route.contains("\nsplit");
            let is_free = case.open.iter().any(|text| route.contains(text));
            if leads && !is_refused(route) && !is_of_listener && !is_free {
                fail(format!("open: {route}"));
            }
        }
        match &case.end {
            End::Kept(keys) => {
                if !tables.iter().any(|table| keys.iter().all(|key| table.contains(key))) {
                    fail(format!("no table has {keys:?}"));
                }
            }
            End::Closed(text) => {
                let refuses =
                    |table: &&str| is_closed(table) || table.contains("respond = 4") || table.contains("respond = 5");
                if !tables.iter().any(refuses) {
                    fail("no route is closed".into());
                }
                if !converted.report.decide.iter().any(|item| item.text.contains(text)) {
                    fail(format!("`must decide` does not name {text}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n======\n"));
}
