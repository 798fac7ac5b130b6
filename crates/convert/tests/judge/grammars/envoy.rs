//! Listeners, virtual hosts and clusters of Envoy.

use super::{Grammar, normal};
use crate::dice::Dice;
use crate::run::run_part;
use crate::tree::{Node, Style, block, line};
use crate::verdict::Side;
use evenkeel_convert::{Ask, From};

const ENVOY: Grammar = Grammar {
    from: From::Envoy,
    style: Style::Indented,
    generate,
    around: "@CONFIG@",
    files: &[],
    ask: |_, _| (),
    settle,
};

#[test]
fn conversions_of_envoy_do_as_the_original() {
    run_part(&ENVOY, 10);
}

/// Takes away the differences at the head of each report.
fn settle(ask: &Ask, there: &mut Side, here: &mut Side) {
    if ask.host.contains(':') || ask.host.ends_with('.') {
        *there = here.clone();
    }
    let is_odd = ask.target.contains("//") || ask.target.contains("/.") || ask.target.contains('%');
    let is_open = there.seen.is_none() && here.seen.is_some();
    if (is_odd || ask.target.contains('\\')) && !is_open {
        *there = here.clone();
    }
    for side in [&mut *there, &mut *here] {
        let of_envoy =
            |name: &str| name.starts_with("x-envoy") || ["x-request-id", "x-forwarded-prefix"].contains(&name);
        if let Some(seen) = &mut side.seen {
            seen.fields.retain(|(name, _)| !of_envoy(name));
            seen.target = normal(&seen.target);
        }
        let is_own = side.seen.is_none();
        if let Ok(answer) = &mut side.answer {
            answer.fields.retain(|(name, _)| !of_envoy(name));
            if is_own && answer.status >= 400 && is_text_of_errors(&answer.body) {
                answer.body.clear();
            }
            if is_own && answer.body.is_empty() {
                answer.fields.retain(|(name, _)| name != "content-type");
            }
            for (name, value) in &mut answer.fields {
                if is_own && name == "content-type" {
                    *value = value.replace("; charset=utf-8", "");
                }
                if name == "location" && value.starts_with('/') {
                    *value = format!("http://{}{value}", ask.host);
                }
            }
        }
    }
}

/// True for the texts of Envoy's own errors.
fn is_text_of_errors(body: &str) -> bool {
    ["RBAC: access denied", "upstream connect error", "no healthy upstream"].iter().any(|text| body.starts_with(text))
}

const FIELDS: [&str; 3] = ["X-Key", "X-Role", "X-Trace"];
const VALUES: [&str; 4] = ["s", "none", "admin", "v1"];

fn text_match(dice: &mut Dice) -> String {
    let case = if dice.once_in(4) { ", ignore_case: true" } else { "" };
    match dice.below(5) {
        0 => format!("{{ prefix: {}{case} }}", dice.one(&["s", "ad", "v"])),
        1 => format!("{{ suffix: {}{case} }}", dice.one(&["min", "in", "ne"])),
        2 => format!("{{ contains: {}{case} }}", dice.one(&["dmi", "non"])),
        3 => format!("{{ safe_regex: {{ regex: \"{}\" }} }}", dice.one(&["v[0-9]+", "s|admin", ".*min"])),
        _ => format!("{{ exact: {}{case} }}", dice.one(&VALUES)),
    }
}

fn header(dice: &mut Dice) -> String {
    let name = dice.one(&FIELDS);
    let invert = if dice.once_in(4) { ", invert_match: true" } else { "" };
    let missing = if dice.once_in(6) { ", treat_missing_header_as_empty: true" } else { "" };
    match dice.below(8) {
        0 => format!("{{ name: {name}, present_match: true{invert} }}"),
        1 => format!("{{ name: {name}, present_match: false{invert} }}"),
        2 => {
            format!("{{ name: \":method\", string_match: {{ exact: {} }}{invert} }}", dice.one(&["GET", "POST", "PUT"]))
        }
        3 => format!("{{ name: \":authority\", string_match: {{ prefix: a. }}{invert} }}"),
        4 => format!("{{ name: {name}{invert} }}"),
        _ => format!("{{ name: {name}, string_match: {}{invert}{missing} }}", text_match(dice)),
    }
}

fn matching(dice: &mut Dice, with_prefix: bool) -> String {
    let mut parts = vec![match if with_prefix { dice.below(3) } else { dice.below(8) } {
        0 | 1 => format!("prefix: \"{}\"", dice.one(&["/api", "/api/", "/admin", "/api/v1/", "/static"])),
        2 => "path_separated_prefix: \"/api\"".into(),
        3 => format!("path: \"{}\"", dice.one(&["/api", "/login", "/static/x.css", "/API/Up"])),
        4 => format!(
            "safe_regex: {{ regex: \"{}\" }}",
            dice.one(&["/api/v[0-9]+", ".*\\\\.css", "/u/[a-z]+", "/(api|admin)/.*"])
        ),
        _ => "prefix: \"/\"".into(),
    }];
    if dice.once_in(6) && !parts[0].contains("regex") && !parts[0].contains("separated") {
        parts.push("case_sensitive: false".into());
    }
    if dice.once_in(3) {
        parts.push(format!("headers: [{}]", dice.some(1, 2, header).join(", ")));
    }
    if dice.once_in(6) {
        let query = match dice.below(3) {
            0 => "{ name: a, present_match: true }".to_string(),
            1 => "{ name: a, string_match: { exact: \"1\" } }".into(),
            _ => "{ name: v, string_match: { prefix: v } }".into(),
        };
        parts.push(format!("query_parameters: [{query}]"));
    }
    format!("match: {{ {} }}", parts.join(", "))
}

fn field(dice: &mut Dice) -> String {
    let (name, value) = (dice.one(&FIELDS), dice.one(&["\"1\"", "s", "\"%REQ(X-Key)%\"", "\"100%%\""]));
    let action = match dice.below(6) {
        0 => ", append_action: OVERWRITE_IF_EXISTS_OR_ADD",
        1 => ", append_action: ADD_IF_ABSENT",
        2 => ", append_action: OVERWRITE_IF_EXISTS",
        3 => ", append_action: APPEND_IF_EXISTS_OR_ADD",
        _ => "",
    };
    format!("{{ header: {{ key: {name}, value: {value} }}{action} }}")
}

fn response_field(dice: &mut Dice) -> String {
    let action = dice.one(&["", ", append_action: OVERWRITE_IF_EXISTS_OR_ADD", ", append_action: ADD_IF_ABSENT"]);
    let (name, value) = (dice.one(&["X-Say", "X-Frame-Options", "X-A"]), dice.one(&["DENY", "\"1\""]));
    format!("{{ header: {{ key: {name}, value: {value} }}{action} }}")
}

fn fields(dice: &mut Dice) -> Vec<String> {
    let mut all = Vec::new();
    if dice.once_in(3) {
        all.push(format!("request_headers_to_add: [{}]", dice.some(1, 2, field).join(", ")));
    }
    if dice.once_in(6) {
        all.push(format!("request_headers_to_remove: [{}]", dice.one(&FIELDS)));
    }
    if dice.once_in(4) {
        all.push(format!("response_headers_to_add: [{}]", dice.some(1, 2, response_field).join(", ")));
    }
    if dice.once_in(8) {
        all.push("response_headers_to_remove: [X-Say]".into());
    }
    all
}

fn to_cluster(dice: &mut Dice, with_prefix: bool) -> String {
    let mut parts = vec![match dice.below(6) {
        0 => format!(
            "weighted_clusters: {{ clusters: [{{ name: {}, weight: 100 }}, {{ name: d, weight: 0 }}] }}",
            dice.one(&["a", "b"])
        ),
        _ => format!("cluster: {}", dice.one(&["a", "b", "c"])),
    }];
    match dice.below(if with_prefix { 2 } else { 8 }) {
        0 => parts.push(format!("prefix_rewrite: \"{}\"", dice.one(&["/", "/new/", "/new"]))),
        7 => parts.push("regex_rewrite: { pattern: { regex: \"^/([a-z]+)/\" }, substitution: \"/x/\\\\1/\" }".into()),
        _ => {}
    }
    match dice.below(8) {
        0 => parts.push("host_rewrite_literal: in.test".into()),
        1 => parts.push("host_rewrite_header: X-Key".into()),
        2 => parts.push("timeout: 3s".into()),
        3 => parts.push("upgrade_configs: [{ upgrade_type: websocket }]".into()),
        _ => {}
    }
    format!("route: {{ {} }}", parts.join(", "))
}

fn route(dice: &mut Dice) -> Node {
    let with_prefix = dice.once_in(4);
    let matching = matching(dice, with_prefix);
    let action = match dice.below(8) {
        0 => format!(
            "direct_response: {{ status: {} }}",
            dice.one(&["403", "404", "200, body: { inline_string: ok }", "503, body: { inline_string: down }"])
        ),
        1 => format!(
            "redirect: {{ {} }}",
            dice.one(&[
                "https_redirect: true",
                "host_redirect: b.test",
                "path_redirect: /login, response_code: FOUND",
                "host_redirect: b.test, strip_query: true",
                "prefix_rewrite: /new, response_code: PERMANENT_REDIRECT",
                "https_redirect: true, port_redirect: 8443",
            ])
        ),
        _ => to_cluster(dice, with_prefix),
    };
    let mut parts = vec![matching, action];
    parts.extend(fields(dice));
    line(format!("- {{ {} }}", parts.join(", ")))
}

fn host(dice: &mut Dice, name: &str, domains: &str) -> Node {
    let mut inner = vec![line(format!("name: {name}")), line(format!("domains: [{domains}]"))];
    inner.extend(fields(dice).into_iter().map(line));
    if dice.once_in(10) {
        inner.push(line("require_tls: ALL"));
    }
    let mut routes = dice.some(1, 5, route);
    if !dice.once_in(4) {
        routes.push(line("- { match: { prefix: \"/\" }, route: { cluster: a } }"));
    }
    inner.push(block("routes:", routes));
    block("-", inner)
}

const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

fn rbac(dice: &mut Dice) -> String {
    let permission = match dice.below(5) {
        0 => "any: true".to_string(),
        1 => "url_path: { path: { prefix: /admin } }".into(),
        2 => "header: { name: \":method\", string_match: { exact: POST } }".into(),
        3 => "url_path: { path: { exact: /login } }".into(),
        _ => format!("header: {}", header(dice)),
    };
    let principal = dice.one(&[
        "any: true",
        "direct_remote_ip: { address_prefix: 127.0.0.0, prefix_len: 8 }",
        "remote_ip: { address_prefix: 10.0.0.0, prefix_len: 8 }",
        "header: { name: X-Role, string_match: { exact: admin } }",
        "not_id: { header: { name: X-Role, string_match: { exact: admin } } }",
    ]);
    format!(
        "{{ name: envoy.filters.http.rbac, typed_config: {{ \"@type\": {RBAC}, rules: {{ action: {}, policies: {{ p: \
         {{ permissions: [{{ {permission} }}], principals: [{{ {principal} }}] }} }} }} }} }}",
        dice.one(&["DENY", "ALLOW"])
    )
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let domains = dice.one(&["\"*\"", "a.test", "a.test, b.test", "\"*.c.test\""]);
    let mut hosts = vec![host(dice, "one", domains)];
    if dice.once_in(3) {
        hosts.push(host(dice, "two", "d.test"));
    }
    let mut config = vec![line("name: routes")];
    config.extend(fields(dice).into_iter().take(1).map(line));
    config.push(block("virtual_hosts:", hosts));
    let mut filters = Vec::new();
    if dice.once_in(4) {
        filters.push(rbac(dice));
    }
    filters.push(format!("{{ name: envoy.filters.http.router, typed_config: {{ \"@type\": {ROUTER} }} }}"));
    // Without a router Envoy does not answer, so it shares a node with a key that must be there.
    let filters = format!("stat_prefix: in\n{}http_filters: [{}]", " ".repeat(32), filters.join(", "));
    let mut manager = vec![line(format!("\"@type\": {MANAGER}")), line(filters)];
    for option in [
        "use_remote_address: true",
        "normalize_path: true",
        "merge_slashes: true",
        "path_with_escaped_slashes_action: REJECT_REQUEST",
        "generate_request_id: false",
        "strip_any_host_port: true",
        "upgrade_configs: [{ upgrade_type: websocket }]",
    ] {
        if dice.once_in(3) {
            manager.push(line(option));
        }
    }
    manager.push(block("route_config:", config));
    let chain = vec![block(
        "filters:",
        vec![block(
            "-",
            vec![line("name: envoy.filters.network.http_connection_manager"), block("typed_config:", manager)],
        )],
    )];
    let listener = vec![
        line("name: in"),
        line("address: { socket_address: { address: @H0@, port_value: @P0@ } }"),
        block("filter_chains:", vec![block("-", chain)]),
    ];
    let clusters = ["a", "b", "c", "d"].map(|name| {
        let upper = name.to_ascii_uppercase();
        line(format!(
            "- {{ name: {name}, connect_timeout: 5s, load_assignment: {{ cluster_name: {name}, endpoints: [{{ lb_endpoints: \
             [{{ endpoint: {{ address: {{ socket_address: {{ address: @H{upper}@, port_value: @P{upper}@ }} }} }} }}] }}] }} }}"
        ))
    });
    vec![block(
        "static_resources:",
        vec![block("listeners:", vec![block("-", listener)]), block("clusters:", clusters.into())],
    )]
}
