//! Tests of Ingresses that cannot be kept: closed, left out, or served without a setting, and named in events.

use super::*;

#[test]
fn a_listener_that_is_refused_is_named_and_its_routes_are_left_out() {
    let world = world(vec![tls("web", json!({ "ssl-redirect": "false" }), &["a.example"])]);
    let refused = [Refusal { of: "Ingresses at port 80".into(), why: "the address is in use".into() }];
    let translation = with(&world, &provider(), &refused);
    assert_eq!(lines(&translation), ["443 a.example/* > shop.web.80"]);
    assert_eq!(translation.part.listeners.len(), 2, "it is tried again");
    names(&translation, "Refused: port 80 is not served: the address is in use");
}

#[test]
fn a_missing_certificate_is_named_and_the_default_one_is_shown() {
    let (cert, text) = certificate();
    let mut world = world(vec![tls("web", json!({}), &["a.example"])]);
    let translation = translated(&world);
    names(&translation, "CertificateUnavailable: TLS: Secret shop/cert does not exist");
    assert_eq!(translation.part.listeners[1].value.tls.as_ref().map(|tls| tls.certificates.len()), Some(1));
    let mut other = cert.clone();
    other["metadata"]["name"] = "default".into();
    world.apply(Kind::Secret, Change::All(vec![other]));
    let provider = KubernetesProvider { default_certificate: Some("shop/default".into()), ..provider() };
    let translation = with(&world, &provider, &[]);
    let tls = translation.part.listeners[1].value.tls.as_ref().expect("it has TLS");
    assert!(format!("{:?}", tls.certificates[0].cert).contains(text.lines().nth(1).expect("PEM")));
}

#[test]
fn protection_that_cannot_be_kept_closes_the_ingress() {
    let weak = json!({ "auth": STANDARD.encode("ann:$apr1$abc$def") });
    for (annotations, why) in [
        (json!({ "auth-type": "basic" }), "no auth-secret"),
        (json!({ "auth-type": "digest", "auth-secret": "weak" }), "auth-type: \"digest\" is not supported"),
        (json!({ "auth-type": "basic", "auth-secret": "none" }), "Secret shop/none does not exist"),
        (json!({ "auth-type": "basic", "auth-secret": "other/users" }), "another namespace"),
        (json!({ "auth-type": "basic", "auth-secret": "weak" }), "MD5 is a hash that is guessed"),
        (json!({ "auth-url": "https://$host/oauth2/auth" }), "variables are not supported"),
        (json!({ "auth-url": "http://none.shop.svc/" }), "Service shop/none does not exist"),
        (json!({ "auth-url": "auth" }), "is not a URL"),
        (json!({ "auth-secret": "weak" }), "auth-secret: there is no auth-type"),
        (json!({ "auth-realm": "Staff" }), "auth-realm: there is no auth-type"),
        (json!({ "auth-secret-type": "auth-map" }), "auth-secret-type: there is no auth-type"),
        (json!({ "auth-type": "", "auth-secret": "weak" }), "auth-secret: there is no auth-type"),
        (json!({ "auth-signin": "https://x/" }), "auth-signin: there is no auth-url"),
        (json!({ "auth-method": "POST" }), "auth-method: there is no auth-url"),
        (json!({ "auth-response-headers": "X-User" }), "auth-response-headers: there is no auth-url"),
        (json!({ "auth-cache-key": "x" }), "auth-cache-key: there is no auth-url"),
        (json!({ "auth-tls-secret": "shop/ca" }), "auth-tls-secret: this protection is not kept"),
        (json!({ "auth-tls-verify-depth": "2" }), "auth-tls-verify-depth: this protection is not kept"),
        (json!({ "authurl": "http://auth.shop.svc/" }), "authurl: this protection is not kept"),
        (json!({ "enable-global-auth": "true" }), "enable-global-auth: this protection is not kept"),
        (json!({ "blacklist-source-range": "10.0.0.0/8" }), "blacklist-source-range: this protection is not kept"),
        (json!({ "denylist": "10.0.0.0/8" }), "denylist: this protection is not kept"),
        (json!({ "allowlist-source-ranges": "10.0.0.0/8" }), "allowlist-source-ranges: this protection is not kept"),
        (json!({ "whitelist-source-range": "," }), "whitelist-source-range: it has no network"),
        (json!({ "whitelist-source-range": "10.0.0.0/8,office" }), "\"office\" is not a network"),
        (json!({ "denylist-source-range": "10.0.0.0/33" }), "\"10.0.0.0/33\" is not a network"),
        (json!({ "whitelist-source-range": "10.1.0.0/16", "denylist-source-range": "10.0.0.0/8" }), "are denied, too"),
        (json!({ "ssl-passthrough": "true" }), "ssl-passthrough"),
        (json!({ "backend-protocol": "FCGI" }), "FCGI is not supported"),
        (json!({ "rewrite-target": "/$1/$2" }), "rewrite-target: \"/$1/$2\" cannot be kept"),
        (json!({ "permanent-redirect": "https://$host/" }), "permanent-redirect"),
    ] {
        let mut world = world(vec![simple(annotations.clone())]);
        world.apply(Kind::Secret, Change::All(vec![secret("weak", weak.clone())]));
        let translation = translated(&world);
        assert_eq!(lines(&translation), ["80 a.example/* > respond 503"], "{annotations}");
        names(&translation, why);
        assert!(events(&translation).iter().any(|event| event.starts_with("Refused: ")), "{annotations}");
    }
}

#[test]
fn what_is_not_kept_is_named_and_the_ingress_is_served_without_it() {
    for (name, value, event) in [
        (
            "configuration-snippet",
            "deny all;",
            "Refused: nginx.ingress.kubernetes.io/configuration-snippet: text for NGINX",
        ),
        ("server-snippet", "x", "Refused: nginx.ingress.kubernetes.io/server-snippet"),
        ("custom-http-errors", "404,503", "Ignored: nginx.ingress.kubernetes.io/custom-http-errors: error pages"),
        ("proxy-buffer-size", "8k", "Ignored: nginx.ingress.kubernetes.io/proxy-buffer-size: bodies are passed on"),
        ("enable-global-auth", "false", "Ignored: nginx.ingress.kubernetes.io/enable-global-auth: no service decides"),
        ("no-such-thing", "x", "Ignored: nginx.ingress.kubernetes.io/no-such-thing: it is not kept"),
        ("proxy-body-size", "big", "Ignored: nginx.ingress.kubernetes.io/proxy-body-size: \"big\" is not a size"),
        ("proxy-read-timeout", "0", "Ignored: nginx.ingress.kubernetes.io/proxy-read-timeout: \"0\" is not a time"),
        ("limit-rps", "0", "Ignored: nginx.ingress.kubernetes.io/limit-rps: \"0\" is not a number from 1 on"),
        ("ssl-redirect", "yes", "Ignored: nginx.ingress.kubernetes.io/ssl-redirect: \"yes\" is not true or false"),
        ("load-balance", "least_conn", "Ignored: nginx.ingress.kubernetes.io/load-balance: \"least_conn\""),
        ("upstream-hash-by", "$host", "Ignored: nginx.ingress.kubernetes.io/upstream-hash-by: \"$host\""),
    ] {
        let translation = translated(&world(vec![simple(json!({ name: value }))]));
        assert_eq!(lines(&translation), ["80 a.example/* > shop.web.80"], "{name}");
        let all = events(&translation);
        assert!(all.len() == 1 && all[0].starts_with(event), "{name}: {all:?}");
    }
    let mut other = simple(json!({}));
    other["metadata"]["annotations"]["cert-manager.io/cluster-issuer"] = "x".into();
    assert_eq!(events(&translated(&world(vec![other]))), [""; 0], "annotations of others are theirs");
}

#[test]
fn an_annotation_about_a_service_that_decides_is_named_beside_its_url() {
    let annotations = json!({ "auth-url": "http://auth.shop.svc/", "auth-signin": "https://x/" });
    let translation = translated(&world(vec![simple(annotations)]));
    assert_eq!(lines(&translation), ["80 a.example/* > shop.web.80"]);
    names(&translation, "Ignored: nginx.ingress.kubernetes.io/auth-signin: the answer");
}

fn events_of(translation: &Translation, name: &str) -> Vec<String> {
    let of = translation.events.iter().filter(|event| event.key.name == name);
    of.map(|event| format!("{}: {}", event.reason, event.message)).collect()
}

#[test]
fn a_port_for_tls_that_is_refused_concerns_ingresses_with_tls_alone() {
    let (secret, _) = certificate();
    let plain = ingress("plain", json!({}), json!({ "rules": [rule("b.example", vec![path("/", "Prefix", "web")])] }));
    let mut world = world(vec![tls("web", json!({}), &["a.example"]), plain]);
    world.apply(Kind::Secret, Change::All(vec![secret]));
    let refused = [Refusal { of: "Ingresses at port 443".into(), why: "[::]:443 is bound twice".into() }];
    let translation = with(&world, &provider(), &refused);
    assert_eq!(events_of(&translation, "plain"), [""; 0]);
    let message = "Refused: port 443 is not served, and requests are not redirected to it: [::]:443 is bound twice";
    assert_eq!(events_of(&translation, "web"), [message]);
    assert_eq!(lines(&translation), ["80 b.example/* > shop.web.80", "80 a.example/* > shop.web.80"]);
}

#[test]
fn routes_name_only_listeners_that_are_put() {
    let (secret, _) = certificate();
    let mut world = world(vec![tls("web", json!({}), &["a.example", "b.example"])]);
    world.apply(Kind::Secret, Change::All(vec![secret]));
    for ports in [vec![], vec![80], vec![443], vec![80, 443]] {
        let refusal = |port: &u16| Refusal { of: format!("Ingresses at port {port}").into(), why: "in use".into() };
        let refused: Vec<Refusal> = ports.iter().map(refusal).collect();
        let part = with(&world, &provider(), &refused).part;
        let put: Vec<_> = part.listeners.iter().map(|piece| piece.value.name.clone()).collect();
        assert_eq!(put, ["port-10.0.0.1-80".into(), "port-10.0.0.1-443".into()], "they are offered again");
        assert!(part.routes.iter().all(|piece| piece.value.listeners.iter().all(|name| put.contains(name))));
        assert!(part.routes.iter().all(|piece| !piece.value.listeners.is_empty()));
    }
}

#[test]
fn a_host_that_no_certificate_covers_is_named() {
    let (secret, _) = certificate();
    let object = |hosts: Value| {
        let rules = json!([rule("b.example", vec![path("/", "Prefix", "web")])]);
        let tls = json!([{ "hosts": hosts, "secretName": "cert" }]);
        ingress("web", json!({}), json!({ "rules": rules, "tls": tls }))
    };
    let shown = |hosts: Value, provider: &KubernetesProvider| {
        let mut world = world(vec![object(hosts)]);
        world.apply(Kind::Secret, Change::All(vec![secret.clone()]));
        events(&with(&world, provider, &[]))
    };
    let message = |host: &str| {
        format!(
            "CertificateUnavailable: TLS: the certificate of Secret shop/cert is not for {host}; the default certificate is shown"
        )
    };
    let no_rule =
        "CertificateUnavailable: TLS: no rule of namespace shop is for a.example, and its certificate is not shown";
    assert_eq!(shown(json!(["a.example"]), &provider()), [no_rule]);
    assert_eq!(shown(json!(["b.example", "A.example"]), &provider()), [no_rule]);
    assert_eq!(shown(json!(["b.example"]), &provider()), [message("b.example")]);
    assert_eq!(shown(json!(["*.example"]), &provider()), [message("*.example")]);
    assert_eq!(shown(json!([]), &provider()), [message("b.example")], "the hosts of its rules");
}

#[test]
fn a_canary_that_cannot_be_kept_gets_no_requests_and_its_events_say_so() {
    for (annotations, backend, wanted) in [
        (json!({}), "none", "BackendUnavailable: Service shop/none does not exist: this canary gets no requests"),
        (json!({ "auth-type": "digest" }), "canary", "is not supported, basic is; this canary gets no requests"),
    ] {
        let mut annotations = annotations;
        annotations["canary"] = "true".into();
        annotations["canary-weight"] = "50".into();
        let canary =
            ingress("z", annotations, json!({ "rules": [rule("a.example", vec![path("/", "Prefix", backend)])] }));
        let translation = translated(&world(vec![simple(json!({})), canary]));
        assert_eq!(lines(&translation), ["80 a.example/* > shop.web.80"]);
        let all = events(&translation);
        assert!(all.len() == 1 && all[0].ends_with(wanted), "{all:?}");
    }
}

#[test]
fn a_path_that_is_not_an_expression_is_left_out_and_named() {
    let paths = vec![path("/(a", "ImplementationSpecific", "web"), path("/b", "ImplementationSpecific", "web")];
    let object = ingress("web", json!({ "use-regex": "true" }), json!({ "rules": [rule("a.example", paths)] }));
    let translation = translated(&world(vec![object]));
    assert_eq!(lines(&translation), ["80 a.example/b/* > shop.web.80"]);
    names(&translation, "Refused: path /(a: \"/(a\" is not a regular expression: unclosed group");
}

#[test]
fn an_ingress_of_too_many_expressions_is_left_out_and_named() {
    let paths = (0..401).map(|n| path(&format!("/{n}/[0-9]+"), "ImplementationSpecific", "web")).collect();
    let object = ingress("web", json!({ "use-regex": "true" }), json!({ "rules": [rule("a.example", paths)] }));
    let translation = translated(&world(vec![object]));
    assert_eq!(lines(&translation), [""; 0]);
    names(&translation, "Refused: 401 paths with use-regex, and 400 are allowed: none is served");
}
