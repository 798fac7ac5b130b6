//! Tests of the translation: manifests in, a plan and statuses out.

mod refusals;
mod sharing;

use super::*;
use crate::providers::kubernetes::translate::translate;
use crate::providers::kubernetes::world::store::Change;
use crate::providers::kubernetes::{GATEWAY_KINDS, INGRESS_KINDS, KINDS};
use crate::providers::merge::{Unwanted, merge};
use evenkeel_config::plan::{Action, HostPattern, PathPattern, Plan};
use serde_json::{Value, json};

/// Objects of manifests. Each is in the namespace `infra` unless it names another, and is younger than the objects
/// before it.
fn world(manifests: &str) -> World {
    let mut world = World::default();
    let class = json!({
        "kind": "GatewayClass", "metadata": { "name": "evenkeel" },
        "spec": { "controllerName": provider().controller },
    });
    let service = json!({
        "kind": "Service", "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }, { "name": "alt", "port": 81 }] },
    });
    let documents = manifests.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).expect("a manifest"));
    for (at, mut object) in [class, service].into_iter().chain(documents).enumerate() {
        let kinds = KINDS.into_iter().chain(GATEWAY_KINDS).chain(INGRESS_KINDS);
        let kind = kinds.into_iter().find(|kind| object["kind"] == kind.name()).expect("a known kind");
        let namespace = match kind {
            Kind::GatewayClass | Kind::Namespace => "",
            _ => object["metadata"]["namespace"].as_str().unwrap_or("infra"),
        };
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{at:02}Z").into();
        world.apply(kind, Change::Put(object));
    }
    assert_eq!(world.unreadable, [].into());
    world
}

fn provider() -> KubernetesProvider {
    KubernetesProvider::default()
}

/// Translates manifests, and checks that nothing of it is refused.
fn translated(manifests: &str) -> (Translation, Plan) {
    let mut addresses = Addresses::new(&provider().addresses);
    let translation = translate(&world(manifests), &provider(), &mut addresses, None, &[]);
    let base = Plan::builder().providers(evenkeel_config::plan::Providers { kubernetes: Some(provider()), xds: None });
    let base = base.build("test").plan.expect("an empty plan");
    let parts = [("kubernetes", Arc::new(translation.part.clone()))];
    let merged = merge(&base, &parts, &Unwanted::new(), &base);
    assert_eq!(merged.refused, [].into());
    (translation, merged.plan)
}

/// Conditions that do not hold, by kind, name and parent or listener.
fn faults(translation: &Translation) -> Vec<String> {
    let mut all = Vec::new();
    for ((kind, key), wanted) in &translation.statuses {
        let mut add = |of: &str, conditions: &[Condition]| {
            let wrong = conditions.iter().filter(|one| one.is_fault());
            all.extend(wrong.map(|one| format!("{} {}{of}: {} {}", kind.name(), key.name, one.of, one.reason)));
        };
        match &wanted.says {
            Says::Class { conditions, .. } => add("", conditions),
            Says::Gateway { conditions, listeners, .. } | Says::ListenerSet { conditions, listeners } => {
                add("", conditions);
                listeners.iter().for_each(|listener| add(&format!(" {}", listener.name), &listener.conditions));
            }
            Says::Parents(parents) | Says::Ancestors(parents) => {
                parents.iter().for_each(|parent| add(&format!(" at {}", parent.to.name), &parent.conditions));
            }
            Says::Ingress { .. } => {}
        }
    }
    all
}

const GATEWAY: &str = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners: [{ name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }]
---
";

/// A Gateway and Routes of it.
fn with_routes(routes: &[&str]) -> String {
    let route = |(at, spec): (usize, &&str)| {
        let spec = spec.replace('\n', "\n  ");
        format!("kind: HTTPRoute\nmetadata: {{ name: route-{at} }}\nspec:\n  parentRefs: [{{ name: web }}]\n  {spec}")
    };
    let routes: Vec<String> = routes.iter().enumerate().map(route).collect();
    GATEWAY.trim_start().to_owned() + &routes.join("\n---\n")
}

#[test]
fn a_route_leads_from_the_port_of_its_gateway_to_the_pods_of_its_service() {
    let (translation, plan) = translated(&with_routes(&["rules: [{ backendRefs: [{ name: web, port: 80 }] }]"]));
    assert_eq!(faults(&translation), [""; 0]);
    assert_eq!((&*plan.listeners[0].name, plan.listeners[0].bind[0].to_string()), ("port-80", "[::]:80".into()));
    let route = &plan.routes[0];
    assert_eq!((&*route.name, &route.action), ("infra/route-0", &Action::Pool("infra.web.80".into())));
    let discover = plan.pools[0].discover.as_ref().expect("endpoints are discovered");
    assert_eq!((discover.source.to_string().as_str(), discover.allow_empty), ("kubernetes:infra/web", true));
}

#[test]
fn the_more_specific_rule_wins_then_the_older_route_then_the_earlier_rule() {
    let (_, plan) = translated(&with_routes(&[
        "rules:
- { matches: [{ path: { type: PathPrefix, value: /a } }], backendRefs: [{ name: web, port: 80 }] }
- { matches: [{ path: { type: PathPrefix, value: /a } }, { headers: [{ name: X-A, value: '1' }] }], backendRefs: [{ name: web, port: 81 }] }",
        "rules: [{ matches: [{ path: { type: PathPrefix, value: /a/ } }, { headers: [{ name: X-B, value: '1' }] }], backendRefs: [{ name: web, port: 80 }] }]",
    ]));
    let order: Vec<(&str, u32)> = plan.routes.iter().map(|route| (&*route.name, route.order)).collect();
    let names = ["infra/route-0/0", "infra/route-0/1.0", "infra/route-0/1.1", "infra/route-1.0", "infra/route-1.1"];
    assert_eq!(order, names.into_iter().zip(0..).collect::<Vec<_>>());
    assert_eq!(plan.routes[3].matching.path, PathPattern::Prefix("/a".into()));
}

#[test]
fn requests_of_a_reference_that_leads_nowhere_get_500_and_the_status_says_why() {
    let (translation, plan) = translated(&with_routes(&[
        "rules: [{ backendRefs: [{ name: web, port: 80 }, { name: none, port: 80, weight: 3 }] }]",
        "rules: [{ matches: [{ path: { value: /b } }], backendRefs: [{ name: web, port: 9 }] }]",
        "rules: [{ matches: [{ path: { value: /c } }], backendRefs: [{ name: api, namespace: other, port: 80 }] }]",
        "rules: [{ matches: [{ path: { value: /d } }] }]",
    ]));
    assert_eq!(
        faults(&translation),
        [
            "HTTPRoute route-0 at web: ResolvedRefs BackendNotFound",
            "HTTPRoute route-1 at web: ResolvedRefs BackendNotFound",
            "HTTPRoute route-2 at web: ResolvedRefs RefNotPermitted",
        ]
    );
    let shown: Vec<String> = plan.routes.iter().map(|route| route.action.to_string()).collect();
    let invalid = "kubernetes.invalid";
    assert_eq!(shown, [&*format!("split infra.web.80 1, {invalid} 3"), invalid, invalid, "respond 500"]);
    assert_eq!(plan.pool(invalid).and_then(|pool| pool.empty_status), Some(500));
}

#[test]
fn a_grant_in_the_namespace_of_the_service_allows_a_reference_to_it() {
    let route = "rules: [{ backendRefs: [{ name: api, namespace: other, port: 80 }] }]";
    let service = "kind: Service\nmetadata: { name: api, namespace: other }\nspec: { ports: [{ port: 80 }] }";
    let grant = |name: &str, kind: &str| {
        format!(
            "kind: ReferenceGrant\nmetadata: {{ name: {name}, namespace: other }}\nspec:\n  from: [{{ group: gateway.networking.k8s.io, kind: {kind}, namespace: infra }}]\n  to: [{{ group: '', kind: Service }}]"
        )
    };
    let with = |grant: String| [with_routes(&[route]), service.to_owned(), grant].join("\n---\n");
    assert_eq!(faults(&translated(&with(grant("a", "HTTPRoute"))).0), [""; 0]);
    let wrong = faults(&translated(&with(grant("a", "GRPCRoute"))).0);
    assert_eq!(wrong, ["HTTPRoute route-0 at web: ResolvedRefs RefNotPermitted"]);
}

#[test]
fn the_most_specific_listener_alone_has_a_host() {
    let manifests = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: any, port: 80, protocol: HTTP }
  - { name: wide, port: 80, protocol: HTTP, hostname: '*.a.com' }
  - { name: one, port: 80, protocol: HTTP, hostname: web.a.com }
---
kind: HTTPRoute
metadata: { name: any }
spec:
  parentRefs: [{ name: web, sectionName: any }]
  hostnames: [web.a.com, x.a.com, b.com]
  rules: [{ backendRefs: [{ name: web, port: 80 }] }]
---
kind: HTTPRoute
metadata: { name: wide }
spec:
  parentRefs: [{ name: web, sectionName: wide }]
  rules: [{ backendRefs: [{ name: web, port: 80 }] }]
---
kind: HTTPRoute
metadata: { name: none }
spec:
  parentRefs: [{ name: web, sectionName: one }]
  hostnames: [x.a.com]
  rules: [{ backendRefs: [{ name: web, port: 80 }] }]";
    let (translation, plan) = translated(manifests.trim_start());
    assert_eq!(faults(&translation), ["HTTPRoute none at web: Accepted NoMatchingListenerHostname"]);
    let hosts = |name: &str| {
        let route = plan.routes.iter().find(|route| &*route.name == name).unwrap_or_else(|| panic!("no {name}"));
        (route.matching.hosts.clone(), route.action.to_string())
    };
    assert_eq!(hosts("infra/any").0, [HostPattern::Exact("b.com".into())]);
    assert_eq!(hosts("infra/wide").0, [HostPattern::Wildcard(".a.com".into())]);
    // Requests that no Route of the listener takes end there.
    assert_eq!(hosts("port-80/web.a.com"), (vec![HostPattern::Exact("web.a.com".into())], "respond 404".into()));
    assert_eq!(plan.routes.len(), 4);
}

#[test]
fn listeners_that_exclude_each_other_or_lack_something_cost_themselves() {
    let manifests = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: http, port: 80, protocol: HTTP }
  - { name: udp, port: 80, protocol: UDP }
  - { name: https, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: none }] } }
  - { name: odd, port: 81, protocol: QUIC }
  - { name: kinds, port: 82, protocol: HTTP, allowedRoutes: { kinds: [{ kind: TCPRoute }] } }
---
kind: Gateway
metadata: { name: younger }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: tcp, port: 80, protocol: TCP }
  - { name: http, port: 80, protocol: HTTP }
  - { name: pass, port: 444, protocol: TLS, tls: { mode: Passthrough } }
  - { name: end, port: 444, protocol: TLS, tls: { certificateRefs: [{ name: none }] } }";
    let (translation, plan) = translated(manifests.trim_start());
    assert_eq!(
        faults(&translation),
        [
            "Gateway web https: Programmed Invalid",
            "Gateway web https: ResolvedRefs InvalidCertificateRef",
            "Gateway web odd: Accepted UnsupportedProtocol",
            "Gateway web odd: Programmed Invalid",
            "Gateway web kinds: ResolvedRefs InvalidRouteKinds",
            "Gateway younger tcp: Accepted PortUnavailable",
            "Gateway younger tcp: Programmed Invalid",
            "Gateway younger pass: Accepted ProtocolConflict",
            "Gateway younger pass: Programmed ProtocolConflict",
            "Gateway younger pass: Conflicted ProtocolConflict",
            "Gateway younger end: Accepted ProtocolConflict",
            "Gateway younger end: Programmed ProtocolConflict",
            "Gateway younger end: ResolvedRefs InvalidCertificateRef",
            "Gateway younger end: Conflicted ProtocolConflict",
        ]
    );
    let names: Vec<&str> = plan.listeners.iter().map(|listener| &*listener.name).collect();
    assert_eq!(names, ["port-80", "port-82"], "sessions and datagrams without a Route have nowhere to go");
}

#[test]
fn what_is_not_known_of_a_rule_makes_it_answer_500_and_its_route_says_so() {
    let (translation, plan) = translated(&with_routes(&["rules:
- { matches: [{ path: { value: /a } }], filters: [{ type: ExternalAuth }], backendRefs: [{ name: web, port: 80 }] }
- { matches: [{ path: { value: /b } }], backendRefs: [{ name: web, port: 80 }] }"]));
    assert_eq!(faults(&translation), ["HTTPRoute route-0 at web: PartiallyInvalid UnsupportedValue"]);
    let shown: Vec<String> = plan.routes.iter().map(|route| route.action.to_string()).collect();
    assert_eq!(shown, ["respond 500", "infra.web.80"]);
}

#[test]
fn a_match_that_needs_a_larger_head_than_listeners_take_is_refused_in_the_status() {
    let fields = |number: usize, length: usize| {
        let field = |n| format!("{{ name: X-{n}, value: {} }}", "v".repeat(length));
        format!("{{ headers: [{}] }}", (0..number).map(field).collect::<Vec<_>>().join(", "))
    };
    let to = "backendRefs: [{ name: web, port: 80 }]";
    let large = fields(16, 4096);
    let (translation, plan) = translated(&with_routes(&[
        &format!("rules: [{{ matches: [{large}], {to} }}]"),
        &format!("rules: [{{ matches: [{}], {to} }}]", fields(16, 900)),
        &format!("rules: [{{ matches: [{large}, {{ path: {{ value: /b }} }}], {to} }}]"),
        &format!("rules: [{{ matches: [{large}], {to} }}, {{ matches: [{{ path: {{ value: /c }} }}], {to} }}]"),
    ]));
    let expected = [
        "HTTPRoute route-0 at web: Accepted UnsupportedValue",
        "HTTPRoute route-2 at web: PartiallyInvalid UnsupportedValue",
        "HTTPRoute route-3 at web: PartiallyInvalid UnsupportedValue",
    ];
    assert_eq!(faults(&translation), expected);
    let mut shown: Vec<&str> = plan.routes.iter().map(|route| &*route.name).collect();
    shown.sort_unstable();
    assert_eq!(shown, ["infra/route-1", "infra/route-2.1", "infra/route-3/1"]);
}

#[test]
fn a_gateway_whose_routes_have_no_place_at_it_answers_404_and_their_services_get_nothing() {
    let manifests = with_routes(&["rules: [{ backendRefs: [{ name: web, port: 80 }] }]"]);
    let (translation, plan) = translated(&manifests.replace("[{ name: web }]", "[{ name: web, sectionName: other }]"));
    assert_eq!(faults(&translation), ["HTTPRoute route-0 at web: Accepted NoMatchingParent"]);
    assert_eq!(plan.pools, []);
    assert_eq!(actions(&plan), ["port-80/(none) at port-80: respond 404"]);
}

#[test]
fn sessions_and_datagrams_of_a_port_go_to_the_oldest_route_and_those_that_lead_nowhere_end() {
    let manifests = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: tcp, port: 5432, protocol: TCP }
  - { name: udp, port: 53, protocol: UDP }
  - { name: tls, port: 443, protocol: TLS, tls: { mode: Passthrough } }
---
kind: TCPRoute
metadata: { name: old }
spec: { parentRefs: [{ name: web }], rules: [{ backendRefs: [{ name: web, port: 80 }] }] }
---
kind: TCPRoute
metadata: { name: new }
spec: { parentRefs: [{ name: web }], rules: [{ backendRefs: [{ name: web, port: 81 }] }] }
---
kind: UDPRoute
metadata: { name: dns }
spec: { parentRefs: [{ name: web }], rules: [{ backendRefs: [{ name: none, port: 53 }] }] }
---
kind: TLSRoute
metadata: { name: db }
spec: { parentRefs: [{ name: web }], hostnames: [db.a.com], rules: [{ backendRefs: [{ name: web, port: 81 }] }] }";
    let (translation, plan) = translated(manifests.trim_start());
    assert_eq!(faults(&translation), ["UDPRoute dns at web: ResolvedRefs BackendNotFound"]);
    assert!(plan.listeners.iter().all(|listener| listener.pool.is_none()));
    let expected = [
        "tcp:infra/old at port-5432: infra.web.80",
        "udp:infra/dns at port-53-udp: kubernetes.nowhere",
        "tls:infra/db at port-443: infra.web.81",
    ];
    assert_eq!(actions(&plan), expected);
    let by_name = plan.routes.iter().find(|route| &*route.name == "tls:infra/db").expect("it is there");
    assert_eq!(by_name.matching.hosts, [HostPattern::Exact("db.a.com".into())]);
}

#[test]
fn of_two_ports_with_one_number_sessions_have_one_and_datagrams_the_other() {
    let udp = "{ name: dns, port: 53, protocol: UDP }";
    let tcp = "{ name: dns-tcp, port: 53, protocol: TCP }";
    for ports in [[tcp, udp], [udp, tcp]] {
        let manifests = format!(
            "
kind: Gateway
metadata: {{ name: web }}
spec:
  gatewayClassName: evenkeel
  listeners:
  - {{ name: tcp, port: 53, protocol: TCP }}
  - {{ name: udp, port: 53, protocol: UDP }}
---
kind: Service
metadata: {{ name: dns }}
spec: {{ ports: [{}] }}
---
kind: TCPRoute
metadata: {{ name: tcp }}
spec: {{ parentRefs: [{{ name: web, sectionName: tcp }}], rules: [{{ backendRefs: [{{ name: dns, port: 53 }}] }}] }}
---
kind: UDPRoute
metadata: {{ name: udp }}
spec: {{ parentRefs: [{{ name: web, sectionName: udp }}], rules: [{{ backendRefs: [{{ name: dns, port: 53 }}] }}] }}",
            ports.join(", ")
        );
        let (translation, plan) = translated(manifests.trim_start());
        assert_eq!(faults(&translation), [""; 0]);
        let expected = ["tcp:infra/tcp at port-53: infra.dns.53", "udp:infra/udp at port-53-udp: infra.dns.53.udp"];
        assert_eq!(actions(&plan), expected);
        let port_of = |pool: &str| format!("{:?}", plan.pool(pool).and_then(|pool| pool.discover.clone()));
        assert!(port_of("infra.dns.53").contains("Name(\"dns-tcp\")"), "{}", port_of("infra.dns.53"));
        assert!(port_of("infra.dns.53.udp").contains("Name(\"dns\")"), "{}", port_of("infra.dns.53.udp"));
    }
}

#[test]
fn sessions_and_datagrams_are_shared_by_weight() {
    let manifests = "
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: tcp, port: 5432, protocol: TCP }
  - { name: more, port: 5433, protocol: TCP }
  - { name: udp, port: 53, protocol: UDP }
  - { name: tls, port: 443, protocol: TLS, tls: { mode: Passthrough } }
---
kind: TCPRoute
metadata: { name: all }
spec:
  parentRefs: [{ name: web }]
  rules: [{ backendRefs: [{ name: web, port: 80, weight: 9 }, { name: web, port: 81 }, { name: none, port: 82, weight: 0 }] }]
---
kind: UDPRoute
metadata: { name: half }
spec:
  parentRefs: [{ name: web }]
  rules: [{ backendRefs: [{ name: web, port: 80, weight: 2 }, { name: none, port: 53, weight: 1 }, { name: web, port: 80 }] }]
---
kind: TLSRoute
metadata: { name: one }
spec:
  parentRefs: [{ name: web }]
  hostnames: [one.a.com]
  rules: [{ backendRefs: [{ name: web, port: 80, weight: 0 }, { name: web, port: 81, weight: 5 }] }]
---
kind: TLSRoute
metadata: { name: none }
spec:
  parentRefs: [{ name: web }]
  hostnames: [none.a.com]
  rules: [{ backendRefs: [{ name: web, port: 80, weight: 0 }] }]";
    let (translation, plan) = translated(manifests.trim_start());
    assert_eq!(
        faults(&translation),
        ["TCPRoute all at web: ResolvedRefs BackendNotFound", "UDPRoute half at web: ResolvedRefs BackendNotFound",]
    );
    let expected = [
        "tcp:infra/all at port-5432, port-5433: split infra.web.80 9, infra.web.81 1",
        "udp:infra/half at port-53-udp: split infra.web.80 3, kubernetes.nowhere 1",
        "tls:infra/one at port-443: infra.web.81",
        "tls:infra/none at port-443: kubernetes.nowhere",
    ];
    assert_eq!(actions(&plan), expected);
}

/// Routes of a plan in their order, with listeners and actions.
fn actions(plan: &Plan) -> Vec<String> {
    let mut routes: Vec<_> = plan.routes.iter().collect();
    routes.sort_by_key(|route| route.order);
    routes.iter().map(|route| format!("{} at {}: {}", route.name, route.listeners.join(", "), route.action)).collect()
}
