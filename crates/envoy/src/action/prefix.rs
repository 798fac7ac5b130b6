//! `prefix_rewrite` of a route: the text by which requests match is replaced, and the rest of the path follows. See
//! [`Replacement`].

use crate::node::Node;
use crate::pairs::whole;
use crate::values::escaped;
use evenkeel_config::plan::{Match, PathPattern, Rewrite, Template};

/// Mark before the number of a group, which no path has.
const MARK: char = '\n';

/// A replaced beginning of paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// Path of the match of the route.
    of: PathPattern,
    /// Expression for the replaced part; `None` if it is the whole path.
    start: Option<String>,
    /// Length of the replaced part.
    len: usize,
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
        let len = text.map_or(0, str::len);
        Ok(Some(Replacement { of: matching.path.clone(), start, len, new: new.to_owned() }))
    }

    /// Gives the match of a redirect the expression whose group it has, before matches are put in order.
    ///
    /// # Errors
    /// The match has other expressions.
    pub fn find_rest(&self, matching: &mut Match) -> Result<(), String> {
        let (Some(start), Some(expression)) = (&self.start, self.expression()) else { return Ok(()) };
        let criteria = &mut matching.criteria;
        let other = criteria.regex.take().filter(|other| !other.starts_with(start.as_str()));
        if let Some(other) = other
            && criteria.search.replace(format!("^(?:{other})$").into()).is_some()
        {
            return Err("prefix_rewrite: the route has other expressions".to_owned());
        }
        criteria.regex = Some(expression.into());
        Ok(())
    }

    /// Path of a redirect with this match, which may be a part of the match of the original route.
    ///
    /// # Errors
    /// The new path cannot be written.
    pub fn path(&self, matching: &Match) -> Result<Template, String> {
        match (self.expression(), whole(&matching.path)) {
            (None, _) => Ok(self.literal()),
            (_, Some(path)) => {
                Ok(Template::literal(&format!("{}{}", self.new, path.get(self.len..).unwrap_or_default())))
            }
            (Some(expression), None) => self.with_rest(&expression),
        }
    }

    /// Rewriting of the paths of a route with this match, as for [`path`](Self::path).
    ///
    /// # Errors
    /// The new path cannot be written.
    pub fn rewrite(&self, matching: &Match) -> Result<Rewrite, String> {
        let unset = Rewrite::default();
        // A new prefix with a slash at its end would lose the slash before the rest.
        let is_plain = matching.path == self.of && self.of != PathPattern::Any && !self.new.ends_with('/');
        Ok(match self.expression() {
            None => Rewrite { path: Some(self.literal()), ..unset },
            Some(_) if is_plain => Rewrite { prefix: Some(self.literal()), ..unset },
            Some(expression) => {
                let to = Some(self.with_rest(&expression)?);
                Rewrite { regex: Some(expression.into()), to, ..unset }
            }
        })
    }

    fn literal(&self) -> Template {
        Template::literal(&self.new)
    }

    /// Expression for whole paths, with the rest as its group; `None` if the whole path is replaced.
    fn expression(&self) -> Option<String> {
        self.start.as_ref().map(|start| format!("{start}(.*)"))
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
