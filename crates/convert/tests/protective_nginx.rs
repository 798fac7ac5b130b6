//! Protective directives of NGINX, each in a small configuration: the refusal is in the output in full, or its route is
//! closed and `must decide` names the line. None is ever open.

use evenkeel_config::{NoFiles, Severity, parse_str, render_text};
use evenkeel_convert::{Converted, convert};

/// Expected outcome of a row.
#[derive(Clone, Copy)]
enum Kept {
    /// The output has all of these texts.
    In(&'static [&'static str]),
    /// No route to a pool is open, and `must decide` names a line that begins with this text.
    Closed(&'static str),
}

use Kept::{Closed, In};

const ALL: &str = "access = { deny = [\"0.0.0.0/0\", \"::/0\"] }";
const PASS: &str = "proxy_set_header Host $host; proxy_pass http://10.0.0.1;";

/// Lines of `http`, lines of a server, and the outcome. `@` is a line that forwards, `$AUTH` a location for `auth_request`.
#[rustfmt::skip] // a row is a configuration
const ROWS: &[(&str, &str, Kept)] = &[
    // Address lists.
    ("", "location / { deny all; @ }", In(&[ALL])),
    ("deny all;", "location / { @ }", In(&[ALL])),
    ("", "deny all; location / { @ }", In(&[ALL])),
    ("", "deny all; location /a { @ location /a/b { @ } } location / { return 204; }", In(&["\"/a/b\" }\npool = \"10-0-0-1\"\naccess = {", "\"/a\" }\npool = \"10-0-0-1\"\naccess = {"])),
    ("", "location / { deny 10.0.0.9; @ }", In(&["access = { deny = [\"10.0.0.9\"] }"])),
    ("", "location / { allow 10.0.0.0/8; deny all; @ }", In(&["access = { allow = [\"10.0.0.0/8\"] }"])),
    ("", "location / { deny 10.1.0.0/16; allow 10.0.0.0/8; deny all; @ }", In(&["deny = [\"10.1.0.0/16\"], allow = [\"10.0.0.0/8\"]"])),
    ("", "location / { allow 10.0.0.0/8; deny 10.1.0.0/16; deny all; @ }", In(&["access = { allow = [\"10.0.0.0/8\"] }"])),
    ("", "location / { deny 2001:db8::/32; allow all; @ }", In(&["deny = [\"2001:db8::/32\"], allow = [\"0.0.0.0/0\", \"::/0\"]"])),
    ("", "location / { allow unix:; deny all; @ }", In(&[ALL])),
    ("", "location / { deny a.example; @ }", Closed("deny")),
    ("", "location / { allow a.example; deny all; @ }", Closed("allow")),
    ("", "location / { deny all; }", In(&["respond = 403"])),
    ("", "location ~ /\\. { deny all; } location / { @ }", In(&["match = { search = '/\\.' }\nrespond = 403"])),
    ("", "location ~ /\\.(?!well-known) { deny all; } location / { @ }", In(&["search = '/\\.(?:$|[^w]|w(?:$|[^e]", "respond = 403"])),
    ("", "location ~ /(?!a|b)c/\\. { deny all; } location / { @ }", Closed("location")),
    ("", "location ~* \\.(bak|sql)$ { return 404; } location / { @ }", In(&["(?i)\\.(bak|sql)$' }\nrespond = 404"])),
    ("", "location ~ ^/a { @ location ~ \\.sql$ { deny all; } }", In(&["match = { search = \"^/a\", regex = '.*\\.sql' }\nrespond = 403"])),
    ("", "location ~ ^/a { @ location /a/b { deny all; } location = /a/c { return 404; } }", In(&["starts_with = \"/a/b\"", "respond = 403", "match = { path = \"/a/c\" }\nrespond = 404"])),
    // Passwords.
    ("auth_basic a; auth_basic_user_file /f;", "location / { @ }", In(&["basic_auth = { file = \"/f\", realm = \"a\""])),
    ("", "auth_basic a; auth_basic_user_file /f; location / { @ }", In(&["basic_auth = { file = \"/f\""])),
    ("", "auth_basic a; auth_basic_user_file /f; location /x { auth_basic off; return 204; } location / { @ }", In(&["pool = \"10-0-0-1\"\nbasic_auth"])),
    ("", "location / { auth_basic $realm; auth_basic_user_file /f; @ }", In(&["basic_auth = { file = \"/f\", keep"])),
    ("", "location / { auth_basic a; auth_basic_user_file /f/$host; @ }", Closed("auth_basic_user_file")),
    ("", "location / { auth_basic a; auth_basic_user_file /f; }", In(&["respond = 404\nbasic_auth"])),
    // Permissions of a service, and tokens.
    ("", "location / { auth_request /auth; @ } $AUTH", In(&["forward_auth = { pool = \"10-0-0-2\", path = \"/check\" }"])),
    ("", "auth_request /auth; location / { @ } $AUTH", In(&["pool = \"10-0-0-1\"\nforward_auth ="])),
    ("", "location / { auth_request /none; @ }", Closed("auth_request")),
    ("", "location / { auth_request /a; @ } location = /a { internal; return 403; }", Closed("auth_request")),
    ("", "location / { auth_request /a; @ } location = /a { if ($http_x = a) { return 403; } proxy_pass http://10.0.0.2/; }", Closed("auth_request")),
    ("", "location / { auth_request /a; @ } location = /a { proxy_pass http://$host; }", Closed("auth_request")),
    ("", "location / { auth_jwt a; auth_jwt_key_file /k; @ }", Closed("auth_jwt a")),
    ("auth_jwt a;", "location / { @ }", Closed("auth_jwt a")),
    ("", "location / { auth_jwt_require $ok; @ }", Closed("auth_jwt_require")),
    ("", "location / { auth_digest x; auth_digest_user_file /f; @ }", Closed("auth_digest x")),
    ("", "location / { auth_ldap x; auth_ldap_servers a; @ }", Closed("auth_ldap x")),
    ("", "location / { auth_pam x; @ }", Closed("auth_pam x")),
    ("", "location / { auth_spnego on; @ }", Closed("auth_spnego")),
    ("", "location / { secure_link $arg_m; secure_link_md5 s; if ($secure_link = \"\") { return 403; } @ }", Closed("if")),
    ("", "location / { secure_link $arg_m; secure_link_md5 s; if ($secure_link = 0) { return 302 /expired; } @ }", Closed("if")),
    // Both, or either.
    ("", "location / { satisfy all; deny all; auth_basic a; auth_basic_user_file /f; @ }", In(&["basic_auth =", ALL])),
    ("", "location / { satisfy any; allow 10.0.0.0/8; deny all; auth_basic a; auth_basic_user_file /f; @ }", In(&["match = { client = [\"10.0.0.0/8\"] }\npool = \"10-0-0-1\"\n", "pool = \"10-0-0-1\"\nbasic_auth ="])),
    ("", "location / { satisfy any; deny all; auth_basic a; auth_basic_user_file /f; @ }", In(&["pool = \"10-0-0-1\"\nbasic_auth ="])),
    // Locations and methods.
    ("", "location /i/ { internal; @ } location / { return 204; }", In(&["match = { prefix = \"/i\" }\nrespond = 404"])),
    ("", "location / { limit_except GET { deny all; } @ }", In(&["match = { not = { method = [\"GET\", \"HEAD\"] } }\npool = \"10-0-0-1\"\naccess = { deny"])),
    ("", "location / { limit_except GET POST { allow 10.0.0.0/8; deny all; } @ }", In(&["not = { method = [\"GET\", \"POST\", \"HEAD\"] }", "access = { allow = [\"10.0.0.0/8\"] }"])),
    ("", "location / { limit_except GET { auth_basic a; auth_basic_user_file /f; } @ }", In(&["pool = \"10-0-0-1\"\nbasic_auth ="])),
    ("", "location /x { return 403; } location / { @ }", In(&["match = { starts_with = \"/x\" }\nrespond = 403"])),
    ("", "return 403; location / { @ }", In(&["name = \"server-respond\"\nrespond = 403"])),
    ("", "return 444; location / { @ }", Closed("return 444")),
    ("", "location / { return 444; }", Closed("return 444")),
    ("", "error_page 403 = @x; location / { deny all; @ } location @x { return 302 /login; }", In(&[ALL, "error_pages = [{ status = [403]"])),
    ("", "error_page 403 /x; location / { deny all; @ } location = /x { return 200 no; }", In(&[ALL])),
    // Conditions.
    ("", "location / { if ($http_user_agent ~* bot) { return 403; } @ }", In(&["User-Agent = { regex = \"(?i).*bot.*\" } } }\nrespond = 403"])),
    ("", "location / { if ($http_user_agent ~* (?=x)bot) { return 403; } @ }", Closed("if")),
    ("", "if ($host !~ ^a) { return 444; } location / { @ }", In(&["(?i)(?:a.*)\\.?(:[0-9]+)?' } } } }\nrespond = 403"])),
    ("", "location / { if ($geoip_country_code = XX) { return 403; } @ }", Closed("if")),
    ("", "location / { if ($geoip_country_code = XX) { rewrite ^ /no last; } @ } location /no { return 403; }", Closed("if")),
    ("", "set $bad 0; if ($http_x = a) { set $bad 1; } if ($bad) { return 403; } location / { @ }", In(&["match = { header = { X = \"a\" } }\nrespond = 403"])),
    ("", "location / { valid_referers none a.test; if ($invalid_referer) { return 403; } @ }", In(&["match.header = { Referer = { present = true } }", "respond = 403"])),
    ("", "location / { valid_referers none ~(?=x)a; if ($invalid_referer) { return 403; } @ }", Closed("if")),
    ("map $http_a $bad { default 0; ~*bot 1; }", "location / { if ($bad) { return 403; } @ }", In(&["[map.bad]", "match = { map = { bad = { regex", "respond = 403"])),
    ("geo $bad { default 0; 10.0.0.0/8 1; }", "location / { if ($bad) { return 403; } @ }", In(&["match = \"network\"", "match = { map = { bad = { regex", "respond = 403"])),
    ("geo $bad { ranges; default 0; 10.0.0.0-10.0.0.9 1; }", "location / { if ($bad) { return 403; } @ }", Closed("if")),
    ("map $http_a $bad { default 0; include bots.map; }", "location / { if ($bad) { return 403; } @ }", Closed("if")),
    // Limits.
    ("limit_req_zone $binary_remote_addr zone=z:1m rate=5r/m;", "location / { limit_req zone=z burst=2 nodelay; @ }", In(&["limits = [{ requests = \"5/m\", burst = 3, key = \"client\" }]"])),
    ("limit_req_zone $binary_remote_addr zone=z:1m rate=5r/m;", "location /a { limit_req zone=z; @ } location / { limit_req zone=z; @ }", In(&["[limit.z]\nrequests = \"5/m\"\nburst = 1\nkey = \"client\"\n", "limits = [\"z\"]"])),
    ("limit_req_zone $binary_remote_addr zone=z:1m rate=5r/m;", "location /a { limit_req zone=z; @ } location / { limit_req zone=z burst=9; @ }", In(&["[limit.z]\nrequests = \"5/m\"\nburst = 1\n", "limits = [\"z\"]"])),
    ("limit_req_zone $binary_remote_addr$arg_q zone=z:1m rate=5r/m;", "location / { limit_req zone=z; @ }", In(&["from = \"{client.ip}{query.q}\"", "default = \"{client.ip}{query.q}\"", "key = \"map:limit\""])),
    ("limit_req_zone $binary_remote_addr$uri zone=z:1m rate=5r/m;", "location / { limit_req zone=z; @ }", In(&["limits = [{ requests = \"5/m\", burst = 1, key = \"client\" }]"])),
    ("limit_req_zone $geoip_city zone=z:1m rate=5r/m;", "location / { limit_req zone=z; @ }", In(&["limits = [{ requests = \"5/m\", burst = 1, key = \"route\" }]"])),
    ("geo $g { default 1; 10.0.0.0/8 0; } map $g $k { 0 \"\"; 1 $binary_remote_addr; } limit_req_zone $k zone=z:1m rate=5r/m;", "location / { limit_req zone=z; @ }", In(&["limits = [{ requests = \"5/m\", burst = 1, key = \"client\" }]"])),
    ("limit_req_zone $server_name zone=z:1m rate=5r/m;", "server_name a.test; limit_req zone=z; location / { @ }", In(&["key = \"route\""])),
    ("", "location / { limit_req zone=z; @ }", Closed("limit_req")),
    ("limit_req_zone $binary_remote_addr zone=z:1m rate=x;", "location / { limit_req zone=z; @ }", Closed("limit_req")),
    ("limit_conn_zone $binary_remote_addr zone=z:1m;", "location / { limit_conn z 2; @ }", In(&["limits = [{ in_flight = 2, key = \"client\" }]"])),
    ("limit_conn_zone $server_name zone=z:1m;", "server_name a.test; limit_conn z 2; location /a { @ } location / { @ }", In(&["[limit.z-a-test]\nin_flight = 2\nkey = \"route\"\n", "limits = [\"z-a-test\"]"])),
    ("", "location / { limit_conn z 2; @ }", Closed("limit_conn")),
    ("", "client_max_body_size 1k; location / { @ }", In(&["body_max = \"1KiB\""])),
    ("", "client_max_body_size x; location / { @ }", In(&["route = { body_max = \"1MiB\" }"])),
    ("", "location / { limit_rate 10k; @ }", In(&["bandwidth = \"10KiB\""])),
    ("", "location / { set $limit_rate 10k; @ }", In(&["bandwidth = \"10KiB\""])),
    // Refusals of a location before another location.
    ("", "location / { deny 10.0.0.9; try_files /x @b; } location @b { @ }", In(&["pool = \"10-0-0-1\"\naccess = { deny = [\"10.0.0.9\"] }"])),
    ("", "location / { auth_basic a; auth_basic_user_file /f; try_files /x @b; } location @b { deny 10.0.0.9; @ }", In(&["pool = \"10-0-0-1\"\naccess = { deny = [\"10.0.0.9\"] }\nbasic_auth ="])),
    ("", "location / { deny 10.0.0.8; try_files /x @b; } location @b { deny 10.0.0.9; @ }", Closed("try_files")),
    ("", "location / { auth_request /auth; try_files /x @b; } location @b { @ } $AUTH", In(&["pool = \"10-0-0-1\"\nforward_auth ="])),
    // Modules, scripts, and files that were not read.
    ("modsecurity on;", "location / { @ }", Closed("modsecurity")),
    ("", "location / { modsecurity on; modsecurity_rules_file /r; @ }", Closed("modsecurity on")),
    ("", "location / { SecRulesEnabled; @ }", Closed("SecRulesEnabled")),
    ("", "location / { app_protect_enable on; @ }", Closed("app_protect_enable")),
    ("", "testcookie on; location / { @ }", Closed("testcookie")),
    ("", "location / { a_firewall on; @ }", Closed("a_firewall")),
    ("", "location / { access_by_lua_block { ngx.exit(403) } @ }", Closed("access_by_lua_block")),
    ("rewrite_by_lua_file /x;", "location / { @ }", Closed("rewrite_by_lua_file")),
    ("", "location / { js_access a.b; @ }", Closed("js_access")),
    ("", "include auth.conf; location / { @ }", Closed("include")),
    ("include auth.conf;", "location / { @ }", Closed("include")),
    ("", "location / { include snippets/*.conf; @ }", Closed("include")),
    // Paths.
    ("", "merge_slashes off; location / { @ }", In(&["paths = \"refuse\""])),
];

/// Lines of a server with TLS before one without them, and the outcome.
#[rustfmt::skip] // a row is a configuration
const TLS: &[(&str, Kept)] = &[
    ("ssl_client_certificate /ca; ssl_verify_client on;", In(&["client_auth = { mode = \"optional\", ca = \"/ca\" }", "from = \"{tls.client.fingerprint}\"", "match = { host = [\"a.test\"], not = { map = { certificate = { present = true } } } }\nrespond = 400"])),
    ("ssl_trusted_certificate /ca; ssl_verify_client on;", In(&["client_auth = { mode = \"optional\", ca = \"/ca\" }", "respond = 400"])),
    ("ssl_client_certificate /ca; ssl_verify_client on; ssl_crl /crl;", In(&["crl = \"/crl\"", "respond = 400"])),
    ("ssl_client_certificate /ca; ssl_verify_client optional; if ($ssl_client_verify != SUCCESS) { return 403; }", In(&["mode = \"optional\"", "not = { map = { certificate = { present = true } } } }\nrespond = 403"])),
    ("ssl_client_certificate /ca; ssl_verify_client optional_no_ca; if ($ssl_client_verify = NONE) { return 403; }", In(&["mode = \"optional\"", "certificate = { present = true } } } }\nrespond = 403"])),
    ("ssl_client_certificate /ca; ssl_verify_client optional_no_ca; if ($ssl_client_verify ~ FAILED) { return 403; }", Closed("if")),
    ("ssl_client_certificate /ca; ssl_verify_client on; if ($ssl_client_fingerprint != aa) { return 302 /no; }", Closed("if")),
    ("ssl_client_certificate /ca; ssl_verify_client on; ssl_ocsp on;", Closed("ssl_ocsp")),
    ("ssl_verify_client on;", Closed("ssl_verify_client")),
    ("ssl_reject_handshake on;", Closed("ssl_reject_handshake")),
];

fn converted(text: &str) -> Converted {
    // A line for each directive, as reports name lines.
    let text = text.replace("; ", ";\n").replace("{ ", "{\n").replace("} ", "}\n");
    convert("nginx.conf", &text, None, &NoFiles).expect("it is recognised")
}

/// Routes of an output that forward without a refusal.
fn open(toml: &str, host: Option<&str>) -> Vec<String> {
    let routes = toml.split("\n[[route]]\n").skip(1).map(|route| route.split("\n[").next().unwrap_or_default());
    let is_closed = |route: &&str| route.contains(ALL) || route.contains("use = [\"access\"]") && toml.contains(ALL);
    let forwards = |route: &&str| route.lines().any(|line| line == "pool = \"10-0-0-1\"");
    let of_host = |route: &&str| host.is_none_or(|host| route.contains(host));
    routes.filter(forwards).filter(|route| !is_closed(route)).filter(of_host).map(str::to_string).collect()
}

/// The failure of a conversion, if it has none of what was expected.
fn failure(what: &str, converted: &Converted, kept: Kept, host: Option<&str>) -> Option<String> {
    let outcome = parse_str("evenkeel.toml", &converted.toml, &|_| None);
    let is_wrong = outcome.diagnostics.iter().any(|d| d.severity() == Severity::Error);
    let wrong = is_wrong.then(|| render_text(&outcome.diagnostics, false));
    let missing = match kept {
        In(texts) => texts.iter().find(|text| !converted.toml.contains(**text)).map(|text| format!("no {text}")),
        Closed(line) => {
            let open = open(&converted.toml, host);
            let is_named = converted.report.decide.iter().any(|item| item.text.starts_with(line));
            match open.is_empty() {
                false => Some(format!("open: {open:?}")),
                true => (!is_named).then(|| format!("`{line}` is not to decide")),
            }
        }
    };
    let shown = |why: String| format!("{what}\n{why}\n{}\n{}", converted.toml, converted.report.to_text());
    wrong.or(missing).map(shown)
}

#[test]
fn each_refusal_is_kept_or_closes_its_route_and_is_to_decide() {
    let auth = "location = /auth { internal; proxy_pass http://10.0.0.2/check; }";
    let mut failures = Vec::new();
    for (http, server, kept) in ROWS {
        let server = server.replace("$AUTH", auth).replace(" @ ", &format!(" {PASS} "));
        let what = format!("{http} server {{ {server} }}");
        let converted = converted(&format!("http {{ {http} server {{ listen 80; {server} }} }}"));
        failures.extend(failure(&what, &converted, *kept, None));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n----\n"));
}

#[test]
fn refusals_by_tls_are_those_of_their_server_alone() {
    let certificate = "ssl_certificate /c; ssl_certificate_key /k;";
    let mut failures = Vec::new();
    for (lines, kept) in TLS {
        let converted = converted(&format!(
            "http {{ server {{ listen 443 ssl; server_name b.test; {certificate} location / {{ {PASS} }} }} \
             server {{ listen 443 ssl; server_name a.test; {certificate} {lines} location / {{ {PASS} }} }} }}"
        ));
        failures.extend(failure(lines, &converted, *kept, Some("a.test")));
        assert!(!open(&converted.toml, None).is_empty(), "{lines}\nb.test is closed:\n{}", converted.toml);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n----\n"));
    let only = converted(&format!(
        "http {{ server {{ listen 443 ssl; {certificate} ssl_client_certificate /ca; ssl_verify_client on; location / {{ {PASS} }} }} }}"
    ));
    assert!(only.toml.contains("client_auth = { mode = \"required\", ca = \"/ca\" }"), "{}", only.toml);
    let rejects = converted(&format!(
        "http {{ server {{ listen 443 ssl default_server; ssl_reject_handshake on; }} \
         server {{ listen 443 ssl; server_name a.test; {certificate} location / {{ {PASS} }} }} }}"
    ));
    assert!(rejects.toml.contains("unknown_name = \"reject\"") && rejects.report.decide.is_empty(), "{}", rejects.toml);
}

#[test]
fn hosts_that_are_not_known_are_refused() {
    let hosts = converted(&format!(
        "http {{ server {{ listen 80; location / {{ {PASS} }} }} \
         server {{ listen 80; server_name ~(?=a)b; deny all; location / {{ {PASS} }} }} }}"
    ));
    let text = hosts.report.to_text();
    assert!(hosts.report.decide.iter().any(|item| item.text.starts_with("server_name")), "{text}");
    assert!(
        hosts.toml.contains("match = { header = { Host = { regex = '(?i)(?:.*.*)\\.?(:[0-9]+)?' } } }\nrespond = 403"),
        "{}",
        hosts.toml
    );
}

#[test]
fn a_listener_of_tcp_that_refuses_sessions_is_left_out() {
    for rule in ["deny 10.0.0.1;", "allow 10.0.0.0/8; deny all;", "js_access a.b;", "ssl_verify_client on;"] {
        let tcp = converted(&format!("stream {{ server {{ listen 5432; {rule} proxy_pass 10.0.0.1:5432; }} }}"));
        assert!(!tcp.toml.contains("[listener."), "{rule}\n{}", tcp.toml);
        assert!(!tcp.report.decide.is_empty(), "{rule}\n{}", tcp.report.to_text());
    }
    let limited = converted(
        "stream { limit_conn_zone $binary_remote_addr zone=z:1m; server { listen 5432; limit_conn z 3; proxy_pass 10.0.0.1:5432; } }",
    );
    assert!(limited.toml.contains("limits = { connections_per_address = 3 }"), "{}", limited.toml);
}

#[test]
fn a_limit_by_the_name_of_the_server_is_one_of_each_server() {
    let server = |name: &str| {
        format!(
            "server {{ listen 80; server_name {name}; limit_req zone=z; \
             location /a {{ {PASS} }} location / {{ {PASS} }} }}"
        )
    };
    let zone = "limit_req_zone $server_name zone=z:1m rate=2r/m;";
    let both = converted(&format!("http {{ {zone} {} {} }}", server("a.test"), server("~^b")));
    assert_eq!(both.toml.matches("[limit.").count(), 2, "{}", both.toml);
    assert!(
        ["z-a-test", "z--b"].iter().all(|name| both.toml.contains(&format!("limits = [\"{name}\"]"))),
        "{}",
        both.toml
    );
}

#[test]
fn open_routes_are_found() {
    let toml = "\n[[route]]\nname = \"a\"\npool = \"10-0-0-1\"\n\n[[route]]\npool = \"10-0-0-1\"\naccess = { deny = [\"0.0.0.0/0\", \"::/0\"] }\n\n[pool.p]\n";
    assert_eq!(open(toml, None).len(), 1);
}
