//! Each refusal of Caddy is kept, or its routes are closed.

use crate::protective::{Case, End, check};
use End::{Closed, Kept};
use evenkeel_convert::From;

const USER: &str = "joe $2b$04$G7hl.0KSoKxRqPQ6vaPfGeaMKr9Kksic/7ySVXc97DiA0MRbeLGne";

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Sites with these directives before a proxy for all requests. The last part of a case is text of routes that are open.
fn sites(cases: Vec<(&str, End, &'static [&'static str])>) {
    let cases: Vec<Case> = cases
        .into_iter()
        .map(|(inner, end, open)| {
            let inner = inner.replace("USER", USER);
            Case { text: leaked(format!("a.test {{\n{inner}\nreverse_proxy app:80\n}}\n")), end, open }
        })
        .collect();
    check(From::Caddy, "Caddyfile", &cases);
}

#[test]
fn passwords_and_services() {
    const AUTH: &[&str] = &["basic_auth.users = \"joe:$2b"];
    sites(vec![
        ("basic_auth {\nUSER\n}", Kept(AUTH), &[]),
        ("basicauth {\nUSER\n}", Kept(AUTH), &[]),
        ("basicauth * {\nUSER\n}", Kept(AUTH), &[]),
        ("basic_auth bcrypt \"staff\" {\nUSER\n}", Kept(&["basic_auth.realm = \"staff\""]), &[]),
        ("basic_auth /admin* {\nUSER\n}", Kept(AUTH), &["match = { host = [\"a.test\"] }"]),
        ("@m path /admin*\nbasic_auth @m {\nUSER\n}", Kept(AUTH), &["match = { host = [\"a.test\"] }"]),
        ("@m not path /public*\nbasic_auth @m {\nUSER\n}", Kept(AUTH), &["match = { host = [\"a.test\"] }"]),
        ("basic_auth @gone {\nUSER\n}", Closed("basic_auth"), &[]),
        ("@m file\nbasic_auth @m {\nUSER\n}", Closed("basic_auth"), &[]),
        ("@m vars {x} 1\nbasic_auth @m {\nUSER\n}", Closed("basic_auth"), &[]),
        ("@m header X-Key {env.KEY}\nbasic_auth @m {\nUSER\n}", Closed("basic_auth"), &[]),
        ("basic_auth {\njoe plain\n}", Closed("basic_auth"), &[]),
        ("basic_auth {\n}", Closed("basic_auth"), &[]),
        ("forward_auth auth:9091 {\nuri /verify\n}", Kept(&["forward_auth", "path = \"/verify\""]), &[]),
        (
            "forward_auth /admin* auth:9091 {\nuri /verify\n}",
            Kept(&["forward_auth"]),
            &["match = { host = [\"a.test\"] }"],
        ),
        ("forward_auth auth:9091 {\nuri /verify?u={uri}\n}", Closed("uri"), &[]),
        ("forward_auth auth:9091 {\n}", Closed("forward_auth"), &[]),
        ("forward_auth auth:9091 {\nuri /v\nheader_up X-A b\n}", Closed("header_up"), &[]),
        ("forward_auth auth:9091 {\nuri /v\ncopy_headers A>B\n}", Closed("forward_auth"), &[]),
    ]);
}

#[test]
fn refusals() {
    let open: &[&str] = &["match = { host = [\"a.test\"] }", "not = "];
    sites(vec![
        ("respond 403", Kept(&["respond = 403"]), &[]),
        ("respond /admin* 403", Kept(&["starts_with = \"/admin\"", "respond = 403"]), open),
        ("@b path_regexp ^/admin\nrespond @b 403", Closed("respond"), &["match = { host = [\"a.test\"] }"]),
        ("@b not path_regexp ^/admin\nrespond @b 403", Closed("respond"), &[]),
        ("@b path_regexp ^/[0-9]+$\nrespond @b 403", Kept(&["respond = 403"]), open),
        ("@b path *.php\nrespond @b 404", Kept(&["ends_with = \".php\"", "respond = 404"]), open),
        ("@b remote_ip 10.0.0.0/8\nrespond @b 403", Kept(&["client = [\"10.0.0.0/8\"]", "respond = 403"]), open),
        ("@b not remote_ip 10.0.0.0/8\nrespond @b 403", Kept(&["not = { client = [\"10.0.0.0/8\"] }"]), open),
        ("@b not client_ip private_ranges\nabort @b", Kept(&["not = { client = ["]), open),
        ("@b remote_ip forwarded 10.0.0.0/8\nrespond @b 403", Closed("respond"), &[]),
        ("@b not remote_ip forwarded 10.0.0.0/8\nabort @b", Closed("abort"), &[]),
        ("@b {\nheader User-Agent *bot*\nmethod POST\n}\nerror @b 429", Kept(&["respond = 429"]), open),
        ("@b header_regexp User-Agent bot\nrespond @b 403", Kept(&["respond = 403"]), open),
        ("@b query debug=*\nrespond @b 403", Kept(&["query = { debug", "respond = 403"]), open),
        ("@b expression {method} == \"TRACE\"\nrespond @b 403", Kept(&["method = [\"TRACE\"]", "respond = 403"]), open),
        (
            "@b `{method} == 'TRACE' || path('/x*')`\nrespond @b 403",
            Kept(&["starts_with = \"/x\"", "respond = 403"]),
            open,
        ),
        ("@b {\nexpression path('/x*')\nexpression {method} == 'PUT'\n}\nrespond @b 403", Closed("respond"), &[]),
        ("@b expression size({path}) > 9\nrespond @b 403", Closed("respond"), &[]),
        ("@b expression {http.vars.x} == 'y'\nabort @b", Closed("abort"), &[]),
        ("abort", Kept(&["respond = 403"]), &[]),
        ("error 403", Kept(&["respond = 403"]), &[]),
        ("error \"{header.X}\" 403", Kept(&["respond = 403"]), &[]),
        ("respond \"no {header.X} here\" 403", Closed("respond"), &[]),
        ("redir https://login.test/{vars.x}", Closed("redir"), &[]),
        ("request_body {\nmax_size 2MB\n}", Kept(&["body_max = "]), &[]),
        ("request_body {\nmax_size lots\n}", Closed("max_size"), &[]),
        ("handle /x* {\nrespond 403\n}", Kept(&["starts_with = \"/x\"", "respond = 403"]), open),
        ("handle_path /x/* {\nrespond 403\n}", Kept(&["starts_with = \"/x/\"", "respond = 403"]), open),
        ("route {\nrespond /x* 403\nreverse_proxy b:80\n}", Kept(&["starts_with = \"/x\"", "respond = 403"]), open),
    ]);
}

#[test]
fn behind_rewrites_and_imports() {
    let open: &[&str] = &["match = { host = [\"a.test\"] }", "not = "];
    sites(vec![
        (
            "uri strip_prefix /api\nroute {\nrespond /admin* 403\n}",
            Kept(&["starts_with = \"/api/admin\"", "respond = 403"]),
            &["host"],
        ),
        ("route {\nuri path_regexp /a+ /b\nrespond /admin* 403\n}", Closed("respond"), &[]),
        ("route {\ntry_files {path} /index.php\n@p path *.php\nrespond @p 403\n}", Closed("respond"), &[]),
        ("route {\nmethod GET\n@p method GET\nrespond @p 403\n}", Closed("respond"), &[]),
        ("rate_limit {\nzone a {\nevents 10\n}\n}", Closed("rate_limit"), &[]),
        ("rate_limit /x* {\n}", Closed("rate_limit"), &["match = { host = [\"a.test\"] }"]),
        ("authorize with mypolicy", Closed("authorize"), &[]),
        ("crowdsec", Closed("crowdsec"), &[]),
        ("import gone.conf", Closed("import"), &[]),
        ("import gone/*.conf", Closed("import"), &[]),
    ]);
    let proxy = "reverse_proxy app:80\n";
    let snippet = "(guard) {\n@g path {args[0]}\nrespond @g {args[1]}\n}\n(outer) {\nimport guard {args[0]} 404\n}\n";
    check(
        From::Caddy,
        "Caddyfile",
        &[
            Case {
                text: leaked(format!("{snippet}a.test {{\nimport guard /admin* 403\n{proxy}}}\n")),
                end: Kept(&["starts_with = \"/admin\"", "respond = 403"]),
                open,
            },
            Case {
                text: leaked(format!("{snippet}a.test {{\nimport outer /admin*\n{proxy}}}\n")),
                end: Kept(&["starts_with = \"/admin\"", "respond = 404"]),
                open,
            },
            Case {
                text: leaked(format!(
                    "(wrap) {{\nroute {{\n{{block}}\n}}\n}}\na.test {{\nimport wrap {{\nrespond /x* 403\n}}\n{proxy}}}\n"
                )),
                end: Kept(&["starts_with = \"/x\"", "respond = 403"]),
                open,
            },
            // Certificates of clients.
            Case {
                text: leaked(format!(
                    "a.test {{\ntls {{\nclient_auth {{\nmode require_and_verify\ntrusted_ca_cert_file /ca.pem\n}}\n}}\n{proxy}}}\n"
                )),
                end: Kept(&["client_auth = { mode = \"required\", ca = \"/ca.pem\" }"]),
                open: &[],
            },
            Case {
                text: leaked(format!("a.test {{\ntls {{\nclient_auth {{\nmode require\n}}\n}}\n{proxy}}}\n")),
                end: Closed("client_auth"),
                open: &[],
            },
            Case {
                text: leaked(format!(
                    "a.test {{\ntls {{\nclient_auth {{\ntrusted_ca_cert_file /ca.pem\n}}\n}}\n{proxy}}}\nb.test {{\n{proxy}}}\n"
                )),
                end: Closed("client_auth"),
                open: &["host = [\"b.test\"]"],
            },
            // Addresses behind proxies.
            Case {
                text: leaked(format!(
                    "{{\nservers {{\ntrusted_proxies static 10.0.0.0/8\n}}\n}}\na.test {{\n@b client_ip 1.2.3.4\nrespond @b 403\n{proxy}}}\n"
                )),
                end: Kept(&["trusted_proxies = [\"10.0.0.0/8\"]"]),
                open,
            },
            Case {
                text: leaked(format!(
                    "{{\nservers {{\ntrusted_proxies static 10.0.0.0/8\n}}\n}}\na.test {{\n@b remote_ip 1.2.3.4\nrespond @b 403\n{proxy}}}\n"
                )),
                end: Closed("respond"),
                open: &[],
            },
            Case {
                text: leaked(format!(
                    "{{\nservers {{\ntrusted_proxies cloudflare\n}}\n}}\na.test {{\n@b client_ip 1.2.3.4\nrespond @b 403\n{proxy}}}\n"
                )),
                end: Closed("respond"),
                open: &[],
            },
        ],
    );
}
