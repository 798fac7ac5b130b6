//! Servers, locations and directives of NGINX.

use super::Grammar;
use crate::dice::Dice;
use crate::run::run;
use crate::tree::{Node, Style, block, line};
use crate::verdict::Side;
use evenkeel_convert::{Ask, From};

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

/// Takes away the differences that docs/guide/convert.md lists: paths with several readings, and fields with `_`.
fn settle(ask: &Ask, there: &mut Side, here: &mut Side) {
    let path = ask.target.split('?').next().unwrap_or_default();
    let is_odd = path.contains("//") || path.contains("/.") || path.contains('%');
    let refused = here.answer.as_ref().is_ok_and(|answer| answer.status == 400) && here.seen.is_none();
    if is_odd && refused {
        there.clone_from(here);
    }
    // A method that NGINX has no file for, and a body that no endpoint would get.
    if here.seen.is_none()
        && (status(there) == Some(405) && status(here) == Some(404)
            || there.seen.is_none() && status(there) == Some(413))
    {
        there.clone_from(here);
    }
    // A question mark without a query, which a single side may keep.
    if ask.target.ends_with('?') {
        let bare = |fields: &mut Vec<(String, String)>| {
            fields.iter_mut().for_each(|(_, value)| *value = value.trim_end_matches('?').to_string());
        };
        for side in [&mut *there, &mut *here] {
            side.answer.iter_mut().for_each(|answer| bare(&mut answer.fields));
            side.seen.iter_mut().for_each(|seen| {
                bare(&mut seen.fields);
                seen.target = seen.target.trim_end_matches('?').to_string();
            });
        }
    }
    // NGINX writes hosts in lower case and without a final dot, and text without a charset.
    let host = ask.host.split(':').next().unwrap_or_default();
    for side in [&mut *there, &mut *here] {
        let is_own = side.seen.is_none();
        let Ok(answer) = &mut side.answer else { continue };
        for (name, value) in &mut answer.fields {
            *value = value.replace(host, &plain_host(host)).replace(host.trim_end_matches('.'), &plain_host(host));
            *value = value.replace(", charset=\"UTF-8\"", "");
            if is_own && name == "content-type" && value == "text/plain; charset=utf-8" {
                *value = "text/plain".into();
            }
        }
    }
    // The type of a text goes by the end of the path there.
    if path.ends_with(".html") && there.seen.is_none() && here.seen.is_none() {
        for answer in [&mut there.answer, &mut here.answer].into_iter().flatten() {
            answer.fields.retain(|(name, _)| name != "content-type");
        }
    }
    for seen in [&mut there.seen, &mut here.seen].into_iter().flatten() {
        for (_, value) in seen.fields.iter_mut().filter(|(name, _)| name != "host") {
            *value = value.replace(host, &plain_host(host)).replace(host.trim_end_matches('.'), &plain_host(host));
        }
    }
    // An endpoint that redirects to its own address, which NGINX knows as the address of the location.
    let said = ask.fields.iter().find(|(name, _)| name == "X-Say-Field").map_or("", |(_, value)| value);
    if let (Some(location), Ok(there), Ok(here)) =
        (said.strip_prefix("Location: http://"), &mut there.answer, &here.answer)
    {
        let own = format!("http://{location}");
        let says = here.fields.iter().any(|(name, value)| name == "location" && *value == own);
        there
            .fields
            .iter_mut()
            .filter(|(name, _)| says && name == "location")
            .for_each(|(_, value)| value.clone_from(&own));
    }
    // Separate pages for errors of endpoints, and a field for endpoints that get a shorter path.
    if let (Ok(there), Ok(here)) = (&mut there.answer, &mut here.answer)
        && there.body.contains("<center>nginx")
        && here.body.lines().count() <= 1
    {
        there.body.clone_from(&here.body);
        there.fields.retain(|(name, _)| name != "content-type");
        here.fields.retain(|(name, _)| name != "content-type");
    }
    here.seen.iter_mut().for_each(|seen| seen.fields.retain(|(name, _)| name != "x-forwarded-prefix"));
    // The host passes as the client wrote it.
    if let (Some(there), Some(here)) = (&mut there.seen, &here.seen) {
        let host = plain_host(&ask.host);
        let own = |fields: &[(String, String)]| {
            fields.iter().find(|(name, _)| name == "host").map(|(_, value)| value.clone())
        };
        if own(&there.fields).is_some_and(|value| plain_host(&value) == host)
            && own(&here.fields).is_some_and(|value| plain_host(&value) == host)
        {
            let value = own(&here.fields).unwrap_or_default();
            there.fields.iter_mut().filter(|(name, _)| name == "host").for_each(|(_, other)| other.clone_from(&value));
        }
    }
    for answer in [&mut *there, &mut *here].into_iter().filter_map(|side| side.answer.as_mut().ok()) {
        answer.fields.retain(|(name, _)| !matches!(&**name, "retry-after" | "ratelimit" | "ratelimit-policy"));
    }
    if is_odd && let (Ok(there), Ok(here)) = (&mut there.answer, &mut here.answer) {
        for (_, value) in there.fields.iter_mut().chain(&mut here.fields).filter(|(_, value)| value.contains('/')) {
            *value = lax(value);
        }
    }
    if is_odd && let (Some(there), Some(here)) = (&mut there.seen, &mut here.seen) {
        for target in [&mut there.target, &mut here.target] {
            *target = normal(target);
        }
        for (_, value) in there.fields.iter_mut().chain(&mut here.fields).filter(|(_, value)| value.contains('/')) {
            *value = lax(value);
        }
    }
    // Groups of an expression and variables are those of the path as it was sent.
    if is_odd {
        for side in [&mut *there, &mut *here] {
            let values = side.answer.iter_mut().flat_map(|answer| &mut answer.fields).map(|(_, value)| value);
            values
                .chain(side.seen.iter_mut().map(|seen| &mut seen.target))
                .for_each(|value| *value = without_end(value));
        }
    }
}

/// A value with a path that NGINX writes in its own spelling.
fn lax(value: &str) -> String {
    let at = value.find("://").map_or(0, |at| at + 3);
    let (start, path) = value.split_at(at + value[at..].find('/').unwrap_or(0));
    format!("{start}{}", normal(path).replace("%20", " "))
}

/// A URL without slashes at the end of its path.
fn without_end(value: &str) -> String {
    let (path, query) = value.split_once('?').map_or((value, None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    query.map_or(path.to_string(), |query| format!("{path}?{query}"))
}

fn status(side: &Side) -> Option<u16> {
    side.answer.as_ref().ok().map(|answer| answer.status)
}

/// A host in lower case, without port and final dot.
fn plain_host(host: &str) -> String {
    let host = host.split(':').next().unwrap_or_default();
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// A path in normal form, as far as requests of a judge need it.
fn normal(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut plain = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        plain += &rest[..at];
        let byte = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(|b| b.is_ascii_alphanumeric() || b"-._~".contains(b)) {
            Some(b) => plain.push(char::from(b)),
            None => plain += rest.get(at..at + 3).unwrap_or("%"),
        }
        rest = rest.get(at + 3..).unwrap_or("");
    }
    plain += rest;
    let mut segments: Vec<&str> = Vec::new();
    for segment in plain.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            "" if segments.last() == Some(&"") => {}
            segment => {
                if segments.last() == Some(&"") {
                    segments.pop();
                }
                segments.push(segment);
            }
        }
    }
    let path = format!("/{}", segments.join("/"));
    query.map_or(path.clone(), |query| format!("{path}?{query}"))
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
const POOLS: [&str; 4] = ["@A@", "@B@", "@C@", "up"];

/// Lines of a level that inner levels inherit.
fn inherited(dice: &mut Dice) -> Vec<Node> {
    let text = match dice.below(30) {
        0..=2 => format!("add_header {} {}", field(dice), value(dice)),
        3 => format!("add_header {} {} always", field(dice), value(dice)),
        4..=7 => format!("proxy_set_header {} {}", field(dice), value(dice)),
        8 | 9 => format!(
            "proxy_set_header Host {}",
            dice.one(&["$host", "$http_host", "own.test", "$proxy_host", "$host:$server_port"])
        ),
        10 => format!("proxy_set_header {} \"\"", field(dice)),
        11 => return access(dice),
        12 => return password(dice),
        13 => format!("client_max_body_size {}", dice.one(&["2", "1m", "0"])),
        14 => format!(
            "error_page {}",
            dice.one(&[
                "404 = /",
                "404 /api/none",
                "403 =200 /",
                "404 500 /missing.html",
                "403 @b",
                "404 = @b",
                "403 404 http://a.test/",
                "500 =503 /missing.html",
                "405 =200 /"
            ])
        ),
        15 => "proxy_intercept_errors on".into(),
        16 => format!("proxy_hide_header {}", dice.one(&["X-Say", "X-Endpoint"])),
        17 => format!("proxy_redirect {}", dice.one(&["off", "off", "http://@A@/ /there/", "/moved /other"])),
        18 => format!("default_type {}", dice.one(&["text/plain", "text/html", "application/json"])),
        19 => dice.one(&["charset utf-8", "expires 1h", "expires -1", "etag off", "proxy_cookie_path / /x"]).into(),
        20 => dice.one(&["gzip on", "proxy_buffering off", "proxy_http_version 1.1", "proxy_buffering on"]).into(),
        21 => dice.one(&["port_in_redirect off", "server_name_in_redirect on", "absolute_redirect off"]).into(),
        22 => format!("satisfy {}", dice.one(&["any", "all"])),
        23 => "proxy_read_timeout 20s".into(),
        24 => "proxy_buffer_size 8k".into(),
        25 => format!("proxy_set_header X-Real-IP {}", dice.one(&["$remote_addr", "$http_x_real_ip"])),
        26 => "include @DIR@/snippet".into(),
        27 => {
            return vec![
                line(dice.one(&["limit_req zone=z", "limit_req zone=z burst=2 nodelay"])),
                line("limit_req_status 429"),
            ];
        }
        28 => "error_page 418 = @b".into(),
        _ => dice.one(&["limit_rate 1m", "auth_delay 0", "max_ranges 0"]).into(),
    };
    vec![line(text)]
}

fn field(dice: &mut Dice) -> &'static str {
    dice.one(&["X-One", "X-Two", "X-Key", "Cache-Control", "X-Three"])
}

fn value(dice: &mut Dice) -> &'static str {
    dice.one(&[
        "1",
        "\"a b\"",
        "$scheme",
        "$host",
        "$request_method",
        "$http_x_key",
        "$uri",
        "$arg_q",
        "$m",
        "no-store",
        "x:$server_port",
        "$request_uri",
        "$g",
    ])
}

fn access(dice: &mut Dice) -> Vec<Node> {
    let rules = ["allow 127.0.0.1", "deny 127.0.0.1", "allow 10.0.0.0/8", "deny all", "allow all", "deny 127.0.0.0/8"];
    dice.some(1, 3, |dice| line(dice.one(&rules)))
}

fn password(dice: &mut Dice) -> Vec<Node> {
    match dice.below(5) {
        0 => vec![line("auth_basic off")],
        _ => vec![line("auth_basic Staff"), line("auth_basic_user_file @DIR@/users")],
    }
}

/// A condition of `if`.
fn condition(dice: &mut Dice) -> &'static str {
    dice.one(&[
        "($request_method = POST)",
        "($request_method !~ ^(GET|HEAD)$)",
        "($request_method = OPTIONS)",
        "($http_x_key = s)",
        "($http_x_key != s)",
        "($http_x_flag ~* \"^(on|yes)\")",
        "($http_x_key)",
        "($arg_q = 1)",
        "($arg_q)",
        "($request_uri ~* \"q=1\")",
        "($request_uri ~ ^/api)",
        "($uri ~ \\.php$)",
        "($host = a.test)",
        "($host != a.test)",
        "($host ~ ^www\\.)",
        "($m = one)",
        "($m)",
        "($g)",
        "($v = \"yes\")",
        "($scheme = http)",
        "($remote_addr = 127.0.0.1)",
        "($cookie_s = 1)",
        "($invalid_referer)",
    ])
}

fn returned(dice: &mut Dice) -> Node {
    line(format!(
        "return {}",
        dice.one(&[
            "403",
            "404",
            "200 ok",
            "200 \"at $uri\"",
            "204",
            "444",
            "301 /new",
            "301 https://$host$request_uri",
            "302 http://$host/x$uri",
            "307 /new$is_args$args",
            "302 https://b.test",
            "418",
            "418",
            "403 no",
            "500",
            "https://b.test/x",
        ])
    ))
}

fn rewritten(dice: &mut Dice) -> Node {
    line(format!(
        "rewrite {}",
        dice.one(&[
            "^/old/(.*)$ /api/$1 last",
            "^/old/(.*)$ /new/$1 break",
            "^/old/(.*)$ /new/$1 permanent",
            "^/(.*)/$ /$1 redirect",
            "^/api/(.*) /$1 break",
            "^/shop/([^/]+)/(.*)$ /s/$2?id=$1 break",
            "^ https://$host$request_uri? permanent",
            "\\.php$ /index.html last",
            "^/admin /static/a.css last",
            "/sub/ /x/ break",
            "^/old/(.*)$ /api/$1",
            "^/(api|shop)/(.*)$ /$1?p=$2 break",
            "^/u/(.*)$ https://b.test/$1 redirect",
        ])
    ))
}

/// `if` with lines that end a request or change its settings.
fn conditional(dice: &mut Dice, in_location: bool) -> Node {
    let mut inner = match dice.below(if in_location { 7 } else { 4 }) {
        0 | 1 => vec![returned(dice)],
        2 => vec![rewritten(dice)],
        3 => vec![line(format!("set $v {}", dice.one(&["yes", "no"])))],
        4 => vec![line(format!("add_header {} {}", field(dice), value(dice)))],
        5 => vec![line(format!("proxy_pass http://{}", dice.one(&POOLS)))],
        _ => vec![line("set $v yes"), line(format!("add_header {} {}", field(dice), value(dice)))],
    };
    if dice.once_in(6) {
        inner.insert(0, line("set $v yes"));
    }
    block(format!("if {}", condition(dice)), inner)
}

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
        ["deny", "auth_", "satisfy", "client_max_body_size"].iter().any(|start| node.head.starts_with(start))
    };
    let kept = nodes.into_iter().filter(|node| !refuses(node));
    kept.map(|node| Node { inner: node.inner.map(without_refusals), ..node }).collect()
}

fn map(dice: &mut Dice) -> Node {
    let source = dice.one(&["$http_x_key", "$host", "$arg_q", "$request_method", "$uri", "${http_x_flag}$arg_q"]);
    let keys: &[&str] = match source {
        "$host" => &["a.test", "~^www\\.", "b.test"],
        "$request_method" => &["POST", "~^(PUT|DELETE)$", "GET"],
        "$uri" => &["/api", "~^/api/", "~*\\.CSS$"],
        _ => &["s", "~*^ON", "1", "\"\"", "~x$"],
    };
    let mut inner: Vec<Node> = Vec::new();
    if !dice.once_in(4) {
        inner.push(line(format!("default {}", dice.one(&["one", "two", "\"\"", "0"]))));
    }
    let first = dice.below(keys.len());
    inner.extend((0..1 + dice.below(3)).map(|n| {
        let key = keys[(first + n) % keys.len()];
        line(format!("{key} {}", dice.one(&["one", "two", "\"\"", "0"])))
    }));
    let mut seen: Vec<String> = Vec::new();
    inner.retain(|node| {
        let key = node.head.split(' ').next().unwrap_or_default().to_string();
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    block(format!("map {source} $m"), inner)
}
