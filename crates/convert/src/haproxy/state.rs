//! Changes that the rules of a section have made so far: fields, the path, variables, and requests that an `allow` took out.
//! Conditions of later rules are read as conditions on the request as the client sent it.

use super::acl::{fits, is_of_field};
use super::criteria::Atom;
use super::logic::Expr;
use crate::model::{Cond, Draft, Key, Maps, Test};
use evenkeel_config::plan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Value that a rule gives to a field or a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    Text(String),
    /// Text with variables of the request as the client sent it.
    Template(String),
    /// No value: `unset-var`.
    Removed,
    Unknown,
}

/// A rule that sets or removes a variable.
#[derive(Clone, Debug)]
struct Assignment {
    on: Expr,
    value: Source,
    /// Requests that the rules before it ended. Their responses see the variable as it was before.
    ended: Expr,
}

/// Effect of a rule on the lines of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Set(Source),
    Add(Source),
    Delete,
    /// Any other change of a field that is there.
    Replace,
}

/// Effect of a rule on the path, without the query.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathChange {
    Fixed(String),
    /// The beginning `from` becomes `to`.
    Prefix {
        from: String,
        to: String,
    },
    Unknown,
}

/// Key, table and condition of a `track-sc`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::haproxy) struct Tracker {
    pub key: String,
    pub table: String,
    pub on: Expr,
}

/// Counted keys, by the number behind `track-sc`; `None` for a number that stands for several.
pub(in crate::haproxy) type Trackers = BTreeMap<String, Option<Tracker>>;

/// Changes so far, each with its condition on the request as the client sent it.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Requests for which the rules of the section have ended.
    pub stopped: Expr,
    /// Requests that rules so far refused or answered.
    pub ended: Expr,
    /// Requests that an `allow` of client addresses took out. Address lists of routes know of them.
    pub allowed_clients: Expr,
    fields: BTreeMap<String, Vec<(Expr, Change)>>,
    pub paths: Vec<(Expr, PathChange)>,
    vars: BTreeMap<String, Vec<Assignment>>,
    /// Conditions of rules that change the method, the query or the client's address.
    pub methods: Expr,
    pub queries: Expr,
    pub clients: Expr,
    /// True if a rule changes the status of responses.
    pub has_status: bool,
    /// True if scripts or agents may set variables.
    pub has_scripts: bool,
    /// Variables that rules of backends set, which rules on responses of frontends read.
    pub set_behind: BTreeSet<String>,
    /// Counted keys of the frontend, by the number behind `track-sc`. Backends do not replace them.
    pub trackers: Trackers,
    /// True if the frontend keeps the line of the request for its rules and its log.
    pub captures: bool,
}

impl Default for State {
    fn default() -> State {
        let never = || Expr::Const(false);
        State {
            stopped: never(),
            ended: never(),
            allowed_clients: never(),
            fields: BTreeMap::new(),
            paths: Vec::new(),
            vars: BTreeMap::new(),
            methods: never(),
            queries: never(),
            clients: never(),
            has_status: false,
            has_scripts: false,
            set_behind: BTreeSet::new(),
            trackers: Trackers::new(),
            captures: true,
        }
    }
}

const CHANGED: &str = "a rule before it changes what it asks for";

impl State {
    /// The state in which the rules of a backend begin.
    pub fn of_backend(&self) -> State {
        let never = || Expr::Const(false);
        let mut vars = self.vars.clone();
        vars.values_mut().flatten().for_each(|assignment| assignment.ended = never());
        let set_behind = BTreeSet::new();
        State { stopped: never(), ended: never(), allowed_clients: never(), vars, set_behind, ..self.clone() }
    }

    pub fn change_field(&mut self, name: &str, on: Expr, change: Change) {
        let name = name.to_ascii_lowercase();
        if name.ends_with('*') {
            let others = self.fields.iter_mut().filter(|(other, _)| **other != name && fits(&name, other));
            others.for_each(|(_, changes)| changes.push((on.clone(), change.clone())));
        }
        if !self.fields.contains_key(&name) {
            let before = self.fields.iter().filter(|(other, _)| fits(other, &name));
            let before = before.flat_map(|(_, changes)| changes.iter().cloned()).collect();
            self.fields.insert(name.clone(), before);
        }
        self.fields.entry(name).or_default().push((on, change));
    }

    pub fn set_var(&mut self, name: &str, on: Expr, value: Source) {
        let ended = self.ended.clone();
        self.vars.entry(name.to_string()).or_default().push(Assignment { on, value, ended });
    }

    pub fn is_changed(&self, name: &str) -> bool {
        self.fields.keys().any(|pattern| fits(pattern, name))
    }

    /// The text of a variable that has the same value for every request, with variables of evenkeel.
    pub fn variable(&self, name: &str) -> Option<String> {
        match self.vars.get(name)?.as_slice() {
            [Assignment { on: Expr::Const(true), value: Source::Text(text), .. }] => Some(crate::model::braced(text)),
            [Assignment { on: Expr::Const(true), value: Source::Template(text), .. }] => Some(text.clone()),
            _ => None,
        }
    }

    /// True if every request sets a variable before it is read.
    fn is_fixed(&self, name: &str) -> bool {
        self.vars.get(name).and_then(|all| all.first()).is_some_and(|first| first.on == Expr::Const(true))
    }

    /// True if a text with variables reads a part of the request that a rule has changed.
    pub fn is_stale(&self, text: &str, maps: &Maps) -> bool {
        let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
        if has(&["{path", "{request_uri"]) && !self.paths.is_empty()
            || has(&["{query", "{request_uri"]) && self.queries != Expr::Const(false)
            || has(&["{method"]) && self.methods != Expr::Const(false)
            || has(&["{client."]) && self.clients != Expr::Const(false)
            || has(&["{host"]) && self.is_changed("host")
            || has(&["{cookie."]) && self.is_changed("cookie")
        {
            return true;
        }
        let named = |start: &str| -> Vec<String> {
            let ends = |rest: &str| rest.split(['}', '|']).next().unwrap_or_default().to_string();
            text.split(start).skip(1).map(ends).collect()
        };
        named("{header.").iter().any(|name| self.is_changed(name))
            || named("{map.").iter().any(|name| self.is_stale(&maps.input(name), maps))
    }

    /// True if a test reads a field that has been changed, so that it reads another value now.
    pub fn reads_changed(&self, atom: &Atom, maps: &Maps) -> bool {
        match atom {
            Atom::Is(Cond { key: Key::Map(name), .. }) => self.is_stale(&maps.input(name), maps),
            atom => self.fields.keys().any(|name| is_of_field(atom, name)),
        }
    }

    /// A condition on the request as the client sent it.
    pub fn view(&self, condition: &Expr, maps: &Maps) -> Expr {
        condition.map(&|atom| self.view_atom(atom, maps))
    }

    /// A condition of a rule on responses, which reads variables of requests that other rules may have ended.
    pub fn view_of_response(&self, condition: &Expr, maps: &Maps) -> Expr {
        condition.map(&|atom| match &**atom {
            Atom::Var(name, _) if self.set_behind.contains(name) => {
                Expr::unknown("rules of a backend set the variable")
            }
            Atom::Var(name, test) => self.view_var(name, test, true, maps),
            _ => self.view_atom(atom, maps),
        })
    }

    fn view_var(&self, name: &str, test: &Test, of_response: bool, maps: &Maps) -> Expr {
        if self.has_scripts && !self.vars.contains_key(name) {
            return Expr::unknown("scripts and agents set variables");
        }
        // Earlier requests of the connection, or others, may have set it.
        if ["sess.", "proc."].iter().any(|of| name.starts_with(of)) && !self.is_fixed(name) {
            return Expr::unknown("other requests set the variable");
        }
        let changes = self.vars.get(name).into_iter().flatten();
        changes.fold(Expr::Const(false), |before, Assignment { on, value, ended }| {
            // A sample without a value leaves the variable as it is.
            let on = on.clone().and(value.is_there(maps));
            let on = if of_response { on.and(ended.clone().not()) } else { on };
            choose(&on, value_is(value, test, maps), before)
        })
    }

    fn view_atom(&self, atom: &Arc<Atom>, maps: &Maps) -> Expr {
        let plain = || Expr::Is(Arc::clone(atom));
        let unless =
            |changed: &Expr| plain().and(changed.clone().not()).or(Expr::unknown(CHANGED).and(changed.clone()));
        match &**atom {
            Atom::Var(name, test) => self.view_var(name, test, false, maps),
            Atom::Is(Cond { key: Key::Path, test, .. }) => {
                self.paths.iter().fold(plain(), |before, (on, change)| choose(on, path_is(change, test), before))
            }
            Atom::Is(Cond { key: Key::Map(name), .. }) => match self.is_stale(&maps.input(name), maps) {
                true => Expr::unknown(CHANGED),
                false => plain(),
            },
            Atom::Is(Cond { key: Key::Method, .. }) => unless(&self.methods),
            Atom::Is(Cond { key: Key::Query(_), .. }) => unless(&self.queries),
            Atom::Is(Cond { key: Key::Client, .. }) | Atom::ClientFile(_) => unless(&self.clients),
            Atom::Unknown(_) | Atom::Rate(_) => plain(),
            _ => {
                // A whole name comes behind its beginnings.
                let changes = self.fields.iter().rfind(|(name, _)| is_of_field(atom, name));
                changes.into_iter().flat_map(|(_, changes)| changes).fold(plain(), |before, (on, change)| {
                    let now = field_is(change, atom, &before, maps);
                    choose(on, now, before)
                })
            }
        }
    }
}

/// `now` for requests with the condition, and `before` for others.
fn choose(on: &Expr, now: Expr, before: Expr) -> Expr {
    on.clone().and(now).or(on.clone().not().and(before))
}

/// True for a text that passes a test; `None` if that takes an expression.
fn takes(test: &Test, text: &str) -> Option<bool> {
    match test {
        Test::OneOf(values) => Some(values.iter().any(|value| value == text)),
        Test::Begins(start) => Some(text.starts_with(start.as_str())),
        Test::Ends(end) => Some(text.ends_with(end.as_str())),
        Test::Contains(part) => Some(text.contains(part.as_str())),
        Test::Present => Some(true),
        Test::Below(_) | Test::Regex(_) | Test::Search(_) => None,
    }
}

fn known(verdict: Option<bool>) -> Expr {
    verdict.map_or_else(|| Expr::unknown(CHANGED), Expr::Const)
}

impl Source {
    /// True for requests that the value can be made of: others do not have the field, or no row of the map.
    fn is_there(&self, maps: &Maps) -> Expr {
        let Source::Template(text) = self else { return Expr::Const(true) };
        let is = |key: Key| Expr::from(Cond::new(key, Test::Present));
        let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let (variable, functions) = inner.split_once('|').unwrap_or((inner, ""));
        let is_whole = !inner.contains(['{', '}']) && functions.split('|').all(|function| WHOLE.contains(&function));
        match variable.split_once('.') {
            _ if !is_whole => is(Key::Map(map_of(text, maps))),
            Some(("header", name)) if name.eq_ignore_ascii_case("host") => Expr::Const(true),
            Some(("header", name)) => is(Key::Header(name.to_string())),
            Some(("cookie", name)) => is(Key::Cookie(name.to_string())),
            Some(("query", name)) => is(Key::Query(name.to_string())),
            Some(("map", name)) => is(Key::Map(name.to_string())),
            _ => Expr::Const(true),
        }
    }
}

/// Functions that have a value for each value, even if it is empty.
const WHOLE: [&str; 5] = ["", "lower", "upper", "field(-1,',')", "trim"];

fn value_is(value: &Source, test: &Test, maps: &Maps) -> Expr {
    match value {
        Source::Text(text) => known(takes(test, text)),
        Source::Removed => Expr::Const(false),
        // It is only set if there is a value.
        Source::Template(_) if *test == Test::Present => Expr::Const(true),
        Source::Unknown => Expr::unknown(CHANGED),
        Source::Template(from) => {
            let cond = Cond::new(Key::Map(map_of(from, maps)), test.clone());
            match *test {
                Test::Below(_) => Expr::unknown(CHANGED),
                _ => cond.into(),
            }
        }
    }
}

/// Name of a map with the value of a text: the map that the text is, or a map of the whole text.
fn map_of(from: &str, maps: &Maps) -> String {
    let inner = from.strip_prefix("{map.").and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = inner.filter(|name| !name.contains(['{', '|'])) {
        return name.to_string();
    }
    // Its only row says the same as the default.
    let mut rows = crate::model::Entries::default();
    rows.set("-", "-");
    let map: Draft<plan::Map> = Draft::one(key!("from"), from).with(key!("rows"), rows).with(key!("default"), from);
    maps.name(&format!("value-{}", from.trim_matches(['{', '}'])), &map)
}

fn field_is(change: &Change, atom: &Atom, before: &Expr, maps: &Maps) -> Expr {
    let is = |value: &Source| match (atom, value) {
        (Atom::Field(test), Source::Text(text)) => known(test.takes(text)),
        (Atom::Host(test), Source::Text(text)) => {
            Expr::Const(test.names().any(|name| name.strip_prefix('*').map_or(name == text, |end| text.ends_with(end))))
        }
        (Atom::Host(test), value) => value_is(value, &test.exact(), maps),
        (Atom::Is(Cond { test, .. }), value) => value_is(value, test, maps),
        _ => Expr::unknown(CHANGED),
    };
    let asks_presence = matches!(atom, Atom::Is(Cond { test: Test::Present, .. }));
    match change {
        // A field with an empty value is there, too.
        Change::Set(_) | Change::Add(_) if asks_presence => Expr::Const(true),
        Change::Set(value) => is(value),
        Change::Add(value) => before.clone().or(is(value)),
        Change::Delete => Expr::Const(false),
        Change::Replace if asks_presence => before.clone(),
        Change::Replace => Expr::unknown(CHANGED),
    }
}

fn path_is(change: &PathChange, test: &Test) -> Expr {
    let is = |test: Test| Expr::from(Cond::new(Key::Path, test));
    let moved =
        |text: &String, from: &String, to: &String| text.strip_prefix(to.as_str()).map(|rest| format!("{from}{rest}"));
    match (change, test) {
        (PathChange::Fixed(path), test) => known(takes(test, path)),
        (PathChange::Prefix { from, to }, Test::OneOf(paths)) => {
            let each = paths.iter().filter_map(|path| moved(path, from, to));
            Expr::any(each.map(|path| is(Test::OneOf(vec![path]))))
        }
        (PathChange::Prefix { from, to }, Test::Begins(text)) => match moved(text, from, to) {
            Some(text) if text.is_empty() || text == "/" => Expr::Const(true),
            Some(text) => is(Test::Begins(text)),
            None => Expr::Const(to.starts_with(text.as_str())),
        },
        (PathChange::Unknown | PathChange::Prefix { .. }, _) => Expr::unknown(CHANGED),
    }
}
