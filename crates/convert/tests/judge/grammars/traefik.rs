//! Routers, middlewares and services of Traefik, whose place a model takes.

use super::{Grammar, normal};
use crate::dice::Dice;
use crate::run::run;
use crate::tree::{Node, Style, block, line};
use crate::verdict::Side;
use evenkeel_convert::{Ask, From};

const TRAEFIK: Grammar =
    Grammar { from: From::Traefik, style: Style::Indented, generate, around: "@CONFIG@", files: &[], ask, settle };

#[test]
fn conversions_of_traefik_do_as_its_model() {
    run(&TRAEFIK);
}

/// Every fourth request has the password.
fn ask(ask: &mut Ask, id: usize) {
    if id.is_multiple_of(4) {
        ask.fields.push(("Authorization".into(), "Basic am9lOnMz".into()));
    }
}

/// Takes away the differences at the head of each report.
fn settle(ask: &Ask, there: &mut Side, here: &mut Side) {
    let is_odd = ["//", "/.", "%", "\\", ";"].iter().any(|odd| ask.target.contains(odd));
    let is_refused = here.answer.as_ref().is_ok_and(|answer| answer.status == 400) && here.seen.is_none();
    if is_odd && is_refused {
        *there = here.clone();
    }
    if let (Some(a), Some(b)) = (&mut there.seen, &here.seen)
        && is_odd
    {
        a.target.clone_from(&b.target);
    }
    for side in [&mut *there, &mut *here] {
        if let Some(seen) = &mut side.seen {
            seen.fields.retain(|(name, _)| name != "x-forwarded-prefix" && name != "x-replaced-path");
            seen.target = normal(&seen.target);
        }
        let is_own = side.seen.is_none();
        if let Ok(answer) = &mut side.answer {
            if is_own && answer.status >= 400 {
                answer.body.clear();
                answer.fields.retain(|(name, _)| name == "www-authenticate");
            }
            for (name, value) in &mut answer.fields {
                *value = value.replace(", charset=\"UTF-8\"", "");
                // The port goes with the scheme.
                if name == "location" {
                    *value = value.replace(":@P0@", "");
                    let from = value.find("://").map_or(0, |at| at + 3);
                    let path = value[from..].find('/').map_or(value.len(), |at| from + at);
                    *value = format!("{}{}", &value[..path], normal(&value[path..]));
                }
            }
        }
    }
}

const FIELDS: [&str; 2] = ["X-Key", "X-Role"];
const USER: &str = "joe:$2b$04$G7hl.0KSoKxRqPQ6vaPfGeaMKr9Kksic/7ySVXc97DiA0MRbeLGne";

fn matcher(dice: &mut Dice) -> String {
    match dice.below(14) {
        0..=2 => format!("Host(`{}`)", dice.one(&["a.test", "b.test", "A.test"])),
        3 => format!("HostRegexp(`{}`)", dice.one(&["^.+\\\\.b\\\\.test$", "a\\\\.test", "^[a-z]+\\\\.test$"])),
        4 => format!("Path(`{}`)", dice.one(&["/api", "/login", "/static/x.css"])),
        5..=7 => format!("PathPrefix(`{}`)", dice.one(&["/", "/api", "/api/", "/admin", "/api/v1"])),
        8 => format!("PathRegexp(`{}`)", dice.one(&["^/api/v[0-9]+", "\\\\.css$", "^/(api|admin)/", "v1"])),
        9 => format!("Method(`{}`)", dice.one(&["GET", "POST", "PUT"])),
        10 => format!("Header(`{}`, `{}`)", dice.one(&FIELDS), dice.one(&["s", "admin"])),
        11 => format!("HeaderRegexp(`{}`, `{}`)", dice.one(&FIELDS), dice.one(&["^s", "min$", "v[0-9]"])),
        12 => format!("Query({})", dice.one(&["`a`, `1`", "`v`, `2`", "`flag`"])),
        _ => format!("ClientIP(`{}`)", dice.one(&["127.0.0.0/8", "10.0.0.0/8", "192.168.1.1"])),
    }
}

fn rule(dice: &mut Dice, depth: usize) -> String {
    let inner = |dice: &mut Dice| match dice.below(5) {
        0 if depth < 2 => format!("({})", rule(dice, depth + 1)),
        1 => format!("!{}", matcher(dice)),
        _ => matcher(dice),
    };
    let parts = dice.some(1, 3, inner);
    parts.join(dice.one(&[" && ", " && ", " || "]))
}

fn middleware(dice: &mut Dice) -> String {
    match dice.below(15) {
        0..=2 => format!(
            "stripPrefix: {{ prefixes: [{}] }}",
            dice.one(&["/api", "/admin", "\"/api/v1\", \"/api\"", "/api/", "/"])
        ),
        12 => format!(
            "stripPrefixRegex: {{ regex: [{}] }}",
            dice.one(&["\"/api/v[0-9]+\"", "\"^/[a-z]+\"", "\"v1\"", "\"/(api|admin)/\""])
        ),
        13 => format!(
            "redirectRegex: {{ regex: {}, permanent: {} }}",
            dice.one(&[
                "\"^https?://a.test:@P0@/(.*)\", replacement: \"https://b.test/${1}\"",
                "\"^http://a\\\\.test/(.*)\", replacement: \"https://b.test/new/$1\"",
                "\"^https?://[^/]+/api/(.*)\", replacement: \"https://b.test/$1\"",
                "\"^https?://b.test/admin$\", replacement: \"https://a.test/login\"",
                "\"^https?://[^/]+/(.*)\", replacement: \"https://c.test/$1\"",
            ]),
            dice.one(&["true", "false"])
        ),
        14 => format!("buffering: {{ maxRequestBodyBytes: {} }}", dice.one(&["2", "1000"])),
        3 => format!("addPrefix: {{ prefix: {} }}", dice.one(&["/new", "/x/y"])),
        4 => "replacePath: { path: /index.html }".into(),
        5 => format!(
            "replacePathRegex: {{ regex: {} }}",
            dice.one(&[
                "\"^/api/(.*)\", replacement: \"/v2/$1\"",
                "\"^/(api|admin)(/|$)(.*)\", replacement: \"/${3}\"",
                "\"v1\", replacement: \"v2\"",
                "\"/x\", replacement: \"/y\"",
            ])
        ),
        6 => format!(
            "headers: {{ customRequestHeaders: {{ {}: {} }}, customResponseHeaders: {{ X-A: \"1\" }} }}",
            dice.one(&FIELDS),
            dice.one(&["s", "\"\"", "none"])
        ),
        7 => format!("redirectScheme: {{ scheme: https, permanent: {} }}", dice.one(&["true", "false"])),
        8 | 9 => format!("basicAuth: {{ users: [\"{USER}\"] }}"),
        10 => format!("ipAllowList: {{ sourceRange: [{}] }}", dice.one(&["127.0.0.0/8", "10.0.0.0/8"])),
        _ => "chain: { middlewares: [m0] }".into(),
    }
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let count = dice.below(4);
    let mut middlewares = Vec::new();
    for n in 0..count {
        let mut kind = middleware(dice);
        if n == 0 && kind.starts_with("chain") {
            kind = "addPrefix: { prefix: /new }".into();
        }
        middlewares.push(block(format!("m{n}:"), vec![line(kind)]));
    }
    let routers = (0..1 + dice.below(4)).map(|n| {
        let mut inner = vec![
            line(format!("rule: \"{}\"", rule(dice, 0))),
            line(format!("service: {}", dice.one(&["a", "b", "c"]))),
        ];
        inner.push(line("entryPoints: [web]"));
        // Ties are not decided by the documentation.
        inner.push(line(format!("priority: {}", 10 * (1 + dice.below(50)) + n)));
        if count > 0 && !dice.once_in(3) {
            let used = dice.some(1, 2, |dice| format!("m{}", dice.below(count)));
            inner.push(line(format!("middlewares: [{}]", used.join(", "))));
        }
        block(format!("r{n}:"), inner)
    });
    let mut http = vec![block("routers:", routers.collect())];
    if !middlewares.is_empty() {
        http.push(block("middlewares:", middlewares));
    }
    let outer = if count > 0 && dice.once_in(6) { ", http: { middlewares: [m0] }" } else { "" };
    let services = [("a", "@A@"), ("b", "@B@"), ("c", "@C@")]
        .map(|(name, addr)| line(format!("{name}: {{ loadBalancer: {{ servers: [{{ url: \"http://{addr}\" }}] }} }}")));
    http.push(block("services:", services.into()));
    vec![block("entryPoints:", vec![line(format!("web: {{ address: \"@L0@\"{outer} }}"))]), block("http:", http)]
}
