//! Differences between the programs that would change behaviour silently: each is carried over exactly, or said.

use evenkeel_config::NoFiles;
use evenkeel_convert::{Converted, From, Report, convert};

pub fn converted(text: &str) -> Converted {
    let converted = convert("f", text, None, &NoFiles).expect("it is recognised");
    assert_eq!(converted.report.forgotten, 0, "{}", converted.report.to_text());
    converted
}

/// An HAProxy configuration around lines of a frontend and of a backend.
pub fn haproxy(front: &str, back: &str) -> Converted {
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

pub fn has(converted: &Converted, text: &str) {
    assert!(converted.toml.contains(text), "no {text}:\n{}", converted.toml);
}

pub fn changes(report: &Report, words: &str) {
    assert!(report.named().any(|item| item.reason.contains(words)), "{words}:\n{}", report.to_text());
}

fn lossless(report: &Report, words: &str) {
    assert!(report.lossless.iter().any(|item| item.reason.contains(words)), "{words}:\n{}", report.to_text());
}

#[test]
fn a_refusal_with_more_alternatives_than_are_written_closes() {
    for (test, with) in [("path_beg", "/x"), ("hdr_sub(x-key)", "k"), ("url_reg", "^/r"), ("hdr_end(host)", ".h")] {
        let acls: String = (0..100).map(|n| format!(" acl bad {test} {with}{n}\n acl worse path_end .{n}\n")).collect();
        let many = haproxy(&format!("{acls} http-request deny if bad worse"), "");
        has(&many, "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }");
        assert!(many.report.decide.iter().any(|item| item.reason.contains("more than 64 alternatives")), "{test}");
    }
}

#[test]
fn a_refusal_before_very_many_rules_holds_for_all_of_them() {
    let rules: String = (0..500).map(|n| format!(" use_backend a if {{ hdr(host) h{n}.test }}\n")).collect();
    let many = haproxy(&format!(" http-request deny if {{ path_beg /admin }} {{ req.hdr(X-Out) 1 }}\n{rules}"), "");
    let routes: Vec<&str> = many.toml.split("[[route]]").filter(|route| route.contains("h7.test")).collect();
    let refuses = |route: &&str| route.contains("respond = 403") || route.contains("deny = [\"0.0.0.0/0");
    assert!(routes.iter().any(refuses) || routes.iter().all(|route| route.contains("not")), "{routes:?}");
}

#[test]
fn sections_without_a_mode_are_of_tcp() {
    let tcp = converted("listen l\n bind :5432\n timeout connect 5s\n timeout server 5s\n server a 10.0.0.1:5432\n");
    has(&tcp, "mode = \"tcp\"");
    lossless(&tcp.report, "without `mode` it balances sessions");
    let rules = converted("listen l\n bind :80\n http-request deny if { path /x }\n server a 10.0.0.1:80\n");
    has(&rules, "mode = \"tcp\"");
    changes(&rules.report, "which ignores its rules for HTTP");
    let of_http =
        converted("frontend f\n mode http\n bind :80\n default_backend b\nbackend b\n server a 10.0.0.1:80\n");
    assert!(!of_http.toml.contains("mode ="), "{}", of_http.toml);
}

#[test]
fn certificates_without_ssl_are_ignored_as_in_haproxy() {
    let plain = converted("listen l\n mode http\n bind :80 crt /c.pem\n server a 10.0.0.1:80\n");
    assert!(!plain.toml.contains("tls"), "{}", plain.toml);
    changes(&plain.report, "without `ssl`");
}

#[test]
fn backups_are_used_one_after_the_other() {
    let back = " server s1 10.0.0.8:80 backup\n server s2 10.0.0.9:80 backup";
    has(&haproxy(" use_backend a", back), "name = \"s2\", priority = 2");
    has(&haproxy(" use_backend a", &format!(" option allbackups\n{back}")), "name = \"s2\", backup = true");
    let tcp = " mode tcp\n bind :1\n timeout connect 5s\n timeout server 5s\n";
    let down = converted(&format!("listen l\n{tcp} server a 10.0.0.1:1 check on-marked-down shutdown-sessions\n"));
    has(&down, "on_down = \"close\"");
}

#[test]
fn times_without_a_line_in_haproxy_are_reported() {
    let none = converted("listen l\n mode http\n bind :80\n server a 10.0.0.1:80\n");
    for words in ["without `timeout client`", "without `timeout connect`", "without `timeout server`"] {
        changes(&none.report, words);
    }
}

#[test]
fn hosts_that_a_refusal_spares_are_compared_as_haproxy_compares_them() {
    let spared = |test: &str| haproxy(&format!(" http-request deny if !{{ {test} }}"), "");
    has(&spared("hdr(host) a.test"), r"not = { header = { Host = { regex = '(?:a\.test)' } } }");
    has(&spared("hdr(host) -i a.test:8080"), r"regex = '(?i:a\.test:8080)'");
    has(&spared("hdr(host),field(1,:),lower a.test"), r"regex = '(?i:a\.test(:.*)?)'");
    has(&spared("hdr_end(host) .a.test"), r"regex = '(?:.*\.a\.test)'");
    // The rule behind `allow` is for the other hosts.
    let behind = haproxy(" http-request allow if { hdr(host) a.test }\n http-request deny", "");
    has(&behind, r"not = { header = { Host = { regex = '(?:a\.test)' } } }");
}

#[test]
fn fields_that_are_added_twice_are_there_twice() {
    let twice = " http-response add-header X-Said 1\n http-response add-header X-Said 1";
    has(&haproxy(twice, ""), "X-Said = [\"1\", \"1\"]");
}

#[test]
fn paths_of_edits_are_compared_as_sent() {
    let edit = haproxy(" http-request set-header X-Role a if { path_beg /old }", "");
    has(&edit, "when = { search = \"^/old\" }");
}

#[test]
fn heads_have_the_bounds_of_haproxy() {
    let global = "global\n tune.bufsize 65536\n tune.http.maxhdr 200\n";
    let large = converted(&format!("{global}listen l\n mode http\n bind :80\n server a 10.0.0.1:80\n"));
    has(&large, "limits = { headers = \"64KiB\", header_count = 200 }");
}

#[test]
fn lines_that_an_expression_replaces_are_set() {
    let front =
        haproxy(" http-request replace-header X-Key ^a(.*) b\n http-request replace-header X-Two (.*) x-\\1", "");
    has(&front, "when = { header = { X-Key = { regex =");
    has(&front, "set = { X-Two = \"x-{header.X-Two}\" }");
    let back = haproxy(" use_backend a", " http-response replace-header Server (.*) none");
    has(&back, "set = { Server = \"none\" }");
    let slash = haproxy(" redirect prefix / drop-query append-slash if !{ path_end / } { path_beg /d }", "");
    has(&slash, "redirect = { to = \"/{path|after(/)}/\" }");
}

#[test]
fn a_prefix_without_a_slash_stays_one_of_text() {
    has(&haproxy(" use_backend a if { path_beg /api }", ""), "match = { starts_with = \"/api\" }");
    has(&haproxy(" use_backend a if { path_beg /api/ }", ""), "match = { starts_with = \"/api/\" }");
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
    has(&nginx("add_header X-A b; location / { return 200; }"), "when = { status = [200, 201, 204,");
}

#[test]
fn the_first_rule_wins_there_and_the_most_specific_here() {
    let order = haproxy(" use_backend a if { req.hdr(X-Canary) 1 }\n use_backend rest if { path_beg /api/ }", "");
    has(&order, "not = { header = { X-Canary = { regex = ");
    let shadowed = haproxy(" use_backend a if { path_beg /api }\n use_backend rest if { path_beg /api/v2 }", "");
    assert!(!shadowed.toml.contains("/api/v2"), "{}", shadowed.toml);
    lossless(&shadowed.report, "HAProxy never reaches it");
    let regex = nginx("location /shop { proxy_pass http://a; } location ~ \\.php$ { proxy_pass http://b; }");
    has(&regex, "match = { starts_with = \"/shop\", not = { search = '\\.php$' } }");
    let host = haproxy(
        " use_backend a if { path_beg /api } !{ path_end .png }\n use_backend rest if { hdr(host) h.test }",
        "",
    );
    has(&host, "match = { starts_with = \"/api\", host = [\"h.test\"], not = { ends_with = \".png\" } }\npool = \"a\"");
    let unclear = haproxy(
        " use_backend a if { path_reg ^/a[0-9] } { req.hdr(B) 1 }\n use_backend rest if { path_reg b[0-9]$ } { req.hdr(C) 1 } { req.hdr(D) 1 }",
        "",
    );
    has(&unclear, "match.map = { is-path = { present = true } }");
}

#[test]
fn nginx_takes_a_caret_prefix_before_expressions() {
    let caret = nginx("location ^~ /static { proxy_pass http://a; } location ~ \\.php$ { proxy_pass http://b; }");
    has(&caret, "match = { starts_with = \"/static\" }");
    has(&caret, "match = { search = '\\.php$' }");
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
    has(&environment, "bind = [\"0.0.0.0:${PORT}\"]");
    has(&environment, "${BACKEND}:80");
}

#[test]
fn the_limit_of_bodies_that_no_line_states_is_written() {
    has(&nginx("location / { proxy_pass http://a; }"), "route = { body_max = \"1MiB\" }");
    let unlimited = nginx("client_max_body_size 0; location / { proxy_pass http://a; }");
    has(&unlimited, "body_max = \"off\"");
    has(&nginx("client_max_body_size 10m; location / { proxy_pass http://a; }"), "body_max = \"10MiB\"");
}

#[test]
fn a_password_protects_what_it_protected() {
    let auth = converted(
        "userlist u\n user a password x\nfrontend in\n mode http\n bind :80\n http-request auth if { path_beg /ops/ } !{ http_auth(u) }\n \
         use_backend ops if { path_beg /ops/ }\n default_backend rest\nbackend ops\n http-request replace-path ^/ops/(.*) /\\1\n \
         server o 10.0.0.1:80\nbackend rest\n server r 10.0.0.2:80\n",
    );
    has(
        &auth,
        "match = { starts_with = \"/ops/\" }\npool = \"ops\"\nrewrite = { regex = \"/ops/(.*)\", to = \"/{1}\" }\naccess = { deny = [",
    );
    assert!(!auth.report.to_text().contains("password x"), "the report repeats a password: {}", auth.report.to_text());
}

#[test]
fn what_was_protected_is_never_open() {
    let closed = "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }";
    has(&nginx("location / { auth_request /nowhere; proxy_pass http://a; }"), closed);
    has(&nginx("location / { auth_jwt x; proxy_pass http://a; }"), closed);
    // An address list that was there, too, does not stand for the token.
    let listed = nginx("location / { allow 10.0.0.0/8; deny all; auth_jwt x; proxy_pass http://a; }");
    assert!(listed.toml.contains(closed) && !listed.toml.contains("10.0.0.0/8"), "{}", listed.toml);
    assert!(!nginx("location / { auth_jwt off; proxy_pass http://a; }").toml.contains("access"));
    let permission = " acl ok var(txn.auth_response_successful) -m bool\n http-request deny if { path_beg /ops/ } !ok";
    has(&haproxy(permission, ""), "match = { starts_with = \"/ops/\" }\nrespond = 403");
    has(&haproxy(&format!(" http-request lua.auth-request\n{permission}"), ""), closed);
    has(&haproxy(" http-request lua.x\n http-request deny if { var(txn.bad) -m bool }", ""), closed);
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
    for value in ["%[ssl_c_s_dn(cn)]", "%[src,map_dom(/etc/names)]", "%[var(txn.user)]", "%[req.hdr(X-A),sha2,hex]"] {
        let unknown = haproxy(&format!(" http-request set-header X-User {value}"), "");
        has(&unknown, "remove = [\"X-User\"]");
        changes(&unknown.report, ": the field is removed");
    }
    let part = haproxy(" http-request set-header X-User %[var(txn.user)] if { path_beg /in/ }", "");
    has(&part, "match = { starts_with = \"/in/\" }\npool = \"rest\"\nrequest_headers = { remove = [\"X-User\"] }");
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
    has(&path, "match = { starts_with = \"/admin/\" }\npool = \"rest\"\naccess = { allow_files = [\"office\"] }");
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
        " use_backend a if !{ src,ipmask(24) 10.0.0.0 }",
        " http-request deny unless { src,ipmask(24) 10.0.0.0 }",
        " http-request deny unless { req.hdr_ip(X-Forwarded-For,-1) 10.0.0.0/8 }",
    ] {
        has(&haproxy(unknown, ""), closed);
    }
    let twice = haproxy(" http-request deny if { src 10.0.0.0/8 } { src 10.1.0.0/16 }", "");
    has(&twice, "match = { client = [\"10.0.0.0/8\"], map = { is-client = { present = true } } }\nrespond = 403");
}

#[test]
fn an_exception_from_address_lists_is_carried_over_and_no_other() {
    let accepted = haproxy(" tcp-request connection accept if { src 10.0.0.0/8 }\n tcp-request connection reject", "");
    has(&accepted, "access = { allow = [\"10.0.0.0/8\"] }");
    has(&haproxy(" tcp-request connection reject", ""), "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }");
    let other = haproxy(" http-request allow if { src 10.0.0.0/8 }\n http-request deny if { path /x }", "");
    has(&other, "match = { path = \"/x\", not = { client = [\"10.0.0.0/8\"] } }\nrespond = 403");
    let path = haproxy(" http-request allow if { path /x }\n http-request deny unless { src 10.0.0.0/8 }", "");
    has(&path, "match = { not = { client = [\"10.0.0.0/8\"], regex = \"/x\" } }\nrespond = 403");
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
fn names_and_addresses_that_are_wrong_are_named() {
    let wrong = haproxy(
        " bind mptcp@:81\n bind :+1\n http-request set-header X-Name: a\n http-request set-dst src\n http-response \
         del-header X-Bad:\n http-request deny if { hdr(X-Key:) a }",
        " http-send-name-header X-Server\n server b 10.0.0.1:+1\n server c mptcp@10.0.0.3:80",
    );
    has(&wrong, "[::]:81");
    has(&wrong, "10.0.0.3:80");
    assert!(!wrong.toml.contains("X-Name") && !wrong.toml.contains(":+1"), "{}", wrong.toml);
    for reason in ["a relative port", "characters that no name has", "MPTCP", "endpoints do not get their names"] {
        changes(&wrong.report, reason);
    }
}

#[test]
fn a_rewrite_of_nginx_finds_locations_within_expressions() {
    let inner = "location ~ ^/static/ { return 302 http://b.test$uri; } return 204;";
    let css = nginx(&format!("rewrite ^/admin /static/a.css last; location ~* \\.css$ {{ {inner} }}"));
    has(&css, "match = { search = \"^/admin\" }\nredirect = { status = 302, to = \"http://b.test/static/a.css\" }");
}

#[test]
fn an_empty_if_of_nginx_ends_the_settings_of_the_if_before() {
    let ifs = "if ($arg_q) { add_header X-A b; } if ($http_x) { }";
    let both = nginx(&format!("location / {{ {ifs} add_header X-C d; proxy_pass http://a; }}"));
    assert_eq!(both.toml.matches("use = [\"fields\"]").count(), 2, "{}", both.toml);
}

#[test]
fn a_host_of_the_server_itself_is_tried_before_its_paths() {
    let own = "server_name a.test; if ($host = a.test) { return 302 https://b.test; } location /api { return 403; }";
    let two = converted(&format!("http {{ server {{ listen 80; return 204; }} server {{ listen 80; {own} }} }}"));
    let first = two.toml.split("[[route]]").find(|route| route.contains("\"/api\"")).unwrap_or_default();
    assert!(first.contains("https://b.test") || first.is_empty(), "{}", two.toml);
}

#[test]
fn groups_of_joined_expressions_have_no_names() {
    let text = "http { server { listen 80; server_name ~^(?<n>a+)[.]test$; return 204; } \
                server { listen 80; server_name ~^(?<n>b+)[.]test$; return 205; } \
                server { listen 80 default_server; location ~ ^/(?<n>a+)/x { return 403; } \
                location ~ ^/(?<n>b+)/x { return 404; } location / { return 206; } } }";
    let joined = converted(text);
    let lines = joined.toml.lines().map(|line| line.matches("(?P<n>").count()).max();
    assert!(lines.is_some_and(|most| most <= 1), "{}", joined.toml);
}

#[test]
fn a_location_outside_of_a_server_must_be_decided() {
    let part = convert("part.conf", "location /a { return 403; }\n", Some(From::Nginx), &NoFiles).expect("it is named");
    assert_eq!((part.report.forgotten, part.report.decide.len()), (0, 1), "{}", part.report.to_text());
}

#[test]
fn a_text_of_nginx_has_the_type_of_the_path_of_its_page() {
    let page = |more: &str, path: &str| {
        nginx(&format!(
            "{more} location / {{ internal; return 403 no; }} location ~ /sub/ {{ error_page 404 {path}; }}"
        ))
    };
    has(&page("", "/m.html"), "respond = { status = 403, body = \"no\", type = \"text/html\" }");
    has(&page("types { a/b c; }", "/m.c"), "type = \"a/b\"");
    has(&page("types { a/b c; }", "/m.html"), "respond = { status = 403, body = \"no\" }");
}

#[test]
fn a_table_with_expressions_leaves_no_groups_of_the_location() {
    let asked = |rules: &str| {
        let inner = format!("location ~ ^/(a|b)$ {{ {rules} proxy_pass http://10.0.0.1/r/$1; }}");
        let map = "map $n $m { one 1; } map $uri $n { ~*x one; }";
        converted(&format!("http {{ {map} server {{ listen 80; {inner} }} }}"))
    };
    has(&asked(""), "{1}");
    for rules in ["if ($m) { }", "set $x $m;", "set $x a$n; if ($x = a1) { }", "if ($n = one) { }"] {
        let converted = asked(rules);
        assert!(!converted.toml.contains("{1}"), "{rules}: {}", converted.toml);
        changes(&converted.report, "${1}");
    }
}

#[test]
fn requests_that_a_closed_rule_of_nginx_refuses_count_for_limits() {
    let inner = "limit_req zone=z; rewrite ^/api/(.*) /$1 break; location /shop/ { proxy_pass http://10.0.0.1; } \
                 location / { internal; }";
    let zone = "limit_req_zone $binary_remote_addr zone=z:1m rate=2r/m;";
    let converted = converted(&format!("http {{ {zone} server {{ listen 80; {inner} }} }}"));
    has(&converted, "respond = 403\nlimits = [\"z\"]");
}

#[test]
fn errors_of_nginx_without_an_endpoint_have_the_pages_of_their_location() {
    let location =
        "deny 10.0.0.0/8; error_page 403 500 http://a.test/; rewrite ^/a/(.*) /$1 break; set $u http://10.0.0.1;";
    let converted = nginx(&format!("location /a {{ {location} proxy_pass $u; }}"));
    let table = converted.toml.split("[[route]]").find(|table| table.contains("respond = 500")).expect("a route");
    assert!(
        table.contains("use = [\"access\"]") && converted.toml.contains("status = [403, 500]"),
        "{}",
        converted.toml
    );
}
