//! Settings of Envoy whose meaning would change silently: each is carried over exactly, or reported.

use crate::traps::{changes, converted, has};
use evenkeel_convert::Converted;

/// A file of Envoy around lines of JSON of a virtual host and of a route, with clusters a, b and c.
fn envoy(host: &str, route: &str) -> Converted {
    let cluster = |name: &str| {
        format!(
            r#"{{"name": "{name}", "load_assignment": {{"endpoints": [{{"lb_endpoints": [{{"endpoint": {{"address":
            {{"socket_address": {{"address": "10.0.0.1", "port_value": 80}}}}}}}}]}}]}}}}"#
        )
    };
    let manager = format!(
        r#"{{"@type": "t/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "route_config":
        {{"virtual_hosts": [{{"name": "all", "domains": ["*"] {host}, "routes": [{route}]}}]}}}}"#
    );
    converted(&format!(
        r#"{{"static_resources": {{
        "listeners": [{{"name": "web", "address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 80}}}},
        "filter_chains": [{{"filters": [{{"name": "http", "typed_config": {manager}}}]}}]}}],
        "clusters": [{}, {}, {}]}}}}"#,
        cluster("a"),
        cluster("b"),
        cluster("c"),
    ))
}

/// A file of Envoy with a route whose action has these keys.
fn envoy_to(action: &str) -> Converted {
    envoy("", &format!(r#"{{"match": {{"prefix": "/"}}, "route": {{{action}}}}}"#))
}

#[test]
fn a_field_that_envoy_adds_only_if_it_is_absent_is_not_added_to_others() {
    let add = |action: &str| {
        envoy(
            &format!(
                r#", "request_headers_to_add": [{{"header": {{"key": "X-Tier", "value": "free"}}, "append_action": "{action}"}}]"#
            ),
            r#"{"match": {"prefix": "/"}, "route": {"cluster": "a"}}"#,
        )
    };
    let when = |is_there: bool, change: &str| {
        format!(
            "edits = [{{ when = {{ header = {{ x-tier = {{ present = {is_there} }} }} }}, {change} = {{ X-Tier = \"free\" }} }}]"
        )
    };
    has(&add("ADD_IF_ABSENT"), &when(false, "add"));
    has(&add("OVERWRITE_IF_EXISTS"), &when(true, "set"));
    has(&add("APPEND_IF_EXISTS_OR_ADD"), "request_headers = { add = { X-Tier = \"free\" } }");
    has(&add("OVERWRITE_IF_EXISTS_OR_ADD"), "request_headers = { set = { X-Tier = \"free\" } }");
}

#[test]
fn weights_of_envoy_keep_their_shares() {
    let split = envoy_to(
        r#""weighted_clusters": {"clusters": [{"name": "a", "weight": 4000000}, {"name": "b", "weight": 1000000}]}"#,
    );
    has(&split, "weights = { a = 1000000, b = 250000 }");
    changes(&split.report, "made smaller, all by one factor");
}

#[test]
fn what_routes_of_a_control_plane_keep_is_kept_of_files() {
    let policy = envoy_to(
        r#""cluster": "a", "retry_policy": {"retry_on": "retriable-status-codes,unavailable", "retriable_status_codes": [429],
        "retry_back_off": {"base_interval": "0.2s", "max_interval": "3s"}}"#,
    );
    for key in ["429", "\"grpc:unavailable\"", "backoff = \"200ms..3s\""] {
        has(&policy, key);
    }
    let of_match = |matching: &str| envoy("", &format!(r#"{{"match": {{{matching}}}, "route": {{"cluster": "a"}}}}"#));
    has(&of_match(r#""path": "/Login", "case_sensitive": false"#), "regex = \"(?i)");
    let cookie = of_match(r#""prefix": "/", "cookies": [{"name": "beta", "string_match": {"exact": "1"}}]"#);
    has(&cookie, "cookie = { beta = [\"1\"] }");
    let grpc = of_match(r#""prefix": "/", "grpc": {}"#);
    has(&grpc, "content-type = { regex = ");
    let mirrors = envoy_to(
        r#""cluster": "a", "request_mirror_policies": [{"cluster": "b"}, {"cluster": "c", "runtime_fraction":
        {"default_value": {"numerator": 5, "denominator": "HUNDRED"}}}]"#,
    );
    has(&mirrors, "{ pool = \"c\", share = 0.05 }");
    has(&mirrors, "pool = \"b\"");
    let body = |length: usize| {
        let text = "x".repeat(length);
        envoy(
            "",
            &format!(
                r#"{{"match": {{"prefix": "/"}}, "direct_response": {{"status": 200, "body": {{"inline_string": "{text}"}}}}}}"#
            ),
        )
    };
    has(&body(4096), &"x".repeat(4096));
    changes(&body(4097).report, "the body is longer than 4096 bytes");
    let key = envoy_to(r#""cluster": "a", "hash_policy": [{"header": {"header_name": "X-User"}}]"#);
    assert!(key.report.named().next().is_none(), "{}", key.report.to_text());
}

#[test]
fn a_route_of_envoy_with_a_condition_that_has_no_counterpart_is_left_out() {
    for matching in [
        r#""prefix": "/", "headers": [{"name": "x", "range_match": {"start": 2, "end": 2}}]"#,
        r#""prefix": "/", "dynamic_metadata": [{"filter": "x"}]"#,
        r#""prefix": "/", "filter_state": [{"key": "x"}]"#,
        r#""prefix": "/", "a_newer_condition": {}"#,
        r#""prefix": 7, "headers": {"name": ["x"]}"#,
    ] {
        let other = envoy("", &format!(r#"{{"match": {{{matching}}}, "route": {{"cluster": "a"}}}}"#));
        assert!(!other.toml.contains("pool = \"a\""), "{}", other.toml);
        assert!(other.report.named().next().is_some(), "{}", other.report.to_text());
    }
}

#[test]
fn listeners_of_envoy_never_serve_in_clear_or_to_strangers_what_they_served_to_known_clients() {
    let listener = |chain: &str| {
        converted(&format!(
            r#"{{"static_resources": {{
            "listeners": [{{"name": "web", "address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 443}}}},
            "filter_chains": [{{{chain}, "filters": [{{"name": "tcp", "typed_config":
            {{"@type": "t/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "cluster": "a"}}}}]}}]}}]}}}}"#
        ))
    };
    let tls = |more: &str| {
        let context = "t/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
        listener(&format!(
            r#""transport_socket": {{"name": "tls", "typed_config": {{"@type": "{context}", "common_tls_context": {{
            "tls_certificate_sds_secret_configs": [{{"name": "x"}}]}} {more}}}}}"#
        ))
    };
    has(&tls(""), "tls = { self_signed = true }");
    changes(&tls("").report, "a self-signed one is used");
    assert!(!tls(r#", "require_client_certificate": true"#).toml.contains("[listener."));
    assert!(!listener(r#""transport_socket": {"name": "x"}"#).toml.contains("[listener."));
    let by_source = listener(r#""filter_chain_match": {"source_prefix_ranges": [{"address_prefix": "10.0.0.0"}]}"#);
    assert!(!by_source.toml.contains("[listener."), "{}", by_source.toml);
    changes(&by_source.report, "source_prefix_ranges");
}

/// A file of Envoy with a listener that has these keys beside its address, and with a cluster `a` that has these.
fn envoy_with(listener: &str, cluster: &str) -> Converted {
    let address = |host: &str| format!(r#"{{"socket_address": {{"address": "{host}", "port_value": 80}}}}"#);
    converted(&format!(
        r#"{{"static_resources": {{
        "listeners": [{{"name": "web", "address": {}, {listener}}}],
        "clusters": [{{"name": "a", {cluster} "load_assignment": {{"endpoints": [{{"lb_endpoints": [
        {{"endpoint": {{"address": {}}}}}]}}]}}}}]}}}}"#,
        address("0.0.0.0"),
        address("10.0.0.1"),
    ))
}

/// A filter of a chain that routes all requests to cluster `a`, with these HTTP filters and other keys.
fn envoy_manager(filters: &str, more: &str) -> String {
    format!(
        r#"{{"name": "http", "typed_config": {{
        "@type": "t/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "http_filters": [{filters}], {more} "route_config": {{"virtual_hosts": [{{"name": "all", "domains": ["*"],
        "routes": [{{"match": {{"prefix": "/"}}, "route": {{"cluster": "a"}}}}]}}]}}}}}}"#
    )
}

fn envoy_chain(filters: &str) -> String {
    format!(r#""filter_chains": [{{"filters": [{filters}]}}]"#)
}

#[test]
fn users_of_one_filter_chain_of_envoy_are_not_those_of_another() {
    let chain = |host: &str| {
        let filter = format!(
            r#"{{"name": "basic_auth", "typed_config": {{"@type": "t/envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
            "users": {{"filename": "{host}.users"}}}}}}"#
        );
        let manager = envoy_manager(&filter, "");
        format!(r#"{{"filter_chain_match": {{"server_names": ["{host}"]}}, "filters": [{manager}]}}"#)
    };
    let open = format!(r#"{{"filters": [{}]}}"#, envoy_manager("", ""));
    let listener = format!(
        r#""filter_chains": ["no chain", {}, {}], "default_filter_chain": {open}"#,
        chain("a.test"),
        chain("b.test")
    );
    let both = envoy_with(&listener, "");
    let routes: Vec<&str> =
        both.toml.split("[[route]]").skip(1).map(|route| route.split("[pool").next().unwrap_or_default()).collect();
    assert_eq!(routes.len(), 3, "{}", both.toml);
    for host in ["a.test", "b.test"] {
        let own: Vec<_> = routes.iter().filter(|route| route.contains(&format!("\"{host}\""))).collect();
        assert!(own.len() == 1 && own[0].contains(&format!("{host}.users")), "{}", both.toml);
    }
    assert_eq!(routes.iter().filter(|route| route.contains("basic_auth")).count(), 2, "{}", both.toml);
}

#[test]
fn rules_of_tokens_do_not_close_hosts_that_have_no_route_for_all_requests() {
    let rules = r#"{"name": "jwt", "typed_config": {"@type": "t/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        "providers": {"idp": {"local_jwks": {"filename": "keys.json"}}},
        "rules": [{"match": {"prefix": "/open"}}, {"match": {"prefix": "/"}, "requires": {"provider_name": "idp"}}]}}"#;
    let manager = envoy_manager(rules, "").replace(
        r#""virtual_hosts": ["#,
        r#""virtual_hosts": [{"name": "some", "domains": ["*.a.test"], "routes": [
        {"match": {"prefix": "/open"}, "route": {"cluster": "a"}}, {"match": {"prefix": "/api"}, "route": {"cluster": "a"}}]},"#,
    );
    let manager = manager.replace(r#"{"match": {"prefix": "/"}, "route""#, r#"{"match": {"prefix": "/all"}, "route""#);
    let tokens = envoy_with(&envoy_chain(&manager), "");
    assert!(!tokens.toml.contains("access"), "{}", tokens.toml);
    assert_eq!(tokens.toml.matches("jwt = ").count(), 2, "{}", tokens.toml);
}

#[test]
fn filters_of_envoy_that_are_optional_or_unknown_are_reported() {
    let filter = |name: &str, more: &str| {
        let config = r#""typed_config": {"@type": "t/envoy.extensions.filters.http.x.v3.X", "requests": 7}"#;
        envoy_with(&envoy_chain(&envoy_manager(&format!(r#"{{"name": "{name}", {config} {more}}}"#), "")), "")
    };
    changes(&filter("istio.stats", r#", "is_optional": true"#).report, "\"istio.stats\" is not kept");
    has(&filter("limits", r#", "is_optional": true"#), "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }");
    has(
        &filter("envoy.filters.http.rbac", r#", "is_optional": true"#),
        "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }",
    );
    let router = r#"{"name": "r", "typed_config": {"@type": "t/envoy.extensions.filters.http.router.v3.Router",
        "upstream_http_filters": [{"name": "x"}]}}"#;
    changes(&envoy_with(&envoy_chain(&envoy_manager(router, "")), "").report, "this key has no counterpart");
}

#[test]
fn differences_that_control_planes_may_have_are_reported_of_files() {
    let manager = |more: &str| envoy_with(&envoy_chain(&envoy_manager("", more)), "");
    changes(&manager(r#""append_x_forwarded_port": true,"#).report, "this key has no counterpart");
    assert!(manager(r#""append_x_forwarded_port": false,"#).report.named().next().is_none());
    changes(&manager(r#""max_request_headers_kb": 512,"#).report, "max_request_headers_kb: 128 instead of 512");
    let cluster = |more: &str| envoy_with(&envoy_chain(&envoy_manager("", "")), more).report;
    changes(&cluster(r#""outlier_detection": {"enforcing_consecutive_5xx": 30},"#), "30 % is the nearer of both");
    changes(&cluster(r#""upstream_http_protocol_options": {"auto_sni": true},"#), "this key has no counterpart");
    changes(&cluster(r#""lb_policy": "CLUSTER_PROVIDED","#), "lb_policy: CLUSTER_PROVIDED has no counterpart");
    let retry =
        |more: &str| envoy_to(&format!(r#""cluster": "a", "retry_policy": {{"retry_on": "5xx", {more}}}"#)).report;
    changes(&retry(r#""num_retries": 20"#), "num_retries: 10 instead of 20");
    changes(&retry(r#""retriable_status_codes": [302]"#), "only those from 400 to 599");
    let missing = envoy_to(r#""cluster": "lost""#).report;
    let at = missing.named().find(|item| item.reason.contains("Cluster lost does not exist"));
    assert!(at.is_some_and(|item| item.text.ends_with("route.cluster: lost")), "{}", missing.to_text());
    let empty = converted(
        r#"{"static_resources": {"listeners": [], "clusters": [{"name": "a", "load_assignment": {"endpoints": []}}]}}"#,
    );
    changes(&empty.report, "no endpoints");
}

#[test]
fn a_redirect_of_envoy_that_would_lead_back_to_itself_is_left_out() {
    let route = |to: &str| envoy("", &format!(r#"{{"match": {{"prefix": "/"}}, "redirect": {{{to}}}}}"#));
    let rewritten = route(r#""regex_rewrite": {"pattern": {"regex": "^/a"}, "substitution": "/b"}"#);
    assert!(!rewritten.toml.contains("redirect"), "{}", rewritten.toml);
    changes(&rewritten.report, "regex_rewrite has no counterpart");
}

#[test]
fn chains_of_envoy_with_other_clients_are_left_out() {
    let rbac = r#"{"name": "x", "typed_config": {"@type": "t/envoy.extensions.filters.network.rbac.v3.RBAC"}}"#;
    let manager = envoy_manager("", "");
    for (listener, why) in [
        (envoy_chain(&format!("{rbac}, {manager}")), "it may refuse clients"),
        (
            format!(r#""filter_chain_matcher": {{"matcher_list": {{}}}}, {}"#, envoy_chain(&manager)),
            "filter_chain_matcher",
        ),
        (format!(r#""bind_to_port": false, {}"#, envoy_chain(&manager)), "bind_to_port"),
    ] {
        let other = envoy_with(&listener, "");
        assert!(!other.toml.contains("[listener."), "{}", other.toml);
        changes(&other.report, why);
    }
    has(&envoy_with(&format!(r#""bind_to_port": true, {}"#, envoy_chain(&manager)), ""), "[listener.web]");
}

#[test]
fn endpoints_that_envoy_verifies_are_verified() {
    let cluster = |keys: &str| envoy_with(&envoy_chain(&envoy_manager("", "")), keys);
    let context = |common: &str| {
        let of = "t/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        cluster(&format!(
            r#""transport_socket": {{"name": "tls", "typed_config": {{"@type": "{of}", "common_tls_context": {{{common}}}}}}},"#
        ))
    };
    has(&context(""), "tls = { verify = false }");
    for other in [
        context(r#""combined_validation_context": {}"#),
        context(r#""validation_context": {"verify_certificate_spki": ["x"]}"#),
        cluster(r#""transport_socket_matches": [{"name": "x"}],"#),
    ] {
        has(&other, "tls = ");
        assert!(!other.toml.contains("verify = false"), "{}", other.toml);
        changes(&other.report, "this key has no counterpart");
    }
}

/// The virtual host `all` refuses all requests, and `b.test` does not.
fn beside_a_refusal(manager: &str, domain: &str) -> Converted {
    let host = |domain: &str, action: &str| {
        format!(
            r#"{{"name": "{domain}", "domains": ["{domain}"], "routes": [{{"match": {{"prefix": "/"}}, {action}}}]}}"#
        )
    };
    converted(&format!(
        r#"{{"static_resources": {{
        "listeners": [{{"name": "web", "address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 80}}}},
        "filter_chains": [{{"filters": [{{"name": "http", "typed_config":
        {{"@type": "t/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", {manager}
        "route_config": {{"virtual_hosts": [{}, {}]}}}}}}]}}]}}],
        "clusters": [{{"name": "a", "load_assignment": {{"endpoints": [{{"lb_endpoints": [{{"endpoint": {{"address":
            {{"socket_address": {{"address": "10.0.0.1", "port_value": 80}}}}}}}}]}}]}}}}]}}}}"#,
        host("*", r#""direct_response": {"status": 403}"#),
        host(domain, r#""route": {"cluster": "a"}"#),
    ))
}

#[test]
fn a_host_that_envoy_does_not_find_gets_no_more_than_the_virtual_host_for_all_others_grants() {
    let refusal = |regex: &str| format!("header = {{ host = {{ regex = \"{regex}\" }} }} }}\nrespond = 403");
    let spelled = beside_a_refusal("", "b.test");
    has(&spelled, &refusal(r".*(?:\\.|:[0-9]*)"));
    changes(&spelled.report, "hosts with a final dot or a port that no domain has are refused");
    has(&beside_a_refusal("", "b.test:80"), &refusal(r".*\\.(?::[0-9]*)?"));
    has(&beside_a_refusal(r#""strip_trailing_host_dot": true,"#, "b.test"), &refusal(".*:[0-9]*"));
    let stripped = beside_a_refusal(r#""strip_trailing_host_dot": true, "strip_any_host_port": true,"#, "b.test");
    assert!(!stripped.toml.contains("regex"), "{}", stripped.toml);
}

#[test]
fn a_listener_of_envoy_for_http3_becomes_http3_of_the_listener_over_tcp() {
    let listener = |name: &str, more: &str| {
        format!(
            "  - name: {name}\n    address: {{ socket_address: {{ address: 0.0.0.0, port_value: 443 }} }}\n{more}    \
             filter_chains:\n    - transport_socket: {{ name: t, typed_config: {{ \"@type\": \
             t/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: {{ tls_certificates: \
             [{{ certificate_chain: {{ filename: c }}, private_key: {{ filename: k }} }}] }} }} }}\n      filters: [{{ name: h, \
             typed_config: {{ \"@type\": t/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, \
             route_config: {{ virtual_hosts: [{{ name: a, domains: [\"*\"], routes: [{{ match: {{ prefix: / }}, \
             direct_response: {{ status: 200 }} }}] }}] }} }} }}]\n"
        )
    };
    let over_quic = "    udp_listener_config: { quic_options: {} }\n";
    let both = format!("static_resources:\n  listeners:\n{}{}", listener("tcp", ""), listener("udp", over_quic));
    let both = converted(&both);
    has(&both, "http3 = true");
    assert_eq!(both.toml.matches("[listener.").count(), 1, "{}", both.toml);
    changes(&both.report, "clients of HTTP/3 have the routes");
}

#[test]
fn a_limit_of_envoy_is_shared_by_the_routes_of_its_filter_chain() {
    let filter = |more: &str| {
        let filter = format!(
            r#"{{"name": "l", "typed_config": {{"@type": "t/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit", {more}
            "token_bucket": {{"max_tokens": 20, "tokens_per_fill": 10, "fill_interval": "1s"}}}}}}"#
        );
        converted(&format!(
            r#"{{"static_resources": {{"listeners": [{{"name": "web", "address": {{"socket_address": {{"address": "0.0.0.0", "port_value":
            80}}}}, "filter_chains": [{{"filters": [{{"name": "h", "typed_config": {{"@type":
            "t/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "http_filters": [{filter}],
            "route_config": {{"virtual_hosts": [{{"name": "v", "domains": ["*"], "routes": [{{"match": {{"prefix": "/"}},
            "direct_response": {{"status": 200}}}}]}}]}}}}}}]}}]}}]}}}}"#
        ))
    };
    let all = r#""filter_enabled": {"default_value": {"numerator": 100}}, "filter_enforced": {"default_value": {"numerator": 100}},"#;
    let limited = filter(all);
    has(&limited, "[limit.web]\nrequests = \"10/s\"\nburst = 20\nkey = \"route\"");
    has(&limited, "limits = ");
    assert!(!filter("").toml.contains("limit"), "Envoy enforces it for no request");
}
