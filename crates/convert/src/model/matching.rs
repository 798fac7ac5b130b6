//! Conditions of routes: a list of conditions that all hold, some of them negated. Written as the keys of `match`.

use evenkeel_config::draft::{Entries, Value};

/// Part of a request that a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Listener,
    Host,
    Path,
    Method,
    Header(String),
    Query(String),
    Cookie(String),
    /// Value of a `[map.NAME]`.
    Map(String),
    Client,
    Scheme,
}

/// Values that a condition accepts. Paths have five forms of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Test {
    OneOf(Vec<String>),
    /// Text with which the value begins.
    Begins(String),
    /// Text with which the value ends.
    Ends(String),
    Contains(String),
    /// Regular expression for the whole value.
    Regex(String),
    /// Regular expression for a part of the value.
    Search(String),
    Present,
    /// A path and all paths below it. Without a slash at its end.
    Below(String),
}

/// A condition on a part of a request, or its negation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cond {
    pub key: Key,
    pub test: Test,
    pub negated: bool,
}

/// Conditions that must all hold; none of them: every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Match {
    pub conds: Vec<Cond>,
}

/// Reason why two sets of conditions cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// No request fulfils both of them.
    Never,
    /// The language has no way to write both.
    Unwritable,
}

impl Cond {
    pub fn new(key: Key, test: Test) -> Cond {
        Cond { key, test, negated: false }
    }

    /// A condition with a list of accepted values.
    pub fn one_of<T: Into<String>>(key: Key, values: impl IntoIterator<Item = T>) -> Cond {
        Cond::new(key, Test::OneOf(values.into_iter().map(Into::into).collect()))
    }

    pub fn negate(mut self) -> Cond {
        self.negated = !self.negated;
        self
    }

    /// True if a part of requests has to be absent.
    fn is_absence(&self) -> bool {
        self.negated && self.test == Test::Present
    }

    fn is_path(&self) -> bool {
        self.key == Key::Path
    }
}

/// Pattern with every character that has a meaning in regular expressions escaped.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) && c != '-' && c != '&' && c != '~' && c != '#' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl Test {
    /// The test of a path as a regular expression for the whole path.
    pub fn as_regex(&self) -> String {
        match self {
            Test::OneOf(paths) => paths.iter().map(|path| escape(path)).collect::<Vec<_>>().join("|"),
            Test::Begins(text) => format!("{}.*", escape(text)),
            Test::Ends(text) => format!(".*{}", escape(text)),
            Test::Contains(text) => format!(".*{}.*", escape(text)),
            Test::Regex(regex) => regex.clone(),
            Test::Search(regex) => format!(".*(?:{regex}).*"),
            Test::Below(path) => format!("{}(/.*)?", escape(path)),
            Test::Present => ".*".to_string(),
        }
    }

    /// The test of a path as a regular expression for a part of it.
    fn as_search(&self) -> String {
        match self {
            Test::OneOf(paths) => {
                let all: Vec<String> = paths.iter().map(|path| escape(path)).collect();
                format!("^(?:{})$", all.join("|"))
            }
            Test::Begins(text) => format!("^{}", escape(text)),
            Test::Ends(text) => format!("{}$", escape(text)),
            Test::Contains(text) => escape(text),
            Test::Regex(regex) => format!("^(?:{regex})$"),
            Test::Search(regex) => regex.clone(),
            Test::Below(path) => format!("^{}(?:/|$)", escape(path)),
            Test::Present => String::new(),
        }
    }

    /// True if a fixed path fulfils the test, as far as that is known without running regular expressions.
    pub fn takes(&self, path: &str) -> Option<bool> {
        match self {
            Test::OneOf(paths) => Some(paths.iter().any(|one| one == path)),
            Test::Begins(text) => Some(path.starts_with(text.as_str())),
            Test::Ends(text) => Some(path.ends_with(text.as_str())),
            Test::Contains(text) => Some(path.contains(text.as_str())),
            Test::Below(above) => Some(is_below(path, above)),
            Test::Regex(_) | Test::Search(_) => None,
            Test::Present => Some(true),
        }
    }

    /// Fixed text that every path that fulfils the test begins with.
    fn start(&self) -> &str {
        match self {
            Test::Begins(text) | Test::Below(text) => text,
            Test::OneOf(paths) if paths.len() == 1 => &paths[0],
            Test::Regex(regex) => {
                let end = regex.find(['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$']);
                let end = end.unwrap_or(regex.len());
                // The last character may be optional, and an alternative may begin anew.
                if regex.contains('|') {
                    ""
                } else {
                    &regex[..regex[..end].char_indices().last().map_or(0, |(at, _)| at)]
                }
            }
            _ => "",
        }
    }
}

/// True if `path` is `above`, or below it.
pub(crate) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above.is_empty())
}

/// True if a host pattern, exact or `*.x`, includes `host`, which may be a pattern too.
fn host_takes(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => pattern == host,
    }
}

impl Match {
    pub fn of(conds: impl IntoIterator<Item = Cond>) -> Match {
        Match { conds: conds.into_iter().collect() }
    }

    /// Joins the conditions of both into a single match.
    pub fn and(&self, other: &Match) -> Result<Match, Apart> {
        let mut all = self.clone();
        for cond in &other.conds {
            all.add(cond.clone())?;
        }
        all.is_writable().then_some(all).ok_or(Apart::Unwritable)
    }

    fn add(&mut self, cond: Cond) -> Result<(), Apart> {
        if self.conds.contains(&cond) {
            return Ok(());
        }
        if self.conds.contains(&cond.clone().negate()) {
            return Err(Apart::Never);
        }
        // Without a field, no other test of it holds.
        let of_same = |old: &Cond| old.key == cond.key;
        match self.conds.iter().any(|old| of_same(old) && old.is_absence()) {
            true if cond.negated => return Ok(()),
            true => return Err(Apart::Never),
            false if cond.is_absence() && self.conds.iter().any(|old| of_same(old) && !old.negated) => {
                return Err(Apart::Never);
            }
            false if cond.is_absence() => self.conds.retain(|old| !of_same(old)),
            false => {}
        }
        if let (Test::OneOf(new), false, false) = (&cond.test, cond.negated, cond.is_path()) {
            let same = |old: &&mut Cond| old.key == cond.key && !old.negated;
            if let Some(Cond { test: Test::OneOf(old), .. }) = self.conds.iter_mut().find(same) {
                let takes = |a: &String, b: &String| if cond.key == Key::Host { host_takes(a, b) } else { a == b };
                if cond.key == Key::Client {
                    return Err(Apart::Unwritable);
                }
                let both = old.iter().filter(|a| new.iter().any(|b| takes(b, a)));
                let both: Vec<String> =
                    both.chain(new.iter().filter(|b| old.iter().any(|a| takes(a, b)))).cloned().collect();
                old.clear();
                both.into_iter().for_each(|value| {
                    if !old.contains(&value) {
                        old.push(value)
                    }
                });
                return if old.is_empty() { Err(Apart::Never) } else { Ok(()) };
            }
        }
        if cond.is_path() && !self.add_path(&cond)? {
            return Ok(());
        }
        self.conds.push(cond);
        Ok(())
    }

    /// Reconciles a condition on the path with the others. False if they already imply it.
    fn add_path(&mut self, cond: &Cond) -> Result<bool, Apart> {
        let mut wanted = true;
        let mut never = false;
        self.conds.retain(|old| {
            if !old.is_path() {
                return true;
            }
            if let Some(verdict) = implied(old, cond) {
                (wanted, never) = (wanted && !verdict, never || !verdict);
                return true;
            }
            match implied(cond, old) {
                // The new condition implies the old condition.
                Some(true) => false,
                Some(false) => {
                    never = true;
                    true
                }
                None => true,
            }
        });
        if never { Err(Apart::Never) } else { Ok(wanted) }
    }

    /// True if each key of the language is needed at most once.
    fn is_writable(&self) -> bool {
        let mut keys = Vec::new();
        // Lists under `not` are joined, and so are paths.
        let is_joined = |cond: &&Cond| cond.negated && (cond.is_path() || matches!(cond.test, Test::OneOf(_)));
        for cond in self.conds.iter().filter(|cond| !is_joined(cond)) {
            let path = match &cond.test {
                Test::OneOf(_) if cond.is_path() && self.only_path().is_none() => "search",
                test if cond.is_path() => path_key(test),
                _ => "",
            };
            keys.push(format!("{}{:?}{path}", cond.negated, cond.key));
        }
        let paths =
            self.conds.iter().filter(|cond| cond.is_path() && !cond.negated && is_from_left(&cond.test)).count();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        let hosts = |key: &Key| self.conds.iter().any(|cond| cond.negated && cond.key == *key);
        let is_host_twice = hosts(&Key::Host) && hosts(&Key::Header("Host".to_string()));
        // A whole path leaves nothing for an expression.
        let has = |is: fn(&Test) -> bool| self.conds.iter().any(|c| c.is_path() && !c.negated && is(&c.test));
        let is_fixed = has(|test| matches!(test, Test::OneOf(_)));
        let is_twice = is_fixed && has(|test| matches!(test, Test::Regex(_) | Test::Search(_) | Test::Contains(_)));
        // A name has one test under `not`, which is a list or not.
        let excludes = |key: &Key, is_list: bool| {
            let is = |test: &Test| matches!(test, Test::OneOf(_)) == is_list;
            self.conds.iter().any(|cond| cond.negated && cond.key == *key && is(&cond.test))
        };
        let is_mixed = |cond: &Cond| !cond.is_path() && excludes(&cond.key, true) && excludes(&cond.key, false);
        let has_mixed = self.conds.iter().any(is_mixed);
        !is_host_twice
            && !is_twice
            && !has_mixed
            && paths <= 1
            && keys.len() == count
            && self.conds.iter().all(is_sound)
    }

    /// True if every request that fulfils these conditions is known to fulfil `other` too.
    pub fn implies(&self, other: &Match) -> bool {
        other.conds.iter().all(|theirs| self.conds.iter().any(|ours| cond_implies(ours, theirs)))
    }

    /// True if no request fulfils both, as far as that shows.
    pub fn is_apart(&self, other: &Match) -> bool {
        other.conds.iter().any(|theirs| self.conds.iter().any(|ours| conds_apart(ours, theirs)))
    }

    /// Conditions of `other` that do not follow from these.
    pub fn beyond(&self, other: &Match) -> Vec<Cond> {
        let follows = |theirs: &&Cond| !self.conds.iter().any(|ours| cond_implies(ours, theirs));
        other.conds.iter().filter(follows).cloned().collect()
    }

    /// The only condition on the path, unless it is negated.
    pub fn only_path(&self) -> Option<&Test> {
        let mut paths = self.conds.iter().filter(|cond| cond.is_path() && !cond.negated);
        paths.next().filter(|_| paths.next().is_none()).map(|cond| &cond.test)
    }

    pub fn find(&self, key: &Key) -> Option<&Test> {
        self.conds.iter().find(|cond| cond.key == *key && !cond.negated).map(|cond| &cond.test)
    }

    /// The table of `match`; empty for every request.
    pub fn table(&self) -> Entries {
        let mut table = Entries::default();
        // A whole path takes no further condition.
        let is_whole = self.conds.iter().filter(|cond| cond.is_path() && !cond.negated).count() == 1;
        for cond in self.conds.iter().filter(|cond| !cond.negated) {
            match &cond.test {
                Test::Begins(text) if cond.is_path() && !is_whole => drop(table.set("starts_with", text.as_str())),
                Test::OneOf(paths) if cond.is_path() && !is_whole => {
                    let path = paths.first().map_or(String::new(), |path| escape(path));
                    table.set("search", format!("^{path}$"));
                }
                test => put(&mut table, &cond.key, test),
            }
        }
        let not = self.excluded();
        if !not.is_empty() {
            table.set("not", not);
        }
        table
    }

    /// The table of `not`. It has neither hosts nor paths: they are written as expressions.
    fn excluded(&self) -> Entries {
        let mut not = Entries::default();
        let (mut paths, mut hosts) = (Vec::new(), Vec::new());
        for cond in self.conds.iter().filter(|cond| cond.negated) {
            match (&cond.key, &cond.test) {
                (Key::Path, test) => paths.push(test),
                (Key::Host, Test::OneOf(names)) => {
                    hosts.extend(names.iter().map(|name| match name.strip_prefix('*') {
                        Some(end) => format!(".*{}", escape(end)),
                        None => escape(name),
                    }))
                }
                (
                    key @ (Key::Header(name) | Key::Query(name) | Key::Cookie(name) | Key::Map(name)),
                    Test::OneOf(values),
                ) => {
                    let table = not.table(list_key(key));
                    values.iter().for_each(|value| table.push(name, value.as_str()));
                }
                (Key::Scheme, Test::OneOf(values)) => {
                    drop(not.set("scheme", values.first().map_or("", |v| v.as_str())))
                }
                (key, Test::OneOf(values)) => values.iter().for_each(|value| not.push(list_key(key), value.as_str())),
                (key, test) => put(&mut not, key, test),
            }
        }
        match paths.as_slice() {
            [] => {}
            [Test::Ends(end)] => drop(not.set("ends_with", end.as_str())),
            several if several.iter().any(|test| matches!(test, Test::Search(_))) => {
                let all: Vec<String> = several.iter().map(|test| apart(test.as_search(), several.len())).collect();
                not.set("search", all.join("|"));
            }
            several => {
                let all: Vec<String> = several.iter().map(|test| apart(test.as_regex(), several.len())).collect();
                not.set("regex", all.join("|"));
            }
        }
        if !hosts.is_empty() {
            let regex = format!(r"(?i)({})\.?(:[0-9]+)?", hosts.join("|"));
            not.table("header").set("Host", Entries::one("regex", regex));
        }
        not
    }

    /// Number of kinds of conditions under `not`.
    pub fn excluded_kinds(&self) -> usize {
        self.excluded().iter().len()
    }
}

/// An expression among `count` alternatives: its flags must not apply to the expressions behind it.
fn apart(regex: String, count: usize) -> String {
    match count {
        1 => regex,
        _ if regex.starts_with("(?") => format!("(?:{})", unnamed(&regex)),
        _ => unnamed(&regex),
    }
}

/// An expression without names of its groups, which would occur twice where it is joined to others.
pub(crate) fn unnamed(regex: &str) -> String {
    let mut parts = regex.split("(?P<");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.split_once('>').filter(|_| !out.ends_with('\\')) {
            Some((_, rest)) => out.extend(["(", rest]),
            None => out.extend(["(?P<", part]),
        }
    }
    out
}

fn list_key(key: &Key) -> &'static str {
    match key {
        Key::Listener => "listener",
        Key::Host => "host",
        Key::Method => "method",
        Key::Client => "client",
        Key::Scheme => "scheme",
        Key::Path => "path",
        Key::Header(_) => "header",
        Key::Query(_) => "query",
        Key::Cookie(_) => "cookie",
        Key::Map(_) => "map",
    }
}

/// Key of `match` for a test of the path.
fn path_key(test: &Test) -> &'static str {
    match test {
        Test::OneOf(_) => "path",
        Test::Below(_) => "prefix",
        Test::Begins(_) => "starts_with",
        Test::Ends(_) => "ends_with",
        Test::Search(_) => "search",
        Test::Contains(_) | Test::Regex(_) | Test::Present => "regex",
    }
}

/// True for a path, a prefix, and text at the start of the path. A match has at most one such test.
fn is_from_left(test: &Test) -> bool {
    matches!(test, Test::OneOf(_) | Test::Below(_) | Test::Begins(_))
}

/// True if the language has the test for that part of a request.
fn is_sound(cond: &Cond) -> bool {
    match (&cond.key, &cond.test) {
        (Key::Path, Test::OneOf(paths)) => paths.len() == 1,
        (Key::Listener | Key::Host | Key::Method | Key::Client | Key::Scheme, test) => matches!(test, Test::OneOf(_)),
        (Key::Header(_) | Key::Query(_) | Key::Cookie(_) | Key::Map(_), Test::Below(_)) => false,
        _ => true,
    }
}

fn put(table: &mut Entries, key: &Key, test: &Test) {
    let name = match (key, test) {
        (Key::Header(name) | Key::Query(name) | Key::Cookie(name) | Key::Map(name), test) => {
            let value: Value = match test {
                Test::OneOf(values) if values.len() == 1 => values[0].as_str().into(),
                Test::OneOf(values) => values.clone().into(),
                Test::Begins(text) | Test::Below(text) => Entries::one("prefix", text.as_str()).into(),
                Test::Ends(text) => Entries::one("suffix", text.as_str()).into(),
                Test::Contains(text) => Entries::one("contains", text.as_str()).into(),
                Test::Regex(text) => Entries::one("regex", text.as_str()).into(),
                Test::Search(text) => Entries::one("search", text.as_str()).into(),
                Test::Present => Entries::one("present", true).into(),
            };
            return drop(table.table(list_key(key)).set(name, value));
        }
        (Key::Path, test) => path_key(test),
        _ => list_key(key),
    };
    let value: Value = match test {
        Test::OneOf(values) if matches!(key, Key::Path | Key::Scheme) => {
            values.first().map_or("", |v| v.as_str()).into()
        }
        Test::OneOf(values) => values.clone().into(),
        Test::Below(text) if text.is_empty() => "/".into(),
        Test::Below(text) | Test::Begins(text) | Test::Ends(text) => text.as_str().into(),
        Test::Search(regex) => regex.as_str().into(),
        Test::Contains(_) | Test::Regex(_) | Test::Present => test.as_regex().into(),
    };
    // Fixed text in a path has its braces doubled.
    let value = match (name, value) {
        ("path" | "prefix", Value::Text(text)) => Value::Text(text.replace('{', "{{").replace('}', "}}")),
        (_, value) => value,
    };
    table.set(name, value);
}

/// Relation of two conditions on the path: `Some(true)` if `theirs` follows from `ours`, `Some(false)` if both cannot
/// hold.
fn implied(ours: &Cond, theirs: &Cond) -> Option<bool> {
    if ours.negated {
        return None;
    }
    let verdict = match (&ours.test, &theirs.test) {
        (Test::OneOf(paths), test) if paths.len() == 1 => test.takes(&paths[0]),
        (Test::Begins(a), Test::Begins(b)) if a.starts_with(b.as_str()) => Some(true),
        (Test::Below(a), Test::Begins(b)) if a.starts_with(b.as_str()) => Some(true),
        (Test::Below(a), Test::Below(b)) if is_below(a, b) => Some(true),
        (Test::Begins(a), Test::Below(b)) if a.starts_with(&format!("{b}/")) => Some(true),
        (Test::Ends(a), Test::Ends(b)) if a.ends_with(b.as_str()) => Some(true),
        (Test::Ends(a), Test::Ends(b)) if !b.ends_with(a.as_str()) => Some(false),
        (a, b) if is_from_left(b) && !a.start().is_empty() && !b.start().is_empty() => {
            let (a, b) = (a.start(), b.start());
            (!a.starts_with(b) && !b.starts_with(a)).then_some(false)
        }
        _ => None,
    };
    verdict.map(|verdict| verdict != theirs.negated)
}

fn cond_implies(ours: &Cond, theirs: &Cond) -> bool {
    if ours == theirs {
        return true;
    }
    if ours.key != theirs.key {
        return false;
    }
    if ours.key == Key::Path {
        return implied(ours, theirs) == Some(true);
    }
    match (&ours.test, &theirs.test) {
        (Test::OneOf(a), Test::OneOf(b)) if !ours.negated => {
            let takes = |b: &String, a: &String| if ours.key == Key::Host { host_takes(b, a) } else { a == b };
            match theirs.negated {
                false => a.iter().all(|a| b.iter().any(|b| takes(b, a))),
                true => a.iter().all(|a| b.iter().all(|b| !takes(b, a))),
            }
        }
        (_, Test::Present) => !ours.negated && !theirs.negated,
        _ if ours.is_absence() => theirs.negated,
        _ => false,
    }
}

fn conds_apart(ours: &Cond, theirs: &Cond) -> bool {
    if ours.key != theirs.key {
        return false;
    }
    if *ours == theirs.clone().negate() || ours.is_absence() && !theirs.negated || theirs.is_absence() && !ours.negated
    {
        return true;
    }
    if ours.key == Key::Path {
        return implied(ours, theirs) == Some(false) || implied(theirs, ours) == Some(false);
    }
    match (&ours.test, &theirs.test, ours.negated, theirs.negated) {
        (Test::OneOf(a), Test::OneOf(b), false, false) if ours.key != Key::Client => match ours.key {
            Key::Host => !a.iter().any(|a| b.iter().any(|b| host_takes(a, b) || host_takes(b, a))),
            _ => !a.iter().any(|a| b.contains(a)),
        },
        (Test::OneOf(a), Test::OneOf(b), false, true) => a.iter().all(|a| b.contains(a)),
        (Test::OneOf(a), Test::OneOf(b), true, false) => b.iter().all(|b| a.contains(b)),
        _ => false,
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
