//! `prefix_rewrite` of a route: the text by which requests match is replaced, and the rest of the path follows. See
//! [`Replacement`].

use crate::action::{Acting, To};
use crate::node::Node;
use crate::values::escaped;
use evenkeel_config::plan::{Action, Match, PathPattern, Rewrite, Template};

/// Mark before the number of a group, which no path has.
const MARK: char = '\n';

/// A replaced beginning of paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// Path of the match of the route.
    of: PathPattern,
    /// Expression for the replaced part; `None` if it is the whole path.
    start: Option<String>,
    new: String,
}

impl Replacement {
    /// Reads `prefix_rewrite` of an action; `None` if it changes nothing. `of_match`: the match of the route.
    ///
    /// # Errors
    /// The replacement is not a path.
    pub fn of(new: &str, of_match: &Node<'_>, matching: &Match) -> Result<Option<Replacement>, String> {
        if !new.starts_with('/') || new.contains(['?', '#']) || !new.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!("prefix_rewrite: {new:?} is not a path"));
        }
        let case = if of_match.wrapped("case_sensitive") == Some(0) { "(?i)" } else { "" };
        let by_segment = of_match.text("path_separated_prefix").map(|text| text.trim_end_matches('/'));
        let text = by_segment.or(of_match.text("prefix")).map(|text| if text.is_empty() { "/" } else { text });
        if text == Some(new) {
            return Ok(None);
        }
        let start = text.map(|text| format!("{case}{}", escaped(text)));
        Ok(Some(Replacement { of: matching.path.clone(), start, new: new.to_owned() }))
    }

    /// Sets the replacement in a route with this match, which may be a part of the match of the original route.
    ///
    /// # Errors
    /// The match has other expressions, with which a redirect cannot find the rest of the path.
    pub fn apply(&self, acting: &mut Acting, matching: &mut Match) -> Result<(), String> {
        let redirect = match &mut acting.to {
            To::Answer(Action::Redirect(redirect)) => Some(redirect),
            _ => None,
        };
        let rewrite = &mut acting.route.filters.rewrite;
        let unset = Rewrite::default();
        let literal = || Some(Template::literal(&self.new));
        let expression = self.start.as_ref().map(|start| format!("{start}(.*)"));
        // A new prefix with a slash at its end would lose the slash before the rest.
        let is_plain = matching.path == self.of && self.of != PathPattern::Any && !self.new.ends_with('/');
        match (redirect, expression) {
            (Some(redirect), None) => redirect.path = literal(),
            (None, None) => *rewrite = Some(Rewrite { path: literal(), ..unset }),
            (Some(redirect), Some(_)) if is_plain => redirect.prefix = literal(),
            (None, Some(_)) if is_plain => *rewrite = Some(Rewrite { prefix: literal(), ..unset }),
            (Some(redirect), Some(expression)) => {
                redirect.path = Some(self.with_rest(&expression)?);
                // A redirect has the groups of the match.
                let start = self.start.as_deref().unwrap_or_default();
                let criteria = &mut matching.criteria;
                let other = criteria.regex.take().filter(|other| !other.starts_with(start));
                if let Some(other) = other {
                    let whole = format!("^(?:{other})$");
                    if criteria.search.replace(whole.into()).is_some() {
                        return Err("prefix_rewrite: the route has other expressions".to_owned());
                    }
                }
                criteria.regex = Some(expression.into());
            }
            (None, Some(expression)) => {
                let to = Some(self.with_rest(&expression)?);
                *rewrite = Some(Rewrite { regex: Some(expression.into()), to, ..unset });
            }
        }
        Ok(())
    }

    /// True if paths may begin with two slashes after it.
    pub fn may_double_slashes(&self) -> bool {
        self.new == "/" && self.start.as_deref().is_some_and(|start| !start.ends_with('/'))
    }

    /// The new beginning, with the group of the rest behind it.
    fn with_rest(&self, expression: &str) -> Result<Template, String> {
        Template::of_groups(&format!("{}{MARK}1", self.new), MARK, expression)
    }
}
