//! Objects of a hostile namespace, in thousands of shapes. None of them may change how another namespace is served.
//!
//! [`innocent`] has the objects of the other namespace and their expected service, [`shapes`] makes hostile objects
//! from a seed. [`seeds`](crate::hostile::seeds) has the test run on.

mod innocent;
mod shapes;

use crate::providers::kubernetes::hostile::innocent::{Served, world};
use crate::providers::kubernetes::world::store::{Change, World};
use shapes::Shapes;

/// Worlds of the test of every day, with some 1,600 hostile objects.
const WORLDS: u64 = 80;

/// Hostile objects that are there at a time, at most.
const AT_ONCE: usize = 40;

/// A world with hostile objects of a seed, and their manifests.
fn hostile(seed: u64) -> (World, String) {
    let (mut world, mut shapes) = (world(), Shapes::new(seed));
    let mut manifests = String::new();
    for _ in 0..=shapes.below(AT_ONCE) {
        let (kind, object) = shapes.object();
        manifests += &format!("{}: {object}\n", kind.name());
        world.apply(kind, Change::Put(object));
    }
    (world, manifests)
}

fn check(seed: u64, before: &Served) {
    let (world, manifests) = hostile(seed);
    let served = Served::of(&world);
    if let Some(harm) = before.harm(&served) {
        panic!("seed {seed}: {harm}\n{manifests}");
    }
}

#[test]
fn no_object_changes_what_another_namespace_is_served() {
    let before = Served::of(&world());
    before.is_whole();
    crate::hostile::seeds(WORLDS, |seed| check(seed, &before));
}

/// The first two were found by attack: each removed every listener of all providers.
#[test]
fn names_that_no_pool_can_have_cost_their_object_only() {
    let before = Served::of(&world());
    let label = "x".repeat(64);
    let name = "n".repeat(50);
    for (of, manifest) in [
        (
            "Ingress evil/auth",
            format!(
                "kind: Ingress
metadata: {{ name: auth, namespace: evil, annotations: {{ nginx.ingress.kubernetes.io/auth-url: 'http://{label}/' }} }}
spec:
  ingressClassName: evenkeel
  rules: [{{ host: evil.example, http: {{ paths: [{{ path: /, pathType: Prefix, backend: {{ service: {{ name: web, port: {{ number: 80 }} }} }} }}] }} }}]"
            ),
        ),
        (
            "Service evil/",
            format!(
                "kind: HTTPRoute
metadata: {{ name: length, namespace: evil }}
spec:
  parentRefs: [{{ name: web, namespace: infra }}]
  hostnames: [evil.example]
  rules:
  - backendRefs:
    - name: {name}
      port: 80
      filters: [{{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{{ name: Content-Length, value: '1' }}] }} }}]"
            ),
        ),
    ] {
        let mut world = world();
        for text in [manifest, shapes::service(&name)] {
            let (kind, object) = shapes::read(&text);
            world.apply(kind, Change::Put(object));
        }
        let served = Served::of(&world);
        assert_eq!(before.harm(&served), None);
        assert!(served.refused.iter().any(|refused| refused.starts_with(of)), "{:?}", served.refused);
    }
}
