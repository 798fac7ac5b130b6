//! Tests that Ingresses of a namespace cannot affect another namespace.

use super::*;

/// Moves an object into another namespace, where it is older than all others.
fn elsewhere(mut object: Value) -> Value {
    object["metadata"]["namespace"] = "other".into();
    object["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
    object
}

fn service_of(namespace: &str, name: &str, ports: Value) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name, "uid": "x" }, "spec": { "ports": ports } })
}

#[test]
fn a_canary_of_another_namespace_gets_no_requests() {
    let canary = |name| {
        let rules = json!({ "rules": [rule("a.example", vec![path("/", "Prefix", "canary")])] });
        ingress(name, json!({ "canary": "true", "canary-weight": "100" }), rules)
    };
    let mut world = world(vec![simple(json!({})), elsewhere(canary("theirs"))]);
    world.apply(Kind::Service, Change::Put(service_of("other", "canary", json!([{ "port": 80 }]))));
    let translation = translated(&world);
    assert_eq!(lines(&translation), ["80 a.example/* > shop.web.80"]);
    names(&translation, "no other Ingress of this namespace has a path of this canary");
    world.apply(Kind::Ingress, Change::Put(canary("ours")));
    assert_eq!(lines(&translated(&world)), ["80 a.example/* > shop.canary.80"], "theirs takes no place of ours");
}

#[test]
fn a_port_number_that_a_service_has_twice_is_the_one_for_tcp() {
    let tcp = json!({ "name": "dns-tcp", "port": 53, "protocol": "TCP" });
    let udp = json!({ "name": "dns", "port": 53, "protocol": "UDP" });
    for ports in [json!([tcp, udp]), json!([udp, tcp])] {
        for port in [json!({ "number": 53 }), json!({ "name": "dns-tcp" })] {
            let paths = json!([{ "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "web", "port": port } } }]);
            let object =
                ingress("web", json!({}), json!({ "rules": [{ "host": "a.example", "http": { "paths": paths } }] }));
            let mut world = world(vec![object]);
            world.apply(Kind::Service, Change::Put(service_of("shop", "web", ports.clone())));
            let translation = translated(&world);
            assert_eq!(lines(&translation), ["80 a.example/* > shop.web.53"], "{ports}");
            let discover = format!("{:?}", translation.part.pools[0].value.discover);
            assert!(discover.contains("Name(\"dns-tcp\")"), "{ports}: {discover}");
        }
    }
    let mut world = world(vec![simple(json!({}))]);
    world.apply(Kind::Service, Change::Put(service_of("shop", "web", json!([{ "port": 80, "protocol": "UDP" }]))));
    names(&translated(&world), "Service shop/web has port 80 for UDP only");
}

#[test]
fn the_server_of_a_url_takes_no_pool_of_a_service() {
    let url = elsewhere(simple(json!({ "auth-url": "http://web:80/" })));
    let mut own = simple(json!({}));
    own["metadata"]["namespace"] = "http".into();
    let mut world = world(vec![url, own]);
    for namespace in ["http", "other"] {
        world.apply(Kind::Service, Change::Put(service_of(namespace, "web", json!([{ "port": 80 }]))));
    }
    let translation = translated(&world);
    let pool = translation.part.pools.iter().find(|piece| &*piece.value.name == "http.web.80").expect("it has a pool");
    assert!(pool.value.discover.is_some() && pool.value.endpoints.is_empty(), "{:?}", pool.value);
}

/// Certificates of the port for TLS: the hosts of each, and the namespace of its Secret.
fn shown(translation: &Translation, pairs: &[(&str, String)]) -> Vec<String> {
    let tls = translation.part.listeners[1].value.tls.as_ref().expect("it has TLS");
    let one = |certificate: &evenkeel_config::plan::Certificate| {
        let hosts: Vec<String> = certificate.hosts.iter().map(ToString::to_string).collect();
        let text = format!("{:?}", certificate.cert);
        let of =
            pairs.iter().find(|(_, cert)| text.contains(cert.lines().nth(1).expect("PEM"))).map_or("-", |(of, _)| *of);
        format!("{of}: {}", hosts.join(" "))
    };
    tls.certificates.iter().map(one).collect()
}

fn pair(namespace: &str, names: &[&str]) -> (Value, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let cert = rcgen::CertificateParams::new(names).and_then(|of| of.self_signed(&key)).expect("a certificate").pem();
    let data = json!({ "tls.crt": STANDARD.encode(&cert), "tls.key": STANDARD.encode(key.serialize_pem()) });
    (json!({ "metadata": { "namespace": namespace, "name": "cert" }, "data": data }), cert)
}

#[test]
fn a_certificate_counts_for_hosts_of_rules_of_its_namespace_alone() {
    let of = |namespace: &str, hosts: &[&str], at: &str| {
        let mut object = tls("web", json!({}), hosts);
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["creationTimestamp"] = at.into();
        object["spec"]["tls"] = json!([{ "secretName": "cert" }]);
        object
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
    let (wild, all): (&[&str], &[&str]) = (&["*.x.example"], &["*.x.example", "www.x.example", "x.example"]);
    // Rules and certificate of shop, then of other, and the hosts that each certificate is shown for.
    for (ours, theirs, expected) in [
        ((wild, wild, new), (&["b.example"][..], all, old), vec!["shop: *.x.example"]),
        ((wild, wild, old), (wild, all, new), vec!["shop: *.x.example"]),
        ((&["www.x.example"][..], wild, new), (wild, all, old), vec!["other: *.x.example", "shop: www.x.example"]),
        ((&["www.x.example"][..], wild, old), (&["www.x.example"][..], all, new), vec!["shop: www.x.example"]),
        ((wild, wild, new), (&[""][..], all, old), vec!["other: x.example", "shop: *.x.example"]),
        ((&["www.x.example", "y.example"][..], all, old), (&["y.example"][..], all, new), vec!["shop: www.x.example"]),
    ] {
        let (of_shop, of_other) = (pair("shop", ours.1), pair("other", theirs.1));
        let mut world = world(vec![of("shop", ours.0, ours.2), of("other", theirs.0, theirs.2)]);
        world.apply(Kind::Secret, Change::All(vec![of_shop.0, of_other.0]));
        let translation = translated(&world);
        let shown = shown(&translation, &[("shop", of_shop.1), ("other", of_other.1)]);
        assert_eq!(shown[0], "-: ", "the one for unknown names is first");
        assert_eq!(shown[1..], expected, "{ours:?} {theirs:?}");
    }
}

#[test]
fn tls_of_another_namespace_redirects_nothing() {
    let (secret, _) = certificate();
    let mut theirs = elsewhere(tls("theirs", json!({}), &["b.example"]));
    theirs["spec"]["tls"] = json!([{ "hosts": ["a.example", "*.example"], "secretName": "cert" }]);
    let mut world = world(vec![simple(json!({})), theirs]);
    world.apply(Kind::Secret, Change::All(vec![secret]));
    world.apply(Kind::Service, Change::Put(service_of("other", "web", json!([{ "port": 80 }]))));
    let ours: Vec<String> = lines(&translated(&world)).into_iter().filter(|line| line.contains("a.example")).collect();
    assert_eq!(ours, ["80+443 a.example/* > shop.web.80"]);
}

#[test]
fn a_service_that_decides_is_neither_this_machine_nor_one_of_its_links() {
    for host in [
        "127.0.0.1:9900",
        "localhost",
        "LOCALHOST.",
        "a.localhost:81",
        "[::1]:81",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "[fe80::1]",
        "0.0.0.0:81",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let mut world = world(vec![simple(json!({ "auth-url": format!("http://{host}/v1/config") }))]);
        let translation = translated(&world);
        assert_eq!(lines(&translation), ["80 a.example/* > respond 503"], "{host}");
        names(&translation, "set `local_networks` of [discovery] to allow its network");
        if ["0.", "224.", "255."].iter().any(|no_machine| host.starts_with(no_machine)) {
            continue;
        }
        world.local_networks = ["0.0.0.0/0", "::/0"].map(|all| network(all).expect("a network")).to_vec();
        assert_eq!(lines(&translated(&world)), ["80 a.example/* > shop.web.80"], "{host}");
    }
    let (route, _) = route_with(json!({ "auth-url": "http://auth.example/" }));
    let translation = translated(&world(vec![simple(json!({ "auth-url": "http://auth.example/" }))]));
    let pool = route.filters.forward_auth.expect("it is set").pool;
    let pool = translation.part.pools.iter().find(|piece| piece.value.name == pool).expect("it has a pool");
    assert!(pool.value.refuse_local, "its name may resolve to this machine");
}

fn network(text: &str) -> Option<evenkeel_config::plan::Cidr> {
    let (ip, prefix) = text.split_once('/')?;
    evenkeel_config::plan::Cidr::around(ip.parse().ok()?, prefix.parse().ok()?)
}
