//! Fixtures of fixed configurations, judged beside the original as random configurations are.

use crate::case::{Judged, judge};
use crate::endpoints::Endpoints;
use crate::grammars::{Grammar, NGINX};
use crate::originals::Original;
use crate::tree::{Node, block, line};
use evenkeel_peers::installed;
use std::fs;
use std::path::Path;

/// Fixtures of NGINX that run beside it without anything around them. Their endpoints are 10.0.0.1:9000 to 10.0.0.4:9000,
/// and they listen at port 8080.
const OF_NGINX: [&str; 12] = [
    "caret",
    "conditions",
    "first",
    "groups",
    "lists",
    "methods",
    "missing",
    "names",
    "nested",
    "pages",
    "tables",
    "twice",
];

/// Judges the configuration of a file with these addresses for those that stand in it.
fn beside(grammar: &Grammar, file: &str, addresses: &[(&str, &str)], endpoints: &Endpoints) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let text = fs::read_to_string(path).expect("the fixture is there");
    let text = addresses.iter().fold(text, |text, (from, to)| text.replace(from, to));
    match judge(grammar, &nodes(&text), 1, endpoints) {
        Judged::Same { .. } => {}
        Judged::Invalid(why) => panic!("{file} is not one of the original: {why}"),
        Judged::Finding(finding) => panic!("{file}: {}", finding.text),
    }
}

/// Nodes of a text with a directive or a brace on each line.
fn nodes(text: &str) -> Vec<Node> {
    fn level<'t>(lines: &mut impl Iterator<Item = &'t str>) -> Vec<Node> {
        let mut all = Vec::new();
        while let Some(text) = lines.next().map(str::trim) {
            match text.strip_suffix('{') {
                _ if text == "}" => break,
                _ if text.is_empty() || text.starts_with('#') => {}
                Some(head) => {
                    let inner = level(lines);
                    all.push(block(head.trim(), inner));
                }
                None => all.push(line(text.trim_end_matches(';'))),
            }
        }
        all
    }
    level(&mut text.lines())
}

#[test]
fn fixtures_of_nginx_do_as_the_original() {
    if Original::program(NGINX.from).is_some_and(|program| !installed(&[program])) {
        return;
    }
    let endpoints = Endpoints::start();
    let addresses = [
        ("listen 8080", "listen @L0@"),
        ("10.0.0.1:9000", "@A@"),
        ("10.0.0.2:9000", "@B@"),
        ("10.0.0.3:9000", "@C@"),
        ("10.0.0.4:9000", "@D@"),
    ];
    for name in OF_NGINX {
        beside(&NGINX, &format!("nginx/{name}.conf"), &addresses, &endpoints);
    }
}
