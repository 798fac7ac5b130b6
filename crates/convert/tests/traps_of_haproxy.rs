//! Differences of HAProxy that would change behaviour silently: rules that read the effect of other rules, and refusals.

use crate::traps::{changes, converted, haproxy, has};

#[test]
fn responses_see_variables_as_they_were_when_a_rule_ended_the_request() {
    let of_responses = " http-after-response set-header X-Frame a if { var(txn.k) -m found }";
    let set = |rules: &str| haproxy(&format!("{rules}\n{of_responses}"), "");
    let behind = set(" http-request deny if { path /x }\n http-request set-var(txn.k) str(a) if { method GET }");
    has(&behind, "when = { request = { method = [\"GET\"], not = { regex = \"/x\" } } }");
    let before = set(" http-request set-var(txn.k) str(a) if { method GET }\n http-request deny if { path /x }");
    has(&before, "when = { request = { method = [\"GET\"] } }");
    // A rule on responses is behind all rules on requests, wherever it is.
    let first = haproxy(&format!("{of_responses}\n http-request set-var(txn.k) str(a)"), "");
    has(&first, "response_headers = { set = { X-Frame = \"a\" } }");
    // Without the field, the variable stays as it is.
    let field = set(" http-request set-var(txn.k) req.hdr(X-K)");
    has(&field, "when = { request = { header = { X-K = { present = true } } } }");
    let removed = set(" http-request set-var(txn.k) str(a)\n http-request unset-var(txn.k) if { method GET }");
    has(&removed, "when = { request = { not = { method = [\"GET\"] } } }");
    let by_backend = haproxy(&format!(" use_backend a\n{of_responses}"), " http-request set-var(txn.k) str(a)").report;
    changes(&by_backend, "rules of a backend set the variable");
}

#[test]
fn a_field_is_changed_once_for_a_request_of_several_alternatives() {
    let front = " http-request replace-header X-A (.*) \\1-y if { method GET } || { path /x }";
    let once = haproxy(front, "");
    has(&once, "when = { search = \"^/x$\", header = { X-A = { present = true } }, not = { method = [\"GET\"] } }");
    let own = haproxy(" http-request replace-header X-A (.*) \\1-y if { hdr(X-A) a } || { path /x }", "");
    assert!(!own.toml.contains("edits"), "{}", own.toml);
}

#[test]
fn no_other_spelling_of_a_host_passes_by_a_backend_that_refuses() {
    let text = |rule: &str| {
        converted(&format!(
            "defaults\n mode http\nfrontend f\n bind :80\n use_backend a if {{ hdr(host) A.test }}\n default_backend b\n\
             backend a\n server a 10.0.0.1:80\nbackend b\n{rule} server b 10.0.0.2:80\n"
        ))
    };
    has(&text(" http-request deny if { path /x }\n"), "match = { header = { Host = { regex = '(?:A\\.test)' } } }");
    has(&text(""), "host = [\"a.test\"]");
}

#[test]
fn pages_of_a_backend_for_refusals_of_the_frontend_are_named() {
    let page = " errorfile 403 /e/403.http";
    let listed = " acl bad src 10.0.0.0/8\n http-request deny if bad\n use_backend a";
    changes(&haproxy(listed, page).report, "have the error page of a backend");
}

#[test]
fn samples_of_the_captured_line_have_no_value_in_backends() {
    let redirect = " http-request redirect location https://%[hdr(host)]%[capture.req.uri]";
    changes(&haproxy(" use_backend a", redirect).report, "have no value there");
    let logged = haproxy(" option httplog\n use_backend a", redirect);
    assert!(logged.report.named().all(|item| !item.reason.contains("have no value")), "{}", logged.report.to_text());
}

#[test]
fn each_of_several_changes_of_paths_holds_for_the_requests_that_no_other_changes() {
    let lines =
        |second: &str| format!(" http-request replace-path ^/a/(.*) /\\\\1\n http-request {second}\n use_backend a");
    let two = haproxy(&lines("replace-path ^/b/(.*) /\\\\1"), "");
    has(&two, "rewrite = { regex = \"/b/(.*)\", to = \"/{1}\" }");
    has(&two, "rewrite = { regex = \"/a/(.*)\", to = \"/{1}\" }");
    let query = haproxy(" http-request set-query a=2\n use_backend a", "");
    has(&query, "to = \"/{1}?a=2?\"");
    let both = haproxy(&lines("set-path /x"), "");
    changes(&both.report, "requests that a rule before it changes keep that change");
}

#[test]
fn a_changed_status_is_not_what_later_rules_read() {
    let of_status = " http-response set-status 418\n http-after-response set-header X-A 1 if { status 200 }";
    changes(&haproxy(of_status, "").report, "a rule before it changes the status");
}

#[test]
fn ports_of_servers_and_listeners_are_written_out() {
    let listen =
        |bind: &str, server: &str| converted(&format!("listen l\n mode tcp\n bind {bind}\n server s {server}\n"));
    has(&listen(":8003", "10.0.0.1:+1000"), "10.0.0.1:9003");
    has(&listen(":8004", "10.0.0.1:-1000"), "10.0.0.1:7004");
    has(&listen(":80-82", "10.0.0.1:9"), "bind = [\"[::]:80\", \"[::]:81\", \"[::]:82\"]");
    for own in ["127.0.0.1:", "localhost", "0.0.0.0:9", "[::]:9", "mptcp@[::]:9"] {
        let none = listen(":80", own);
        assert!(!none.toml.contains("listener") && !none.report.decide.is_empty(), "{own}: {}", none.toml);
    }
}

#[test]
fn fields_of_an_answer_behind_a_password_are_named() {
    let auth = " http-request auth unless { http_auth(u) }\n http-request return status 404 hdr X-Why no";
    let text = format!("userlist u\n user a insecure-password b\nfrontend f\n mode http\n bind :80\n{auth}\n");
    changes(&converted(&text).report, "a password before it refuses get its fields");
}

#[test]
fn a_backend_does_not_replace_the_key_that_its_frontend_counts() {
    let table = " stick-table type string len 32 size 1m expire 1h store http_req_rate(10s)";
    let counted = |front: &str, back: &str| {
        haproxy(
            &format!("{table}\n http-request track-sc0 {front}\n use_backend a"),
            &format!("{table}\n {back}\n http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 20 }}"),
        )
    };
    let closed = "pool = \"a\"\naccess = { deny";
    let of_front = counted("hdr(X-Key)", "");
    has(&of_front, "key = \"header:X-Key\"");
    has(&counted("hdr(X-Key) if { path /x }", ""), closed);
    has(&counted("hdr(X-Key)", "http-request track-sc0 hdr(host)"), closed);
    has(&counted("hdr(X-Key) table in", "http-request track-sc0 hdr(X-Key) table in"), "key = \"header:X-Key\"");
}

#[test]
fn conditions_on_a_host_that_was_set_are_on_that_host() {
    let set = " http-request set-header Host inner.test if { path /x }\n http-request del-header X-Key if";
    let route = |rule: &str| haproxy(&format!("{set} {rule}\n use_backend a"), "").toml;
    let removed = route("{ req.hdr(host) a.test }");
    let table = removed.split("[[route]]").find(|table| table.contains("send_host")).expect("a route for /x");
    assert!(!table.contains("X-Key") && removed.contains("X-Key"), "{removed}");
}

#[test]
fn a_file_that_is_used_by_several_methods_closes() {
    let rules = |first: &str| {
        let second = "http-request deny if { path,map_end(/p.map) -m found }";
        haproxy(&format!(" use_backend rest if {{ {first} }}\n {second}\n use_backend a"), "")
    };
    let torn = "by the method of the first";
    changes(&rules("path,map_sub(/p.map) -m found").report, torn);
    let list = |words: &str| {
        haproxy(&format!(" http-request deny if {{ path_end -f /p.lst }}\n use_backend rest if {{ {words} }}"), "")
    };
    for other in ["path_sub -f /p.lst", "path -m dir -f /p.lst", "path_end -i -f /p.lst"] {
        changes(&list(other).report, torn);
    }
    for fitting in ["path_end -f /p.lst", "path_beg -f /p.lst", "path_sub -f /q.lst"] {
        let report = list(fitting).report;
        assert!(report.named().all(|item| !item.reason.contains(torn)), "{fitting}: {}", report.to_text());
    }
}
