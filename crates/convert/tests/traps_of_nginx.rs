//! Traps of NGINX: rewrites that search for another location.

use crate::traps::converted;
use evenkeel_convert::Converted;

#[test]
fn a_rewrite_of_nginx_without_a_flag_searches_its_location_behind_all_rules() {
    let pass = "set $a b; proxy_pass http://10.0.0.1$request_uri;";
    let behind = |rules: &str| {
        let others = "location /api/ { return 403; } location /c/ { return 410; }";
        converted(&format!("http {{ server {{ listen 80; location /old/ {{ {rules} {pass} }} {others} }} }}"))
    };
    let handler = |route: &str| {
        let lines = route.lines().skip(3).filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let old = |converted: &Converted| -> Vec<String> {
        let routes = converted.toml.split("[[route]]").filter(|route| route.contains("starts_with = \"/old/"));
        routes.map(handler).collect()
    };
    // Other rules stand between the rewrite and the handler.
    let conditional = behind("if ($http_x = a) { rewrite ^/old/(.*)$ /api/$1; } if ($http_y = b) { set $v no; }");
    let routes = old(&conditional);
    assert!(routes.len() == 4 && routes[..2].iter().all(|route| route == "respond = 403"), "{}", conditional.toml);
    assert!(routes[2..].iter().all(|route| route.contains("pool = ")), "{}", conditional.toml);
    // A `break` keeps the location.
    let stays = behind("rewrite ^/old/(.*)$ /api/$1; break;");
    assert!(old(&stays).iter().all(|route| route.contains("pool = ")), "{}", stays.toml);
    // A second rewrite changes a known path again, and leaves others.
    for (rules, status) in [
        ("rewrite ^ /api/x; rewrite ^/api/(.*)$ /c/$1;", "410"),
        ("rewrite ^ /api/x; rewrite ^/c/(.*)$ /old/$1;", "403"),
        ("rewrite ^/old/(.*)$ /api/$1; rewrite ^ /c/;", "410"),
        ("rewrite ^/old/(.*)$ /api/$1; rewrite ^/c/(.*)$ /old/$1;", "403"),
    ] {
        let twice = behind(rules);
        assert_eq!(old(&twice), [format!("respond = {status}")], "{rules}\n{}", twice.toml);
    }
    let unknown = behind("rewrite ^/old/(.*)$ /api/$1; rewrite ^/api/x/ /c/;");
    assert_eq!(old(&unknown), ["respond = 403"], "{}", unknown.toml);
    assert!(unknown.report.decide.iter().any(|item| item.reason.contains("another rewrite changed the path before")));
}

#[test]
fn a_page_of_nginx_is_no_way_around_a_return_of_its_server() {
    let proxied = "location / { proxy_pass http://10.0.0.1; }";
    let refused =
        converted(&format!("http {{ server {{ listen 80; error_page 403 =200 /; return 403; {proxied} }} }}"));
    assert!(!refused.toml.contains("pool ="), "{}", refused.toml);
    // An error of the page's own location is sent, not the error that led there.
    let missing = "location /a { deny all; error_page 403 @b; } location @b { return 404; }";
    let missing = converted(&format!("http {{ server {{ listen 80; {missing} {proxied} }} }}"));
    assert!(!missing.toml.contains("send_status"), "{}", missing.toml);
    let answered = "location /a { deny all; error_page 403 @b; } location @b { proxy_pass http://10.0.0.2; }";
    let answered = converted(&format!("http {{ server {{ listen 80; {answered} {proxied} }} }}"));
    assert!(answered.toml.contains("send_status = 403"), "{}", answered.toml);
}

#[test]
fn a_zone_of_nginx_whose_keys_differ_is_counted_by_what_they_have_in_common() {
    let zone = "limit_req_zone $arg_q zone=z:1m rate=2r/m; limit_req zone=z;";
    let kept = "location /a { proxy_pass http://10.0.0.1; }";
    let changed = "location /b { rewrite ^/b/(.*)$ /?p=$1 break; proxy_pass http://10.0.0.1; }";
    for locations in [[kept, changed], [changed, kept]] {
        let [first, second] = locations;
        let limited = converted(&format!("http {{ {zone} server {{ listen 80; {first} {second} }} }}"));
        assert_eq!(limited.toml.matches("key = \"route\"").count(), 1, "{}", limited.toml);
        assert!(limited.toml.contains("[limit.z]") && !limited.toml.contains("map:"), "{}", limited.toml);
        assert!(limited.report.decide.iter().any(|item| item.reason.contains("counted by \"route\"")));
    }
}

#[test]
fn responses_of_nginx_expire_by_cache_control() {
    for (expires, wanted) in [
        ("7d", "set = { Cache-Control = \"max-age=604800\" }"),
        ("-1", "set = { Cache-Control = \"no-cache\" }"),
        ("epoch", "Expires = \"Thu, 01 Jan 1970 00:00:01 GMT\""),
        ("max", "Cache-Control = \"max-age=315360000\""),
    ] {
        let expiring = converted(&format!(
            "http {{ expires {expires}; server {{ listen 80; location / {{ proxy_pass http://10.0.0.1; }} }} }}"
        ));
        assert!(expiring.toml.contains(wanted), "{expires}\n{}", expiring.toml);
    }
    for expires in ["$e", "modified +1h", "@15h30m"] {
        let unknown = converted(&format!(
            "http {{ server {{ listen 80; location / {{ expires {expires}; proxy_pass http://10.0.0.1; }} }} }}"
        ));
        assert!(unknown.report.changes.iter().any(|item| item.reason.contains("not the same for all")), "{expires}");
    }
}
