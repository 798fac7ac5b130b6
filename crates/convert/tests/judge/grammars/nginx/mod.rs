//! Servers, locations and directives of NGINX.

mod directives;
mod settle;

use super::Grammar;
use crate::dice::Dice;
use crate::run::run;
use crate::tree::{Node, Style, block, line};
use directives::{POOLS, access, conditional, inherited, map, returned, rewritten};
use evenkeel_convert::From;
use settle::settle;

pub const NGINX: Grammar = Grammar {
    from: From::Nginx,
    style: Style::Semicolons,
    generate,
    around: "daemon off; master_process off; pid @DIR@/pid; error_log stderr; events {}\n             http { access_log off; client_body_temp_path @DIR@/body; proxy_temp_path @DIR@/proxy;\n             fastcgi_temp_path @DIR@/fastcgi; uwsgi_temp_path @DIR@/uwsgi; scgi_temp_path @DIR@/scgi;\n@CONFIG@}",
    files: &[
        ("users", "u:$5$abcd$1v0seevH3vGNooD7377OzLwC8Q2PuYDN7bRpa2GPFT0\n"),
        ("snippet", "add_header X-One snippet always;\nproxy_set_header X-Two snippet;\n"),
    ],
    ask: |_, _| (),
    settle,
};

#[test]
fn conversions_of_nginx_do_as_the_original() {
    run(&NGINX);
}

const NAMES: [&str; 11] = [
    "g.test *.g.test mail.g.test",
    "www.*",
    "~^[a-z]+\\.f\\.test$",
    "a.test",
    "b.test www.b.test",
    "*.b.test",
    ".c.test",
    "~^(www\\.)?d\\.test$",
    "mail.*",
    "_",
    "~^v\\d+\\.e\\.test$",
];
const PREFIXES: [&str; 8] = ["/", "/api", "/api/", "/api/v1", "/static/", "/admin", "/shop/", "/old/"];
const EXPRESSIONS: [&str; 11] = [
    "~ ^/(?!api|static)",
    "~ /\\.(?!well-known)",
    "~* ^/(api|shop)/(.+)\\.CSS$",
    "~ \\.php$",
    "~* \\.(png|css)$",
    "~ ^/api/v\\d+/",
    "~ ^/(admin|static)/",
    "~ /sub/",
    "~* ^/SHOP",
    "~ ^/u/(\\d+)$",
    "~ ^/old/(?<name>[a-z.]+)$",
];

/// The line by which a location handles requests.
fn handler(dice: &mut Dice, of: &str) -> Option<Vec<Node>> {
    let pool = dice.one(&POOLS);
    let has_uri = !of.starts_with(['~', '@']);
    Some(vec![line(match dice.below(14) {
        0..=4 => format!("proxy_pass http://{pool}"),
        5 | 6 if has_uri => format!("proxy_pass http://{pool}{}", dice.one(&["/", "/v2/", "/v2"])),
        7 => return Some(vec![line(format!("set $u http://{pool}")), line("proxy_pass $u")]),
        8 => format!("proxy_pass http://{pool}$request_uri"),
        9 | 10 => return Some(vec![returned(dice)]),
        12 => "try_files /none @b".into(),
        13 if has_uri => format!("alias @DIR@/{}", dice.one(&["none", "none/"])),
        11 if of.starts_with('~') => format!("proxy_pass http://{pool}/r/$1"),
        _ => format!("proxy_pass http://{pool}"),
    })])
}

fn location_of(dice: &mut Dice, pattern: &str, depth: usize) -> Node {
    let mut inner = Vec::new();
    if dice.once_in(3) {
        inner.extend(dice.some(1, 2, |dice| conditional(dice, true)));
    }
    if dice.once_in(6) {
        inner.push(rewritten(dice));
    }
    inner.extend(dice.some(0, 3, inherited).into_iter().flatten());
    match dice.below(16) {
        0 => inner.push(line("internal")),
        1 => inner.push(block(
            format!("limit_except {}", dice.one(&["GET", "GET POST"])),
            dice.some(1, 1, access).into_iter().flatten().collect(),
        )),
        2 => inner.push(line(format!("auth_request {}", dice.one(&["/auth", "off"])))),
        3 => inner.push(line("valid_referers none server_names *.a.test")),
        _ => {}
    }
    let bare = pattern.trim_start_matches("^~ ");
    if depth < 1 && pattern.starts_with('~') && dice.once_in(8) {
        let nested = dice.one(&EXPRESSIONS);
        inner.push(location_of(dice, nested, depth + 1));
    }
    if depth < 2 && bare.starts_with('/') && dice.once_in(4) {
        let nested: Vec<String> = match dice.below(3) {
            0 => vec![format!("{}/sub/", bare.trim_end_matches('/'))],
            1 => vec![dice.one(&EXPRESSIONS).into()],
            _ => vec![format!("= {}/x", bare.trim_end_matches('/')), dice.one(&EXPRESSIONS).into()],
        };
        inner.extend(nested.iter().map(|pattern| location_of(dice, pattern, depth + 1)));
    }
    if let Some(handler) = handler(dice, pattern).filter(|_| !dice.once_in(12)) {
        inner.extend(handler);
    }
    block(format!("location {pattern}"), unique(inner))
}

/// Lines without those that NGINX takes once in a block.
fn unique(nodes: Vec<Node>) -> Vec<Node> {
    let several =
        ["add_header", "proxy_set_header", "allow", "deny", "if", "rewrite", "set", "location", "error_page", "return"];
    let mut seen: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for node in nodes {
        let name = node.head.split(' ').next().unwrap_or_default().to_string();
        let is_host = node.head.starts_with("proxy_set_header Host");
        if is_host && seen.contains(&"host".to_string()) {
            continue;
        }
        if is_host {
            seen.push("host".into());
        }
        let key = if name == "error_page" || name == "location" { node.head.clone() } else { name.clone() };
        if several.contains(&&*name) && !matches!(&*name, "location") || !seen.contains(&key) {
            kept.push(node);
        }
        seen.push(key);
    }
    kept
}

fn server(dice: &mut Dice, listen: &str, name: Option<&str>) -> Node {
    let mut inner = vec![line(format!("listen {listen}"))];
    inner.extend(name.map(|name| line(format!("server_name {name}"))));
    if dice.once_in(5) {
        inner.extend(dice.some(1, 2, |dice| conditional(dice, false)));
    }
    if dice.once_in(10) {
        inner.push(rewritten(dice));
    }
    inner.extend(dice.some(0, 3, inherited).into_iter().flatten());
    if dice.once_in(14) {
        inner.push(returned(dice));
    }
    if dice.once_in(14) {
        inner.push(line(dice.one(&[
            "merge_slashes on",
            "merge_slashes off",
            "underscores_in_headers on",
            "ignore_invalid_headers off",
        ])));
    }
    let mut patterns: Vec<String> = Vec::new();
    for _ in 0..1 + dice.below(5) {
        let pattern = match dice.below(9) {
            0..=3 => dice.one(&PREFIXES).to_string(),
            4 => format!("= {}", dice.one(&["/", "/api", "/login", "/old/x"])),
            5 => format!("^~ {}", dice.one(&PREFIXES)),
            6 | 7 => dice.one(&EXPRESSIONS).to_string(),
            _ => "/".to_string(),
        };
        let bare = |pattern: &str| pattern.trim_start_matches("^~ ").to_string();
        if !patterns.iter().any(|other| bare(other) == bare(&pattern)) {
            patterns.push(pattern);
        }
    }
    inner.extend(patterns.iter().map(|pattern| location_of(dice, pattern, 0)));
    let inner = with_names(inner);
    block("server", unique(inner))
}

/// Adds the locations and variables that lines refer to.
fn with_names(mut inner: Vec<Node>) -> Vec<Node> {
    let text = crate::tree::Text::of(&inner, Style::Semicolons).text;
    if text.contains("@b;") {
        inner.push(block("location @b", vec![line("proxy_pass http://@B@")]));
    }
    if text.contains("auth_request /auth") {
        inner.push(block("location = /auth", vec![line("internal"), line("proxy_pass http://@D@/check")]));
    }
    if text.contains("$v") {
        inner.insert(1, line("set $v no"));
    }
    if text.contains("$invalid_referer") && !text.contains("valid_referers ") {
        inner.push(line("valid_referers none *.a.test"));
    }
    inner
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let several = dice.once_in(3);
    let mut nodes: Vec<Node> = dice.some(0, 2, inherited).into_iter().flatten().collect();
    let mut used: Vec<&str> = Vec::new();
    let count = 1 + dice.below(3);
    let mut servers = Vec::new();
    for number in 0..count {
        let listen = if several && number > 0 && dice.once_in(2) { "@L1@" } else { "@L0@" };
        let default = if number == 1 && listen == "@L0@" && dice.once_in(3) { " default_server" } else { "" };
        let name = dice.one(&NAMES);
        let name = (number > 0 || dice.once_in(2)).then_some(name).filter(|name| !used.contains(name));
        used.extend(name);
        servers.push(server(dice, &format!("{listen}{default}"), name));
    }
    let text = crate::tree::Text::of(&servers, Style::Semicolons).text
        + &crate::tree::Text::of(&nodes, Style::Semicolons).text;
    if text.contains("http://up") {
        nodes.push(block("upstream up", vec![line("server @D@")]));
    }
    if text.contains("zone=z") {
        let key = dice.one(&[
            "$binary_remote_addr",
            "$cookie_s",
            "$server_name",
            "$binary_remote_addr$uri",
            "$arg_q",
            "$host",
        ]);
        nodes.push(line(format!("limit_req_zone {key} zone=z:1m rate={}r/m", dice.one(&["1", "2"]))));
    }
    if text.contains("$m") {
        nodes.push(map(dice));
    }
    if text.contains("$g") {
        let lines =
            dice.one(&[["default 0", "127.0.0.0/8 1"], ["default 1", "127.0.0.1 0"], ["default 0", "10.0.0.0/8 1"]]);
        nodes.push(block("geo $g", lines.map(line).into()));
    }
    let mut nodes = unique(nodes);
    nodes.extend(servers);
    // Requests that are refused before count for limits in NGINX alone.
    if text.contains("zone=z") { without_refusals(nodes) } else { nodes }
}

fn without_refusals(nodes: Vec<Node>) -> Vec<Node> {
    let refuses = |node: &Node| {
        ["deny", "auth_", "satisfy", "client_max_body_size", "error_page"]
            .iter()
            .any(|start| node.head.starts_with(start))
    };
    let kept = nodes.into_iter().filter(|node| !refuses(node));
    kept.map(|node| Node { inner: node.inner.map(without_refusals), ..node }).collect()
}
