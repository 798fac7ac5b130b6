//! Tests of statuses about pieces that are not in use, and about rules that are not kept.

use super::*;

/// Two listeners, and a Route at both.
const TWO: &str = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: http, port: 80, protocol: HTTP }
  - { name: more, port: 9900, protocol: HTTP }
---
kind: HTTPRoute
metadata: { name: web }
spec: { parentRefs: [{ name: web }], rules: [{ backendRefs: [{ name: web, port: 80 }] }] }";

/// Translates with refusals of the listeners of some ports, and of the objects `of`.
fn refused(manifests: &str, ports: &[u16], of: &[&str]) -> Translation {
    let world = world(manifests.trim_start());
    let mut addresses = Addresses::new(&provider().addresses);
    let first = translate(&world, &provider(), &mut addresses, None, &[]);
    let listeners = first.part.listeners.iter().filter(|piece| ports.contains(&piece.value.bind[0].port()));
    let mut refused: Vec<Refusal> =
        listeners.map(|piece| Refusal { of: piece.of.clone(), why: "it is in use".into() }).collect();
    refused.extend(of.iter().map(|of| Refusal { of: (*of).into(), why: "unknown listener \"x\"".into() }));
    let translation = translate(&world, &provider(), &mut addresses, None, &refused);
    assert_eq!(translation.part, first.part, "it is offered again");
    translation
}

fn says(translation: &Translation, kind: Kind, name: &str) -> Says {
    translation.statuses[&(kind, Key::new("infra", name))].says.clone()
}

#[test]
fn a_listener_that_is_refused_costs_itself_alone() {
    let translation = refused(TWO, &[9900], &[]);
    assert_eq!(faults(&translation), ["Gateway web more: Programmed Invalid"]);
    let Says::Gateway { conditions, listeners, .. } = says(&translation, Kind::Gateway, "web") else { panic!() };
    let shown: Vec<_> = conditions.iter().map(|one| (one.of, one.holds, one.reason)).collect();
    assert_eq!(shown[..2], [("Accepted", true, "ListenersNotValid"), ("Programmed", true, "Programmed")]);
    let programmed = listeners[1].conditions.iter().find(|one| one.of == "Programmed").expect("it has one");
    assert_eq!(programmed.message, "it is in use");
}

#[test]
fn a_route_whose_listeners_are_all_refused_is_accepted_and_its_gateway_says_why() {
    let translation = refused(TWO, &[80, 9900], &["HTTPRoute infra/web"]);
    assert_eq!(
        faults(&translation),
        [
            "Gateway web: Programmed Invalid",
            "Gateway web http: Programmed Invalid",
            "Gateway web more: Programmed Invalid"
        ]
    );
    let Says::Gateway { conditions, .. } = says(&translation, Kind::Gateway, "web") else { panic!() };
    assert_eq!(conditions[1].message, "it is in use");
}

#[test]
fn listeners_at_one_port_for_tcp_and_udp_are_refused_apart() {
    let manifests = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: tcp, port: 53, protocol: HTTP }
  - { name: udp, port: 53, protocol: UDP }
---
kind: UDPRoute
metadata: { name: dns }
spec: { parentRefs: [{ name: web }], rules: [{ backendRefs: [{ name: web, port: 80 }] }] }";
    let world = world(manifests.trim_start());
    let part = translate(&world, &provider(), &mut Addresses::new(&provider().addresses), None, &[]).part;
    let of: std::collections::BTreeSet<&str> = part.listeners.iter().map(|piece| &*piece.of).collect();
    assert_eq!(of, ["Gateway infra/web at UDP port 53", "Gateway infra/web at port 53"].into());
}

/// Reason and message of each condition of the only Route that is a fault.
fn route_faults(translation: &Translation) -> Vec<String> {
    let Says::Parents(parents) = says(translation, Kind::HttpRoute, "route-0") else { panic!() };
    let wrong = parents[0].conditions.iter().filter(|one| one.is_fault());
    wrong.map(|one| format!("{} {}: {}", one.of, one.holds, one.message)).collect()
}

#[test]
fn a_route_is_partially_invalid_if_some_rules_are_kept_and_not_accepted_if_none_is() {
    let good = "- { backendRefs: [{ name: web, port: 80 }] }";
    let odd = "- { matches: [{ path: { type: RegularExpression, value: '/(' } }] }";
    let filter = "- { name: ext, filters: [{ type: ExternalAuth }] }";
    let (translation, plan) = translated(&with_routes(&[&format!("rules:\n{good}\n{odd}\n{filter}")]));
    assert_eq!(
        route_faults(&translation),
        [
            "PartiallyInvalid true: Dropped Rule 1: \"/(\" is not a regular expression: unclosed group; Rule ext: filter ExternalAuth is not supported"
        ]
    );
    assert_eq!(plan.routes.len(), 2, "requests of an expression that cannot be read are not known");
    let (translation, _) = translated(&with_routes(&[&format!("rules:\n{odd}")]));
    assert_eq!(route_faults(&translation), ["Accepted false: \"/(\" is not a regular expression: unclosed group"]);
    for matching in [
        "headers: [{ type: RegularExpression, name: X-A, value: '(' }]",
        "queryParams: [{ type: RegularExpression, name: a, value: '(' }]",
    ] {
        let rule = format!("rules: [{{ matches: [{{ {matching} }}], backendRefs: [{{ name: web, port: 80 }}] }}]");
        let (translation, _) = translated(&with_routes(&[&rule]));
        assert!(route_faults(&translation)[0].starts_with("Accepted false: "), "{matching}");
    }
}

/// 2,048 expressions of a single Route took up to 1.6 GiB, and ten seconds of every reload.
#[test]
fn a_route_of_too_many_expressions_is_not_accepted() {
    let field = |n| format!("{{ type: RegularExpression, name: X-{n}, value: '/{n}/[0-9]+' }}");
    let rule = |from: usize, to: usize| {
        let fields = (from..to).map(field).collect::<Vec<_>>().join(", ");
        format!("- {{ matches: [{{ headers: [{fields}] }}], backendRefs: [{{ name: web, port: 80 }}] }}\n")
    };
    // A request has at most 100 fields.
    let each = |count: usize| (0..count).step_by(80).map(move |from| (from, (from + 80).min(count)));
    let rules = |count: usize| format!("rules:\n{}", each(count).map(|(from, to)| rule(from, to)).collect::<String>());
    let (translation, plan) = translated(&with_routes(&[&rules(401)]));
    let why = "Accepted false: the Route has 401 regular expressions, and 400 are allowed";
    assert_eq!(route_faults(&translation), [why]);
    assert!(plan.routes.iter().all(|route| route.expressions().next().is_none()));
    let (translation, _) = translated(&with_routes(&[&rules(400)]));
    assert_eq!(route_faults(&translation), [""; 0]);
}

#[test]
fn a_route_of_which_one_of_several_rules_is_refused_stays_accepted() {
    let rules = "rules:\n- { backendRefs: [{ name: web, port: 80 }] }\n- { matches: [{ path: { value: /b } }], backendRefs: [{ name: web, port: 81 }] }";
    let translation = refused(&with_routes(&[rules]), &[], &["HTTPRoute infra/route-0"]);
    assert_eq!(route_faults(&translation), ["PartiallyInvalid true: Dropped Rule: unknown listener \"x\""]);
    let translation = refused(
        &with_routes(&["rules: [{ backendRefs: [{ name: web, port: 80 }] }]"]),
        &[],
        &["HTTPRoute infra/route-0"],
    );
    assert_eq!(route_faults(&translation), ["Accepted false: unknown listener \"x\""]);
}

#[test]
fn a_listener_without_a_certificate_causes_one_event_that_names_the_secret() {
    let manifest = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners: [{ name: https, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: none }] } }]";
    let (translation, _) = translated(manifest.trim_start());
    let events: Vec<&str> = translation.events.iter().map(|event| &*event.message).collect();
    assert_eq!(events, ["listener https: Secret infra/none does not exist", "no listener can be served"]);
}

#[test]
fn a_gateway_behind_a_service_without_an_address_shows_none_and_waits_for_it() {
    let mut world = world(TWO.trim_start());
    let provider = KubernetesProvider { publish_service: Some("infra/front".into()), ..provider() };
    let own = "10.0.0.7".parse().ok();
    let translated = |world: &World| {
        let translation = translate(world, &provider, &mut Addresses::new(&provider.addresses), own, &[]);
        let Says::Gateway { addresses, .. } = says(&translation, Kind::Gateway, "web") else { panic!() };
        (addresses, faults(&translation))
    };
    let waiting = (vec![], vec!["Gateway web: Programmed AddressNotAssigned".to_owned()]);
    assert_eq!(translated(&world), waiting);
    let front = |status: Value| json!({ "metadata": { "namespace": "infra", "name": "front" }, "status": status });
    world.apply(Kind::Service, Change::Put(front(json!({ "loadBalancer": {} }))));
    assert_eq!(translated(&world), waiting);
    let with_address = front(json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } }));
    world.apply(Kind::Service, Change::Put(with_address));
    assert_eq!(translated(&world), (vec!["192.0.2.7".to_owned()], vec![]));
}
