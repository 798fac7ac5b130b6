//! Every setting by which Envoy refuses requests or clients: the refusal is in the output in full, or the routes are
//! closed, or left out, and the first list of the report names the line.

use crate::traps::converted;
use evenkeel_convert::Converted;

/// Output of a closed route.
const CLOSED: &str = "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }";

/// Place of a setting in a configuration.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// An HTTP filter: its name, type and further keys.
    Filter(&'static str, &'static str),
    Manager,
    /// Keys of the route configuration.
    Config,
    Host,
    Match,
    /// The route, instead of its action.
    Action,
    Route,
    Tls,
    /// A filter of the chain in front of the manager, by its type.
    Network,
}

use Place::{Action, Config, Filter, Host, Manager, Match, Network, Route, Tls};

fn convert(place: Place, setting: &str) -> Converted {
    let at = |is: bool| if is { setting } else { "" };
    let keys = |is: bool| at(is).split('\n').filter(|line| !line.is_empty());
    let indented =
        |is: bool, depth: usize| -> String { keys(is).map(|line| format!("{}{line}\n", " ".repeat(depth))).collect() };
    let filter = match place {
        Filter(name, kind) => format!(
            "            - name: envoy.filters.http.{name}\n              typed_config:\n                \"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.{name}.v3.{kind}\n{}",
            indented(true, 16)
        ),
        _ => String::new(),
    };
    let action = match place {
        Action => indented(true, 16),
        _ => "                route: { cluster: a }\n".to_owned(),
    };
    let network = match place {
        Network => format!("      - {{ name: guard, typed_config: {{ \"@type\": type.googleapis.com/{setting} }} }}\n"),
        _ => String::new(),
    };
    let tls = match place {
        Tls => format!(
            "      transport_socket:\n        name: tls\n        typed_config:\n          \"@type\": \
             type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext\n{}",
            indented(true, 10)
        ),
        _ => String::new(),
    };
    let matching = match place {
        Match => indented(true, 14).replacen("              ", "              - ", 1),
        _ => "              - match: { prefix: / }\n".to_owned(),
    };
    converted(&format!(
        "static_resources:
  listeners:
  - name: web
    address: {{ socket_address: {{ address: 0.0.0.0, port_value: 80 }} }}
    filter_chains:
    - filters:
{network}      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
{}          http_filters:
{filter}            - name: envoy.filters.http.router
          route_config:
{}            virtual_hosts:
            - name: all
              domains: [\"*\"]
{}              routes:
{matching}{action}{}{tls}  clusters:
  - {{ name: a, load_assignment: {{ endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: \
         10.0.0.1, port_value: 80 }} }} }} }}] }}] }} }}
",
        indented(matches!(place, Manager), 10),
        indented(matches!(place, Config), 12),
        indented(matches!(place, Host), 14),
        indented(matches!(place, Route), 16),
    ))
}

/// Expected outcome of a setting.
enum Outcome {
    /// Text of the output that refuses.
    Kept(&'static str),
    /// The route refuses all clients, and the report names a line with this text.
    Closed(&'static str),
    /// No request reaches the cluster, and the report names a line with this text.
    Absent(&'static str),
    /// The setting loosens something, or only concerns fields: the report names a line with this text.
    Named(&'static str),
}

use Outcome::{Absent, Closed, Kept, Named};

/// Rules of RBAC with a policy.
const DENY_ADMIN: &str = "rules:\n  action: DENY\n  policies:\n    p:\n      permissions: [{ url_path: { path: { prefix: /admin } } }]\n      principals: [{ any: true }]";
const ALLOW_OFFICE: &str = "rules:\n  action: ALLOW\n  policies:\n    p:\n      permissions: [{ any: true }]\n      principals: [{ direct_remote_ip: { address_prefix: 10.0.0.0, prefix_len: 8 } }]";
const ALLOW_NAMES: &str =
    "rules:\n  policies:\n    p:\n      permissions: [{ any: true }]\n      principals: [{ metadata: { filter: x } }]";
const CLIENTS: &str = "require_client_certificate: true\ncommon_tls_context:\n  tls_certificates: [{ certificate_chain: { filename: c.pem }, private_key: { filename: k.pem } }]\n  validation_context:\n    trusted_ca: { filename: ca.pem }";
const NAMES: &str = "require_client_certificate: true\ncommon_tls_context:\n  tls_certificates: [{ certificate_chain: { filename: c.pem }, private_key: { filename: k.pem } }]\n  validation_context:\n    trusted_ca: { filename: ca.pem }\n    match_typed_subject_alt_names: [{ san_type: DNS, matcher: { exact: a } }]";
const NO_CA: &str = "require_client_certificate: true\ncommon_tls_context:\n  tls_certificates: [{ certificate_chain: { filename: c.pem }, private_key: { filename: k.pem } }]";
const NOT_ADMIN: &str =
    "match: { prefix: /, headers: [{ name: X-Role, string_match: { exact: admin }, invert_match: true }] }";

#[test]
fn nothing_that_envoy_refuses_is_let_through() {
    let mut failures = Vec::new();
    for (place, setting, outcome) in [
        (Filter("rbac", "RBAC"), DENY_ADMIN, Kept("match = { starts_with = \"/admin\" }\nrespond = 403")),
        (Filter("rbac", "RBAC"), ALLOW_OFFICE, Kept("access = { allow = [\"10.0.0.0/8\"] }")),
        (Filter("rbac", "RBAC"), "rules: {}", Kept(CLOSED)),
        (Filter("rbac", "RBAC"), ALLOW_NAMES, Closed("rbac")),
        (Filter("rbac", "RBAC"), "matcher: { on_no_match: {} }", Closed("rbac")),
        (Filter("ext_authz", "ExtAuthz"), "http_service: {}", Closed("ext_authz")),
        (
            Filter("jwt_authn", "JwtAuthentication"),
            "rules: [{ match: { prefix: / }, requires: { requires_any: {} } }]",
            Closed("jwt_authn"),
        ),
        (
            Filter("local_ratelimit", "LocalRateLimit"),
            "token_bucket: { max_tokens: 1, fill_interval: 1s }\nfilter_enabled: { default_value: { numerator: 100 } }\nfilter_enforced: { default_value: { numerator: 100 } }",
            Kept("[limit.web]"),
        ),
        (
            Filter("local_ratelimit", "LocalRateLimit"),
            "descriptors: []\ntoken_bucket: { max_tokens: 1, fill_interval: 1s }\nfilter_enabled: { default_value: { numerator: 1 } }\nfilter_enforced: { default_value: { numerator: 1 } }",
            Closed("descriptor"),
        ),
        (Filter("ratelimit", "RateLimit"), "domain: x", Closed("ratelimit")),
        (Filter("rate_limit_quota", "RateLimitQuotaFilterConfig"), "domain: x", Closed("rate_limit_quota")),
        (Filter("basic_auth", "BasicAuth"), "users: { filename: u }", Kept("basic_auth = { file = \"u\"")),
        (Filter("api_key_auth", "ApiKeyAuth"), "credentials: []", Closed("api_key_auth")),
        (Filter("csrf", "CsrfPolicy"), "filter_enabled: { default_value: { numerator: 100 } }", Closed("csrf")),
        (Filter("ip_tagging", "IPTagging"), "request_type: BOTH", Named("ip_tagging")),
        (Filter("cors", "Cors"), "", Named("cors")),
        (Filter("buffer", "Buffer"), "max_request_bytes: 1024", Kept("body_max = \"1KiB\"")),
        (Filter("oauth2", "OAuth2"), "config: {}", Closed("oauth2")),
        (Filter("lua", "Lua"), "inline_code: x", Closed("lua")),
        (Filter("wasm", "Wasm"), "config: {}", Closed("wasm")),
        (Filter("ext_proc", "ExternalProcessor"), "grpc_service: {}", Closed("ext_proc")),
        (Filter("golang", "Config"), "library_id: x", Closed("golang")),
        (Filter("composite", "Composite"), "named_filter_chains: {}", Closed("composite")),
        (Filter("admission_control", "AdmissionControl"), "enabled: {}", Closed("admission_control")),
        (Filter("adaptive_concurrency", "AdaptiveConcurrency"), "enabled: {}", Closed("adaptive_concurrency")),
        (Filter("a_newer_one", "Newer"), "x: 1", Closed("a_newer_one")),
        (Tls, CLIENTS, Kept("client_auth = { ca = \"ca.pem\" }")),
        (Tls, NAMES, Absent("")),
        (Tls, NO_CA, Absent("")),
        (Host, "require_tls: ALL", Kept("scheme = \"http\"")),
        (Action, "direct_response: { status: 403 }", Kept("respond = 403")),
        (
            Match,
            "match: { prefix: /, headers: [{ name: X-Key, present_match: false }] }",
            Kept("not = { header = { x-key = { present = true } } }"),
        ),
        (
            Match,
            "match: { prefix: /, query_parameters: [{ name: key, present_match: false }] }",
            Kept("not = { query = { key = { present = true } } }"),
        ),
        (
            Match,
            NOT_ADMIN,
            Kept("header = { x-role = { present = true } }, not = { header = { x-role = [\"admin\"] } }"),
        ),
        (Match, "match: { prefix: /, tls_context: { presented: true } }", Absent("match.tls_context")),
        (Match, "match: { prefix: /, dynamic_metadata: [{ filter: x }] }", Absent("match.dynamic_metadata")),
        (Config, "internal_only_headers: [X-Internal]", Kept("remove = [\"X-Internal\"]")),
        (
            Manager,
            "common_http_protocol_options:\n  headers_with_underscores_action: REJECT_REQUEST",
            Kept("underscores = \"refuse\""),
        ),
        (
            Manager,
            "path_with_escaped_slashes_action: REJECT_REQUEST",
            Kept("match = { search = \"(?i)%2f|%5c\" }\nrespond = 403"),
        ),
        (Manager, "normalize_path: true\nmerge_slashes: true", Kept("paths = \"normalise\"")),
        (Manager, "early_header_mutation_extensions: [{ name: x }]", Named("early_header_mutation_extensions")),
        (Network, "envoy.extensions.filters.network.rbac.v3.RBAC", Absent("")),
        (Network, "envoy.extensions.filters.network.ext_authz.v3.ExtAuthz", Absent("")),
        (Network, "envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit", Absent("")),
        (Network, "envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit", Absent("")),
        (Network, "envoy.extensions.filters.network.geoip.v3.Geoip", Absent("")),
    ] {
        let Converted { toml, report, .. } = convert(place, setting);
        let shown = format!("{place:?} {setting}:\n{toml}\n{}", report.to_text());
        let decided =
            |text: &str| report.decide.iter().any(|item| item.text.contains(text) || item.reason.contains(text));
        let failure = match outcome {
            Kept(text) => (!toml.contains(text)).then(|| format!("no {text}")),
            Closed(text) => {
                let routes = toml.matches("pool = \"a\"").count();
                let is = routes == toml.matches(CLOSED).count() && decided(text);
                (!is).then(|| "not closed".to_owned())
            }
            Absent(text) => (toml.contains("pool = \"a\"") || !decided(text)).then(|| "there".to_owned()),
            Named(text) => (!report.named().any(|item| item.text.contains(text))).then(|| "not named".to_owned()),
        };
        failures.extend(failure.map(|why| format!("{why}: {shown}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n----\n"));
}

#[test]
fn settings_of_a_route_for_a_filter_are_its_own() {
    let rules =
        "rules:\n  action: DENY\n  policies:\n    p: { permissions: [{ any: true }], principals: [{ any: true }] }";
    let of = |config: &str| {
        let whole = convert(Filter("rbac", "RBAC"), rules);
        assert!(whole.toml.contains(CLOSED), "{}", whole.toml);
        let kind = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
        format!("typed_per_filter_config: {{ envoy.filters.http.rbac: {{ \"@type\": {kind}{config} }} }}")
    };
    // A filter that is only in the settings of a route does nothing.
    let alone = convert(Route, &of(""));
    assert!(!alone.toml.contains("access"), "{}", alone.toml);
}
