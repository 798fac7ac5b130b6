//! Frontends, rules and backends of HAProxy.

mod conditions;
mod rules;

use super::Grammar;
use crate::dice::Dice;
use crate::run::run;
use crate::tree::{Node, Style, block, line};
use crate::verdict::Side;
use conditions::{PATHS, acls, sure};
use evenkeel_convert::{Ask, From};

const HAPROXY: Grammar = Grammar {
    from: From::Haproxy,
    style: Style::Indented,
    generate,
    around: "@CONFIG@",
    files: &[
        ("paths.lst", "# paths\n/api\n/login\n"),
        ("hosts.lst", "a.test\nwww.a.test\n"),
        ("agents.lst", "bot\ncurl\n"),
        ("networks.lst", "10.0.0.0/8\n192.168.1.7\n"),
        ("paths.map", "/api b\n/api/v1 c\n/admin a\n"),
        ("expressions.map", "^/api/v[0-9]+ b\n^/(admin|login) bad\n"),
        ("networks.map", "10.0.0.0/8 ours\n127.0.0.0/8 bad\n"),
        ("hosts.map", "a.test b\nb.test c\nc.example nowhere\n"),
        ("403.http", "HTTP/1.0 403 Forbidden\r\nContent-Type: text/plain\r\nX-Page: 403\r\n\r\nnot you\n"),
        ("404.http", "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\nX-Page: 404\r\n\r\nnot here\n"),
        ("503.http", "HTTP/1.0 503 Unavailable\r\nContent-Type: text/plain\r\nX-Page: 503\r\n\r\nnot now\n"),
    ],
    ask: with_password,
    settle,
};

#[test]
fn conversions_of_haproxy_do_as_the_original() {
    run(&HAPROXY);
}

/// Adds a password of the user list to some requests, right or wrong.
fn with_password(ask: &mut Ask, number: usize) {
    let password = match number % 7 {
        1 | 2 => "dTpwdw==",
        4 => "dTp3cm9uZw==",
        _ => return,
    };
    ask.fields.push(("Authorization".into(), format!("Basic {password}")));
}

/// Takes away differences of all conversions: see `always` of the crate.
fn settle(ask: &Ask, there: &mut Side, here: &mut Side) {
    // A redirect of evenkeel's own has a line of text.
    if let Ok(answer) = &mut here.answer
        && (300..400).contains(&answer.status)
        && answer.body == "See Location."
    {
        answer.body.clear();
        answer.fields.retain(|(name, _)| name != "content-type" && name != "cache-control");
    }
    let choice = |side: &Side| {
        let status = side.answer.as_ref().ok().map(|answer| answer.status);
        (side.seen.as_ref().map(|seen| seen.endpoint), status)
    };
    // An endpoint that cannot be reached.
    if (choice(there), choice(here)) == ((None, Some(503)), (None, Some(502))) {
        *there = here.clone();
    }
    // Hosts have no port, no final dot and no case.
    let is_spelt =
        ask.host.contains(':') || ask.host.ends_with('.') || ask.host.bytes().any(|b| b.is_ascii_uppercase());
    // Of several lines of a field, values have the first here, and the last there. A lone question mark is not compared, and
    // may be lost. A path that is written anew has no `..`, and a redirect no second slash.
    let has_dots = ask.target.contains("..") || ask.target.starts_with("//");
    let is_twice = ask
        .fields
        .iter()
        .enumerate()
        .any(|(at, (name, _))| ask.fields[..at].iter().any(|(other, _)| name.eq_ignore_ascii_case(other)));
    if is_spelt || is_twice || ask.target.ends_with('?') || has_dots && choice(here) == (None, Some(400)) {
        *there = here.clone();
    }
    // A field without a value.
    for side in [there, here] {
        if let Ok(answer) = &mut side.answer {
            answer.fields.iter_mut().for_each(|(_, value)| *value = value.replace(", charset=\"UTF-8\"", ""));
        }
        if let Some(seen) = &mut side.seen {
            seen.fields.retain(|(_, value)| !value.is_empty());
            // An element of a list keeps the blanks around it.
            seen.fields.iter_mut().for_each(|(_, value)| value.retain(|c| c != ' '));
        }
    }
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let mut nodes = vec![defaults(dice, "defaults")];
    let has_users = dice.once_in(2);
    if has_users {
        let password = match dice.once_in(6) {
            true => "user u insecure-password pw",
            false => "user u password $5$abcdefgh$ijtOJ//yvc/9bq1g0llFn9dB688BwBDRD90DlKKSKE1",
        };
        nodes.push(block("userlist users", ["group staff users u", "group none", password].map(line).into()));
    }
    nodes.push(block("backend counters", vec![line(rules::table("ip"))]));
    // The last `defaults` counts for sections that name none.
    let mut named = "";
    if dice.once_in(5) {
        let mut base = defaults(dice, "defaults base");
        let (rules, _) = rules(dice, 2);
        base.inner.iter_mut().for_each(|inner| inner.extend(rules.clone()));
        nodes.insert(0, base);
        named = " from base";
    }
    if dice.once_in(6) {
        nodes.push(block(
            "http-errors pages",
            vec![line("errorfile 403 @DIR@/403.http"), line("errorfile 503 @DIR@/503.http")],
        ));
    }
    nodes.push(front(dice, &format!("frontend in{named}"), "@L0@"));
    match dice.below(4) {
        0 => nodes.push(front(dice, "frontend two", "@L1@")),
        1 => nodes.push(listen(dice)),
        _ => {}
    }
    nodes.extend(["a", "b", "c", "d"].map(|name| backend(dice, name)));
    let text = format!("{nodes:?}");
    nodes.into_iter().map(|node| valid(node, has_users, text.contains("http-errors pages"))).collect()
}

/// Leaves out lines that name missing sections.
fn valid(node: Node, has_users: bool, has_pages: bool) -> Node {
    let fits = |node: &Node| {
        (has_users || !node.head.contains("(users)")) && (has_pages || !node.head.contains("errorfiles pages"))
    };
    let inner = node.inner.map(|inner| inner.into_iter().filter(fits).collect());
    Node { inner, ..node }
}

fn defaults(dice: &mut Dice, head: &str) -> Node {
    let mut lines: Vec<Node> =
        ["timeout connect 5s", "timeout client 20s", "timeout server 20s", "timeout tarpit 5ms"].map(line).into();
    lines.push(line("retries 0"));
    if dice.once_in(5) {
        lines.push(line("option forwardfor"));
    }
    if dice.once_in(8) {
        lines.push(line("errorfile 503 @DIR@/503.http"));
    }
    block(of_http(head), lines)
}

/// Rules of a section in their order, with its `acl` lines in front of them.
fn rules(dice: &mut Dice, most: usize) -> (Vec<Node>, Vec<&'static str>) {
    let (mut lines, names) = acls(dice, 5);
    if dice.once_in(8) {
        lines.extend(rules::counted(dice));
    }
    lines.extend(dice.some(0, most, |dice| rules::request(dice, &names)));
    if dice.once_in(4) {
        lines.extend(dice.some(1, 2, |dice| rules::of_response(dice, &names)));
    }
    (lines, names)
}

fn front(dice: &mut Dice, head: &str, bind: &str) -> Node {
    let mut lines = vec![line(format!("bind {bind}"))];
    lines.extend(dice.some(0, 1, rules::of_frontend));
    let (rules, names) = rules(dice, 5);
    lines.extend(rules);
    lines.extend(dice.some(0, 4, |dice| rules::choice(dice, &names)));
    if !dice.once_in(8) {
        lines.push(line("default_backend a"));
    }
    block(of_http(head), lines)
}

/// The head of a section with its mode: without it, rules of HTTP would mean nothing.
fn of_http(head: &str) -> String {
    format!("{head}\n    mode http")
}

fn listen(dice: &mut Dice) -> Node {
    let mut lines = vec![line("bind @L1@")];
    let (rules, names) = rules(dice, 4);
    lines.extend(rules);
    if dice.once_in(3) {
        lines.push(rules::choice(dice, &names));
    }
    lines.push(line("server own @D@"));
    block(of_http("listen all"), lines)
}

fn backend(dice: &mut Dice, name: &str) -> Node {
    let mut lines = Vec::new();
    if dice.once_in(3) {
        lines.push(rules::of_backend(dice));
    }
    if dice.once_in(4) {
        lines.extend(rules(dice, 2).0);
    }
    let endpoint = match name {
        "a" => "@A@",
        "b" => "@B@",
        "c" => "@C@",
        _ => "@D@",
    };
    match dice.below(14) {
        // Nothing listens there. Retries would wait for a second each.
        0 => {
            lines.retain(|line| !line.head.starts_with("retries"));
            lines.push(line("server dead 127.0.0.1:1"));
        }
        1 => {}
        2 => lines.extend([line(format!("server s {endpoint}")), line("server spare @D@ backup")]),
        3 => lines.extend([line(format!("server s {endpoint}")), line("server none @D@ weight 0")]),
        4 => {
            lines.push(line(format!("use-server two{}", sure(dice, &[]))));
            lines.extend([line(format!("server one {endpoint}")), line("server two @D@ weight 0")]);
        }
        5 => lines.push(line(format!("server s {endpoint} disabled"))),
        6 => lines.push(line(format!("server s {endpoint} cookie s1 maxconn 100"))),
        _ => lines.push(line(format!("server s {endpoint}"))),
    }
    if dice.once_in(12) {
        lines.push(line(format!("http-request deny if {{ path {} }}", dice.one(&PATHS))));
        lines.push(line(dice.one(&[
            "errorfile 403 @DIR@/403.http",
            "errorfiles pages",
            "errorfile 404 @DIR@/404.http",
        ])));
    }
    block(of_http(&format!("backend {name}")), lines)
}
