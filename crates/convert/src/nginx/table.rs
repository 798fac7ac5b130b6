//! `map` and `geo`: variables by a table, as `[map.NAME]`.

use super::lexer::Directive;
use super::variable::{self, Scope};
use crate::expression::{foreign, without_lookahead};
use crate::ledger::{Ledger, Line};
use crate::model::{Draft, Maps, escape, name_of};
use evenkeel_config::plan::Map;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Value of a row that is empty in NGINX, in a map that only conditions read.
const EMPTY: &str = "(empty)";

/// Directive that gives a variable by a table.
#[derive(Clone, Debug)]
struct Source {
    is_geo: bool,
    from: String,
    rows: Vec<(String, String)>,
    lines: Vec<Line>,
}

/// All tables of a configuration, and the maps that were made of them.
#[derive(Debug, Default)]
pub(super) struct Tables {
    sources: BTreeMap<String, Source>,
    /// Maps of conditions that routes cannot compare by themselves.
    pub tests: Maps,
    /// Names of groups in expressions of locations.
    pub groups: Vec<String>,
    made: RefCell<BTreeMap<String, Made>>,
    /// Names of maps by their variable and the values of variables at a place.
    known: RefCell<BTreeMap<(String, String), String>>,
    /// Variables whose tables are being read.
    open: RefCell<Vec<String>>,
}

/// The source of a table and its default, as the variables of a place give them.
type Inputs = (Result<String, String>, Result<String, String>);

#[derive(Clone, Debug)]
struct Made {
    variable: String,
    inputs: Inputs,
    /// The map, or the reason why it cannot be written.
    map: Result<Draft<Map>, String>,
    /// True if some rows have no value, which conditions alone can read.
    has_empty: bool,
    lines: Vec<Line>,
    is_used: bool,
}

impl Tables {
    pub fn read(http: &[Directive]) -> Tables {
        let mut tables = Tables::default();
        for directive in http {
            let (from, name) = match (directive.name(), directive.words.len()) {
                ("map", _) => (directive.word(1), directive.word(2)),
                ("geo", 2) => ("$remote_addr", directive.word(1)),
                ("geo", _) => (directive.word(1), directive.word(2)),
                _ => continue,
            };
            let source = Source {
                is_geo: directive.name() == "geo",
                from: from.to_string(),
                rows: directive.inner().iter().map(|row| (row.word(0).into(), row.word(1).into())).collect(),
                lines: directive.inner().iter().map(|row| row.line).chain([directive.line]).collect(),
            };
            tables.sources.insert(name.trim_start_matches('$').to_string(), source);
        }
        fn groups(level: &[Directive], all: &mut Vec<String>) {
            for directive in level {
                if directive.name() == "location" {
                    let parts = directive.words.iter().flat_map(|word| word.split("(?").skip(1));
                    let name = |part: &str| {
                        part.trim_start_matches('P').strip_prefix('<')?.split('>').next().map(str::to_string)
                    };
                    all.extend(parts.filter_map(name));
                }
                groups(directive.inner(), all);
            }
        }
        groups(http, &mut tables.groups);
        tables
    }

    /// True if a text has a variable whose table has expressions, or whose table reads that of such a table.
    pub fn has_expressions(&self, text: &str) -> bool {
        let (mut open, mut seen) = (variable::names(text).collect::<Vec<&str>>(), BTreeSet::new());
        while let Some(name) = open.pop() {
            let Some(source) = self.sources.get(name).filter(|_| seen.insert(name)) else { continue };
            if source.rows.iter().any(|(key, _)| key.starts_with('~')) {
                return true;
            }
            open.extend(variable::names(&source.from));
            open.extend(source.rows.iter().flat_map(|(_, value)| variable::names(value)));
        }
        false
    }

    /// Name of the map for a variable of a table, for conditions; `None` if no table gives the variable.
    pub fn condition(&self, variable: &str, scope: &Scope) -> Option<Result<String, String>> {
        self.name(variable, scope, false)
    }

    /// Name of the map for a variable of a table whose value is sent.
    pub fn value(&self, variable: &str, scope: &Scope) -> Option<Result<String, String>> {
        self.name(variable, scope, true)
    }

    fn name(&self, variable: &str, scope: &Scope, is_sent: bool) -> Option<Result<String, String>> {
        let source = self.sources.get(variable)?;
        let place = (variable.to_string(), scope.values());
        let known = self.known.borrow().get(&place).cloned();
        let name = match known {
            Some(name) => name,
            None if self.open.borrow().iter().any(|open| open == variable) => {
                return Some(Err(format!("`${variable}` refers to itself")));
            }
            None => {
                self.open.borrow_mut().push(variable.to_string());
                let name = self.made(variable, source, scope);
                self.open.borrow_mut().pop();
                self.known.borrow_mut().insert(place, name.clone());
                name
            }
        };
        let mut all = self.made.borrow_mut();
        let made = all.get_mut(&name)?;
        Some(match &made.map {
            Err(reason) => Err(reason.clone()),
            Ok(_) if is_sent && made.has_empty => {
                Err(format!("`${variable}` is empty for some rows, which no row of a map can be"))
            }
            Ok(_) => {
                made.is_used = true;
                Ok(name)
            }
        })
    }

    /// Name of the map of a table. Rewrites and `set` may give its source other values, so that it becomes several maps.
    fn made(&self, variable: &str, source: &Source, scope: &Scope) -> String {
        let default = source.rows.iter().find(|(key, _)| key == "default").map_or("", |(_, value)| value);
        let inputs = (variable::read(&source.from, scope), variable::read(default, scope));
        let is = |made: &Made| made.variable == variable && made.inputs == inputs;
        if let Some((name, _)) = self.made.borrow().iter().find(|(_, made)| is(made)) {
            return name.clone();
        }
        let (map, has_empty) = match source.draft(scope) {
            Ok((map, has_empty)) => (Ok(map), has_empty),
            Err(reason) => (Err(format!("the table of `${variable}`: {reason}")), false),
        };
        // A table that is not written leaves its name to others.
        let base = if map.is_ok() { name_of(variable) } else { format!("${variable}") };
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let is_free = |name: &String| !self.made.borrow().contains_key(name);
        let name = std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or(base);
        let variable = variable.to_string();
        let made = Made { variable, inputs, map, has_empty, lines: source.lines.clone(), is_used: false };
        self.made.borrow_mut().insert(name.clone(), made);
        name
    }

    /// The only text that a table has for its variable, beside nothing for some rows, and the lines of the table.
    pub fn only_text(&self, variable: &str) -> Option<(&str, &[Line])> {
        let source = self.sources.get(variable)?;
        let mut texts = source.rows.iter().map(|(_, value)| value.as_str()).filter(|value| !value.is_empty());
        let first = texts.next()?;
        texts.all(|text| text == first).then_some((first, &source.lines))
    }

    /// The maps that something refers to. Their lines are settled.
    pub fn used(&self, ledger: &mut Ledger) -> Vec<(String, Draft<Map>)> {
        let all = self.made.borrow();
        let used = all.iter().filter(|(_, made)| made.is_used);
        let each = used.filter_map(|(name, made)| {
            made.lines.iter().for_each(|line| ledger.carried(*line));
            Some((name.clone(), made.map.clone().ok()?))
        });
        each.collect()
    }
}

impl Source {
    /// The map of a table. The flag is true if it has rows without a value.
    fn draft(&self, scope: &Scope) -> Result<(Draft<Map>, bool), String> {
        let from = variable::read(&self.from, scope)?;
        let mut map = Draft::one(key!("from"), from);
        let words = ["hostnames", "volatile", "ranges", "delete", "proxy", "proxy_recursive", "include"];
        let rows: Vec<&(String, String)> = self.rows.iter().filter(|(key, _)| !words.contains(&&**key)).collect();
        let has = |word: &str| self.rows.iter().any(|(key, _)| key == word);
        if has("include") {
            return Err("a file that it includes was not read".into());
        }
        for word in ["ranges", "proxy"] {
            if has(word) {
                return Err(format!("`{word}` has no counterpart in maps"));
            }
        }
        let default = rows.iter().find(|(key, _)| key == "default").map_or("", |(_, value)| value);
        let plain: Vec<&(String, String)> = rows.iter().filter(|(key, _)| key != "default").copied().collect();
        if plain.iter().any(|(_, value)| value.contains('$')) {
            return Err("its rows have values with variables".into());
        }
        let of_nothing = plain.iter().find(|(key, _)| key.is_empty()).map(|(_, value)| value.as_str());
        let plain: Vec<&(String, String)> = plain.into_iter().filter(|(key, _)| !key.is_empty()).collect();
        let mut has_empty = false;
        let mut row = |map: &mut Draft<Map>, key: &str, value: &str| {
            has_empty |= value.is_empty();
            map.insert(key!("rows"), key, if value.is_empty() { EMPTY } else { value });
        };
        if self.is_geo {
            map.put(key!("match"), "network");
            plain.iter().for_each(|(key, value)| row(&mut map, key, value));
        } else if of_nothing.is_none() && !has("hostnames") && plain.iter().all(|(key, _)| !key.starts_with('~')) {
            map.put(key!("ignore_case"), true);
            let text = |key: &str| key.strip_prefix('\\').unwrap_or(key).to_string();
            plain.iter().for_each(|(key, value)| row(&mut map, &text(key), value));
        } else {
            map.put(key!("match"), "regex");
            // Texts are looked up before expressions.
            let (texts, regexes): (Vec<_>, Vec<_>) = plain.into_iter().partition(|(key, _)| !key.starts_with('~'));
            for (key, value) in texts {
                row(&mut map, &text_regex(key, has("hostnames")), value);
            }
            for (key, value) in regexes {
                let regex = key.trim_start_matches('~');
                let (regex, is_lax) = regex.strip_prefix('*').map_or((regex, false), |regex| (regex, true));
                row(&mut map, &crate::expression::whole(&written(regex)?, is_lax), value);
            }
            if of_nothing.is_some() {
                row(&mut map, ".+", default);
            }
        }
        let rest = of_nothing.unwrap_or(default);
        if !rest.is_empty() {
            map.put(key!("default"), variable::read(rest, scope)?);
        }
        if !map.has(key!("rows")) {
            // A map needs a row. This row has the value of the default.
            row(&mut map, "0.0.0.0", rest);
        }
        Ok((map, has_empty))
    }
}

/// Expression for a text of a table, of which `.x` and `*.x` are domains if it has host names.
fn text_regex(key: &str, is_host: bool) -> String {
    let key = key.strip_prefix('\\').unwrap_or(key);
    match (key.strip_prefix('.'), key.strip_prefix('*'), key.strip_suffix('*')) {
        (Some(domain), ..) if is_host => format!("(?i)(.*\\.)?{}", escape(domain)),
        (_, Some(end), _) if is_host => format!("(?i).+{}", escape(end)),
        (.., Some(start)) if is_host => format!("(?i){}.+", escape(start)),
        _ => format!("(?i){}", escape(key)),
    }
}

/// An expression as evenkeel writes it.
///
/// # Errors
/// Reason why it cannot be written.
pub(super) fn written(regex: &str) -> Result<String, &'static str> {
    let regex = without_lookahead(regex);
    foreign(&regex)?;
    Ok(regex.replace("(?<", "(?P<"))
}
