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
    // Hosts are compared without their port and a final dot.
    if ask.host.contains(':') || ask.host.ends_with('.') {
        *there = here.clone();
    }
    // A path that chooses another route by another reading gets a 400.
    let is_odd = ["//", "/.", "%", "\\"].iter().any(|odd| ask.target.contains(odd));
    if is_odd && here.answer.as_ref().is_ok_and(|answer| answer.status == 400) {
        *there = here.clone();
    }
    for side in [&mut *there, &mut *here] {
        let of_envoy = |name: &str| name.starts_with("x-envoy") || name == "x-request-id";
        if let Some(seen) = &mut side.seen {
            seen.fields.retain(|(name, _)| !of_envoy(name));
            // The path in values has no question mark that nothing follows.
            if ask.target.ends_with('?') {
                seen.fields.iter_mut().for_each(|(_, value)| *value = value.trim_end_matches('?').to_string());
            }
            // Paths whose readings choose the same route are forwarded as sent, and are so in values.
            if is_odd {
                seen.target = normal(&seen.target.replace('\\', "/"));
                seen.fields.iter_mut().for_each(|(_, value)| *value = normal_words(value));
            }
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
                let path = value.find("://").and_then(|at| value[at + 3..].find('/').map(|slash| at + 3 + slash));
                if let (true, Some(path)) = (is_own && is_odd && name == "location", path) {
                    *value = format!("{}{}", &value[..path], normal(&value[path..]));
                }
            }
        }
    }
}

/// A value with the paths among its words in normal form.
fn normal_words(value: &str) -> String {
    let words = value.split(' ').map(|word| if word.starts_with('/') { normal(word) } else { word.to_string() });
    words.collect::<Vec<_>>().join(" ")
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
        3 => format!("{{ safe_regex: {{ regex: \"{}\" }} }}", dice.one(&["v[0-9]+", "s|admin", ".*min", ".*"])),
        _ => format!("{{ exact: {}{case} }}", dice.one(&VALUES)),
    }
}

fn header(dice: &mut Dice) -> String {
    let name = dice.one(&FIELDS);
    let invert = if dice.once_in(4) { ", invert_match: true" } else { "" };
    let missing = if dice.once_in(6) { ", treat_missing_header_as_empty: true" } else { "" };
    match dice.below(12) {
        5 => format!("{{ name: {name}, exact_match: {}{invert} }}", dice.one(&VALUES)),
        6 => format!("{{ name: {name}, prefix_match: ad{invert} }}"),
        7 => format!("{{ name: {name}, range_match: {{ start: 1, end: 5 }}{invert} }}"),
        8 => "{ name: \":path\", string_match: { prefix: /api } }".into(),
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
    if dice.once_in(12) {
        let (numerator, denominator) = (dice.one(&["0", "100"]), dice.one(&["", ", denominator: HUNDRED"]));
        let fraction = format!("default_value: {{ numerator: {numerator}{denominator} }}");
        parts.push(format!("runtime_fraction: {{ {fraction}, runtime_key: x }}"));
    }
    if dice.once_in(6) && !parts[0].contains("regex") && !parts[0].contains("separated") {
        parts.push("case_sensitive: false".into());
    }
    if dice.once_in(3) {
        parts.push(format!("headers: [{}]", dice.some(1, 2, header).join(", ")));
    }
    if dice.once_in(6) {
        let query = match dice.below(6) {
            0 => "{ name: a, present_match: true }".to_string(),
            1 => "{ name: a, present_match: false }".into(),
            2 => "{ name: a }".into(),
            3 => "{ name: a, string_match: { exact: \"1\" } }".into(),
            4 => "{ name: a, string_match: { safe_regex: { regex: \"[0-9]+\" } } }".into(),
            _ => "{ name: v, string_match: { prefix: v } }".into(),
        };
        parts.push(format!("query_parameters: [{query}]"));
    }
    format!("match: {{ {} }}", parts.join(", "))
}

const ACTIONS: [&str; 6] = [
    "",
    "",
    ", append_action: OVERWRITE_IF_EXISTS_OR_ADD",
    ", append_action: ADD_IF_ABSENT",
    ", append_action: OVERWRITE_IF_EXISTS",
    ", append_action: APPEND_IF_EXISTS_OR_ADD",
];

fn field(dice: &mut Dice) -> Node {
    let values = [
        "\"1\"",
        "s",
        "\"%REQ(X-Key)%\"",
        "\"100%%\"",
        "\"k-%REQ(X-Key)%\"",
        "\"%REQ(X-Role?X-Key)%\"",
        "\"%REQ(:METHOD)% %REQ(:PATH)%\"",
        "\"%REQ(:AUTHORITY)%\"",
        "\"%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%\"",
        "\"%PROTOCOL%\"",
        "\"\"",
    ];
    let (name, value) = (dice.one(&FIELDS), dice.one(&values));
    line(format!("- {{ header: {{ key: {name}, value: {value} }}{} }}", dice.one(&ACTIONS)))
}

fn response_field(dice: &mut Dice) -> Node {
    let values = ["DENY", "\"1\"", "\"%REQ(X-Key)%\"", "\"%RESPONSE_CODE%\""];
    let (name, value) = (dice.one(&["X-Say", "X-Frame-Options", "X-A"]), dice.one(&values));
    line(format!("- {{ header: {{ key: {name}, value: {value} }}{} }}", dice.one(&ACTIONS)))
}

fn fields(dice: &mut Dice) -> Vec<Node> {
    let mut all = Vec::new();
    if dice.once_in(3) {
        all.push(block("request_headers_to_add:", dice.some(1, 2, field)));
    }
    if dice.once_in(6) {
        all.push(line(format!("request_headers_to_remove: [{}]", dice.one(&FIELDS))));
    }
    if dice.once_in(4) {
        all.push(block("response_headers_to_add:", dice.some(1, 2, response_field)));
    }
    if dice.once_in(8) {
        all.push(line("response_headers_to_remove: [X-Say]"));
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
    let more = [
        "host_rewrite_literal: in.test",
        "host_rewrite_header: X-Key",
        "timeout: 3s",
        "upgrade_configs: [{ upgrade_type: websocket }]",
        "hash_policy: [{ header: { header_name: X-Key } }]",
        "retry_policy: { retry_on: 5xx, num_retries: 0 }",
        "host_rewrite_path_regex: { pattern: { regex: \"^/([a-z]+).*\" }, substitution: \"\\\\1.test\" }",
        "append_x_forwarded_host: true",
    ];
    if dice.once_in(3) {
        parts.push(dice.one(&more).into());
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
                "scheme_redirect: https, response_code: SEE_OTHER",
                "path_redirect: \"/new?x=1\", response_code: TEMPORARY_REDIRECT",
                "prefix_rewrite: /new/, host_redirect: b.test",
                "prefix_rewrite: /",
                "regex_rewrite: { pattern: { regex: \"^/([a-z]+)/\" }, substitution: \"/x/\\\\1/\" }",
            ])
        ),
        _ => to_cluster(dice, with_prefix),
    };
    let mut parts = vec![line(matching), line(action)];
    parts.extend(fields(dice));
    if dice.once_in(10) {
        parts.push(line(format!("typed_per_filter_config: {{ {} }}", per_route(dice))));
    }
    block("-", parts)
}

fn host(dice: &mut Dice, name: &str, domains: &str) -> Node {
    let mut inner = vec![line(format!("name: {name}")), line(format!("domains: [{domains}]"))];
    inner.extend(fields(dice));
    if dice.once_in(10) {
        inner.push(line(format!("require_tls: {}", dice.one(&["ALL", "EXTERNAL_ONLY", "NONE"]))));
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

fn permission(dice: &mut Dice, depth: usize) -> String {
    match dice.below(if depth == 0 { 10 } else { 13 }) {
        0 | 1 => "any: true".to_string(),
        2 => format!("url_path: {{ path: {{ prefix: {} }} }}", dice.one(&["/admin", "/api", "/api/"])),
        3 => format!("url_path: {{ path: {{ exact: {} }} }}", dice.one(&["/login", "/api"])),
        4 => "url_path: { path: { suffix: .css } }".into(),
        5 => "url_path: { path: { safe_regex: { regex: \"/(api|u)/.*\" } } }".into(),
        6 => format!("header: {{ name: \":method\", string_match: {{ exact: {} }} }}", dice.one(&["POST", "GET"])),
        7 => format!("destination_port: {}", dice.one(&["@P0@", "1"])),
        8 | 9 => format!("header: {}", header(dice)),
        10 => format!("not_rule: {{ {} }}", permission(dice, depth - 1)),
        _ => {
            let all = dice.some(1, 2, |dice| format!("{{ {} }}", permission(dice, depth - 1)));
            format!("{}: {{ rules: [{}] }}", dice.one(&["and_rules", "or_rules"]), all.join(", "))
        }
    }
}

fn principal(dice: &mut Dice, depth: usize) -> String {
    match dice.below(if depth == 0 { 9 } else { 12 }) {
        0 | 1 => "any: true".to_string(),
        2 => "direct_remote_ip: { address_prefix: 127.0.0.0, prefix_len: 8 }".into(),
        3 => format!("remote_ip: {{ address_prefix: {}, prefix_len: 8 }}", dice.one(&["10.0.0.0", "127.0.0.0"])),
        4 => "source_ip: { address_prefix: 10.0.0.0, prefix_len: 8 }".into(),
        5 => "header: { name: X-Role, string_match: { exact: admin } }".into(),
        6 => dice.one(&["authenticated: {}", "authenticated: { principal_name: { exact: x } }"]).into(),
        7 => "url_path: { path: { prefix: /static } }".into(),
        8 => format!("header: {}", header(dice)),
        9 => format!("not_id: {{ {} }}", principal(dice, depth - 1)),
        _ => {
            let all = dice.some(1, 2, |dice| format!("{{ {} }}", principal(dice, depth - 1)));
            format!("{}: {{ ids: [{}] }}", dice.one(&["and_ids", "or_ids"]), all.join(", "))
        }
    }
}

fn rules(dice: &mut Dice) -> String {
    let policies = dice.some(0, 2, |dice| {
        let permissions = dice.some(1, 2, |dice| format!("{{ {} }}", permission(dice, 2)));
        let principals = dice.some(1, 2, |dice| format!("{{ {} }}", principal(dice, 2)));
        format!("{{ permissions: [{}], principals: [{}] }}", permissions.join(", "), principals.join(", "))
    });
    let named: Vec<String> = policies.iter().enumerate().map(|(n, policy)| format!("p{n}: {policy}")).collect();
    let action = dice.one(&["DENY", "DENY", "ALLOW", "ALLOW", "LOG"]);
    format!("rules: {{ action: {action}, policies: {{ {} }} }}", named.join(", "))
}

fn rbac(dice: &mut Dice) -> String {
    let rules = if dice.once_in(12) { "shadow_rules: {}".into() } else { rules(dice) };
    format!("- {{ name: envoy.filters.http.rbac, typed_config: {{ \"@type\": {RBAC}, {rules} }} }}")
}

/// Settings of a filter for a virtual host or a route.
fn per_route(dice: &mut Dice) -> String {
    const CORS: &str = "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy";
    match dice.below(4) {
        0 => format!("envoy.filters.http.rbac: {{ \"@type\": {RBAC}PerRoute }}"),
        1 => format!("envoy.filters.http.rbac: {{ \"@type\": {RBAC}PerRoute, rbac: {{ {} }} }}", rules(dice)),
        _ => format!(
            "envoy.filters.http.cors: {{ \"@type\": {CORS}, allow_origin_string_match: [{{ exact: \"http://a.test\" }}], \
             allow_methods: \"{}\" }}",
            dice.one(&["PUT", "GET, POST"])
        ),
    }
}

/// Filters by name, type and settings.
const OTHER_FILTERS: [(&str, &str, &str); 4] = [
    ("cors", "Cors", ""),
    ("buffer", "Buffer", ", max_request_bytes: 2"),
    ("csrf", "CsrfPolicy", ", filter_enabled: { default_value: { numerator: 100 } }"),
    ("header_to_metadata", "Config", ""),
];

/// Domains of a second virtual host.
fn dice_domains(first: &str) -> &'static str {
    match first {
        "\"*\"" => "d.test, \"*.c.test\"",
        _ => "d.test, \"*\"",
    }
}

fn generate(dice: &mut Dice) -> Vec<Node> {
    let domains = match dice.below(20) {
        0 => "\"a.*\"",
        1 => "\"*-x.c.test\"",
        _ => dice.one(&["\"*\"", "a.test", "a.test, b.test", "\"*.c.test\""]),
    };
    let mut hosts = vec![host(dice, "one", domains)];
    if dice.once_in(3) {
        hosts.push(host(dice, "two", dice_domains(domains)));
    }
    let mut config = vec![line("name: routes")];
    config.extend(fields(dice).into_iter().take(1));
    for (option, of) in [("most_specific_header_mutations_wins: true", 4), ("internal_only_headers: [X-Trace]", 20)] {
        if dice.once_in(of) {
            config.push(line(option));
        }
    }
    config.push(block("virtual_hosts:", hosts));
    let mut manager = vec![line(format!("\"@type\": {MANAGER}\n{}stat_prefix: in", " ".repeat(32)))];
    for option in [
        "use_remote_address: true",
        "normalize_path: true",
        "merge_slashes: true",
        "path_with_escaped_slashes_action: REJECT_REQUEST",
        "generate_request_id: false",
        "strip_any_host_port: true",
        "upgrade_configs: [{ upgrade_type: websocket }]",
        "xff_num_trusted_hops: 1",
        "strip_trailing_host_dot: true",
        "common_http_protocol_options: { headers_with_underscores_action: REJECT_REQUEST }",
    ] {
        if dice.once_in(5) {
            manager.push(line(option));
        }
    }
    manager.push(line("http_filters:"));
    if dice.once_in(2) {
        manager.push(line(rbac(dice)));
    }
    for (name, kind, more) in OTHER_FILTERS {
        if dice.once_in(12) {
            manager.push(line(format!(
                "- {{ name: envoy.filters.http.{name}, typed_config: {{ \"@type\": \
                 type.googleapis.com/envoy.extensions.filters.http.{name}.v3.{kind}{more} }} }}"
            )));
        }
    }
    // Without a router Envoy does not answer, so it shares a node with a key that must be there.
    let router = format!("- {{ name: envoy.filters.http.router, typed_config: {{ \"@type\": {ROUTER} }} }}");
    manager.push(block(format!("{router}\n{}route_config:", " ".repeat(32)), config));
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
