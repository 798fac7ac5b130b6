//! Conditions of HAProxy: tests of requests, `acl` lines, and joined conditions.

use crate::dice::Dice;
use crate::tree::{Node, line};

pub const PATHS: [&str; 9] =
    ["/", "/api", "/api/", "/api/v1", "/static/x.css", "/login", "/admin", "/old/page.html", "/a/b/c"];
const HOSTS: [&str; 5] = ["a.test", "b.test", "www.a.test", "api.a.test", "c.example"];
pub const FIELDS: [&str; 5] = ["X-Key", "X-Role", "X-Internal", "User-Agent", "Accept"];
pub const VALUES: [&str; 5] = ["s", "admin", "1", "none", "bot"];
const METHODS: [&str; 4] = ["GET", "POST", "OPTIONS", "DELETE"];
const ENDS: [&str; 4] = [".css", ".html", ".php", "/"];
const PARTS: [&str; 4] = ["api", "admin", "x.c", "a/b"];
const EXPRESSIONS: [&str; 8] = [
    "^/api/",
    "^/api/v[0-9]+",
    "\\.(css|js|html)$",
    "^/(admin|login)(/.*)?$",
    "/b/",
    "^/old/(.*)$",
    "^/a/[a-z]+/c$",
    "admin",
];
pub const NAMES: [&str; 6] = ["api", "files", "ours", "key", "quiet", "other"];
pub const COOKIES: [&str; 2] = ["beta", "sid"];
const NETWORKS: [&str; 4] = ["127.0.0.0/8", "10.0.0.0/8", "192.168.1.7", "::1"];

/// A test of a request, without braces.
pub fn test(dice: &mut Dice) -> String {
    match dice.below(20) {
        0..=5 => path(dice),
        6..=8 => host(dice),
        9..=11 => field(dice),
        12 => method(dice),
        13 => url(dice),
        14 => constant(dice),
        15 => cookie_or_query(dice),
        16 => format!("src {}", dice.one(&NETWORKS)),
        17 => from_file(dice),
        18 => converted(dice),
        _ => variable(dice),
    }
}

fn path(dice: &mut Dice) -> String {
    let case = if dice.once_in(4) { "-i " } else { "" };
    match dice.below(9) {
        0..=2 => format!("path_beg {case}{}", dice.one(&PATHS)),
        3 => format!("path {case}{}", several(dice, &PATHS)),
        4 => format!("path_end {case}{}", several(dice, &ENDS)),
        5 => format!("path_sub {case}{}", dice.one(&PARTS)),
        6 => format!("path_dir {case}{}", dice.one(&["api", "admin", "b", "a/b"])),
        7 => format!("path_reg {case}{}", dice.one(&EXPRESSIONS)),
        _ => format!("path -m {} {case}{}", dice.one(&["beg", "str", "end", "sub", "dir"]), dice.one(&PATHS[1..])),
    }
}

fn host(dice: &mut Dice) -> String {
    let case = if dice.once_in(2) { "-i " } else { "" };
    match dice.below(8) {
        0..=2 => format!("hdr(host) {case}{}", several(dice, &HOSTS)),
        3 => format!("hdr_beg(host) {case}{}", dice.one(&["api.", "www.", "a."])),
        4 => format!("hdr_end(host) {case}{}", dice.one(&["a.test", ".a.test", ".example"])),
        5 => format!("hdr_dom(host) {case}{}", dice.one(&["a.test", "api", "test"])),
        6 => format!("hdr_reg(host) {case}{}", dice.one(&["^(www\\.)?a\\.test$", "^api\\.", "\\.test$"])),
        _ => format!("req.hdr(host),lower {}", dice.one(&HOSTS)),
    }
}

fn field(dice: &mut Dice) -> String {
    let (name, value) = (dice.one(&FIELDS), dice.one(&VALUES));
    match dice.below(9) {
        0..=2 => format!("req.hdr({name}) {value}"),
        3 => format!("hdr({name}) -i {value} {}", dice.one(&VALUES)),
        4 => format!("hdr_sub({name}) -i {value}"),
        5 => format!("hdr_beg({name}) {value}"),
        6 => format!("hdr_reg({name}) ^({value}|x)"),
        7 => format!("req.hdr({name}) -m found"),
        _ => format!("req.hdr_cnt({name}) {}", dice.one(&["0", "ge 1", "gt 1"])),
    }
}

fn method(dice: &mut Dice) -> String {
    match dice.below(3) {
        0 => format!("method {}", several(dice, &METHODS)),
        _ => format!("method {}", dice.one(&METHODS)),
    }
}

fn url(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => format!("url {}", dice.one(&PATHS)),
        1 => format!("url_beg {}", dice.one(&PATHS)),
        2 => format!("url_sub {}", dice.one(&["api", "a=1", "admin"])),
        3 => format!("url_reg {}", dice.one(&["^/api/.*a=1", "[?&]a=1", "^/login"])),
        4 => format!("base_beg {}{}", dice.one(&HOSTS), dice.one(&PATHS)),
        _ => "query -m found".into(),
    }
}

fn constant(dice: &mut Dice) -> String {
    dice.one(&["always_true", "always_false", "ssl_fc", "req.ver 1.1", "dst_port 80", "nbsrv(b) lt 1"]).to_string()
}

fn cookie_or_query(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => format!("req.cook({}) {}", dice.one(&COOKIES), dice.one(&VALUES)),
        1 => format!("req.cook({}) -m found", dice.one(&COOKIES)),
        2 => format!("cook_beg({}) {}", dice.one(&COOKIES), dice.one(&VALUES)),
        3 => format!("url_param(v) {}", dice.one(&VALUES)),
        _ => "url_param(v) -m found".into(),
    }
}

fn from_file(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => "path_beg -f @DIR@/paths.lst".into(),
        1 => "hdr(host) -i -f @DIR@/hosts.lst".into(),
        2 => format!("path_beg -f @DIR@/paths.lst {}", dice.one(&PATHS[1..])),
        3 => "src -f @DIR@/networks.lst".into(),
        _ => "hdr_sub(User-Agent) -i -f @DIR@/agents.lst".into(),
    }
}

fn converted(dice: &mut Dice) -> String {
    match dice.below(14) {
        8 => "path,map_reg(@DIR@/expressions.map) -m str bad".into(),
        9 => "src,map_ip(@DIR@/networks.map,none) -m str bad".into(),
        10 => "path,map_end(@DIR@/paths.map) -m found".into(),
        11 => "path,map_sub(@DIR@/paths.map,0) -m str a".into(),
        12 => "hdr(host),map_dom(@DIR@/hosts.map) -m str b".into(),
        13 => format!("req.hdr({}),map(@DIR@/hosts.map) -m found", dice.one(&FIELDS)),
        0 => format!("path,lower -m beg {}", dice.one(&PATHS)),
        1 => "path,field(2,/) -m str api admin".into(),
        2 => "path,word(1,/) -m str static".into(),
        3 => format!("hdr(host),field(1,:) -i {}", dice.one(&HOSTS)),
        4 => "path,map_beg(@DIR@/paths.map) -m str b".into(),
        5 => format!("req.hdr({}),lower -m str {}", dice.one(&FIELDS), dice.one(&VALUES)),
        6 => "hdr(host),lower,map_str(@DIR@/hosts.map,none) -m str c".into(),
        _ => format!("path,regsub(^/api,) -m beg {}", dice.one(&["/v1", "/x"])),
    }
}

fn variable(dice: &mut Dice) -> String {
    match dice.below(3) {
        0 => format!("var(txn.kind) -m str {}", dice.one(&VALUES)),
        1 => "var(txn.is) -m bool".into(),
        _ => "var(txn.kind) -m found".into(),
    }
}

fn several(dice: &mut Dice, of: &[&str]) -> String {
    let first = dice.one(of);
    if dice.once_in(3) { format!("{first} {}", dice.one(of)) } else { first.to_string() }
}

/// A test that HAProxy names itself.
fn own(dice: &mut Dice) -> &'static str {
    dice.one(&[
        "METH_GET",
        "METH_POST",
        "METH_OPTIONS",
        "HTTP_1.1",
        "HTTP_2.0",
        "TRUE",
        "FALSE",
        "LOCALHOST",
        "METH_HEAD",
    ])
}

/// Lines of `acl`, and their names.
pub fn acls(dice: &mut Dice, most: usize) -> (Vec<Node>, Vec<&'static str>) {
    let names: Vec<&str> = dice.some(0, most, |dice| dice.one(&NAMES));
    let lines = names.iter().map(|name| line(format!("acl {name} {}", test(dice)))).collect();
    (lines, names)
}

/// A condition without its `if`.
fn terms(dice: &mut Dice, names: &[&'static str]) -> String {
    let mut text = String::new();
    let n = [1, 1, 1, 1, 2, 2, 3][dice.below(7)];
    for at in 0..n {
        if at > 0 {
            text += if dice.once_in(3) { " || " } else { " " };
        }
        let not = if dice.once_in(4) { "!" } else { "" };
        text += &match (names.is_empty() || dice.once_in(2), dice.once_in(12)) {
            (_, true) => format!("{not}{}", own(dice)),
            (true, _) => format!("{not}{{ {} }}", test(dice)),
            (false, _) => format!("{not}{}", dice.one(names)),
        };
    }
    text
}

/// A condition with its `if` or `unless`, or none.
pub fn condition(dice: &mut Dice, names: &[&'static str]) -> String {
    if dice.once_in(12) { String::new() } else { sure(dice, names) }
}

/// A condition with its `if` or `unless`.
pub fn sure(dice: &mut Dice, names: &[&'static str]) -> String {
    let word = if dice.once_in(6) { "unless" } else { "if" };
    format!(" {word} {}", terms(dice, names))
}
