//! Frontends, rules and backends of HAProxy.

use super::Grammar;
use crate::dice::Dice;
use crate::run::run;
use crate::tree::{Node, Style, block, line};
use evenkeel_convert::From;

const HAPROXY: Grammar = Grammar {
    from: From::Haproxy,
    style: Style::Indented,
    generate,
    around: "@CONFIG@",
    files: &[],
    ask: |_, _| (),
    settle: |_, _, _| (),
};

#[test]
fn conversions_of_haproxy_do_as_the_original() {
    run(&HAPROXY);
}

const PATHS: [&str; 6] = ["/", "/api", "/api/", "/api/v1", "/static/x.css", "/login"];

fn condition(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("{{ path_beg {} }}", dice.one(&PATHS)),
        1 => format!("{{ path {} }}", dice.one(&PATHS)),
        2 => "{ hdr(host) -i a.test }".into(),
        _ => "{ req.hdr(X-Key) s }".into(),
    }
}

fn rule(dice: &mut Dice) -> Node {
    let condition = condition(dice);
    match dice.below(3) {
        0 => line(format!("http-request deny if {condition}")),
        1 => line(format!("use_backend {} if {condition}", dice.one(&["b", "c"]))),
        _ => line(format!("http-request set-header X-New {} if {condition}", dice.one(&["1", "%[src]"]))),
    }
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let defaults = ["mode http", "timeout connect 5s", "timeout client 20s", "timeout server 20s"].map(line);
    let mut front = vec![line("bind @L0@")];
    front.extend(dice.some(0, 4, rule));
    front.push(line("default_backend a"));
    let backend =
        |name: &str, endpoint: &str| block(format!("backend {name}"), vec![line(format!("server s {endpoint}"))]);
    vec![
        block("defaults", defaults.into()),
        block("frontend in", front),
        backend("a", "@A@"),
        backend("b", "@B@"),
        backend("c", "@C@"),
    ]
}
