//! `[filters.NAME]` and `[defaults.route]`: filters that several routes share.

use super::FILTER_KEYS;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::nearest::Names;
use crate::table::{Absent, Key, Kind, Named, Section, Table};
use std::collections::HashMap;

/// A set of filters, by a name that routes use.
pub(crate) static FILTER_SET: Table = Table {
    path: "[filters.NAME]",
    help: "Filters that several routes share, by naming the set in `use`. The keys mean the same as in `[[route]]`. A \
        key of the route itself is preferred. Two sets of one route cannot set the same key.",
    inherits: false,
    keys: SHARED,
};

/// Filters of all routes that do not set them.
pub(crate) static DEFAULT_ROUTE: Table = Table {
    path: "[defaults.route]",
    help: "Filters of every HTTP route, including the routes of a listener's `pool`. The keys mean the same as in \
        `[[route]]`. A key that the route sets itself, or gets from `use`, replaces the whole key.",
    inherits: false,
    keys: SHARED,
};

const SHARED: &[Key] = &shared::<{ shared_count() }>();

const fn shared_count() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < FILTER_KEYS.len() {
        count += FILTER_KEYS[at].is_shared as usize;
        at += 1;
    }
    count
}

const fn shared<const N: usize>() -> [Key; N] {
    let mut all = [*FILTER_KEYS[0].key; N];
    let (mut count, mut at) = (0, 0);
    while at < FILTER_KEYS.len() {
        if FILTER_KEYS[at].is_shared {
            all[count] = *FILTER_KEYS[at].key;
            count += 1;
        }
        at += 1;
    }
    all
}

/// The key `use` of routes.
pub(in crate::sections) const USE: Key = Key {
    name: "use",
    kind: Kind::List(&Kind::Text(Form::Name)),
    absent: Absent::Means("no sets"),
    help: "Names of `[filters.NAME]` tables. The route gets their keys too.",
    why: "",
};

/// The route with the keys of the sets that it uses.
pub(crate) fn with_sets(route: &Section, sets: &[Named], findings: &mut Findings) -> Section {
    let (mut whole, mut from) = (route.clone(), HashMap::new());
    for (name, span) in route.texts("use") {
        let Some(set) = sets.iter().find(|set| set.name == name) else {
            let help = Names::new(sets.iter().map(|set| &*set.name)).suggest(&name, "add the set");
            findings.add(Code::UnknownSet, span, format!("unknown set of filters \"{name}\"")).help(help);
            continue;
        };
        let keys = FILTER_SET.keys.iter().map(|key| key.name).filter(|key| set.section.has(key) && !route.has(key));
        for key in keys {
            if let Some(other) = from.insert(key, &set.name).filter(|other| **other != set.name) {
                let message = format!("the sets \"{other}\" and \"{name}\" both have \"{key}\"");
                let help = format!("set \"{key}\" in the route, or use one of the two sets");
                findings.add(Code::Contradiction, span, message).help(help);
            }
        }
        whole = whole.over(&set.section);
    }
    whole
}
