//! Maps of the output: lookups of text that conditions and values need, each of them once.

use super::matching::{Apart, Cond, Key, Match, Test, escape};
use evenkeel_config::draft::{Draft, Entries};
use evenkeel_config::plan;
use std::cell::RefCell;

/// Value of the rows of a map that only answers whether a row fits.
const FITS: &str = "1";

/// Maps by name, collected while conditions are read.
#[derive(Debug, Default)]
pub(crate) struct Maps(RefCell<Vec<(String, Draft<plan::Map>)>>);

impl Maps {
    /// Name of the map with these keys, which is added if it is new. `base` is the beginning of its name.
    pub fn name(&self, base: &str, map: &Draft<plan::Map>) -> String {
        let mut all = self.0.borrow_mut();
        if let Some((name, _)) = all.iter().find(|(_, other)| other == map) {
            return name.clone();
        }
        let base: String = super::name_of(&base.to_ascii_lowercase()).chars().take(24).collect();
        let base = base.trim_end_matches(['-', '.']).to_string();
        let is_taken = |name: &str| all.iter().any(|(other, _)| other == name);
        let numbered = (2..).map(|n| format!("{base}-{n}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(base);
        all.push((name.clone(), map.clone()));
        name
    }

    /// Text that is looked up, with its variables; empty for an unknown map.
    pub fn input(&self, name: &str) -> String {
        let all = self.0.borrow();
        let map = all.iter().find(|(other, _)| other == name);
        map.and_then(|(_, map)| map.text(key!("from"))).unwrap_or_default().to_string()
    }

    /// Condition that a text with variables is among these values, as `how` of a map compares them.
    pub fn fits(&self, base: &str, from: &str, how: &str, values: &[String], ignore_case: bool) -> Cond {
        let rows: Entries = values.iter().map(|value| (value.clone(), FITS.into())).collect();
        let mut map = Draft::one(key!("from"), from);
        if how != "exact" {
            map.put(key!("match"), how);
        }
        map.put(key!("rows"), rows);
        if ignore_case {
            map.put(key!("ignore_case"), true);
        }
        Cond::new(Key::Map(self.name(base, &map)), Test::Present)
    }

    /// Returns the same condition by a map, which may stand beside another condition on the same part of a request.
    pub fn instead(&self, cond: &Cond) -> Option<Cond> {
        let (base, from) = match &cond.key {
            Key::Path => ("path".to_string(), "{path}".to_string()),
            Key::Method => ("method".to_string(), "{method}".to_string()),
            Key::Header(name) => (name.clone(), format!("{{header.{name}}}")),
            Key::Query(name) => (name.clone(), format!("{{query.{name}}}")),
            Key::Cookie(name) => (name.clone(), format!("{{cookie.{name}}}")),
            Key::Host => ("host".to_string(), "{host}".to_string()),
            Key::Client => ("client".to_string(), "{client.ip}".to_string()),
            Key::Map(name) => (name.clone(), format!("{{map.{name}}}")),
            Key::Listener | Key::Scheme => return None,
        };
        let one = |text: &String| vec![text.clone()];
        let (how, values) = match &cond.test {
            Test::OneOf(values) if cond.key == Key::Host => ("host", values.clone()),
            Test::OneOf(values) if cond.key == Key::Client => ("network", values.clone()),
            Test::OneOf(values) => ("exact", values.clone()),
            Test::Begins(text) => ("prefix", one(text)),
            Test::Ends(text) => ("suffix", one(text)),
            Test::Contains(text) => ("regex", vec![format!(".*{}.*", escape(text))]),
            Test::Regex(regex) => ("regex", one(regex)),
            Test::Search(_) => ("regex", vec![cond.test.as_regex()]),
            Test::Below(path) => ("regex", vec![format!("{}(/.*)?", escape(path))]),
            Test::Present => ("regex", vec![".*".to_string()]),
        };
        let fits = self.fits(&format!("is-{base}"), &from, how, &values, false);
        Some(Cond { negated: cond.negated, ..fits })
    }

    /// Joins the conditions of both. A condition that cannot stand beside another becomes a map.
    pub fn both(&self, one: &Match, other: &Match) -> Result<Match, Apart> {
        let mut all = one.clone();
        for cond in &other.conds {
            let only = |cond: Cond| Match::of([cond]);
            all = match all.and(&only(cond.clone())) {
                Err(Apart::Unwritable) => {
                    let cond = self.instead(cond).ok_or(Apart::Unwritable)?;
                    all.and(&only(cond))?
                }
                joined => joined?,
            };
        }
        Ok(all)
    }

    /// Maps that a text names, which is the rest of the file. It is not asked for if there are no maps.
    pub fn used_in(&self, text: impl FnOnce() -> String) -> Vec<(String, Draft<plan::Map>)> {
        let all = self.0.take();
        if all.is_empty() {
            return all;
        }
        let text = text();
        let mut used: Vec<bool> = all.iter().map(|(name, _)| names(&text, name)).collect();
        // A map may be the input of another map that was made later.
        for at in (0..all.len()).rev().filter(|at| used[*at]).collect::<Vec<_>>() {
            let text = format!("{:?}", all[at].1);
            all.iter()
                .enumerate()
                .filter(|(_, (name, _))| text.contains(&format!("{{map.{name}}}")))
                .for_each(|(other, _)| used[other] = true);
        }
        all.into_iter().zip(used).filter_map(|(map, used)| used.then_some(map)).collect()
    }
}

/// True if a text names a map, in a value or in a condition.
fn names(text: &str, map: &str) -> bool {
    [
        format!("{{map.{map}}}"),
        format!("{{map.{map}|"),
        format!("\"map:{map}\""),
        format!(" {map} = "),
        format!(".{map} = "),
        format!("\"{map}\" = "),
    ]
    .iter()
    .any(|form| text.contains(form))
}
