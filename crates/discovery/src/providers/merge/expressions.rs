//! Limits of the regular expressions of providers. Beyond these limits, an object would cost all others memory, and
//! time at every reload.

use super::origins::Kind;
use super::pieces::Pieces;
use evenkeel_config::plan::{Extent, regex_cost};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Most bytes of the expressions of an object: 400 usual expressions, which take 3 to 4 KiB each.
const OBJECT_MAX: usize = 2 << 20;

/// Most bytes of the expressions of a provider.
const PROVIDER_MAX: usize = 16 << 20;

/// An object with expressions.
struct Object {
    provider: &'static str,
    /// Namespace; `None` if the provider has a single tenant.
    tenant: Option<Arc<str>>,
    texts: BTreeSet<(Arc<str>, Extent)>,
    routes: Vec<usize>,
    cost: usize,
    /// Bytes of its tenant's objects, up to and including this object.
    of_tenant: usize,
}

/// Leaves out the routes of objects with too many expressions, and routes for which a provider has no room left.
/// Tenants with few expressions come first, so that a tenant with many takes no room from them.
pub(super) fn limit(pieces: &mut Pieces) {
    let mut objects: Vec<Object> = Vec::new();
    let mut places: HashMap<(&'static str, Arc<str>), usize> = HashMap::new();
    for (at, provider, piece) in pieces.expressions() {
        let place = *places.entry((provider, piece.of.clone())).or_insert_with(|| {
            let (texts, routes) = Default::default();
            objects.push(Object { provider, tenant: piece.tenant.clone(), texts, routes, cost: 0, of_tenant: 0 });
            objects.len() - 1
        });
        objects[place].texts.extend(piece.value.expressions().map(|(text, extent)| (text.clone(), extent)));
        objects[place].routes.push(at);
    }
    let mut tenants: HashMap<(&'static str, Option<Arc<str>>), usize> = HashMap::new();
    for object in &mut objects {
        object.cost = object.texts.iter().map(|(text, extent)| regex_cost(text, *extent)).sum();
        if object.cost <= OBJECT_MAX {
            let sum = tenants.entry((object.provider, object.tenant.clone())).or_default();
            *sum += object.cost;
            object.of_tenant = *sum;
        }
    }
    // Stable: of equals, the first piece comes first.
    objects.sort_by_key(|object| object.of_tenant);
    let mut sums: BTreeMap<&'static str, usize> = BTreeMap::new();
    for Object { provider, texts, routes, cost, .. } in objects {
        let sum = sums.entry(provider).or_default();
        let why = if cost > OBJECT_MAX {
            let (cost, most) = (cost.div_ceil(1 << 10), OBJECT_MAX >> 10);
            let count = texts.len();
            format!("its {count} regular expressions take {cost} KiB, and an object may have {most} KiB")
        } else if *sum + cost > PROVIDER_MAX {
            let most = PROVIDER_MAX >> 10;
            format!("with its regular expressions, those of all objects would take more than {most} KiB")
        } else {
            *sum += cost;
            continue;
        };
        routes.into_iter().for_each(|at| pieces.leave_out((Kind::Route, at), why.clone()));
    }
}
