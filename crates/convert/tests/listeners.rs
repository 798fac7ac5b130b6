//! Settings of listeners and conditions of routes: HTTP/3, fields with `_` in their names, and others.

use crate::traps::{changes, converted, has};

#[test]
fn listeners_for_http3_become_those_over_tcp_with_http3() {
    let nginx = converted(
        "http { server { listen 443 ssl; listen 443 quic reuseport; quic_retry on; ssl_certificate c; ssl_certificate_key k;\n\
         location / { proxy_pass http://10.0.0.1; } } }",
    );
    has(&nginx, "http3 = { retry_above = 0 }");
    assert_eq!(nginx.toml.matches("[listener.").count(), 1, "{}", nginx.toml);
    changes(&nginx.report, "Alt-Svc");
    let haproxy = converted(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\nfrontend in\n\
         bind :443 ssl crt c.pem alpn h2\n bind quic4@:443 ssl crt c.pem alpn h3\n default_backend a\n\
         backend a\n server a 10.0.0.1:80\n",
    );
    has(&haproxy, "bind = [\"[::]:443\"]");
    has(&haproxy, "http3 = true");
    assert!(!haproxy.toml.contains("protocols"), "{}", haproxy.toml);
    let traefik = converted(
        "entryPoints:\n  websecure: { address: ':443', http: { tls: {} }, http3: { advertisedPort: 8443 } }\n\
         http:\n  routers:\n    a: { rule: 'Host(`a.test`)', service: a }\n\
         \x20 services:\n    a: { loadBalancer: { servers: [{ url: 'http://10.0.0.1' }] } }\n",
    );
    has(&traefik, "http3 = { port = 8443 }");
    let caddy = "a.test {\n reverse_proxy 10.0.0.1:80\n}\n";
    has(&converted(caddy), "http3 = true");
    let without = converted(&format!("{{\n servers {{\n  protocols h1 h2\n }}\n}}\n{caddy}"));
    assert!(!without.toml.contains("http3"), "{}", without.toml);
}

#[test]
fn a_listener_that_needs_the_proxy_protocol_has_no_http3() {
    let nginx = converted(
        "http { server { listen 443 ssl proxy_protocol; listen 443 quic; ssl_certificate c; ssl_certificate_key k;\n\
         location / { proxy_pass http://10.0.0.1; } } }",
    );
    assert!(!nginx.toml.contains("http3"), "{}", nginx.toml);
    changes(&nginx.report, "PROXY protocol");
}

#[test]
fn fields_with_underscores_are_dropped_as_by_nginx() {
    let nginx = |line: &str| {
        converted(&format!("http {{ {line} server {{ listen 80; location / {{ proxy_pass http://10.0.0.1; }} }} }}"))
    };
    has(&nginx(""), "underscores = \"drop\"");
    assert!(!nginx("underscores_in_headers on;").toml.contains("underscores"));
}

#[test]
fn a_location_with_internal_answers_for_x_accel_redirect() {
    let nginx = converted(
        "http { server { listen 80; location / { proxy_pass http://10.0.0.1; }\n\
         location /files/ { internal; deny 10.0.0.0/8; proxy_pass http://10.0.0.2/; } } }",
    );
    has(&nginx, "internal = true");
    has(&nginx, "internal_redirects = \"X-Accel-Redirect\"");
    has(&nginx, "respond = 404");
    let unused = converted(
        "http { server { listen 80; location / { auth_request /auth; proxy_pass http://10.0.0.1; }\n\
         location = /auth { internal; proxy_pass http://10.0.0.2/check?x=1; } } }",
    );
    assert!(!unused.toml.contains("internal"), "{}", unused.toml);
}

#[test]
fn a_table_of_nginx_behind_a_rewrite_is_another_map() {
    let nginx = converted(
        "http { map $uri $m { /api one; /x/ two; } server { listen 80; add_header X-M $m always;\n\
         location / { rewrite /sub/ /x/ break; return 404; } } }",
    );
    has(&nginx, "from = \"{path}\"");
    has(&nginx, "from = \"/x/\"");
    let itself = converted("http { map $m $m { a b; } server { listen 80; add_header X-M $m; return 404; } }");
    changes(&itself.report, "refers to itself");
}

#[test]
fn a_query_of_a_rewrite_and_groups_of_a_table_are_not_those_of_the_request() {
    let query = converted(
        "http { server { listen 80; rewrite ^/shop/(.*)$ /s?id=$1 break;\n\
         location / { if ($http_x_key != s) { return 307 /new$is_args$args; } return 404; } } }",
    );
    changes(&query.report, "a rewrite changed the query before");
    let groups = |row: &str| {
        converted(&format!(
            "http {{ map $request_method $m {{ {row} \"\"; }} server {{ listen 80; location ~ ^/(a|b)/ {{\n\
             if ($m = one) {{ }} proxy_pass http://10.0.0.1/r/$1; }} }} }}"
        ))
    };
    has(&groups("PUT"), "to = \"/r/{1}?\"");
    assert!(!groups("~^(PUT|DELETE)$").toml.contains("to = "));
}

#[test]
fn a_rewrite_of_a_proxy_in_caddy_is_for_its_endpoints_alone() {
    let caddy = converted("http://a.test {\n reverse_proxy /api/* 10.0.0.1:80 {\n  rewrite /v2{uri}\n }\n}\n");
    has(&caddy, "to = \"/v2{1}\"");
}

/// Routes that exclude each other are put in order, in few steps.
#[test]
fn a_field_that_is_absent_is_apart_from_its_values() {
    let caddy = converted(
        "http://:80 {\n @m0 header !X-Role\n @m1 header X-Role *min\n uri strip_prefix /api\n rewrite /api/v1/* /index.html\n\
         header @m1 +X-Endpoint {method}\n reverse_proxy @m0 10.0.0.1:80\n}\n",
    );
    has(&caddy, "not = { header = { X-Role = { present = true } } }");
}
