//! Directives within servers and locations.

use crate::dice::Dice;
use crate::tree::{Node, block, line};

pub(super) const POOLS: [&str; 4] = ["@A@", "@B@", "@C@", "up"];

/// Lines of a level that inner levels inherit.
pub(super) fn inherited(dice: &mut Dice) -> Vec<Node> {
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

pub(super) fn access(dice: &mut Dice) -> Vec<Node> {
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

pub(super) fn returned(dice: &mut Dice) -> Node {
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

pub(super) fn rewritten(dice: &mut Dice) -> Node {
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
pub(super) fn conditional(dice: &mut Dice, in_location: bool) -> Node {
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

pub(super) fn map(dice: &mut Dice) -> Node {
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
