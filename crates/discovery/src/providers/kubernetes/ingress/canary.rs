//! Canaries: other endpoints for some of the requests of a path. See [`Canary`].

use super::annotations::Annotations;
use evenkeel_config::plan::{Action, Criteria, Expected, Split, compile_regex};
use std::sync::Arc;

/// Requests that a canary takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    header: Option<(Arc<str>, Wanted)>,
    cookie: Option<Arc<str>>,
    weight: u32,
    total: u32,
}

/// Value of the field that leads to a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// `always` leads there, and `never` leads away.
    Word,
    Value(Arc<str>),
    Regex(Arc<str>),
}

/// A part of the requests, and where they go.
#[derive(Debug, PartialEq)]
pub struct Branch {
    /// Ending of the name of its route.
    pub suffix: &'static str,
    pub criteria: Criteria,
    pub action: Action,
}

impl Canary {
    /// Reads the canary of an Ingress; `None` if it is none.
    pub fn read(annotations: &mut Annotations<'_>) -> Option<Canary> {
        let is_canary = annotations.flag("canary") == Some(true);
        let header = annotations.text("canary-by-header");
        let value = annotations.text("canary-by-header-value");
        let pattern = annotations.text("canary-by-header-pattern");
        let cookie = annotations.text("canary-by-cookie");
        let weight = annotations.number::<u32>("canary-weight", 0).unwrap_or(0);
        let total = annotations.number::<u32>("canary-weight-total", 1).unwrap_or(100).min(1_000_000);
        if !is_canary {
            return None;
        }
        let is_token = |name: &&str| {
            let is_it = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            name.len() <= 128 && name.chars().all(is_it)
        };
        let wanted = match (value, pattern) {
            (Some(value), _) => Some(Wanted::Value(value.into())),
            (None, Some(pattern)) if compile_regex(pattern).is_ok() => {
                // Expressions of NGINX match anywhere.
                Some(Wanted::Regex(format!(".*(?:{pattern}).*").into()))
            }
            (None, Some(pattern)) => {
                let why = format!("\"{pattern}\" is not a regular expression");
                annotations.ignore("canary-by-header-pattern", &why);
                None
            }
            (None, None) => Some(Wanted::Word),
        };
        let header = header.filter(is_token).and_then(|name| Some((name.to_ascii_lowercase().into(), wanted?)));
        let cookie = cookie.filter(is_token).map(Arc::from);
        Some(Canary { header, cookie, weight: weight.min(total), total })
    }

    /// Divides the requests of a path: those with a field, those with a cookie, and a share of all others.
    pub fn divide(&self, main: &Arc<str>, canary: &Arc<str>) -> Vec<Branch> {
        let (there, away) = (|| Action::Pool(canary.clone()), || Action::Pool(main.clone()));
        let equal = |word: &str| Expected { equal: vec![word.into()], ..Expected::default() };
        let mut all = Vec::new();
        if let Some((name, wanted)) = &self.header {
            let criteria = |expected| Criteria { headers: vec![(name.clone(), expected)], ..Criteria::default() };
            let mut add = |suffix, expected, action| all.push(Branch { suffix, criteria: criteria(expected), action });
            match wanted {
                Wanted::Value(value) => add(":canary-header", equal(value), there()),
                Wanted::Regex(regex) => {
                    let expected = Expected { regex: Some(regex.clone()), ..Expected::default() };
                    add(":canary-header", expected, there());
                }
                Wanted::Word => {
                    add(":canary-header", equal("always"), there());
                    add(":main-header", equal("never"), away());
                }
            }
        }
        if let Some(name) = &self.cookie {
            let criteria = |word| Criteria { cookies: vec![(name.clone(), equal(word))], ..Criteria::default() };
            all.push(Branch { suffix: ":canary-cookie", criteria: criteria("always"), action: there() });
            all.push(Branch { suffix: ":main-cookie", criteria: criteria("never"), action: away() });
        }
        let weights = vec![(main.clone(), self.total - self.weight), (canary.clone(), self.weight)];
        let action = match self.weight {
            0 => away(),
            weight if weight == self.total => there(),
            _ if main == canary => away(),
            _ => Action::Split(Split { weights, key: None }),
        };
        all.push(Branch { suffix: "", criteria: Criteria::default(), action });
        all
    }
}
