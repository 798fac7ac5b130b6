//! Tests of addresses and ports that several Gateways ask for: the oldest Gateway gets them.

use super::*;
use base64::Engine;
use std::net::IpAddr;

/// Faults of the statuses, and the addresses that are listened at.
fn shared(addresses: &[&str], manifests: &str) -> (Vec<String>, Vec<String>) {
    let addresses: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().expect("an address")).collect();
    let provider = KubernetesProvider { addresses, ..provider() };
    let translation =
        translate(&world(manifests.trim_start()), &provider, &mut Addresses::new(&provider.addresses), None, &[]);
    let bound = translation.part.listeners.iter().map(|piece| piece.value.bind[0].to_string()).collect();
    (faults(&translation), bound)
}

fn gateway(name: &str, namespace: &str, address: &str, listeners: &str) -> String {
    let addresses = if address.is_empty() { String::new() } else { format!("addresses: [{{ value: {address} }}]") };
    format!(
        "\n---\nkind: Gateway\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec:\n  gatewayClassName: evenkeel\n  listeners: [{listeners}]\n  {addresses}"
    )
}

fn gateways(all: &[String]) -> String {
    all.concat().trim_start_matches("\n---\n").to_owned()
}

const HTTP: &str = "{ name: http, port: 80, protocol: HTTP }";

#[test]
fn an_address_that_is_not_configured_is_never_bound() {
    for address in ["127.0.0.1", "10.9.9.9", "web.example"] {
        let all = [
            gateway("old", "default", "", HTTP),
            gateway("new", "other", address, "{ name: tcp, port: 80, protocol: TCP }"),
        ];
        let (faults, bound) = shared(&["::"], &gateways(&all));
        assert_eq!(faults, ["Gateway new: Programmed AddressNotUsable", "Gateway new tcp: Programmed Invalid"]);
        assert_eq!(bound, ["[::]:80"], "{address}");
    }
}

#[test]
fn a_gateway_whose_address_is_of_an_unknown_type_has_no_listener_that_is_served() {
    let manifest = gateway("new", "other", "", HTTP) + "\n  addresses: [{ type: Hostname, value: web.example }]";
    let (faults, bound) = shared(&["::"], &gateways(&[manifest]));
    assert_eq!(
        faults,
        [
            "Gateway new: Accepted UnsupportedAddress",
            "Gateway new: Programmed Invalid",
            "Gateway new http: Programmed Invalid"
        ]
    );
    assert_eq!(bound, [""; 0]);
}

#[test]
fn of_two_addresses_that_overlap_the_older_gateway_has_the_port() {
    for names in [["a", "z"], ["z", "a"]] {
        for wanted in [["::", "127.0.0.1"], ["127.0.0.1", "::"]] {
            let all = [0, 1].map(|at| gateway(names[at], names[at], &format!("'{}'", wanted[at]), HTTP));
            let (faults, bound) = shared(&["::", "127.0.0.1"], &gateways(&all));
            let younger = names[1];
            assert_eq!(
                faults,
                [
                    format!("Gateway {younger}: Accepted ListenersNotValid"),
                    format!("Gateway {younger}: Programmed Invalid"),
                    format!("Gateway {younger} http: Accepted PortUnavailable"),
                    format!("Gateway {younger} http: Programmed Invalid"),
                ]
            );
            assert_eq!(bound.len(), 1, "{bound:?}");
            assert_eq!(bound[0].contains("127.0.0.1"), wanted[0] == "127.0.0.1", "{bound:?}");
        }
    }
}

#[test]
fn a_younger_gateway_takes_no_port_from_ingresses() {
    let ingress = |name: &str| {
        format!(
            "\n---\nkind: Ingress\nmetadata: {{ name: {name}, namespace: shop }}\nspec:\n  ingressClassName: evenkeel\n  tls: [{{ hosts: [a.com] }}]\n  rules: [{{ host: a.com }}]"
        )
    };
    let tcp =
        |name: &str, port: u16| gateway(name, "other", "", &format!("{{ name: tcp, port: {port}, protocol: TCP }}"));
    let all = [tcp("old", 80), ingress("web"), tcp("a", 443), tcp("b", 444), gateway("c", "other", "", HTTP)];
    let (faults, _) = shared(&["::"], &gateways(&all));
    let of_ports: Vec<&String> = faults.iter().filter(|fault| fault.contains("PortUnavailable")).collect();
    assert_eq!(of_ports, ["Gateway a tcp: Accepted PortUnavailable", "Gateway c http: Accepted PortUnavailable"]);
    let (faults, bound) = shared(&["::"], &gateways(&[ingress("web"), tcp("a", 80), gateway("b", "b", "", HTTP)]));
    let of_ports: Vec<&String> = faults.iter().filter(|fault| fault.contains("PortUnavailable")).collect();
    assert_eq!(of_ports, ["Gateway a tcp: Accepted PortUnavailable"]);
    assert_eq!(bound, ["[::]:80", "[::]:443"], "requests are shared by host");
}

#[test]
fn a_younger_gateway_does_not_ask_the_clients_of_others_for_certificates() {
    let (cert, key) = evenkeel_tls::pair::self_signed_pem("a.com").expect("a certificate");
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let secret = format!(
        "\n---\nkind: Secret\nmetadata: {{ name: cert, namespace: infra }}\ndata: {{ tls.crt: {}, tls.key: {} }}",
        encoded(&cert),
        encoded(&key)
    );
    let authority = format!(
        "\n---\nkind: ConfigMap\nmetadata: {{ name: ca, namespace: infra }}\ndata:\n  ca.crt: |\n    {}",
        cert.trim().replace('\n', "\n    ")
    );
    let https = "{ name: https, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: cert }] } }";
    let open = |name: &str| gateway(name, "infra", "", https);
    let closed = |name: &str| {
        open(name)
            + "\n  tls: { frontend: { default: { validation: { caCertificateRefs: [{ kind: ConfigMap, group: '', name: ca }] } } } }"
    };
    for gateways_of in [[open("one"), closed("two")], [closed("one"), open("two")]] {
        let [one, two] = gateways_of;
        let (faults, bound) = shared(&["::"], &gateways(&[secret.clone(), authority.clone(), one, two]));
        assert!(faults.contains(&"Gateway two https: Accepted PortUnavailable".to_owned()), "{faults:?}");
        assert!(!faults.iter().any(|fault| fault.contains("one")), "{faults:?}");
        assert_eq!(bound, ["[::]:443"]);
    }
    let both = [secret, authority, closed("one"), closed("two")];
    assert_eq!(shared(&["::"], &gateways(&both)).0, [""; 0], "they ask for the same");
}

#[test]
fn a_younger_gateway_takes_no_port_from_a_listener_set_that_was_there_before() {
    let old = gateway("old", "infra", "", HTTP) + "\n  allowedListeners: { namespaces: { from: Same } }";
    let set = |port: u16| {
        format!(
            "\n---\nkind: ListenerSet\nmetadata: {{ name: set-{port} }}\nspec:\n  parentRef: {{ name: old }}\n  listeners: [{{ name: more, port: {port}, protocol: HTTP }}]"
        )
    };
    let young = gateway(
        "young",
        "other",
        "",
        "{ name: a, port: 81, protocol: TCP }, { name: b, port: 82, protocol: HTTP, hostname: a.com }, { name: c, port: 83, protocol: TCP }",
    );
    let (faults, _) = shared(&["::"], &gateways(&[old, set(81), young, set(83)]));
    let of_ports: Vec<&String> = faults.iter().filter(|fault| fault.contains("PortUnavailable")).collect();
    assert_eq!(
        of_ports,
        ["Gateway young a: Accepted PortUnavailable", "ListenerSet set-83 more: Accepted PortUnavailable"]
    );
}

#[test]
fn a_certificate_of_a_listener_is_for_its_host_and_a_host_of_no_use_costs_itself() {
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let secret = |namespace: &str, name: &str| {
        let (cert, key) = evenkeel_tls::pair::self_signed_pem(name).expect("a certificate");
        format!(
            "\n---\nkind: Secret\nmetadata: {{ name: cert, namespace: {namespace} }}\ndata: {{ tls.crt: {}, tls.key: {} }}",
            encoded(&cert),
            encoded(&key)
        )
    };
    let https = |host: &str| {
        format!("{{ name: https, port: 443, protocol: HTTPS, {host} tls: {{ certificateRefs: [{{ name: cert }}] }} }}")
    };
    let hosts = |theirs: &str| {
        let all = [
            secret("infra", "*.a.com"),
            secret("other", "www.a.com"),
            gateway("one", "infra", "", &https("hostname: '*.a.com',")),
            gateway("two", "other", "", &https(theirs)),
        ];
        let translation =
            translate(&world(&gateways(&all)), &provider(), &mut Addresses::new(&provider().addresses), None, &[]);
        let tls = translation.part.listeners[0].value.tls.clone().expect("it has TLS");
        let shown = |hosts: &[HostPattern]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let certificates: Vec<String> = tls.certificates.iter().map(|one| shown(&one.hosts)).collect();
        (certificates, shown(&tls.host_groups))
    };
    let both = |one: &str, other: &str| vec![one.to_owned(), other.to_owned()];
    assert_eq!(hosts("hostname: b.com,"), (both("*.a.com", "b.com"), "*.a.com b.com".into()));
    assert_eq!(hosts(""), (both("*.a.com", ""), "*.a.com".into()), "for the names in it, unless another one has them");
    // No part of the configuration takes a label of 64 letters.
    let long = format!("hostname: {}.com,", "x".repeat(64));
    assert_eq!(hosts(&long), (vec!["*.a.com".to_owned()], "*.a.com".into()));
}
