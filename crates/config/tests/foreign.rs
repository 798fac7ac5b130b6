//! Advice for configurations of HAProxy, NGINX, Envoy, Traefik and Caddy must lead to a valid file in one
//! round. For each file in tests/foreign there are the expected messages (`.txt`) and the valid file
//! (`.right`). Exact advice is applied by the test, and `make bless` rewrites the messages and those valid
//! files; the others are written by hand.

use crate::committed::same_as_committed;
use crate::support::Under;
use evenkeel_config::{Outcome, Severity, load_from, parse_str, render_text};
use std::path::Path;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign");

/// Files whose advice names a table, a choice, or something that does not exist, so that a person has to
/// decide.
const BY_HAND: &[&str] = &["haproxy_tcp", "nginx_servers", "traefik_dynamic"];

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(HERE)
        .expect("the directory is there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_string))
        .collect();
    names.sort();
    names
}

fn read(name: &str) -> Outcome {
    load_from(&Under(HERE), Path::new(name), &|_| None)
}

fn file(name: &str, ending: &str) -> String {
    std::fs::read_to_string(Path::new(HERE).join(format!("{name}.{ending}"))).unwrap_or_default()
}

#[test]
fn each_foreign_file_gets_the_committed_advice() {
    let names = names();
    assert!(names.len() >= 15, "{names:?}");
    let mut texts = Vec::new();
    for name in &names {
        let outcome = read(&format!("{name}.toml"));
        assert!(outcome.plan.is_none(), "{name}: it is accepted");
        let path = Path::new("crates/config/tests/foreign").join(name);
        texts.push((path.with_extension("txt"), render_text(&outcome.diagnostics, false)));
        if !BY_HAND.contains(&&**name) {
            let right = crate::applied::advice(&file(name, "toml"), &outcome.diagnostics);
            texts.push((path.with_extension("right"), right));
        }
    }
    same_as_committed(&texts);
}

#[test]
fn each_right_file_is_accepted() {
    for name in names() {
        let right = read(&format!("{name}.right"));
        let errors: Vec<_> = right.diagnostics.iter().filter(|d| d.severity() == Severity::Error).collect();
        assert!(errors.is_empty() && right.plan.is_some(), "{name}:\n{}", render_text(&right.diagnostics, false));
    }
}

#[test]
fn what_is_written_by_hand_has_the_keys_that_the_advice_names() {
    for name in BY_HAND {
        let (advice, right) = (read(&format!("{name}.toml")).diagnostics, file(name, "right"));
        for help in advice.iter().filter_map(|d| d.help.as_deref()?.strip_prefix("here this is ")) {
            let named = help.split([' ', ',']).next().unwrap_or_default().replace("NAME]", "");
            assert!(right.contains(&named), "{name}: {help}: there is no {named} in\n{right}");
        }
    }
}

#[test]
fn a_file_in_the_language_of_another_is_one_error_that_says_whose_it_is() {
    for (text, whose, heading) in [
        (
            "frontend www\n    bind *:80\n    default_backend app\n\nbackend app\n    server a 10.0.0.1:80 check\n",
            "HAProxy",
            "HAProxy",
        ),
        ("http {\n  upstream app {\n    server 10.0.0.1:80;\n  }\n  server { listen 80; }\n}\n", "NGINX", "NGINX"),
        ("example.com {\n    reverse_proxy 10.0.0.1:80\n}\n", "Caddy", "Caddy"),
        (
            "static_resources:\n  listeners:\n  - name: web\n    address:\n      socket_address: { address: 0.0.0.0 }\n",
            "Envoy, in YAML",
            "Envoy",
        ),
        ("http:\n  routers:\n    app:\n      rule: Host(`a.b`)\n", "Traefik, in YAML", "Traefik"),
    ] {
        let outcome = parse_str("evenkeel.toml", text, &|_| None);
        let [error] = outcome.diagnostics.as_slice() else {
            panic!("{text}\n{}", render_text(&outcome.diagnostics, false));
        };
        assert!(error.message.ends_with(&format!("a configuration of {whose}")), "{}", error.message);
        let help = error.help.as_deref().unwrap_or_default();
        assert!(help.contains("docs/guide/coming-from.md") && help.ends_with(&format!("under {heading}")), "{help}");
    }
}
