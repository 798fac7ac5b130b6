//! Ingresses of this controller: Ingresses with a class of the controller, and, if such a class is the default,
//! Ingresses without a class.

use crate::providers::kubernetes::world::objects::{IngressSpec, Object};
use crate::providers::kubernetes::world::store::World;
use evenkeel_config::plan::KubernetesProvider;

/// Annotation of an Ingress that names its class. `spec.ingressClassName` has replaced it.
const CLASS: &str = "kubernetes.io/ingress.class";

/// Annotation of the IngressClass that Ingresses without a class have.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// Returns the Ingresses that are served, oldest first.
pub fn served<'w>(world: &'w World, provider: &KubernetesProvider) -> Vec<&'w Object<IngressSpec>> {
    let classes = || world.ingress_classes.values().filter(|class| *class.spec.controller == *provider.controller);
    let is_default =
        classes().any(|class| class.metadata.annotations.get(IS_DEFAULT).is_some_and(|value| value == "true"));
    let is_ours = |name: &str| match world.ingress_classes.values().find(|class| class.metadata.name == name) {
        Some(class) => *class.spec.controller == *provider.controller,
        None => name == &*provider.ingress_class,
    };
    let is_served = |ingress: &&Object<IngressSpec>| {
        let annotation = ingress.metadata.annotations.get(CLASS);
        match (&ingress.spec.ingress_class_name, annotation) {
            (Some(name), _) => is_ours(name),
            (None, Some(name)) => *name == *provider.ingress_class,
            (None, None) => is_default,
        }
    };
    let mut served: Vec<_> = world.ingresses.values().map(|ingress| &**ingress).filter(is_served).collect();
    served.sort_by_key(|ingress| ingress.metadata.age());
    served
}
