//! Sites, matchers and directives of Caddy.

use super::{Grammar, normal};
use crate::dice::Dice;
use crate::run::run;
use crate::tree::{Node, Style, block, line};
use crate::verdict::Side;
use evenkeel_convert::{Ask, From};

const CADDY: Grammar = Grammar {
    from: From::Caddy,
    style: Style::Braces,
    generate,
    around: "{\n\tadmin off\n\tauto_https off\n}\n@CONFIG@",
    files: &[],
    ask,
    settle,
};

#[test]
fn conversions_of_caddy_do_as_the_original() {
    run(&CADDY);
}

const PATHS: [&str; 12] = [
    "/",
    "/api",
    "/api/*",
    "/api*",
    "/api/v1/*",
    "/admin/*",
    "/static/x.css",
    "*.css",
    "/login",
    "/API/Up",
    "*adm*",
    "/u/*/x",
];
const PREFIXES: [&str; 4] = ["/api", "/admin", "/static", "/api/v1"];
const FIELDS: [&str; 3] = ["X-Key", "X-Role", "X-Trace"];
/// Password `s3` in bcrypt of the lowest cost.
const USER: &str = "joe $2b$04$G7hl.0KSoKxRqPQ6vaPfGeaMKr9Kksic/7ySVXc97DiA0MRbeLGne";

/// Every fourth request has the password. A name with a final dot is the name without it, which a client could send as well.
fn ask(ask: &mut Ask, id: usize) {
    if ask.host.ends_with('.') {
        ask.host.pop();
    }
    match id % 4 {
        0 => ask.fields.push(("Authorization".into(), "Basic am9lOnMz".into())),
        1 if id.is_multiple_of(3) => ask.fields.push(("Authorization".into(), "Basic am9lOng=".into())),
        _ => {}
    }
}

/// Takes away the differences at the head of each report.
fn settle(ask: &Ask, there: &mut Side, here: &mut Side) {
    let is_deep = ask.host.strip_suffix(".c.test").is_some_and(|label| label.contains('.'));
    let is_error = here.seen.is_none() && here.answer.as_ref().is_ok_and(|answer| answer.status >= 400);
    let is_refused = is_error && (ask.target.contains("/.") || ask.target.contains("//"));
    if is_deep || is_refused {
        *there = here.clone();
    }
    let host = ask.host.replace("@P@", "@P0@");
    for side in [&mut *there, &mut *here] {
        if let Some(seen) = &mut side.seen {
            let gone = ["x-forwarded-prefix", "accept-encoding"];
            seen.fields.retain(|(name, value)| !value.is_empty() && !gone.contains(&&**name));
            seen.target = normal(&seen.target);
        }
        let is_own = side.seen.is_none();
        if let Ok(answer) = &mut side.answer {
            if is_own && answer.status == 502 {
                answer.status = 413;
            }
            let is_error = is_own && answer.status >= 400;
            answer.fields.retain(|(name, value)| !value.is_empty() && (!is_error || name == "www-authenticate"));
            for (name, value) in &mut answer.fields {
                *value = value.replace(", charset=\"UTF-8\"", "");
                if name == "location" {
                    *value = whole(value, &host);
                }
            }
        }
    }
    // A rewrite takes an escaped letter as it was sent.
    if let (Some(a), Some(b)) = (&mut there.seen, &here.seen)
        && ask.target.contains('%')
    {
        a.target.clone_from(&b.target);
    }
    // Caddy cleans an empty path to a dot.
    if let (Some(a), Some(b)) = (&mut there.seen, &here.seen)
        && a.target.strip_suffix('.') == Some(&b.target)
    {
        a.target.pop();
    }
    if let (Ok(a), Ok(b)) = (&mut there.answer, &here.answer)
        && (a.status, b.status, a.body.is_empty()) == (200, 404, true)
        && a.fields.iter().all(|(name, _)| name == "content-type")
        && there.seen.is_none()
        && here.seen.is_none()
    {
        (a.status, a.fields, a.body) = (b.status, b.fields.clone(), b.body.clone());
    }
}

/// A target with scheme and host, and its path in normal form.
fn whole(target: &str, host: &str) -> String {
    let whole = if target.starts_with('/') { format!("http://{host}{target}") } else { target.to_string() };
    let from = whole.find("://").map_or(0, |at| at + 3);
    let path = whole[from..].find('/').map_or(whole.len(), |at| from + at);
    format!("{}{}", whole[..path].to_ascii_lowercase(), normal(&whole[path..]))
}

/// A matcher of a directive: none, a path, or a name.
fn matcher(dice: &mut Dice, named: &[String]) -> String {
    match dice.below(4) {
        0 => String::new(),
        1 | 2 if !named.is_empty() => format!("{} ", dice.one(named)),
        _ => {
            let path = dice.one(&PATHS);
            if path.starts_with('/') { format!("{path} ") } else { String::new() }
        }
    }
}

fn condition(dice: &mut Dice, depth: usize) -> Node {
    let text = match dice.below(12) {
        0 | 1 => format!("path {}", dice.some(1, 2, |dice| dice.one(&PATHS)).join(" ")),
        2 => format!(
            "path_regexp {}",
            dice.one(&["^/api/v[0-9]+", "\\.css$", "^/(api|admin)/", "x.*y", "^/u/([a-z]+)$"])
        ),
        3 => format!("host {}", dice.one(&["a.test", "b.test", "*.c.test", "A.test"])),
        4 | 5 => format!("header {} {}", dice.one(&FIELDS), dice.one(&["s", "*", "v*", "*min", "*dmi*", "none"])),
        6 => format!("header !{}", dice.one(&FIELDS)),
        7 => format!("method {}", dice.some(1, 2, |dice| dice.one(&["GET", "POST", "PUT", "DELETE"])).join(" ")),
        8 => format!("query {}", dice.one(&["v=1", "v=*", "a=1"])),
        9 => format!("remote_ip {}", dice.one(&["127.0.0.0/8", "10.0.0.0/8", "private_ranges", "192.168.1.1"])),
        10 if depth < 1 => {
            return if dice.once_in(2) {
                block("not", dice.some(1, 2, |dice| condition(dice, depth + 1)))
            } else {
                let inner = condition(dice, depth + 1);
                if inner.inner.is_some() { inner } else { line(format!("not {}", inner.head)) }
            };
        }
        _ => dice
            .one(&[
                "expression {method} == \"GET\"",
                "expression path('/api/*') && !method('POST')",
                "expression {header.X-Key} == \"s\"",
                "expression {header.X-Role}.startsWith('adm') || {method} in ['PUT', 'DELETE']",
                "expression !(header({'X-Key': ['s', 'v*']}) && query({'v': '1'}))",
                "expression path_regexp('^/u/[0-9]+$')",
                "expression {query.v} == '1'",
                "vars {http.request.method} GET",
                "protocol http",
            ])
            .into(),
    };
    line(text)
}

fn named(dice: &mut Dice, name: &str) -> Node {
    match dice.once_in(2) {
        true => block(name, dice.some(1, 3, |dice| condition(dice, 0))),
        false => {
            let inner = condition(dice, 1);
            line(format!("{name} {}", inner.head))
        }
    }
}

fn field(dice: &mut Dice) -> String {
    let (name, value) = (dice.one(&FIELDS), dice.one(&["1", "s", "{remote_host}", "{method}", "\"a b\"", "{host}"]));
    match dice.below(6) {
        0 => format!("-{name}"),
        1 => format!("+{name} {value}"),
        _ => format!("{name} {value}"),
    }
}

fn response_field(dice: &mut Dice) -> String {
    let names = ["X-Frame-Options", "Cache-Control", "X-A", "X-Endpoint", "Strict-Transport-Security"];
    let (name, value) = (dice.one(&names), dice.one(&["1", "DENY", "no-store", "{method}"]));
    match dice.below(7) {
        0 => format!("-{name}"),
        1 => format!("+{name} {value}"),
        2 => format!("?{name} {value}"),
        _ => format!("{name} {value}"),
    }
}

fn proxy(dice: &mut Dice, matcher: &str) -> Node {
    let head = format!("reverse_proxy {matcher}{}", dice.one(&["@A@", "@B@", "@C@", "http://@D@"]));
    if dice.once_in(2) {
        return line(head);
    }
    block(
        head,
        dice.some(1, 3, |dice| {
            line(match dice.below(4) {
                0 => format!("header_down {}", response_field(dice).trim_start_matches('?')),
                1 => "header_up Host {upstream_hostport}".into(),
                _ => format!("header_up {}", field(dice)),
            })
        }),
    )
}

fn end(dice: &mut Dice, named: &[String]) -> Node {
    let matcher = matcher(dice, named);
    match dice.below(8) {
        0 => line(format!("respond {matcher}{}", dice.one(&["403", "\"ok\"", "\"gone\" 410", "204", "404"]))),
        1 => line(format!(
            "redir {matcher}{} {}",
            dice.one(&["https://a.test{uri}", "/login", "https://b.test/x", "https://{host}/y{uri}"]),
            dice.one(&["", "301", "permanent", "308"])
        )),
        2 => line(format!("error {matcher}{}", dice.one(&["403", "\"no\" 404", "500"]))),
        _ => proxy(dice, &matcher),
    }
}

fn directive(dice: &mut Dice, named: &[String], depth: usize) -> Node {
    let matcher = matcher(dice, named);
    match dice.below(23) {
        0 | 1 if depth < 2 => block(format!("handle {matcher}").trim_end().to_string(), body(dice, named, depth + 1)),
        2 | 3 if depth < 2 => block(format!("handle_path {}/*", dice.one(&PREFIXES)), body(dice, named, depth + 1)),
        4 if depth < 2 => block(format!("route {matcher}").trim_end().to_string(), body(dice, named, depth + 1)),
        5 | 6 => block(format!("basicauth {matcher}").trim_end().to_string(), vec![line(USER)]),
        7 | 8 => line(format!("uri {matcher}strip_prefix {}", dice.one(&PREFIXES))),
        9 => line(format!("uri {matcher}replace {}", dice.one(&["/api /new", "v1 v2", "/v1/ /"]))),
        10 | 11 => line(format!(
            "rewrite {}{}",
            if matcher.is_empty() { "* " } else { &matcher },
            dice.one(&["/index.html", "/admin/x", "/new{uri}", "/x?a=1", "/api/v1/z"])
        )),
        12 | 13 => line(format!("header {matcher}{}", response_field(dice))),
        14 => block(
            format!("header {matcher}").trim_end().to_string(),
            dice.some(1, 3, |dice| line(response_field(dice))),
        ),
        15 | 16 => line(format!("request_header {matcher}{}", field(dice))),
        17 => block(
            format!("request_body {matcher}").trim_end().to_string(),
            vec![line(format!("max_size {}", dice.one(&["2", "1MB"])))],
        ),
        18 => line(dice.one(&[
            "encode gzip",
            "log",
            "import common",
            "import guard /admin/* 403",
            "import guard *.css \"gone\"",
        ])),
        19 => line(dice.one(&[
            "uri strip_suffix .css",
            "uri path_regexp /v[0-9]+ /v",
            "method PUT",
            "try_files {path} /index.html",
            "vars a 1",
            "request_header -X-*",
        ])),
        _ => end(dice, named),
    }
}

fn body(dice: &mut Dice, named: &[String], depth: usize) -> Vec<Node> {
    let mut all = dice.some(1, 4, |dice| directive(dice, named, depth));
    if !dice.once_in(4) {
        all.push(proxy(dice, ""));
    }
    all
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let snippet = vec![line(format!("header {}", response_field(dice)))];
    let guard = vec![line("@guard path {args.0}"), line("respond @guard {args.1}")];
    let mut all = vec![block("(common)", snippet), block("(guard)", guard)];
    let sites = dice.one(&[
        &["http://a.test:@P0@"][..],
        &["http://a.test:@P0@", "http://:@P0@"],
        &["http://a.test:@P0@, http://b.test:@P0@"],
        &["http://*.c.test:@P0@", "http://a.test:@P0@"],
        &["http://:@P0@"],
    ]);
    for site in sites {
        let names: Vec<String> = (0..dice.below(4)).map(|n| format!("@m{n}")).collect();
        let mut inner = vec![line("bind @H0@")];
        inner.extend(names.iter().map(|name| named(dice, name)));
        inner.extend(body(dice, &names, 0));
        if dice.once_in(6) {
            inner.push(block(
                "handle_errors",
                vec![line(dice.one(&["respond \"oops\"", "respond \"{err.status_code}\"", "respond \"down\" 503"]))],
            ));
        }
        all.push(block(*site, inner));
    }
    all
}
