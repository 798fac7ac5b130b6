//! Secrets are never quoted, whatever is wrong with a file, because diagnostics reach logs and clients of the
//! API. The size of diagnostics is bounded too.

use evenkeel_config::{Severity, parse_str, render_text, to_json};

/// Every representation of the diagnostics.
fn said(text: &str) -> String {
    let outcome = parse_str("evenkeel.toml", text, &|_| None);
    assert!(!outcome.diagnostics.is_empty(), "{text}");
    let texts = [render_text(&outcome.diagnostics, false), to_json(&outcome.diagnostics).to_string()];
    format!("{}{:?}", texts.concat(), outcome.diagnostics)
}

const WEB: &str = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['127.0.0.1:8081']\n";

#[test]
fn no_error_quotes_a_secret() {
    for text in [
        // Not valid TOML.
        "[pool.web]\nsticky = { secret = hunter2hunter2 }",
        "[pool.web]\nsticky = { secret = \"hunter2hunter2 }",
        "[pool.web]\nsticky = { secret = \"\\xhunter2hunter2\" }",
        "[pool.web.sticky]\nsecret = \"\"\"\nhunter2hunter2\\q\n\"\"\"",
        "[pool.web.sticky]\nsecret = \"x\" hunter2hunter2",
        "[pool.web.sticky]\nsecret = 'a'\nsecret = 'hunter2hunter2'",
        "password: hunter2hunter2",
        "global\n  stats auth admin\n  password hunter2hunter2\n",
        // In another table, or under another name.
        "[pool.web]\nsecret = 'hunter2hunter2'",
        "[pool.web.sticky]\ncookie_secret = 'hunter2hunter2'",
        "[pool]\nsecret = 'hunter2hunter2'",
        "token = 'hunter2hunter2'",
        // With another type, or with an invalid reference.
        "[pool.web.sticky]\nsecret = ['hunter2hunter2']",
        "[pool.web.sticky]\nsecret = '${hunter2hunter2'",
        "[pool.web.sticky]\nsecret = '${hunter2hunter2 }'",
        // Next to another error.
        "[pool.web]\nsticky = { secret = 'hunter2hunter2hunter2', ttl = 1 }",
        // Value of a field whose name is that of a secret.
        "[[route]]\npool = 'web'\nrequest_headers = { set = { Authorization = 'hunter2hunter2 {x' } }",
        "[[route]]\npool = 'web'\nrequest_headers = { add = { X-Api-Key = 'hunter2hunter2{nothing}' } }",
        // Users, of which one is malformed, or whose text is cut off.
        "[[route]]\npool = 'web'\nbasic_auth = { users = 'ann:hunter2hunter2' }",
        "[[route]]\npool = 'web'\nbasic_auth = { users = 'ann:$2y$05$hunter2hunter2' }",
        "[[route]]\npool = 'web'\nbasic_auth = { users = 'ann:$2y$05$hunter2hunter2 }",
        // Password in a URL.
        "[telemetry]\ntraces = { otlp = 'http://user:hunter2hunter2@127.0.0.1:4318' }",
        "x = 'http://user:hunter2hunter2@127.0.0.1'",
    ] {
        let said = said(&format!("{WEB}{}", text.replace("[pool.web]\n", "")));
        assert!(!said.contains("hunter2"), "{text}\n{said}");
        let said = self::said(text);
        assert!(!said.contains("hunter2"), "{text}\n{said}");
    }
    let number = said("[pool.web.sticky]\nsecret = 8273645182736451");
    assert!(!number.contains("8273645"), "{number}");
}

#[test]
fn lines_without_a_secret_are_still_quoted() {
    let shown = said("[listener.web]\nbind = [127.0.0.1]");
    assert!(shown.contains("bind = [127.0.0.1]"), "{shown}");
    let shown = said("[admin]\nhttp = { bind = '127.0.0.1:1', write_token = '/etc/token', x = 1 }");
    assert!(shown.contains("write_token = '/etc/token'"), "{shown}");
}

#[test]
fn what_is_said_of_a_large_wrong_file_is_small() {
    let wrong: String = (0..5_000).map(|n| format!("[pool.p{n}]\nendpoint = ['127.0.0.1:1']\nbalnce = 1\n")).collect();
    let one_line = format!("[pool.web]\nendpoints = [{}]", "{ adr = 1, weigth = 'ä' }, ".repeat(8_000));
    let unknown_pools: String = (0..8_000).map(|n| format!("[[route]]\npool = 'p{n}'\n")).collect();
    for text in [wrong, one_line, format!("{WEB}{unknown_pools}")] {
        let outcome = parse_str("evenkeel.toml", &text, &|_| None);
        assert!(text.len() > 150_000 && outcome.plan.is_none());
        let last = outcome.diagnostics.last().expect("there are many");
        assert_eq!((last.code.as_str(), last.severity()), ("EK0008", Severity::Error));
        assert!(last.message.contains("more error"), "{}", last.message);
        let size = render_text(&outcome.diagnostics, false).len() + to_json(&outcome.diagnostics).to_string().len();
        assert!(outcome.diagnostics.len() <= 101 && size < 500_000, "{size}");
        let kept: usize = outcome.diagnostics.iter().filter_map(|d| Some(d.at.range.as_ref()?.line_text.len())).sum();
        assert!(kept < 200_000, "{kept}");
    }
}

#[test]
fn a_long_line_is_shown_around_the_place() {
    let blanks = " ".repeat(5000);
    let text = format!("[pool.web]\nendpoints = ['127.0.0.1:2', {blanks}{{ addr = '127.0.0.1:1', weigth = 1 }}]");
    let outcome = parse_str("a.toml", &text, &|_| None);
    let shown = render_text(&outcome.diagnostics, false);
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.contains("weigth = 1")).expect("it is quoted");
    assert!(lines[at].len() < 140, "{shown}");
    let marked = lines[at + 1].find('^').expect("it is marked");
    assert!(lines[at][marked..].starts_with("weigth"), "{shown}");
}

#[test]
fn hidden_characters_of_a_line_are_not_shown() {
    let shown = said("[listener.web]\nbind = '127.0.0.1:1' # \u{202e}\u{9b}31m\nbnd = 1");
    let line = render_text(&parse_str("a", "x = '\u{202e}\u{9b}31m' y", &|_| None).diagnostics, false);
    assert!(!line.contains(['\u{202e}', '\u{9b}']), "{shown}{line}");
}
