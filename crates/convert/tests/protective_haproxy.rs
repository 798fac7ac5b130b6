//! Directives of HAProxy that keep requests from endpoints, each in a small configuration: the refusal is in the output, or
//! the routes that it may be for are closed, and `must decide` names the line.

use evenkeel_config::{Files, NoFiles};
use evenkeel_convert::{Converted, convert};
use std::io;
use std::path::Path;

/// End of a directive in the output.
enum Wanted {
    /// Has all of these texts in the output.
    Kept(&'static [&'static str]),
    /// All routes to pools are closed, or there is no listener, and the report names a line.
    Closed,
    /// The route with this text is closed, and the report names a line.
    Part(&'static str),
}

use Wanted::{Closed, Kept, Part};

/// Access of a route that no client may use.
const NOBODY: &str = "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }";

const ADMIN: &[&str] = &["match = { starts_with = \"/admin\" }\nrespond = 403"];
const INSIDE: &[&str] = &["access = { allow = [\"10.0.0.0/8\"] }"];
const OUTSIDE: &[&str] = &["access = { deny = [\"10.0.0.0/8\"] }"];
const PASSWORD: &[&str] = &["basic_auth = { users = \"u:$5$"];

/// Lines of a frontend of HTTP.
#[rustfmt::skip] // a row is a directive
const FRONT: &[(&str, Wanted)] = &[
    // Rules for requests.
    ("http-request deny", Kept(&["respond = 403"])),
    ("http-request deny if { path_beg /admin }", Kept(ADMIN)),
    ("http-request deny deny_status 404 if { path_beg /admin }", Kept(&["match = { starts_with = \"/admin\" }\nrespond = 404"])),
    ("http-request reject if { path_beg /admin }", Kept(ADMIN)),
    ("http-request silent-drop if { path_beg /admin }", Kept(ADMIN)),
    ("http-request tarpit if { path_beg /admin }", Kept(&["match = { starts_with = \"/admin\" }\nrespond = 500"])),
    ("http-request return status 403 if { path_beg /admin }", Kept(ADMIN)),
    ("http-request return status 403 content-type text/html file /x.html if { path_beg /admin }", Kept(&["file = \"/x.html\""])),
    ("http-request return status 403 content-type text/html lf-file /x.html if { path_beg /admin }", Kept(ADMIN)),
    ("http-request return status 200 content-type text/plain lf-string \"%[src]\" if { path_beg /admin }", Kept(ADMIN)),
    ("http-request return status 403 if { lua.x -m bool }", Closed),
    ("http-request track-sc0 src table t\n http-request return status 429 if { src_http_req_rate(t) gt 20 }", Kept(&["requests_per_address = 2"])),
    ("http-request redirect location https://login.test/ unless { req.cook(sid) -m found }", Kept(&["redirect = { to ="])),
    ("http-request redirect location https://login.test/ unless { lua.x -m bool }", Closed),
    ("http-request redirect location https://login.test/?x=%[lua.x] if { path_beg /admin }", Kept(ADMIN)),
    ("http-request track-sc0 src table t\n http-request redirect location /slow if { src_http_req_rate(t) gt 20 }", Kept(&["requests_per_address = 2"])),
    ("redirect location /no if { path_beg /admin } { lua.x -m bool }", Part("/admin")),
    ("redirect prefix / append-slash if { path_beg /admin }", Kept(ADMIN)),
    ("http-request redirect scheme https unless { ssl_fc }", Kept(&["redirect = { to = \"https://"])),
    ("http-request auth unless { http_auth(users) }", Kept(PASSWORD)),
    ("http-request auth unless { http_auth_group(users) admins }", Kept(PASSWORD)),
    ("http-request auth unless { http_auth_group(users) nobody }", Closed),
    ("http-request auth unless { http_auth_group(users) admins nobody }", Closed),
    ("http-request auth unless { http_auth(none) }", Closed),
    ("http-request deny unless { http_auth(users) }", Kept(PASSWORD)),
    ("http-request deny if { path_beg /admin } !{ src 10.0.0.0/8 } !{ http_auth(users) }", Kept(PASSWORD)),
    ("http-request use-service lua.deny if { path_beg /admin }", Part("/admin")),
    ("http-request use-service prometheus-exporter if { path /metrics }", Kept(&["match = { path = \"/metrics\" }\nrespond = 404"])),
    ("http-request lua.check", Closed),
    ("http-request lua.check if { path_beg /admin }", Part("/admin")),
    ("http-request unheard-of if { path_beg /admin }", Part("/admin")),
    ("http-request add-acl(/etc/bad.lst) %[src] if { path_beg /admin }", Part("/admin")),
    ("monitor-uri /alive", Kept(&["match = { path = \"/alive\" }\nrespond.status = 200"])),
    ("option http-restrict-req-hdr-names reject", Closed),
    // Rules for connections.
    ("tcp-request connection reject", Kept(&[NOBODY])),
    ("tcp-request connection reject if { src 10.0.0.0/8 }", Kept(OUTSIDE)),
    ("tcp-request connection reject if !{ src 10.0.0.0/8 }", Kept(INSIDE)),
    ("tcp-request connection silent-drop if { src 10.0.0.0/8 }", Kept(OUTSIDE)),
    ("tcp-request session reject if { src 10.0.0.0/8 }", Kept(OUTSIDE)),
    ("tcp-request content reject if { src 10.0.0.0/8 }", Kept(OUTSIDE)),
    ("tcp-request connection accept if { src 10.0.0.0/8 }\n tcp-request connection reject", Kept(INSIDE)),
    ("tcp-request content accept if { src 10.0.0.0/8 }\n tcp-request content reject", Kept(INSIDE)),
    ("tcp-request content reject if { req.len gt 1000 }", Closed),
    ("tcp-request content reject if WAIT_END", Closed),
    ("tcp-request content lua.check", Closed),
    ("tcp-request content unheard-of", Closed),
    ("tcp-request connection expect-proxy layer4 if { src 10.0.0.1 }", Kept(&["accept_proxy_protocol = [\"10.0.0.1\"]"])),
    ("tcp-request connection expect-proxy layer4 unless { src 10.0.0.1 }", Part("not = { client = [\"10.0.0.1\"] }")),
    ("tcp-request connection expect-netscaler-cip layer4", Closed),
    // Rules of versions before 2.1.
    ("block if { path_beg /admin }", Kept(ADMIN)),
    ("block unless { src 10.0.0.0/8 }", Kept(INSIDE)),
    ("reqdeny ^GET\\ /admin", Closed),
    ("reqideny ^GET\\ /admin", Closed),
    ("reqtarpit ^GET\\ /admin", Closed),
    ("reqitarpit ^GET\\ /admin if { path_beg /admin }", Part("/admin")),
    ("reqpass ^GET\\ /ok\n reqdeny .", Closed),
    ("reqallow ^GET\\ /ok\n reqdeny .", Closed),
    ("rspdeny ^HTTP/1.1\\ 500", Closed),
    // Responses.
    ("http-response deny if { status 500 }", Closed),
    ("http-response deny if { res.hdr(X-Secret) -m found }", Closed),
    ("http-response lua.check", Closed),
    // Clients.
    ("http-request deny if { src -f /etc/bad.lst }", Kept(&["deny_files = [\"/etc/bad.lst\"]"])),
    ("http-request deny unless { src -f /etc/good.lst }", Kept(&["allow_files = [\"/etc/good.lst\"]"])),
    ("tcp-request connection reject unless { src -f /etc/good.lst }", Kept(&["allow_files = [\"/etc/good.lst\"]"])),
    ("acl bad path_beg /admin\n acl bad src -f /etc/bad.lst\n http-request deny if bad", Kept(&["deny_files", "respond = 403"])),
    ("http-request deny if { src,map_ip(/etc/x.map) -m found }", Kept(&["match = { map = { x = { present = true } } }\nrespond = 403"])),
    ("http-request deny unless { src 10.0.0.0/8 } or { path_beg /pub }", Kept(&["not = { client = [\"10.0.0.0/8\"]"])),
    ("http-request deny unless { hdr_ip(x-forwarded-for) 10.0.0.0/8 }", Closed),
    ("http-request deny if { src_is_local }", Closed),
    ("http-request set-src hdr(x-real-ip)\n http-request deny unless { src 10.0.0.0/8 }", Closed),
    ("tcp-request connection set-src src,ipmask(24)\n http-request deny unless { src 10.0.0.0/8 }", Closed),
    ("http-request allow if { src 10.0.0.0/8 }\n http-request deny", Kept(INSIDE)),
    ("http-request allow if { path_beg /ok }\n http-request deny", Kept(&["respond = 403"])),
    ("http-request allow if { lua.x -m bool }\n http-request deny", Kept(&["respond = 403"])),
    // Counters.
    ("http-request track-sc0 src table t\n http-request deny if { src_http_req_rate(t) gt 20 }", Kept(&["requests_per_address = 2"])),
    ("http-request deny if { src_http_req_rate(t) gt 20 }", Closed),
    ("http-request deny if { src_conn_cur(t) gt 20 } { path_beg / }", Closed),
    ("http-request track-sc0 src table t\n http-request deny if { sc_http_req_rate(0,other) gt 20 }", Closed),
    ("http-request track-sc0 hdr(X-Key) table t\n http-request deny if { src_http_req_rate(t) gt 20 }", Closed),
    ("http-request track-sc0 src table t if { path /a }\n http-request track-sc0 hdr(X-Key) table t\n http-request deny if { sc0_http_req_rate gt 20 }", Closed),
    ("http-request track-sc0 src table t if { path /a }\n http-request track-sc0 src table t if { path /b }\n http-request deny if { sc0_http_req_rate gt 20 }", Kept(&["path = \"/a\"", "path = \"/b\"", "limits = [\"t-client-20\"]"])),
    ("http-request track-sc0 src table t\n http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20 }", Kept(&["requests_per_address = 2"])),
    ("http-request track-sc0 src table t if { path_beg /login }\n http-request deny if { sc_http_req_rate(0) gt 20 }", Kept(&["limits = [{ requests = \"2/s\""])),
    ("http-request track-sc0 src table t\n http-request deny if { sc_http_req_rate(0) gt 20 } { path_beg /login }", Kept(&["limits = [{ requests = \"2/s\""])),
    ("http-request track-sc0 hdr(X-Key) table t\n http-request deny if { sc_http_req_rate(0) gt 20 }", Kept(&["key = \"header:X-Key\""])),
    ("http-request track-sc0 base32+src table t\n http-request deny if { sc_http_req_rate(0) gt 20 }", Closed),
    ("http-request track-sc0 src table t\n http-request deny if { sc_http_err_rate(0) gt 20 }", Closed),
    ("http-request track-sc0 src table t\n http-request deny if { sc_http_req_cnt(0) gt 20 }", Closed),
    ("http-request track-sc0 src table t\n http-request deny if { sc_bytes_out_rate(0) gt 20 }", Closed),
    ("http-request track-sc0 src table t\n http-request deny unless { sc_http_req_rate(0) lt 20 }", Closed),
    ("http-request track-sc0 src table t\n http-request deny if { sc0_get_gpc0 gt 0 }", Closed),
    ("http-request sc-inc-gpc0(0)\n http-request deny if { sc_inc_gpc0(0) gt 5 }", Closed),
    ("tcp-request connection track-sc0 src table t\n tcp-request connection reject if { sc_conn_rate(0) gt 20 }", Closed),
    ("tcp-request connection track-sc0 src table t\n tcp-request connection reject if { sc_conn_cur(0) gt 20 }", Kept(&["connections_per_address = 20"])),
    ("http-request deny if { src_get_gpc0(t) gt 0 }", Closed),
    ("http-request deny if { src,in_table(t) }", Closed),
    ("http-request deny if { src,table_http_req_rate(t) gt 10 }", Closed),
    ("http-request track-sc0 src table t\n use_backend refuses if { sc_http_req_rate(0) gt 20 }", Closed),
    ("maxconn 100", Kept(&["limits = { connections = 100 }"])),
    ("http-request deny if { be_conn(a) gt 100 }", Closed),
    ("http-request deny if { nbsrv(a) lt 1 }", Closed),
    // Backends that refuse.
    ("use_backend refuses if { lua.x -m bool }", Kept(&["respond = 403"])),
    ("use_backend refuses if { src -f /etc/bad.lst }", Kept(&["deny_files = [\"/etc/bad.lst\"]"])),
    ("use_backend refuses unless { http_auth(users) }", Closed),
    ("use_backend %[lua.x]", Closed),
    ("use_backend %[src,map_ip(/etc/x.map,a)]", Kept(&["match = { map = { backend = \"refuses\" } }\nrespond = 403"])),
    // Fields, paths and methods.
    ("http-request deny if { hdr_sub(User-Agent) -i bot crawler }", Kept(&["(?i).*bot.*|.*crawler.*"])),
    ("http-request deny if { hdr_sub(User-Agent) -i -f /etc/bots.lst }", Kept(&["(?i).*bot.*|.*curl.*"])),
    ("http-request deny if { hdr_sub(User-Agent) -i -f /etc/unread.lst }", Closed),
    ("http-request deny if { hdr_reg(User-Agent) -i ^$ }", Kept(&["respond = 403"])),
    ("http-request deny if !{ req.hdr(User-Agent) -m found }", Kept(&["not = { header = { User-Agent = { present = true } } }"])),
    ("http-request deny unless { req.hdr(X-Key) secret }", Kept(&["respond = 403"])),
    ("http-request deny if { req.hdr_cnt(host) gt 1 }", Closed),
    ("http-request deny if { req.hdr_val(content-length) gt 1000000 }", Closed),
    ("http-request deny if { req.body -m sub evil }", Closed),
    ("http-request deny if { req.body_size gt 1000000 }", Closed),
    ("http-request deny if { url_len gt 2000 }", Closed),
    ("http-request deny if { path,url_dec -m sub ../ }", Kept(&["from = \"{path|url_decode}\""])),
    ("http-request deny if { path,unheard(x) -m beg /admin }", Closed),
    ("http-request deny if { path_reg -i \\.(git|env) }", Kept(&["respond = 403"])),
    ("http-request deny if { method TRACE CONNECT }", Kept(&["method = [\"TRACE\", \"CONNECT\"]"])),
    ("http-request deny if HTTP_1.0", Closed),
    ("http-request deny if { capture.req.hdr(0) -m sub x }", Closed),
    ("http-request deny if { rand(100) lt 10 }", Closed),
    ("http-request deny unless { date(),ltime(%H) ge 8 }", Closed),
    ("http-request deny if undefined", Closed),
    ("http-request deny unless { url_param(token) -f /etc/unread.lst }", Closed),
    ("http-request deny if { base,map_reg(/etc/x.map) -m found }", Kept(&["respond = 403"])),
    ("http-request deny unless { http_auth_bearer,jwt_verify(txn.alg,\"/k.pem\") 1 }", Closed),
    ("http-request normalize-uri path-strip-dotdot\n http-request deny if { path_beg /admin }", Kept(&["paths = \"normalise\"", "/admin"])),
    ("http-request set-path /%[path,lower]\n http-request deny if { path_beg /admin }", Closed),
    ("http-request del-header X-Auth", Kept(&["remove = [\"X-Auth\"]"])),
    ("http-request del-header X-Int -m beg", Kept(&["remove = [\"X-Int*\"]"])),
    ("http-request set-header X-User %[ssl_c_s_dn(cn)]", Kept(&["remove = [\"X-User\"]"])),
    // Certificates of clients.
    ("http-request deny unless { ssl_c_used }", Closed),
    ("http-request deny if { ssl_c_verify gt 0 }", Closed),
    ("http-request deny if !{ ssl_c_s_dn(cn) admin }", Closed),
    // Variables.
    ("tcp-request content set-var(txn.ip) src\n http-request deny if { var(txn.ip) -m found }", Kept(&["respond = 403"])),
    ("http-request set-var(txn.ok) int(1) if { src 10.0.0.0/8 }\n http-request deny unless { var(txn.ok) eq 1 }", Kept(INSIDE)),
    ("http-request set-var(txn.j) http_auth_bearer\n http-request deny unless { var(txn.j),jwt_verify(RS256,\"/k.pem\") -m int 1 }", Closed),
    ("http-request do-resolve(txn.ip,dns) hdr(host)\n http-request deny if { var(txn.ip) -m str 127.0.0.1 }", Closed),
    ("http-request deny if { var(sess.banned) -m bool }\n http-request set-var(sess.banned) bool(true) if { path_beg /trap }", Closed),
    ("http-request deny if { var(proc.closed) -m bool }", Closed),
    ("filter spoe engine waf config /x\n http-request deny if { var(txn.waf.code) -m int gt 0 }", Closed),
    ("filter spoe engine waf config /x\n http-request deny if { var(txn.waf.code) -m found }", Closed),
];

/// Lines of a backend that the frontend leads to.
#[rustfmt::skip]
const BACK: &[(&str, Wanted)] = &[
    ("http-request deny if { path_beg /admin }", Kept(ADMIN)),
    ("http-request auth unless { http_auth(users) }", Kept(PASSWORD)),
    ("acl inside src 10.0.0.0/8\n http-request deny unless inside", Kept(INSIDE)),
    ("tcp-request content reject if { src 10.0.0.0/8 }", Kept(OUTSIDE)),
    ("tcp-request content lua.check", Part("pool = \"a\"")),
    ("http-request lua.check", Part("pool = \"a\"")),
    ("http-response deny if { status 500 }", Part("pool = \"a\"")),
    ("tcp-response content reject if { res.len gt 0 }", Part("pool = \"a\"")),
];

/// Lines of a listen section of TCP.
#[rustfmt::skip]
const TCP: &[(&str, Wanted)] = &[
    ("tcp-request connection reject if { src 10.0.0.0/8 }", Closed),
    ("tcp-request content reject unless { src 10.0.0.0/8 }", Closed),
    ("tcp-request content reject if { req.len gt 0 }", Closed),
    ("tcp-request content lua.check", Closed),
    ("tcp-request connection track-sc0 src table t\n tcp-request connection reject if { sc_conn_rate(0) gt 20 }", Closed),
    ("tcp-request connection track-sc0 src table t\n tcp-request connection reject if { sc_conn_cur(0) gt 20 }", Kept(&["connections_per_address = 20"])),
    ("maxconn 100", Kept(&["limits = { connections = 100 }"])),
];

/// Parameters of a `bind` line with TLS.
#[rustfmt::skip]
const BIND: &[(&str, Wanted)] = &[
    ("ssl crt /c.pem ca-file /ca.pem verify required", Kept(&["client_auth = { ca = \"/ca.pem\", mode = \"required\" }"])),
    ("ssl crt /c.pem ca-file /ca.pem verify optional", Kept(&["client_auth = { ca = \"/ca.pem\", mode = \"optional\" }"])),
    ("ssl crt /c.pem ca-file /ca.pem crl-file /crl.pem verify required", Kept(&["crl = \"/crl.pem\""])),
    ("ssl crt-list /etc/crt.list", Kept(&["client_auth = { ca = \"/ca.pem\", mode = \"required\" }"])),
    ("ssl crt /c.pem strict-sni", Kept(&["unknown_name = \"reject\""])),
    ("accept-proxy", Kept(&["accept_proxy_protocol"])),
    ("interface lo", Closed),
    ("maxconn 100", Kept(&["limits = { connections = 100 }"])),
];

/// Files that configurations name.
struct Lists;

impl Files for Lists {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text: &[u8] = match path.to_str() {
            Some("/etc/bots.lst") => b"# agents\nbot\ncurl\n",
            Some("/etc/x.map") => b"10.0.0.0/8 refuses\n",
            Some("/etc/crt.list") => b"# names\n/c.pem [alpn h2,http/1.1 verify required ca-file /ca.pem] a.test\n",
            _ => return NoFiles.read(path),
        };
        Ok(text.to_vec())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        NoFiles.list(folder)
    }
}

/// Converts a file that begins with lines of no interest, and returns the number of its lines.
fn converted(text: &str) -> Converted {
    let before = "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
                  userlist users\n group admins\n group nobody\n\
                  user u password $5$abc$0123456789012345678901234567890123456789012 groups admins\n\
                  backend t\n stick-table type ip size 1m expire 1h store \
                  gpc0,conn_cur,conn_rate(10s),http_req_rate(10s),http_err_rate(10s)\n\
                  backend refuses\n http-request deny\n";
    convert("f", &format!("{before}{text}"), None, &Lists).expect("it is recognised")
}

/// Returns the fault in the end of a directive.
fn fault(directive: &str, wanted: &Wanted, converted: &Converted) -> Option<String> {
    let (toml, report) = (&converted.toml, converted.report.to_text());
    let whole = format!("{directive}\n{toml}\n{report}");
    let tables: Vec<&str> = toml.split("\n[").collect();
    let shares = tables.iter().any(|table| table.starts_with("filters.shared]") && table.contains(NOBODY));
    let is_closed = |table: &str| table.contains(NOBODY) || shares && table.contains("use = [\"shared\"]");
    let leads = |table: &&&str| {
        (table.starts_with("[route]]") || table.starts_with("listener.")) && table.contains("pool = \"")
    };
    let closed = match wanted {
        Kept(texts) => {
            let lacks = texts.iter().find(|text| !toml.contains(**text));
            return lacks.map(|text| format!("no {text}: {whole}"));
        }
        Closed => !toml.contains("\n[listener.") || tables.iter().filter(leads).all(|table| is_closed(table)),
        Part(text) => tables.iter().filter(leads).any(|table| table.contains(text) && is_closed(table)),
    };
    if !closed {
        return Some(format!("open: {whole}"));
    }
    let names = |line: &str| {
        let line: Vec<&str> = line.split_whitespace().collect();
        converted.report.decide.iter().any(|item| item.text.contains(&line.join(" ")))
    };
    (!directive.lines().any(names)).then(|| format!("not named: {whole}"))
}

/// Fails with the faults of all rows.
fn check(rows: &[(&str, Wanted)], around: impl Fn(&str) -> String) {
    let faults: Vec<String> =
        rows.iter().filter_map(|(text, wanted)| fault(text, wanted, &converted(&around(text)))).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), rows.len(), faults.join("\n----\n"));
}

#[test]
fn refusals_of_frontends_are_kept_or_closed() {
    let back = "default_backend a\nbackend a\n server a 10.0.0.1:80\n";
    check(FRONT, |text| format!("frontend in\n bind :80\n {text}\n {back}"));
}

#[test]
fn refusals_of_backends_are_kept_or_closed() {
    let front = "frontend in\n bind :80\n use_backend b if { path_beg /b/ }\n default_backend a\n";
    check(BACK, |text| format!("{front}backend b\n server b 10.0.0.2:80\nbackend a\n {text}\n server a 10.0.0.1:80\n"));
}

#[test]
fn refusals_of_sessions_are_kept_or_closed() {
    check(TCP, |text| format!("listen in\n mode tcp\n bind :80\n {text}\n server a 10.0.0.1:80\n"));
}

#[test]
fn refusals_of_listeners_are_kept_or_closed() {
    check(BIND, |text| format!("listen in\n bind :443 {text}\n server a 10.0.0.1:80\n"));
}
