//! Ingresses as objects of a cluster, and the routes that they become, written as lines.

mod faults;
mod tenants;

use crate::providers::kubernetes::gateway::addresses::Addresses;
use crate::providers::kubernetes::statuses::status::Says;
use crate::providers::kubernetes::translate::translate;
use crate::providers::kubernetes::translation::Translation;
use crate::providers::kubernetes::world::objects::Key;
use crate::providers::kubernetes::world::store::{Change, Kind, World};
use crate::providers::parts::Refusal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_config::plan::{Action, HostPattern, KubernetesProvider, PathPattern, Pool, Route, Secret};
use evenkeel_config::{Plan, Severity, render_text};
use serde_json::{Value, json};
use std::net::IpAddr;

const BCRYPT: &str = "ann:$2y$05$......................21jzCB1r6pN6rp5O2Ev0ejjTAboskKm";

fn provider() -> KubernetesProvider {
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    KubernetesProvider { addresses: vec![ip], ..KubernetesProvider::default() }
}

/// A Service with the ports http (80) and grpc (9000).
fn service(name: &str) -> Value {
    json!({
        "metadata": { "namespace": "shop", "name": name, "uid": format!("uid-{name}") },
        "spec": { "ports": [{ "name": "http", "port": 80 }, { "name": "grpc", "port": 9000 }] },
    })
}

fn backend(name: &str) -> Value {
    json!({ "service": { "name": name, "port": { "number": 80 } } })
}

fn path(path: &str, kind: &str, to: &str) -> Value {
    json!({ "path": path, "pathType": kind, "backend": backend(to) })
}

fn rule(host: &str, paths: Vec<Value>) -> Value {
    match host {
        "" => json!({ "http": { "paths": paths } }),
        host => json!({ "host": host, "http": { "paths": paths } }),
    }
}

fn ingress(name: &str, annotations: Value, spec: Value) -> Value {
    let mut all = serde_json::Map::new();
    for (name, value) in annotations.as_object().expect("a table") {
        all.insert(format!("nginx.ingress.kubernetes.io/{name}"), value.clone());
    }
    let mut spec = spec;
    spec["ingressClassName"] = "evenkeel".into();
    // Names sort like ages.
    json!({
        "metadata": { "namespace": "shop", "name": name, "creationTimestamp": format!("2026-01-01T00:00:00Z{name}"),
            "annotations": all },
        "spec": spec,
    })
}

/// An Ingress with a single path of `a.example`.
fn simple(annotations: Value) -> Value {
    ingress("web", annotations, json!({ "rules": [rule("a.example", vec![path("/", "Prefix", "web")])] }))
}

fn world(ingresses: Vec<Value>) -> World {
    let mut world = World::default();
    world.apply(Kind::Ingress, Change::All(ingresses));
    world.apply(Kind::Service, Change::All(["web", "api", "canary", "auth"].map(service).into()));
    world
}

fn translated(world: &World) -> Translation {
    with(world, &provider(), &[])
}

/// Translates, and checks that the configuration takes all of it.
fn with(world: &World, provider: &KubernetesProvider, refused: &[Refusal]) -> Translation {
    let mut addresses = Addresses::new(&provider.addresses);
    let translation = translate(world, provider, &mut addresses, None, refused);
    let part = &translation.part;
    let mut builder = Plan::builder();
    for piece in &part.listeners {
        builder = builder.listener(piece.value.clone());
    }
    for piece in &part.routes {
        builder = builder.route(piece.value.clone());
    }
    for piece in &part.pools {
        builder = builder.pool(piece.value.clone());
    }
    if !part.listeners.is_empty() && !part.routes.is_empty() {
        let outcome = builder.build("test");
        let errors: Vec<_> = outcome.diagnostics.into_iter().filter(|one| one.severity() == Severity::Error).collect();
        assert!(errors.is_empty(), "{}", render_text(&errors, false));
    }
    translation
}

/// Listeners, host, path, criteria and action of a route.
fn line(route: &Route) -> String {
    let ports: Vec<&str> = route.listeners.iter().map(|name| name.trim_start_matches("port-10.0.0.1-")).collect();
    let host = match route.matching.hosts.first() {
        None => "*".to_owned(),
        Some(HostPattern::Exact(host)) => host.clone(),
        Some(HostPattern::Wildcard(suffix)) => format!("*{suffix}"),
    };
    let path = match &route.matching.path {
        PathPattern::Any => "/*".to_owned(),
        PathPattern::Pattern(path) => path.clone(),
        PathPattern::Prefix(path) => format!("{path}/*"),
        PathPattern::StartsWith(text) => format!("{text}*"),
    };
    let criteria = &route.matching.criteria;
    let mut more = String::new();
    for (name, value) in &criteria.headers {
        let value = value.regex.as_deref().unwrap_or_else(|| &value.equal[0]);
        more += &format!(" [{name}: {value}]");
    }
    for (name, value) in &criteria.cookies {
        more += &format!(" [cookie {name}={}]", value.equal[0]);
    }
    let action = match &route.action {
        Action::Pool(pool) => pool.to_string(),
        Action::Redirect(redirect) => format!("{} {}", redirect.status, redirect.target()),
        action => action.to_string(),
    };
    format!("{} {host}{path}{more} > {action}", ports.join("+"))
}

fn lines(translation: &Translation) -> Vec<String> {
    translation.part.routes.iter().map(|piece| line(&piece.value)).collect()
}

fn events(translation: &Translation) -> Vec<String> {
    translation.events.iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
}

#[track_caller]
fn names(translation: &Translation, part: &str) {
    let all = events(translation);
    assert!(all.iter().any(|event| event.contains(part)), "{part}: {all:?}");
}

/// The route of an Ingress with these annotations, and its pool.
fn route_with(annotations: Value) -> (Route, Pool) {
    let translation = translated(&world(vec![simple(annotations.clone())]));
    assert_eq!(events(&translation), [""; 0], "{annotations}");
    let route = translation.part.routes[0].value.clone();
    let pool = route.action.pool().expect("it has a pool").clone();
    let pool = translation.part.pools.iter().find(|piece| piece.value.name == pool).expect("it exists");
    let pool = (*pool.value).clone();
    (route, pool)
}

#[test]
fn ingresses_of_our_classes_are_served_and_others_are_not() {
    let of = |class: Option<&str>, annotation: Option<&str>| {
        let mut object = simple(json!({}));
        object["spec"]["ingressClassName"] = class.into();
        if let Some(annotation) = annotation {
            object["metadata"]["annotations"]["kubernetes.io/ingress.class"] = annotation.into();
        }
        object
    };
    let class = |name: &str, controller: &str, is_default: bool| {
        json!({
            "metadata": { "name": name, "annotations": {
                "ingressclass.kubernetes.io/is-default-class": is_default.to_string() } },
            "spec": { "controller": controller },
        })
    };
    let ours = "evenkeel.dev/controller";
    for (name, annotation, classes, is_served) in [
        (Some("evenkeel"), None, vec![], true),
        (Some("other"), None, vec![], false),
        (Some("public"), None, vec![class("public", ours, false)], true),
        (Some("evenkeel"), None, vec![class("evenkeel", "k8s.io/ingress-nginx", false)], false),
        (None, Some("evenkeel"), vec![], true),
        (None, Some("nginx"), vec![class("public", ours, true)], false),
        (None, None, vec![class("public", ours, false)], false),
        (None, None, vec![class("public", ours, true)], true),
        (None, None, vec![class("public", "k8s.io/ingress-nginx", true)], false),
    ] {
        let shown = format!("{name:?} {annotation:?} {classes:?}");
        let mut world = world(vec![of(name, annotation)]);
        world.apply(Kind::IngressClass, Change::All(classes));
        let translation = translated(&world);
        assert_eq!(!translation.part.listeners.is_empty(), is_served, "{shown}");
        assert_eq!(!translation.statuses.is_empty(), is_served, "{shown}");
    }
}

#[test]
fn hosts_and_paths_become_routes_in_the_order_of_age() {
    let first = ingress(
        "a",
        json!({}),
        json!({ "rules": [
            rule("A.example", vec![path("/api/", "Prefix", "api"), path("/api", "Exact", "web"), path("/", "Prefix", "web")]),
            rule("*.b.example", vec![path("/", "ImplementationSpecific", "web")]),
            rule("", vec![path("/any", "Prefix", "web")]),
        ] }),
    );
    let second = ingress("b", json!({}), json!({ "rules": [rule("a.example", vec![path("/", "Prefix", "api")])] }));
    let translation = translated(&world(vec![second, first]));
    assert_eq!(
        lines(&translation),
        [
            "80 a.example/api/* > shop.api.80",
            "80 a.example/api > shop.web.80",
            "80 a.example/* > shop.web.80",
            "80 *.b.example/* [host: (?i)[^.]+\\.b\\.example\\.?(:[0-9]+)?] > shop.web.80",
            "80 */any/* > shop.web.80",
            "80 a.example/* > shop.api.80",
        ]
    );
    let orders: Vec<u32> = translation.part.routes.iter().map(|piece| piece.value.order).collect();
    assert_eq!(orders, [0, 1, 2, 3, 4, 5], "the older one is preferred");
    assert_eq!(&*translation.part.routes[0].value.name, "ingress:shop/a/a.example/api/");
    let listener = &translation.part.listeners[0].value;
    assert_eq!(
        (&*listener.name, listener.bind[0].to_string(), listener.h2c),
        ("port-10.0.0.1-80", "10.0.0.1:80".into(), false)
    );
    assert_eq!(translation.part.listeners.len(), 1, "without TLS");
}

#[test]
fn default_backends_are_behind_all_rules() {
    let of_hosts = ingress(
        "a",
        json!({}),
        json!({ "defaultBackend": backend("api"), "rules": [rule("a.example", vec![path("/x", "Prefix", "web")])] }),
    );
    let of_all = ingress("b", json!({}), json!({ "defaultBackend": backend("web") }));
    let rules = ingress("c", json!({}), json!({ "rules": [rule("", vec![path("/", "Prefix", "api")])] }));
    let translation = translated(&world(vec![of_hosts, of_all, rules]));
    assert_eq!(
        lines(&translation),
        [
            "80 a.example/x/* > shop.web.80",
            "80 */* > shop.api.80",
            "80 a.example/* > shop.api.80",
            "80 */* > shop.web.80"
        ]
    );
}

#[test]
fn backends_are_found_by_number_and_name_and_missing_ones_are_named() {
    let by = |service: Value| {
        let paths = vec![json!({ "path": "/", "pathType": "Prefix", "backend": service })];
        let object = ingress("web", json!({}), json!({ "rules": [rule("a.example", paths)] }));
        let translation = translated(&world(vec![object]));
        (lines(&translation).join(", "), events(&translation).join(", "))
    };
    let port = |port: Value| json!({ "service": { "name": "web", "port": port } });
    assert_eq!(by(port(json!({ "name": "grpc" }))).0, "80 a.example/* > shop.web.9000");
    for (backend, why) in [
        (port(json!({ "number": 81 })), "Service shop/web has no port 81"),
        (port(json!({ "name": "x" })), "Service shop/web has no port x"),
        (backend("none"), "Service shop/none does not exist"),
        (json!({ "resource": { "kind": "Bucket", "name": "x" } }), "not to Bucket"),
    ] {
        let (lines, events) = by(backend);
        assert_eq!(lines, "80 a.example/* > respond 503");
        assert!(events.starts_with("BackendUnavailable: ") && events.contains(why), "{events}");
    }
}

fn tls(name: &str, annotations: Value, hosts: &[&str]) -> Value {
    let rules: Vec<Value> = hosts.iter().map(|host| rule(host, vec![path("/", "Prefix", "web")])).collect();
    ingress(name, annotations, json!({ "rules": rules, "tls": [{ "hosts": ["a.example"], "secretName": "cert" }] }))
}

fn secret(name: &str, data: Value) -> Value {
    json!({ "metadata": { "namespace": "shop", "name": name }, "data": data })
}

fn certificate() -> (Value, String) {
    let (cert, key) = evenkeel_tls::pair::self_signed_pem("a.example").expect("a certificate");
    let data = json!({ "tls.crt": STANDARD.encode(&cert), "tls.key": STANDARD.encode(&key) });
    (secret("cert", data), cert)
}

#[test]
fn hosts_with_tls_are_redirected_to_it() {
    let redirected = ["80 a.example/* > 308 https://{host}{path}", "443 a.example/* > shop.web.80"];
    let open = ["80+443 a.example/* > shop.web.80"];
    for (annotations, hosts, expected) in [
        (json!({}), ["a.example"].as_slice(), redirected.as_slice()),
        (json!({ "ssl-redirect": "false" }), &["a.example"], &open),
        (json!({}), &["b.example"], &["80+443 b.example/* > shop.web.80"]),
        (
            json!({ "force-ssl-redirect": "true" }),
            &["b.example"],
            &["80 b.example/* > 308 https://{host}{path}", "443 b.example/* > shop.web.80"],
        ),
    ] {
        let (secret, cert) = certificate();
        let mut world = world(vec![tls("web", annotations.clone(), hosts)]);
        world.apply(Kind::Secret, Change::All(vec![secret]));
        let translation = translated(&world);
        assert_eq!(lines(&translation), expected, "{annotations}");
        let tls = translation.part.listeners[1].value.tls.as_ref().expect("it has TLS");
        let all: Vec<String> = tls.certificates.iter().map(|one| format!("{:?}", one.cert)).collect();
        if hosts != ["a.example"] {
            assert_eq!(all.len(), 1, "no rule is for its host");
            names(&translation, "TLS: no rule of namespace shop is for a.example, and its certificate is not shown");
            continue;
        }
        assert_eq!(all.len(), 2, "the one for unknown names is first");
        assert!(all[1].contains(cert.lines().nth(1).expect("PEM")), "{all:?}");
        assert_eq!(events(&translation), [""; 0]);
    }
}

#[test]
fn redirects_lead_to_the_port_that_clients_reach() {
    let world = world(vec![tls("web", json!({}), &["a.example"])]);
    let provider = KubernetesProvider { redirect_port: 8443, ..provider() };
    assert_eq!(lines(&with(&world, &provider, &[]))[0], "80 a.example/* > 308 https://{host}:8443{path}");
}

#[test]
fn challenges_of_an_authority_are_not_redirected() {
    let solver = ingress(
        "solver",
        json!({}),
        json!({ "rules": [rule("a.example", vec![path("/.well-known/acme-challenge/x", "ImplementationSpecific", "api")])] }),
    );
    let translation = translated(&world(vec![solver, tls("web", json!({}), &["a.example"])]));
    assert_eq!(lines(&translation)[0], "80+443 a.example/.well-known/acme-challenge/x/* > shop.api.80");
}

#[test]
fn a_gateway_at_the_same_port_shares_its_listener() {
    let mut world = world(vec![simple(json!({}))]);
    let class = json!({ "metadata": { "name": "evenkeel" }, "spec": { "controllerName": "evenkeel.dev/controller" } });
    world.apply(Kind::GatewayClass, Change::All(vec![class]));
    let gateway = |protocol: &str| {
        json!({
            "metadata": { "namespace": "infra", "name": "web" },
            "spec": { "gatewayClassName": "evenkeel", "listeners": [{ "name": "a", "port": 80, "protocol": protocol }] },
        })
    };
    let names = |translation: &Translation| {
        translation.part.listeners.iter().map(|piece| piece.value.name.clone()).collect::<Vec<_>>()
    };
    let alone = names(&translated(&world));
    world.apply(Kind::Gateway, Change::All(vec![gateway("HTTP")]));
    let translation = translated(&world);
    assert_eq!(lines(&translation), ["80 a.example/* > shop.web.80"]);
    assert_eq!(names(&translation), alone, "connections outlive the arrival of a Gateway");
}

#[test]
fn statuses_have_the_addresses_of_the_load_balancer_in_front() {
    let mut world = world(vec![simple(json!({}))]);
    let points = |world: &World, provider: &KubernetesProvider| {
        let translation = with(world, provider, &[]);
        let wanted = &translation.statuses[&(Kind::Ingress, Key::new("shop", "web"))];
        let Says::Ingress { points, ports } = wanted.says.clone() else { panic!("{wanted:?}") };
        assert_eq!(ports.is_empty(), provider.publish_service.is_some() || !provider.publish.is_empty());
        points
    };
    assert_eq!(points(&world, &provider()), ["10.0.0.1"]);
    let published = KubernetesProvider { publish: vec!["lb.example".into()], ..provider() };
    assert_eq!(points(&world, &published), ["lb.example"]);
    let by_service = KubernetesProvider { publish_service: Some("shop/front".into()), ..published };
    assert_eq!(points(&world, &by_service), ["lb.example"], "it has no address yet");
    let by_service_alone = KubernetesProvider { publish: Vec::new(), ..by_service.clone() };
    assert_eq!(points(&world, &by_service_alone), [""; 0], "none is better than that of a pod");
    let front = json!({
        "metadata": { "namespace": "shop", "name": "front" },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }, { "hostname": "front.example" }] } },
    });
    world.apply(Kind::Service, Change::Put(front));
    assert_eq!(points(&world, &by_service), ["192.0.2.7", "front.example"]);
}

#[test]
fn annotations_about_requests_are_kept() {
    let seconds = std::time::Duration::from_secs;
    let (route, _) = route_with(json!({
        "proxy-connect-timeout": "7", "proxy-read-timeout": "3600s", "proxy-send-timeout": "30", "proxy-body-size": "8m",
        "upstream-vhost": "app.internal", "whitelist-source-range": "10.0.0.0/8, 192.0.2.1", "denylist-source-range": "10.1.0.0/16",
        "limit-rps": "10", "limit-connections": "20",
    }));
    let timeouts = &route.timeouts;
    assert_eq!((timeouts.connect, timeouts.response, timeouts.idle), (seconds(7), Some(seconds(3600)), seconds(3600)));
    assert_eq!((route.filters.body_max, route.filters.send_host.to_string()), (Some(8 << 20), "app.internal".into()));
    let access = route.filters.access.expect("it is set");
    assert_eq!((access.allow.len(), access.deny.len(), access.status), (2, 1, 403));
    assert_eq!(format!("{:?}", route.filters.limits).matches("burst: 50").count(), 1, "{:?}", route.filters.limits);
    assert_eq!(route.filters.limits.len(), 2);

    let (route, _) = route_with(json!({ "enable-cors": "true" }));
    let cors = route.filters.cors.expect("it is set");
    assert_eq!((cors.origins[0].to_string(), cors.credentials, cors.methods.len()), ("*".into(), false, 6));
    let (route, _) = route_with(json!({
        "enable-cors": "true", "cors-allow-origin": "https://a.example, https://*.b.example", "cors-max-age": "60",
        "cors-allow-methods": "GET", "cors-allow-headers": "X-A", "cors-expose-headers": "X-B",
    }));
    let cors = route.filters.cors.expect("it is set");
    assert_eq!((cors.origins.len(), cors.credentials, cors.max_age, cors.expose.len()), (2, true, seconds(60), 1));
    let (route, _) = route_with(json!({ "cors-allow-origin": "*" }));
    assert_eq!(route.filters.cors, None);
    let (route, _) = route_with(json!({ "rewrite-target": "/" }));
    assert_eq!(route.filters.rewrite.and_then(|rewrite| rewrite.path).map(|path| path.to_string()), Some("/".into()));
}

#[test]
fn annotations_about_endpoints_are_kept() {
    let (_, pool) = route_with(json!({}));
    assert_eq!((&*pool.name, pool.tls, pool.sticky), ("shop.web.80", None, None));
    for (protocol, expected) in
        [("HTTP", "Http1 false"), ("https", "Http1 true"), ("GRPC", "H2 false"), ("GRPCS", "H2 true")]
    {
        let (_, pool) = route_with(json!({ "backend-protocol": protocol }));
        assert_eq!(format!("{:?} {}", pool.protocol, pool.tls.is_some_and(|tls| !tls.verify)), expected, "{protocol}");
    }
    let (_, pool) = route_with(json!({
        "affinity": "cookie", "session-cookie-name": "route", "session-cookie-max-age": "172800",
        "session-cookie-samesite": "None", "session-cookie-path": "/app", "session-cookie-expires": "1",
    }));
    let sticky = pool.sticky.expect("it is set");
    assert_eq!((&*sticky.cookie, &*sticky.path, sticky.secure), ("route", "/app", true));
    assert_eq!(sticky.ttl.map(|ttl| ttl.as_secs()), Some(172_800));
    assert_eq!(sticky.secret, Secret::Inline("evenkeel affinity uid-web".into()), "equal in each process");
    for (name, value, expected) in [
        ("load-balance", "ewma", "peak_ewma"),
        ("load-balance", "round_robin", "round_robin"),
        ("upstream-hash-by", "$http_x_tenant", "maglev{key=header:x-tenant}"),
    ] {
        let (_, pool) = route_with(json!({ name: value }));
        assert_eq!(pool.balance.to_string(), expected, "{name}");
    }
}

#[test]
fn users_and_services_that_decide_are_kept() {
    let basic = json!({ "auth-type": "basic", "auth-secret": "users", "auth-realm": "Staff only" });
    for (annotations, data) in [
        (basic.clone(), json!({ "auth": STANDARD.encode(format!("\n{BCRYPT}\n\n")) })),
        (
            json!({ "auth-type": "basic", "auth-secret": "shop/users", "auth-secret-type": "auth-map" }),
            json!({ "ann": STANDARD.encode(BCRYPT.trim_start_matches("ann:")) }),
        ),
    ] {
        let mut world = world(vec![simple(annotations)]);
        world.apply(Kind::Secret, Change::All(vec![secret("users", data)]));
        let translation = translated(&world);
        assert_eq!(events(&translation), [""; 0]);
        let auth = translation.part.routes[0].value.filters.basic_auth.clone().expect("it is set");
        assert!(!format!("{auth:?}").contains("$2y$"), "{auth:?}");
        assert!(!auth.keep);
    }
    let (route, _) = route_with(json!({
        "auth-url": "http://auth.shop.svc.cluster.local/check?x=1", "auth-response-headers": "X-User, Set-Cookie, X-Mail",
    }));
    let auth = route.filters.forward_auth.expect("it is set");
    assert_eq!((&*auth.pool, auth.path.as_deref()), ("shop.auth.80", Some("/check?x=1")));
    assert_eq!((auth.copy_headers.len(), &*auth.client_headers[0]), (2, "Set-Cookie"));
    let (route, _) = route_with(json!({ "auth-url": "https://auth.example:8443/check" }));
    assert_eq!(&*route.filters.forward_auth.expect("it is set").pool, "url_https.auth.example.8443");
}

#[test]
fn redirects_aliases_and_the_root_of_the_application_become_routes() {
    for (annotations, expected) in [
        (json!({ "permanent-redirect": "https://b.example/x" }), vec!["80 a.example/* > 301 https://b.example/x"]),
        (
            json!({ "temporal-redirect": "https://b.example$request_uri" }),
            vec!["80 a.example/* > 302 https://b.example{path}"],
        ),
        (json!({ "app-root": "/app" }), vec!["80 a.example/* > shop.web.80", "80 a.example/ > 302 /app"]),
        (
            json!({ "server-alias": "b.example, *.c.example" }),
            vec![
                "80 a.example/* > shop.web.80",
                "80 b.example/* > shop.web.80",
                "80 *.c.example/* [host: (?i)[^.]+\\.c\\.example\\.?(:[0-9]+)?] > shop.web.80",
            ],
        ),
    ] {
        let translation = translated(&world(vec![simple(annotations.clone())]));
        assert_eq!(lines(&translation), expected, "{annotations}");
        assert_eq!(events(&translation), [""; 0], "{annotations}");
    }
}

#[test]
fn a_canary_divides_the_requests_of_another_ingress() {
    let canary = |annotations: Value| {
        let mut all = annotations;
        all["canary"] = "true".into();
        ingress("z", all, json!({ "rules": [rule("a.example", vec![path("/", "Prefix", "canary")])] }))
    };
    for (annotations, expected) in [
        (json!({ "canary-weight": "10" }), vec!["80 a.example/* > split shop.web.80 90, shop.canary.80 10"]),
        (json!({ "canary-weight": "0" }), vec!["80 a.example/* > shop.web.80"]),
        (json!({ "canary-weight": "100" }), vec!["80 a.example/* > shop.canary.80"]),
        (
            json!({ "canary-by-header": "X-Canary", "canary-by-cookie": "beta", "canary-weight": "1", "canary-weight-total": "1000" }),
            vec![
                "80 a.example/* [x-canary: always] > shop.canary.80",
                "80 a.example/* [x-canary: never] > shop.web.80",
                "80 a.example/* [cookie beta=always] > shop.canary.80",
                "80 a.example/* [cookie beta=never] > shop.web.80",
                "80 a.example/* > split shop.web.80 999, shop.canary.80 1",
            ],
        ),
        (
            json!({ "canary-by-header": "X-Canary", "canary-by-header-value": "yes" }),
            vec!["80 a.example/* [x-canary: yes] > shop.canary.80", "80 a.example/* > shop.web.80"],
        ),
    ] {
        let translation = translated(&world(vec![canary(annotations.clone()), simple(json!({}))]));
        assert_eq!(lines(&translation), expected, "{annotations}");
        assert_eq!(events(&translation), [""; 0], "{annotations}");
    }
    let alone = translated(&world(vec![canary(json!({ "canary-weight": "10" }))]));
    assert_eq!(lines(&alone), [""; 0]);
    names(&alone, "no other Ingress of this namespace has a path of this canary");
}
