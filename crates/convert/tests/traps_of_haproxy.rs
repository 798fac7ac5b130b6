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
