//! Rules of frontends and backends of HAProxy.

use super::conditions::{COOKIES, FIELDS, PATHS, VALUES, condition, sure};
use crate::dice::Dice;
use crate::tree::{Node, line};

type Names<'n> = &'n [&'static str];

/// Line of `http-request`.
pub fn request(dice: &mut Dice, names: Names<'_>) -> Node {
    let rule: String = match dice.below(22) {
        0..=3 => refusal(dice, names),
        4..=5 => format!("redirect {}{}", redirect(dice), sure(dice, names)),
        6..=11 => field(dice, names),
        12..=14 => path(dice, names),
        15 => format!("allow{}", sure(dice, names)),
        16..=17 => set_var(dice, names),
        18..=19 => response(dice, names),
        20 => format!(
            "auth realm x{}",
            dice.one(&[
                " unless { http_auth(users) }",
                " if { path_beg /admin } !{ http_auth(users) }",
                " unless { http_auth_group(users) staff }",
                " if { path_beg /api } !{ http_auth_group(users) none }",
            ])
        ),
        _ => rare(dice, names),
    };
    line(format!("http-request {rule}"))
}

fn refusal(dice: &mut Dice, names: Names<'_>) -> String {
    let status = if dice.once_in(3) {
        format!(" deny_status {}", dice.one(&["404", "401", "429", "500"]))
    } else {
        String::new()
    };
    match dice.below(10) {
        1 => format!("deny{status}{} {{ http_auth(users) }}", sure(dice, names)),
        2 => format!("deny{status} if !{{ http_auth(users) }} {{ path_beg {} }}", dice.one(&PATHS)),
        0 => format!("tarpit{status}{}", sure(dice, names)),
        _ => format!("deny{status}{}", sure(dice, names)),
    }
}

fn redirect(dice: &mut Dice) -> String {
    let code = if dice.once_in(2) {
        format!(" code {}", dice.one(&["301", "302", "303", "307", "308"]))
    } else {
        String::new()
    };
    let target: String = match dice.below(9) {
        0 => "location /new".into(),
        1 => "location https://www.a.test/x?y=1".into(),
        2 => "location https://%[hdr(host)]%[capture.req.uri]".into(),
        3 => "prefix https://www.a.test".into(),
        4 => "prefix /sub".into(),
        5 => "prefix /sub drop-query".into(),
        6 => "prefix / drop-query append-slash".into(),
        7 => "location https://www.a.test%[path]".into(),
        _ => "scheme https".into(),
    };
    format!("{target}{code}")
}

/// Values of fields, some with samples.
fn value(dice: &mut Dice) -> &'static str {
    match dice.below(3) {
        0 => dice.one(&[
            "%[src]",
            "%[path]",
            "%[req.hdr(host)]",
            "%[method]",
            "%[req.hdr(X-Key)]",
            "a-%[req.hdr(X-Role),lower]",
        ]),
        1 => dice.one(&[
            "%[url]",
            "%[req.cook(beta)]",
            "%[var(txn.kind)]",
            "%[query]",
            "%ci",
            "%[path,field(2,/)]",
            "%[hdr(host),lower,map_str(@DIR@/hosts.map,none)]",
        ]),
        _ => dice.one(&VALUES),
    }
}

fn field(dice: &mut Dice, names: Names<'_>) -> String {
    let name = dice.one(&FIELDS);
    let rule: String = match dice.below(10) {
        0..=3 => format!("set-header {name} {}", value(dice)),
        4 => format!("add-header {name} {}", value(dice)),
        5..=6 => format!("del-header {name}"),
        7 => format!(
            "replace-header {name} {} {}",
            dice.one(&["(.*)s(.*)", "^admin$", "(.*)"]),
            dice.one(&["x", "\\1-y"])
        ),
        8 => format!("replace-value {name} {} {}", dice.one(&["s", "^a(.*)"]), dice.one(&["x", "\\1-y"])),
        _ => format!("set-header Host {}", dice.one(&["inner.test", "%[req.hdr(X-Key)]"])),
    };
    format!("{rule}{}", condition(dice, names))
}

fn path(dice: &mut Dice, names: Names<'_>) -> String {
    let rule: String = match dice.below(11) {
        0 => "set-path /new%[path]".into(),
        1 => format!("set-path {}", dice.one(&["/fixed", "/index.php"])),
        2..=4 => format!(
            "replace-path {} {}",
            dice.one(&["^/api/(.*)", "/api(/)?(.*)", "^/old/(.*)\\.html$", "(.*)/b/(.*)"]),
            dice.one(&["/\\1", "/\\2", "/v2/\\1"])
        ),
        5 => "set-path %[path,regsub(^/api/,/)]".into(),
        6 => "replace-uri ^/old/(.*) /new/\\1".into(),
        7 => "replace-pathq ^/api/(.*) /\\1".into(),
        8 => format!("set-query {}", dice.one(&["a=2", "%[query]&b=1"])),
        9 => "set-uri /whole?x=1".into(),
        _ => format!("set-method {}", dice.one(&["POST", "GET"])),
    };
    format!("{rule}{}", sure(dice, names))
}

fn set_var(dice: &mut Dice, names: Names<'_>) -> String {
    let rule: String = match dice.below(6) {
        0..=1 => format!("set-var(txn.kind) str({})", dice.one(&VALUES)),
        2 => "set-var(txn.kind) req.hdr(X-Key)".into(),
        3 => "set-var(txn.kind) path,map_beg(@DIR@/paths.map)".into(),
        4 => format!("set-var(txn.is) bool({})", dice.one(&["true", "false"])),
        _ => "set-var(txn.kind) hdr(host),lower".into(),
    };
    format!("{rule}{}", condition(dice, names))
}

fn response(dice: &mut Dice, names: Names<'_>) -> String {
    let rule: String = match dice.below(5) {
        0 => "return status 200 content-type text/plain string ok".into(),
        1 => format!("return status {}", dice.one(&["200", "404", "503"])),
        2 => "return status 403 content-type text/html string <p>no</p> hdr X-Why no".into(),
        3 => "return status 200 content-type text/plain lf-string \"at %[path]\"".into(),
        _ => "return status 404 errorfile @DIR@/404.http".into(),
    };
    format!("{rule}{}", sure(dice, names))
}

fn rare(dice: &mut Dice, names: Names<'_>) -> String {
    match dice.below(7) {
        0 => "normalize-uri path-merge-slashes".into(),
        1 => "normalize-uri path-strip-dotdot".into(),
        2 => "wait-for-body time 1s".into(),
        3 => "set-src hdr(X-Key)".into(),
        4 => format!("cache-use none{}", sure(dice, names)).replace("cache-use none", "set-log-level silent"),
        5 => format!("capture req.hdr({}) len 20", dice.one(&FIELDS)),
        _ => format!("del-header {} -m beg", dice.one(&["X-", "Acc"])),
    }
}

/// Line of `http-response` or `http-after-response`.
pub fn of_response(dice: &mut Dice, names: Names<'_>) -> Node {
    let (name, value) =
        (dice.one(&["X-Frame", "X-Said", "Cache-Control", "Server"]), dice.one(&["DENY", "no-store", "1"]));
    let on = match dice.below(5) {
        0 => format!(" if {{ status {} }}", dice.one(&["200", "404", "500:599"])),
        1 => " if { res.hdr(X-Said) -m found }".into(),
        2 if !names.is_empty() => " if { var(txn.kind) -m found }".into(),
        _ => String::new(),
    };
    let rule: String = match dice.below(8) {
        0..=2 => format!("http-response set-header {name} {value}"),
        3 => format!("http-response add-header {name} {value}"),
        4 => format!("http-response del-header {name}"),
        5 => format!("http-after-response set-header {name} {value}"),
        6 => format!("http-response replace-header {name} (.*) x\\1"),
        _ => dice
            .one(&["http-response deny", "http-response set-status 418", "http-response set-header X-From %[srv_name]"])
            .into(),
    };
    line(format!("{rule}{on}"))
}

/// Lines that count requests, and a refusal by their number, of no client or of every client.
pub fn counted(dice: &mut Dice) -> Vec<Node> {
    let number = dice.one(&["1000", "1000", "0"]);
    let sample = dice.one(&["src", "src", "req.hdr(X-Key)", "hdr(host)", "path", "base32+src"]);
    let kind = match sample {
        "src" => "ip",
        "base32+src" => "binary len 20",
        _ => "string len 32",
    };
    let (in_own, of) = match sample == "src" && dice.once_in(3) {
        true => ("", " table counters"),
        false => ("own", ""),
    };
    let on = if dice.once_in(2) { String::new() } else { sure(dice, &[]) };
    let counter = dice.one(&["http_req_rate", "http_req_rate", "conn_cur", "http_err_rate", "gpc0", "conn_rate"]);
    let test = match dice.below(5) {
        0 if sample == "src" && !of.is_empty() => format!("src_{counter}(counters) gt {number}"),
        0 => format!("sc0_{counter} gt {number}"),
        1 => format!("sc_{counter}(0) ge {number}"),
        2 => format!("sc_{counter}(0) lt 1"),
        _ => format!("sc_{counter}(0) gt {number}"),
    }
    .replace("_gpc0", "_get_gpc0");
    let more = if dice.once_in(3) { format!(" {{ path_beg {} }}", dice.one(&PATHS)) } else { String::new() };
    let refusal = dice.one(&["deny deny_status 429", "deny", "reject", "tarpit deny_status 429"]);
    let mut lines = vec![line(format!("http-request track-sc0 {sample}{of}{on}"))];
    if !in_own.is_empty() {
        lines.insert(0, line(table(kind)));
    }
    if counter == "gpc0" {
        lines.push(line(format!("http-request sc-inc-gpc0(0){}", sure(dice, &[]))));
    }
    lines.push(line(format!("http-request {refusal} if {{ {test} }}{more}")));
    lines
}
/// Line of a stick table with counters of `kind`.
/// A table of counters.
pub fn table(kind: &str) -> String {
    format!(
        "stick-table type {kind} size 10k expire 60s store http_req_rate(60s),conn_cur,http_err_rate(60s),gpc0,conn_rate(60s)"
    )
}

/// A line that chooses a backend.
pub fn choice(dice: &mut Dice, names: Names<'_>) -> Node {
    match dice.below(14) {
        0 => line("use_backend %[req.hdr(host),lower,map_str(@DIR@/hosts.map,a)]"),
        1 => line("use_backend %[path,map_beg(@DIR@/paths.map)]"),
        2 => line("use_backend %[req.hdr(X-Key)]"),
        _ => line(format!("use_backend {}{}", dice.one(&["b", "c", "b", "c", "d"]), sure(dice, names))),
    }
}

/// A further line of a frontend.
pub fn of_frontend(dice: &mut Dice) -> Node {
    line(match dice.below(12) {
        0..=1 => "option forwardfor".into(),
        2 => "option forwardfor except 127.0.0.1".into(),
        3 => "option forwardfor header X-Client".into(),
        4 => "option httpclose".into(),
        5 => "monitor-uri /alive".into(),
        6 => format!("capture request header {} len 20", dice.one(&FIELDS)),
        7 => format!("errorfile {}", dice.one(&["403 @DIR@/403.http", "503 @DIR@/503.http"])),
        8 => "errorloc 503 https://sorry.test/".into(),
        9 => "errorfiles pages".into(),
        10 => format!("redirect {} if {{ path {} }}", redirect(dice), dice.one(&PATHS)),
        _ => "option http-server-close".into(),
    })
}

/// A further line of a backend.
pub fn of_backend(dice: &mut Dice) -> Node {
    line(match dice.below(12) {
        0 => "cookie SRV insert indirect nocache".into(),
        1 => format!("cookie {} prefix", dice.one(&COOKIES)),
        2 => "balance leastconn".into(),
        3 => "balance source".into(),
        4 => "balance uri".into(),
        5 => "retries 1".into(),
        6 => "option httpclose".into(),
        7 => "errorfile 503 @DIR@/503.http".into(),
        8 => "option forwardfor".into(),
        9 => "http-reuse always".into(),
        10 => "timeout queue 5s".into(),
        _ => "option redispatch".into(),
    })
}
