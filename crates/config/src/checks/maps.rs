//! References to maps: names that exist, no cycles, and inputs that are known where a map is used.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, LimitKey, Template, TemplatePart, Variable};
use crate::nearest::Names;
use crate::sections::map::Map;
use crate::source::Span;
use crate::table::{Keyed, Located, Section, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Lookup of the maps of a plan, with suggestions for names that do not exist.
pub(super) struct Maps<'m> {
    by_name: HashMap<&'m str, &'m Map>,
    names: Names<'m>,
}

/// Point in the way of a request at which a map is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A match or a condition, before the route is known.
    Match,
    /// The pool of a route or the key of its limits, before its other filters.
    Route,
    /// A value, which is rendered behind the filters that verify users.
    Value,
}

impl<'m> Maps<'m> {
    pub fn new(maps: &'m [Arc<Map>]) -> Maps<'m> {
        let by_name = maps.iter().map(|map| (&*map.name, &**map)).collect();
        Maps { by_name, names: Names::new(maps.iter().map(|map| &*map.name)) }
    }

    pub fn get(&self, name: &str) -> Option<&'m Map> {
        self.by_name.get(name).copied()
    }

    /// Variables that a map and the maps below it need. Ends for cycles, too.
    fn needs(&self, name: &str) -> Vec<&'m Variable> {
        let (mut seen, mut open, mut needs) = (BTreeSet::new(), vec![name.to_owned()], Vec::new());
        while let Some(map) = open.pop().and_then(|name| self.get(&name)) {
            if seen.insert(&*map.name) {
                open.extend(map.maps().map(ToString::to_string));
                needs.extend(map.variables().filter(|variable| !matches!(variable, Variable::Map(_))));
            }
        }
        needs
    }

    /// Reports a use of a map that does not exist, or whose input is not known at its place.
    pub fn check_use(&self, name: &str, place: Place, span: Span, findings: &mut Findings) {
        if self.get(name).is_none() {
            let help = self.names.suggest(name, "add the map: [map.NAME] with from and rows");
            findings.add(Code::UnknownMap, span, format!("unknown map \"{name}\"")).help(help);
            return;
        }
        let unknown = |variable: &&&Variable| match variable {
            Variable::User | Variable::Claim(_) => place != Place::Value,
            Variable::PathParameter(_) => place == Place::Match,
            _ => false,
        };
        if let Some(variable) = self.needs(name).iter().find(unknown) {
            let (what, when) = match variable {
                Variable::PathParameter(_) => ("a parameter of the path", "before the route is chosen"),
                Variable::User => ("the user", "before the user is verified"),
                _ => ("a claim", "before the token is verified"),
            };
            let message = format!("map \"{name}\" is looked up {when}, and needs {what}");
            findings.add(Code::UnknownMap, span, message).help(
                "use it in header values, rewrites and redirects, or give it another input, such as a header field",
            );
        }
    }

    /// Literal values that a map can have; `Err` with the name of a map if its rows are in a file, or if its default
    /// has other variables.
    fn values(&self, name: &str) -> Result<BTreeSet<&'m str>, &'m str> {
        let (mut open, mut seen, mut values) = (vec![name.to_owned()], BTreeSet::new(), BTreeSet::new());
        while let Some(map) = open.pop().and_then(|name| self.get(&name)) {
            if !seen.insert(&*map.name) {
                continue;
            }
            if map.file.is_some() {
                return Err(&map.name);
            }
            values.extend(map.rows.iter().map(|(_, value)| &**value));
            match (map.default.as_ref().map(Template::parts), map.default.as_ref().and_then(Template::only_map)) {
                (None | Some([]), _) => {}
                (Some([TemplatePart::Text(text)]), _) => _ = values.insert(text),
                (_, Some(next)) => open.push(next.to_string()),
                _ => return Err(&map.name),
            }
        }
        Ok(values)
    }

    /// Names of the pools that a map can choose. `all` are those to choose from if its rows are in a file.
    pub fn pools(&self, name: &str, all: &[Arc<str>]) -> Arc<[Arc<str>]> {
        match self.values(name) {
            Ok(values) => all.iter().filter(|pool| values.contains(&***pool)).cloned().collect(),
            Err(_) => all.into(),
        }
    }
}

/// Reports cycles, and uses of maps in values, criteria and keys. Uses in `pool` are checked with the routes.
pub(super) fn check(root: &Section, maps: &[Arc<Map>], findings: &mut Findings) {
    let known = Maps::new(maps);
    for named in root.named("map") {
        if let Some(cycle) = cycle(&known, &named.name) {
            let message = format!("map \"{}\" depends on itself: {}", named.name, cycle.join(" -> "));
            let help = "give one of them another \"from\" or \"default\"";
            findings.add(Code::Loop, named.span, message).help(help);
        }
    }
    root.each_value(&mut |value| match &value.value {
        Value::Formed(Formed::Template(template)) => {
            let names: BTreeSet<&Arc<str>> = template.maps().collect();
            names.into_iter().for_each(|name| known.check_use(name, Place::Value, value.span, findings));
        }
        // Conditions of matches, and of changes to fields.
        Value::Section(section) if section.knows("map") => {
            for Keyed { key, span, .. } in section.map("map") {
                known.check_use(key, Place::Match, *span, findings);
            }
        }
        _ => {}
    });
    for limit in root.named("limit") {
        if let Some(Formed::LimitKey(LimitKey::Map(name))) = limit.section.formed("key") {
            known.check_use(&name, Place::Route, limit.section.span_of("key"), findings);
        }
    }
    let sets = root.named("filters").iter().map(|named| &named.section);
    let defaults = root.section("defaults").section("route");
    for route in root.sections("route").into_iter().chain(sets).chain([&defaults]) {
        for limit in route.sections("limits").into_iter().filter(|limit| !limit.has("use")) {
            if let Some(Formed::LimitKey(LimitKey::Map(name))) = limit.formed("key") {
                known.check_use(&name, Place::Route, limit.span_of("key"), findings);
            }
        }
        for (name, span) in route.section("cache").texts("maps") {
            known.check_use(&name, Place::Value, span, findings);
        }
    }
}

/// Names on a way from a map back to itself, which is last, too.
fn cycle<'m>(maps: &Maps<'m>, name: &'m str) -> Option<Vec<&'m str>> {
    let (mut seen, mut ways) = (BTreeSet::new(), vec![vec![name]]);
    while let Some(way) = ways.pop() {
        let Some(map) = way.last().and_then(|name| maps.get(name)) else { continue };
        for next in map.maps() {
            let longer = || way.iter().copied().chain([&**next]).collect();
            if **next == *name {
                return Some(longer());
            }
            if seen.insert(&**next) {
                ways.push(longer());
            }
        }
    }
    None
}

/// Reports the choice of a pool by a map: values that are not pools, and a map that may have no value.
pub(super) fn check_choice(
    root: &Section,
    route: &Section,
    maps: &Maps<'_>,
    name: &str,
    is_pool: impl Fn(&str) -> bool,
    pools: &Names<'_>,
    findings: &mut Findings,
) {
    let span = route.span_of("pool");
    maps.check_use(name, Place::Route, span, findings);
    let (mut open, mut seen) = (vec![name.to_owned()], BTreeSet::new());
    while let Some(map) = open.pop().and_then(|name| maps.get(&name)) {
        if !seen.insert(&*map.name) {
            continue;
        }
        let Some(named) = root.named("map").iter().find(|named| *named.name == *map.name) else { continue };
        for Keyed { value: Located { span, value }, .. } in named.section.map("rows") {
            if let Value::Formed(Formed::Text(text)) = value
                && !is_pool(text)
            {
                let message = format!("unknown pool \"{text}\", which map \"{}\" can choose", map.name);
                findings.add(Code::UnknownPool, *span, message).help(pools.suggest(text, "add the pool"));
            }
        }
        let default = named.section.span_of("default");
        if let Some(next) = map.default.as_ref().and_then(Template::only_map) {
            open.push(next.to_string());
            continue;
        }
        match map.default.as_ref().map(Template::parts) {
            Some([TemplatePart::Text(text)]) if is_pool(text) => {}
            Some([TemplatePart::Text(text)]) => {
                let message = format!("unknown pool \"{text}\", which map \"{}\" can choose", map.name);
                findings.add(Code::UnknownPool, default, message).help(pools.suggest(text, "add the pool"));
            }
            Some([_, ..]) => {
                let message =
                    format!("\"default\" of map \"{}\", which chooses a pool, is not the name of a pool", map.name);
                findings.add(Code::UnknownPool, default, message).help("write a name, or \"{map.OTHER}\"");
            }
            None | Some([]) if requires(route, name) => {}
            None | Some([]) => {
                let message = format!("map \"{}\" has no \"default\", so some requests would have no pool", map.name);
                findings.add(Code::Missing, span, message).help(format!(
                    "set default = \"POOL\" in [map.{}], or match = {{ map = {{ {name} = {{ present = true }} }} }} in the route",
                    map.name
                ));
            }
        }
    }
}

/// True if the route takes only requests for which the map has a value.
fn requires(route: &Section, name: &str) -> bool {
    let expects = |part: &Section| {
        part.map("map").iter().any(|keyed| {
            let Value::Section(expected) = &keyed.value.value else { return false };
            keyed.key == name && (expected.has("equal") || expected.flag("present") && expected.has("present"))
        })
    };
    let matches = route.section("match");
    let alternatives = matches.sections("any");
    expects(&matches) || !alternatives.is_empty() && alternatives.into_iter().all(expects)
}
