//! Limits of the regular expressions of providers. What an object has beyond them would take memory, and time of every
//! reload, from all others.

use super::origins::Kind;
use super::pieces::Pieces;
use evenkeel_config::plan::regex_cost;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of the expressions of an object: 400 usual ones, which take 3 to 4 KiB each.
const OBJECT_MAX: usize = 2 << 20;

/// Most bytes of the expressions of a provider.
const PROVIDER_MAX: usize = 16 << 20;

/// Leaves out the routes of objects with too many expressions, and those behind which a provider has too many.
pub(super) fn limit(pieces: &mut Pieces) {
    let mut objects: BTreeMap<(&'static str, Arc<str>), (BTreeSet<Arc<str>>, Vec<usize>)> = BTreeMap::new();
    let mut order = Vec::new();
    for (at, provider, of, texts) in pieces.expressions() {
        let object = objects.entry((provider, of.clone())).or_insert_with(|| {
            order.push((provider, of));
            Default::default()
        });
        object.0.extend(texts);
        object.1.push(at);
    }
    let mut sums: BTreeMap<&'static str, usize> = BTreeMap::new();
    for key in order {
        let Some((texts, routes)) = objects.remove(&key) else { continue };
        let cost: usize = texts.iter().map(|text| regex_cost(text)).sum();
        let sum = sums.entry(key.0).or_default();
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
