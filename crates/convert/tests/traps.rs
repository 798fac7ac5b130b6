//! Differences between the programs that would change behaviour silently: each is carried over exactly, or said.

use evenkeel_config::NoFiles;
use evenkeel_convert::{Converted, Report, convert};

fn converted(text: &str) -> Converted {
    let converted = convert("f", text, None, &NoFiles).expect("it is recognised");
    assert_eq!(converted.report.forgotten, 0, "{}", converted.report.to_text());
    converted
}

/// An HAProxy configuration around lines of a frontend and of a backend.
fn haproxy(front: &str, back: &str) -> Converted {
    converted(&format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend in\n bind :80\n{front}\n default_backend rest\n\
         backend a\n{back}\n server a 10.0.0.1:80\n\
         backend rest\n server r 10.0.0.2:80\n"
    ))
}

fn nginx(inner: &str) -> Converted {
    converted(&format!("http {{ server {{ listen 80; {inner} }} }}"))
}

fn has(converted: &Converted, text: &str) {
    assert!(converted.toml.contains(text), "no {text}:\n{}", converted.toml);
}

fn changes(report: &Report, words: &str) {
    assert!(report.changes.iter().any(|item| item.reason.contains(words)), "{words}:\n{}", report.to_text());
}

fn lossless(report: &Report, words: &str) {
    assert!(report.lossless.iter().any(|item| item.reason.contains(words)), "{words}:\n{}", report.to_text());
}

#[test]
fn a_prefix_without_a_slash_stays_one_of_text() {
    has(&haproxy(" use_backend a if { path_beg /api }", ""), "match = { starts_with = \"/api\" }");
    has(&haproxy(" use_backend a if { path_beg /api/ }", ""), "match = { path = \"/api/{*rest}\" }");
    has(&nginx("location /api { proxy_pass http://a; }"), "starts_with = \"/api\"");
}

#[test]
fn a_location_with_a_slash_that_proxies_redirects_the_path_without_it() {
    let with = nginx("location /api/ { proxy_pass http://a/; }");
    has(&with, "match = { path = \"/api\" }\nredirect = { status = 301, path = \"/api/\" }");
    has(&with, "match = { prefix = \"/api\" }\npool = \"a\"\nstrip_prefix = true");
    let own = nginx("location /api/ { proxy_pass http://a; } location = /api { return 404; }");
    assert!(!own.toml.contains("redirect ="), "{}", own.toml);
    let plain = nginx("location /api/ { return 403; }");
    assert!(!plain.toml.contains("redirect ="), "{}", plain.toml);
}

#[test]
fn without_a_line_for_host_nginx_sends_the_upstreams_name() {
    let default = nginx("location / { proxy_pass http://app:8080; }");
    has(&default, "send_host = \"app:8080\"");
    has(&default, "# Without `proxy_set_header Host`");
    assert!(!nginx("location / { proxy_pass http://app; proxy_set_header Host $host; }").toml.contains("send_host"));
    // An inner line takes away the outer ones, and so the line for Host.
    let inner = nginx("proxy_set_header Host $host; location / { proxy_pass http://app; proxy_set_header X-A b; }");
    has(&inner, "send_host = \"app\"");
    lossless(&inner.report, "has lines of its own, as in NGINX");
}

#[test]
fn fields_of_an_inner_block_replace_all_of_the_outer_one() {
    let inner = nginx(
        "add_header X-Outer a always; location /x { add_header X-Inner b always; return 200; } location / { return 204; }",
    );
    has(&inner, "respond = 200\nresponse_headers = { add = { X-Inner = \"b\" } }");
    has(&inner, "respond = 204\nresponse_headers = { add = { X-Outer = \"a\" } }");
    changes(&nginx("add_header X-A b; location / { return 200; }").report, "without `always`");
}

#[test]
fn the_first_rule_wins_there_and_the_most_specific_here() {
    let order = haproxy(" use_backend a if { req.hdr(X-Canary) 1 }\n use_backend rest if { path_beg /api/ }", "");
    has(&order, "not = { header = { X-Canary = [\"1\"] } }");
    let shadowed = haproxy(" use_backend a if { path_beg /api }\n use_backend rest if { path_beg /api/v2 }", "");
    assert!(!shadowed.toml.contains("/api/v2"), "{}", shadowed.toml);
    lossless(&shadowed.report, "HAProxy never reaches it");
    let regex = nginx("location /shop { proxy_pass http://a; } location ~ \\.php$ { proxy_pass http://b; }");
    has(&regex, "match = { starts_with = \"/shop\", not = { ends_with = \".php\" } }");
    let host = haproxy(
        " use_backend a if { path_beg /api } !{ path_end .png }\n use_backend rest if { hdr(host) h.test }",
        "",
    );
    has(&host, "match = { starts_with = \"/api\", host = [\"h.test\"], not = { ends_with = \".png\" } }\npool = \"a\"");
    let unclear = haproxy(
        " use_backend a if { path_reg ^/a[0-9] } { req.hdr(B) 1 }\n use_backend rest if { path_reg b[0-9]$ } { req.hdr(C) 1 } { req.hdr(D) 1 }",
        "",
    );
    changes(&unclear.report, "the more specific of the two wins");
}

#[test]
fn nginx_takes_a_caret_prefix_before_expressions() {
    let caret = nginx("location ^~ /static { proxy_pass http://a; } location ~ \\.php$ { proxy_pass http://b; }");
    has(&caret, "match = { starts_with = \"/static\" }");
    has(&caret, "match = { ends_with = \".php\" }");
}

#[test]
fn a_bare_check_is_one_of_tcp() {
    let bare = converted("listen l\n mode http\n bind :80\n timeout server 5s\n server a 10.0.0.1:80 check\n");
    has(&bare, "health = { tcp = {} }");
    let http = converted("listen l\n mode http\n bind :80\n option httpchk\n server a 10.0.0.1:80 check\n");
    has(&http, "http = { path = \"/\", method = \"OPTIONS\", expect = [\"2xx\", \"3xx\"] }");
    let without = converted("listen l\n mode http\n bind :80\n option httpchk\n server a 10.0.0.1:80\n");
    assert!(!without.toml.contains("health"), "{}", without.toml);
    lossless(&without.report, "no server has `check`");
}

#[test]
fn acls_of_one_name_are_alternatives_and_unless_negates() {
    let both = haproxy(" acl x path /a\n acl x path /b\n acl g method GET\n use_backend a if x g", "");
    has(&both, "match = { path = \"/a\", method = [\"GET\"] }");
    has(&both, "match = { path = \"/b\", method = [\"GET\"] }");
    has(&haproxy(" acl g method GET\n use_backend a unless g", ""), "match = { not = { method = [\"GET\"] } }");
}

#[test]
fn zero_means_never_and_bare_numbers_are_milliseconds() {
    let zero =
        converted("listen l\n mode http\n bind :80\n timeout server 0\n timeout connect 1500\n server a 10.0.0.1:80\n");
    has(&zero, "timeouts = { connect = \"1500ms\", response = \"off\", idle = \"30d\" }");
    changes(&zero.report, "0 means no limit");
    let tunnel =
        converted("listen l\n mode tcp\n bind :80\n timeout server 5s\n timeout tunnel 0\n server a 10.0.0.1:80\n");
    has(&tunnel, "idle = \"30d\"");
    has(&nginx("location / { proxy_pass http://a; proxy_read_timeout 90; }"), "response = \"90s\"");
}

#[test]
fn a_name_of_several_addresses_is_several_endpoints_in_nginx() {
    let names = converted(
        "upstream u { server app:80; server 10.0.0.1:80; } server { listen 80; location / { proxy_pass http://u; } }",
    );
    has(&names, "{ addr = \"app:80\", resolve = \"all\" }, \"10.0.0.1:80\"");
    let one = haproxy("", "");
    assert!(!one.toml.contains("resolve"), "{}", one.toml);
}

#[test]
fn a_fail_timeout_of_zero_ejects_nothing() {
    let backup = converted(
        "upstream u { server 10.0.0.1:80 fail_timeout=0; server 10.0.0.2:80 backup; } server { listen 80; location / { proxy_pass http://u; } }",
    );
    has(&backup, "outlier = \"off\"");
    has(&backup, "{ addr = \"10.0.0.2:80\", backup = true }");
    let counted = converted(
        "upstream u { server 10.0.0.1:80 max_fails=3; } server { listen 80; location / { proxy_pass http://u; } }",
    );
    lossless(&counted.report, "for each worker");
}

#[test]
fn statistics_leave_the_port_of_traffic() {
    let shared = haproxy(" stats enable\n stats uri /stats\n stats auth a:b", "");
    has(&shared, "http = { bind = \"127.0.0.1:9900\" }");
    changes(&shared.report, "for this machine only");
    changes(&shared.report, "tokens, not names and passwords");
}

#[test]
fn lines_of_templates_are_named() {
    for text in [
        "frontend in\n bind :80\n default_backend a\nbackend a\n{% for x in y %}\n server a 10.0.0.1:80\n{% endfor %}\n",
        "frontend in\n bind :80\n default_backend a\nbackend a\n<% @x.each do |x| %>\n server a 10.0.0.1:80\n<% end %>\n",
        "upstream u {\n server {{ .Name }}:80;\n server 10.0.0.1:80;\n}\nserver {\n listen 80;\n location / {\n proxy_pass http://u;\n }\n}\n",
    ] {
        let template = converted(text);
        changes(&template.report, "a line of a template");
        has(&template, "10.0.0.1:80");
    }
    let environment = converted("server { listen ${PORT}; location / { proxy_pass http://${BACKEND}; } }");
    has(&environment, "bind = [\"[::]:${PORT}\"]");
    has(&environment, "${BACKEND}:80");
}

#[test]
fn the_limit_of_bodies_that_no_line_states_is_said() {
    changes(&nginx("location / { proxy_pass http://a; }").report, "413 to bodies above 1 MiB");
    let unlimited = nginx("client_max_body_size 0; location / { proxy_pass http://a; }");
    assert!(!unlimited.report.to_text().contains("413"), "{}", unlimited.report.to_text());
    has(&nginx("client_max_body_size 10m; location / { proxy_pass http://a; }"), "body_max = \"10MiB\"");
}

#[test]
fn a_password_protects_what_it_protected() {
    let auth = converted(
        "userlist u\n user a password x\nfrontend in\n bind :80\n http-request auth if { path_beg /ops/ } !{ http_auth(u) }\n \
         use_backend ops if { path_beg /ops/ }\n default_backend rest\nbackend ops\n http-request replace-path ^/ops/(.*) /\\1\n \
         server o 10.0.0.1:80\nbackend rest\n server r 10.0.0.2:80\n",
    );
    has(
        &auth,
        "match = { prefix = \"/ops\" }\npool = \"ops\"\nstrip_prefix = true\nbasic_auth = { file = \"u.htpasswd\", keep = true }",
    );
    assert!(!auth.report.to_text().contains("password x"), "the report repeats a password: {}", auth.report.to_text());
}

#[test]
fn what_was_protected_is_never_open() {
    let closed = "access = { allow = [\"127.0.0.1\", \"::1\"] }";
    has(&nginx("location / { auth_request /nowhere; proxy_pass http://a; }"), closed);
    has(&nginx("location / { auth_jwt x; proxy_pass http://a; }"), closed);
    // An address list that was there, too, does not stand for the token.
    let listed = nginx("location / { allow 10.0.0.0/8; deny all; auth_jwt x; proxy_pass http://a; }");
    assert!(listed.toml.contains(closed) && !listed.toml.contains("10.0.0.0/8"), "{}", listed.toml);
    assert!(!nginx("location / { auth_jwt off; proxy_pass http://a; }").toml.contains("access"));
    let permission = " acl ok var(txn.auth_response_successful) -m bool\n http-request deny if { path_beg /ops/ } !ok";
    has(&haproxy(permission, ""), closed);
    has(
        &haproxy(" http-request deny unless { http_auth(u) }\n http-request deny unless { src 10.0.0.0/8 }", ""),
        closed,
    );
    let lost = " @m expression `x`\n basic_auth @m {\n a $2a$10$x\n }\n reverse_proxy 10.0.0.1:80\n";
    has(&converted(&format!("a.test {{\n{lost}}}\n")), closed);
}

#[test]
fn a_field_that_cannot_be_set_is_not_the_clients() {
    let lost = nginx("location / { proxy_pass http://a; proxy_set_header X-User $jwt_claim_sub; }");
    has(&lost, "remove = [\"X-User\"]");
    let user = nginx("location / { proxy_pass http://a; proxy_set_header X-Forwarded-User $jwt_claim_sub; }");
    has(&user, "remove = [\"X-Forwarded-User\"]");
    for value in ["%[ssl_c_s_dn(cn)]", "%[src,map_ip(/etc/names)]", "%[var(txn.user)]", "%[req.hdr(X-A),sha2,hex]"] {
        let unknown = haproxy(&format!(" http-request set-header X-User {value}"), "");
        has(&unknown, "remove = [\"X-User\"]");
        changes(&unknown.report, "has no variable: the field is removed");
    }
    let part = haproxy(" http-request set-header X-User %[var(txn.user)] if { path_beg /in/ }", "");
    has(&part, "match = { path = \"/in/{*rest}\" }\npool = \"rest\"\nrequest_headers = { remove = [\"X-User\"] }");
    let unclear = haproxy(" http-request set-header X-User %[src] if { ssl_c_used }", "");
    has(&unclear, "remove = [\"X-User\"]");
    let host = haproxy(" http-request set-header X-Forwarded-For %[src,ipmask(24)]", "");
    assert!(!host.toml.contains("remove"), "{}", host.toml);
    let response = haproxy(" http-response set-header X-User %[var(txn.user)]", "");
    assert!(!response.toml.contains("remove"), "{}", response.toml);
    let caddy = |line: &str| converted(&format!("a.test {{\n reverse_proxy 10.0.0.1:80 {{\n  {line}\n }}\n}}\n"));
    has(&caddy("header_up X-User {http.auth.user.id}"), "remove = [\"X-User\"]");
    has(&caddy("header_up X-To {upstream_hostport}"), "remove = [\"X-To\"]");
    assert!(!caddy("header_down X-User {http.auth.user.id}").toml.contains("remove"));
}

#[test]
fn address_lists_let_in_whom_the_first_rule_lets_in() {
    let closed = "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }";
    let narrower =
        haproxy(" http-request deny if { src 10.0.0.0/8 }\n http-request deny unless { src 10.1.0.0/16 }", "");
    has(&narrower, "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }");
    let exempt = haproxy(" http-request allow if { src 10.1.0.0/16 }\n http-request deny if { src 10.0.0.0/8 }", "");
    has(&exempt, "access = { allow = [\"10.1.0.0/16\", \"0.0.0.0/0\", \"::/0\"], deny = [\"10.0.0.0/8\"] }");
    // What the backend allows does not matter to whom the frontend has refused.
    let both = haproxy(
        " http-request deny if { src 10.0.0.0/8 }\n use_backend a if { path /a }",
        " http-request allow if { src 10.1.0.0/16 }\n http-request deny",
    );
    has(&both, "pool = \"a\"\naccess = { deny = [\"0.0.0.0/0\", \"::/0\"] }");
    has(&both, "pool = \"rest\"\naccess = { deny = [\"10.0.0.0/8\"] }");
    let file = haproxy(" http-request deny if { src -f bad }\n http-request deny unless { src 10.0.0.0/8 }", "");
    has(&file, closed);
    changes(&file.report, "which of its address lists has the longest network");
    has(
        &haproxy(" http-request deny unless { src -f a } || { src -f b }", ""),
        "access = { allow_files = [\"a\", \"b\"] }",
    );
    let path = haproxy(" http-request deny if { path_beg /admin/ } !{ src -f office }", "");
    has(&path, "match = { path = \"/admin/{*rest}\" }\npool = \"rest\"\naccess = { allow_files = [\"office\"] }");
    // Answers in front of a list are for all clients.
    let health = haproxy(
        " http-request return status 200 if { path /health }\n http-request deny unless { src 10.0.0.0/8 }",
        "",
    );
    has(&health, "match = { path = \"/health\" }\nrespond = 200\n\n");
    let text =
        haproxy(" http-request deny deny_status 404 content-type text/plain string no if { src 10.0.0.0/8 }", "");
    has(&text, "access = { deny = [\"10.0.0.0/8\"], status = 404 }");
    changes(&text.report, "refused by a plain 404");
    let page = haproxy(" http-request deny errorfile /no.http if { src 10.0.0.0/8 }", "");
    has(&page, "access = { deny = [\"10.0.0.0/8\"] }");
    let moved = haproxy(" http-request redirect location %[var(txn.to)] if !{ src -f staff }", "");
    has(&moved, "access = { allow_files = [\"staff\"] }");
    // Clients who go to another backend do not get to those behind it.
    let away = haproxy(" use_backend a if !{ src -f staff }", "");
    has(&away, "pool = \"rest\"\naccess = { allow_files = [\"staff\"] }");
    for unknown in [
        // The more specific match would win over the refusal.
        " http-request deny if { src 10.0.0.0/8 } { path_reg ^/a[0-9] }\n use_backend a if { path_reg b[0-9]$ } { req.hdr(C) 1 } { req.hdr(D) 1 }",
        " use_backend a if !{ src,ipmask(24) 10.0.0.0 }",
        " http-request deny unless { src,ipmask(24) 10.0.0.0 }",
        " http-request deny unless { req.hdr_ip(X-Forwarded-For,-1) 10.0.0.0/8 }",
        " http-request deny if { src 10.0.0.0/8 } { src 10.1.0.0/16 }",
    ] {
        has(&haproxy(unknown, ""), closed);
    }
}

#[test]
fn an_exception_from_address_lists_is_carried_over_and_no_other() {
    let accepted = haproxy(" tcp-request connection accept if { src 10.0.0.0/8 }\n tcp-request connection reject", "");
    has(&accepted, "access = { allow = [\"10.0.0.0/8\"] }");
    has(&haproxy(" tcp-request connection reject", ""), "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }");
    let other = haproxy(" http-request allow if { src 10.0.0.0/8 }\n http-request deny if { path /x }", "");
    changes(&other.report, "it exempts from the address lists that follow, and not from other rules");
    let path = haproxy(" http-request allow if { path /x }\n http-request deny unless { src 10.0.0.0/8 }", "");
    changes(&path.report, "a rule that exempts requests from later rules is not available");
    has(&path, "access = { allow = [\"10.0.0.0/8\"] }");
}

#[test]
fn listeners_of_sessions_that_are_refused_by_address_are_left_out() {
    let tcp = |rule: &str| {
        converted(&format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend in\n bind :5432\n{rule}\nbackend a\n server a 10.0.0.1:5432\n"
        ))
    };
    for rule in [
        " tcp-request connection reject unless { src 10.0.0.0/8 }\n default_backend a",
        " tcp-request content reject if { src -f bad }\n default_backend a",
        " use_backend a if { src 10.0.0.0/8 }",
    ] {
        let without = tcp(rule);
        assert!(!without.toml.contains("bind"), "{}", without.toml);
        changes(&without.report, "so the listener is left out");
    }
    has(&tcp(" default_backend a"), "bind = [\"[::]:5432\"]");
}

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
    let absent = add("ADD_IF_ABSENT");
    assert!(!absent.toml.contains("X-Tier"), "{}", absent.toml);
    changes(&absent.report, "append_action ADD_IF_ABSENT has no counterpart");
    has(&add("APPEND_IF_EXISTS_OR_ADD"), "request_headers = { add = { X-Tier = \"free\" } }");
    has(&add("OVERWRITE_IF_EXISTS_OR_ADD"), "request_headers = { set = { X-Tier = \"free\" } }");
    has(&add("OVERWRITE_IF_EXISTS"), "request_headers = { remove = [\"X-Tier\"] }");
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
fn weights_of_traefik_and_caddy_keep_their_shares() {
    let traefik = converted(
        "http:\n  routers:\n    r: { rule: PathPrefix(`/`), service: s }\n  services:\n    s: { weighted: { services: \
         [{ name: a, weight: 4000000 }, { name: b, weight: 1000000 }] } }\n    a: { loadBalancer: { servers: \
         [{ url: \"http://a:1\", weight: 131070 }, { url: \"http://b:1\", weight: 65535 }] } }\n    \
         b: { loadBalancer: { servers: [{ url: \"http://c:1\" }] } }\n",
    );
    has(&traefik, "weights = { a = 1000000, b = 250000 }");
    has(&traefik, "weight = 65535");
    has(&traefik, "weight = 32768");
    changes(&traefik.report, "weights above 1000000 are made smaller");
    changes(&traefik.report, "weights above 65535 are made smaller");
    let caddy = converted(
        "a.test {\n reverse_proxy 10.0.0.1:80 10.0.0.2:80 {\n  lb_policy weighted_round_robin 131070 65535\n }\n}\n",
    );
    has(&caddy, "weight = 32768");
    changes(&caddy.report, "weights above 65535 are made smaller");
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
    assert!(key.report.changes.is_empty(), "{}", key.report.to_text());
}

#[test]
fn a_route_of_envoy_with_a_condition_that_has_no_counterpart_is_left_out() {
    for matching in [
        r#""prefix": "/", "headers": [{"name": "x", "range_match": {"start": 1, "end": 2}}]"#,
        r#""prefix": "/", "dynamic_metadata": [{"filter": "x"}]"#,
        r#""prefix": "/", "filter_state": [{"key": "x"}]"#,
        r#""prefix": "/", "a_newer_condition": {}"#,
        r#""prefix": 7, "headers": {"name": ["x"]}"#,
    ] {
        let other = envoy("", &format!(r#"{{"match": {{{matching}}}, "route": {{"cluster": "a"}}}}"#));
        assert!(!other.toml.contains("pool = \"a\""), "{}", other.toml);
        assert!(!other.report.changes.is_empty(), "{}", other.report.to_text());
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
    changes(&filter("limits", r#", "is_optional": true"#).report, "\"limits\" is not kept");
    has(
        &filter("envoy.filters.http.rbac", r#", "is_optional": true"#),
        "access = { allow = [\"127.0.0.1\", \"::1\"] }",
    );
    let router = r#"{"name": "r", "typed_config": {"@type": "t/envoy.extensions.filters.http.router.v3.Router",
        "upstream_http_filters": [{"name": "x"}]}}"#;
    changes(&envoy_with(&envoy_chain(&envoy_manager(router, "")), "").report, "this key has no counterpart");
}

#[test]
fn differences_that_control_planes_may_have_are_reported_of_files() {
    let manager = |more: &str| envoy_with(&envoy_chain(&envoy_manager("", more)), "");
    changes(&manager(r#""append_x_forwarded_port": true,"#).report, "this key has no counterpart");
    assert!(manager(r#""append_x_forwarded_port": false,"#).report.changes.is_empty());
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
    let at = missing.changes.iter().find(|item| item.reason.contains("Cluster lost does not exist"));
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
