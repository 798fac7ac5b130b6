//! References from a namespace to another. A ReferenceGrant in the target namespace has to allow them.

use crate::providers::kubernetes::world::objects::{Key, Reference};
use crate::providers::kubernetes::world::store::World;

/// An object that refers to others.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
}

/// True if an object may refer to another object.
pub fn allows(world: &World, from: From<'_>, (group, kind): (&str, &str), to: &Key) -> bool {
    from.namespace == to.namespace
        || world.grants.values().filter(|grant| grant.metadata.namespace == to.namespace).any(|grant| {
            let of = |one: &crate::providers::kubernetes::world::objects::GrantFrom| {
                one.group == from.group && one.kind == from.kind && one.namespace == from.namespace
            };
            let to_it = |one: &crate::providers::kubernetes::world::objects::GrantTo| {
                one.group == group && one.kind == kind && one.name.as_ref().is_none_or(|name| *name == to.name)
            };
            grant.spec.from.iter().any(of) && grant.spec.to.iter().any(to_it)
        })
}

/// Group and kind of a reference, which defaults to the core group and this kind.
pub fn kind_of<'r>(reference: &'r Reference, default: &'r str) -> (&'r str, &'r str) {
    (reference.group.as_deref().unwrap_or_default(), reference.kind.as_deref().unwrap_or(default))
}
