//! A conversion does not panic on any text, settles every directive, and writes TOML that can be read.

use evenkeel_config::{NoFiles, parse_str};
use evenkeel_convert::{From, convert};
use proptest::prelude::*;

fn check(text: &str) {
    for from in [From::Haproxy, From::Nginx, From::Traefik, From::Caddy, From::Envoy] {
        let converted = convert("any.conf", text, Some(from), &NoFiles).expect("the program is named");
        let report = &converted.report;
        assert!(report.carried + report.named().count() + report.lossless.len() >= report.directives, "{text}");
        // Whatever comes out is TOML: what is wrong with it is only its content.
        let outcome = parse_str("any.toml", &converted.toml, &|_| Some("x".to_string()));
        let broken = outcome.diagnostics.iter().find(|d| d.code == evenkeel_config::Code::Syntax);
        assert!(broken.is_none(), "{broken:?}\n{text}\n{}", converted.toml);
        report.to_text();
        report.to_json();
    }
    convert("any.conf", text, None, &NoFiles);
}

/// Fragments of both languages, so that tests reach the translations behind the readers.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "global\n",
        "defaults\n",
        "frontend a\n",
        "backend b\n",
        "listen c\n",
        " bind :80\n",
        " bind *:443 ssl crt /a.pem\n",
        " default_backend b\n",
        " use_backend b if x\n",
        " acl x path_beg /a\n",
        " acl x hdr(host) -i a.test\n",
        " server s 10.0.0.1:80 check\n",
        " mode tcp\n",
        " option httpchk GET /\n",
        " timeout client 5s\n",
        " http-request deny if x\n",
        " http-request set-header A %[src] unless x\n",
        " redirect scheme https if !{ ssl_fc }\n",
        " cookie A insert\n",
        " stick-table type ip size 1 expire 1s store http_req_rate(10s)\n",
        " http-request track-sc0 src\n",
        " http-request deny if { sc_http_req_rate(0) gt 5 }\n",
        " balance ",
        " if ",
        " unless ",
        " { ",
        " } ",
        " or ",
        " !",
        "http {\n",
        "server {\n",
        "location / {\n",
        "location ~ \\.php$ {\n",
        "location = /a {\n",
        "location /api/ {\n",
        "}\n",
        "listen 80;\n",
        "listen 443 ssl;\n",
        "server_name a.test *.b.test ~^x;\n",
        "proxy_pass http://app/;\n",
        "proxy_pass http://$x;\n",
        "upstream app { server a:1; }\n",
        "return 301 https://$host$request_uri;\n",
        "return 200 'a';\n",
        "rewrite ^/a/(.*)$ /$1 break;\n",
        "if ($host = a) {\n",
        "map $host $x {\n",
        "default app;\n",
        "a.test app;\n",
        "add_header A b;\n",
        "proxy_set_header Host $host;\n",
        "stream {\n",
        "limit_req zone=a burst=5;\n",
        "limit_req_zone $remote_addr zone=a:1m rate=1r/s;\n",
        "try_files $uri @app;\n",
        "location @app {\n",
        "error_page 404 /404.html;\n",
        "include x;\n",
        "allow 10.0.0.0/8;\n",
        "deny all;\n",
        ";",
        "{",
        "}",
        "\"",
        "'",
        "\\",
        "\n",
        " ",
        "#",
        "$",
        "${",
        "%[",
        "]",
        "(",
        ")",
        "http:\n",
        "  routers:\n",
        "    a:\n",
        "      rule: Host(`a.test`) && !PathPrefix(`/x`, `/y`)\n",
        "      service: s\n",
        "      middlewares: [m]\n",
        "  services:\n    s: { loadBalancer: { servers: [{ url: \"http://a:1\" }] } }\n",
        "  middlewares:\n    m: { stripPrefix: { prefixes: [/x] } }\n",
        "&a ",
        "*a",
        "<<: *a\n",
        "- ",
        "[http.routers.a]\n",
        "rule = 'Path(`/x`)'\n",
        "a.test, b.test:81 {\n",
        "handle_path /x/* {\n",
        "reverse_proxy @m a:1 {\n",
        "@m {\n path /x* *.php\n}\n",
        "@m not header A *b*\n",
        "redir /x https://b{uri} 301\n",
        "respond `a` 200\n",
        "header -A\n",
        "uri strip_prefix /x\n",
        "import m\n",
        "(m) {\n",
        "}\n",
        "é",
        "0",
        "/",
        "~",
        "{{ x }}",
        "{% if %}",
    ]);
    prop_oneof![10 => words.prop_map(str::to_string), 1 => "\\PC{0,4}", 1 => any::<char>().prop_map(String::from)]
}

/// A fixture with one part replaced, so that most of it stays what it is.
fn nearly(good: &'static str) -> impl Strategy<Value = String> {
    (0..good.len(), 0..24_usize, piece()).prop_map(move |(start, length, piece)| {
        let floor = |mut at: usize| {
            while !good.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(start), floor((start + length).min(good.len())));
        format!("{}{piece}{}", &good[..start], &good[end.max(start)..])
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        // PROPTEST_CASES can only raise this.
        cases: ProptestConfig::default().cases.max(512),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_converted(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_pieces_are_converted(pieces in prop::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn a_nearly_good_haproxy_cfg_is_converted(text in nearly(include_str!("haproxy/rules.cfg"))) {
        check(&text);
    }

    #[test]
    fn a_nearly_good_file_of_traefik_is_converted(text in nearly(include_str!("traefik/filters.yml"))) {
        check(&text);
    }

    #[test]
    fn a_nearly_good_file_of_envoy_is_converted(
        text in prop_oneof![nearly(include_str!("envoy/auth.yaml")), nearly(include_str!("envoy/routes.yaml"))]
    ) {
        check(&text);
    }

    #[test]
    fn nearly_good_labels_are_converted(text in nearly(include_str!("traefik/compose.yml"))) {
        check(&text);
    }

    #[test]
    fn a_nearly_good_caddyfile_is_converted(text in nearly(include_str!("caddy/paths.caddyfile"))) {
        check(&text);
    }

    #[test]
    fn a_nearly_good_nginx_conf_is_converted(text in nearly(include_str!("nginx/site.conf"))) {
        check(&text);
    }
}

#[test]
fn deep_nesting_and_long_lines_are_converted() {
    check(&"server {".repeat(50_000));
    check(&"}".repeat(50_000));
    check(&"location /a { ".repeat(5_000));
    check(&format!("frontend a\n acl x path {}\n use_backend b if x x x x x x x x\n", "/a ".repeat(1000)));
    check(&format!("frontend a\n{}", " use_backend b if { path /a }\n".repeat(2_000)));
    check(&format!("server {{ {} }}", "location /a { return 200; } ".repeat(2_000)));
    check(&"a {\n".repeat(20_000));
    check(&format!("http:\n  routers: {}", "[".repeat(20_000)));
    check(&format!(":80 {{\n{}}}\n", "reverse_proxy /a* 10.0.0.1:80\n".repeat(1_000)));
    check(&"x".repeat(1_000_000));
}
