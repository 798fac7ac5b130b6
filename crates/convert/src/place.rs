//! The path of a request between two directives: the path that the client sent, as rewrites have changed it.

use crate::model::{Cond, Key, RouteKeys, Test, braced, escape};

/// Path of a request behind the directives before, as far as they have moved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The path of the client, with another beginning.
    Moved { strip: String, add: String },
    /// A path that is the same for all requests.
    Fixed(String),
    /// The path with parts replaced.
    Searched { search: String, to: String },
    /// A path made of variables, with this template.
    Made(String),
    /// Not known: the rewrite was not carried over.
    Unknown,
}

/// A condition on the path at a place, as a condition on the path of the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Always,
    Never,
    If(Cond),
    /// A condition that cannot be written.
    Hidden,
}

impl Default for Place {
    fn default() -> Place {
        Place::Moved { strip: String::new(), add: String::new() }
    }
}

/// The rest of a text behind a beginning in any case of letters.
fn behind<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}

impl Place {
    pub fn is_original(&self) -> bool {
        *self == Place::default()
    }

    /// Returns a condition as a condition on the client's request.
    pub fn see(&self, cond: &Cond) -> Seen {
        if cond.key != Key::Path {
            return Seen::If(cond.clone());
        }
        let seen = match self {
            Place::Moved { strip, add } if strip.is_empty() && add.is_empty() => return Seen::If(cond.clone()),
            Place::Moved { strip, add } => moved(&cond.test, strip, add),
            Place::Fixed(path) => match takes(&cond.test, path) {
                Some(true) => Seen::Always,
                Some(false) => Seen::Never,
                None => Seen::Hidden,
            },
            Place::Searched { .. } | Place::Made(_) | Place::Unknown => Seen::Hidden,
        };
        match (seen, cond.negated) {
            (Seen::Always, true) => Seen::Never,
            (Seen::Never, true) => Seen::Always,
            (Seen::If(inner), true) => Seen::If(inner.negate()),
            (seen, _) => seen,
        }
    }

    /// The place behind a prefix, and the beginning that a client's path needs for it. `None`: no path has it.
    pub fn stripped(&self, prefix: &str) -> Option<(Option<Cond>, Place)> {
        let begins = |text: String| Some(Cond::new(Key::Path, Test::Begins(text)));
        match self {
            Place::Moved { strip, add } => match (behind(add, prefix), behind(prefix, add)) {
                (Some(rest), _) if !add.is_empty() => {
                    let slash = if rest.is_empty() || rest.starts_with('/') { "" } else { "/" };
                    Some((None, Place::Moved { strip: strip.clone(), add: format!("{slash}{rest}") }))
                }
                (_, Some(rest)) => {
                    let start = format!("{}{rest}", strip.trim_end_matches('/'));
                    Some((begins(start.clone()), Place::Moved { strip: start, add: String::new() }))
                }
                _ => None,
            },
            Place::Fixed(path) => {
                let rest = behind(path, prefix)?;
                Some((None, Place::Fixed(if rest.starts_with('/') { rest.to_string() } else { format!("/{rest}") })))
            }
            Place::Searched { .. } | Place::Made(_) | Place::Unknown => Some((None, Place::Unknown)),
        }
    }

    /// The place that a `rewrite` leads to. Its path is in evenkeel's spelling.
    pub fn rewritten(&self, to: &str) -> Place {
        match (self, to.strip_suffix("{path}")) {
            (Place::Moved { strip, add }, Some(start)) if !start.contains('{') => {
                Place::Moved { strip: strip.clone(), add: format!("{start}{add}") }
            }
            (Place::Fixed(path), Some(start)) if !start.contains('{') => Place::Fixed(format!("{start}{path}")),
            _ if !to.contains('{') => Place::Fixed(to.to_string()),
            _ if !self.is_original() && to.contains("{path}") => Place::Unknown,
            _ => Place::Made(to.to_string()),
        }
    }

    /// Puts the rewrite of a route. `slash`: the rest of a path gets a slash before more is put in front of it.
    pub fn put(&self, query: Option<&str>, slash: bool, set: &mut RouteKeys) {
        let mut found = |regex: String, to: String| {
            let query = query.map_or(String::new(), |query| format!("?{}", braced(query)));
            set.put(key!("rewrite.regex"), regex);
            set.put(key!("rewrite.to"), format!("{to}{query}"));
        };
        match self {
            Place::Moved { strip, add } if matches!(&**strip, "" | "/") && add.is_empty() && query.is_none() => {}
            Place::Moved { strip, add } if strip.is_empty() => {
                found("(.*)".to_string(), format!("{}{{1}}", braced(add)))
            }
            // A path begins with a slash at the end.
            Place::Moved { strip, add } => match slash || add.is_empty() {
                true => found(
                    format!("(?i){}/?(.*)", escape(strip.trim_end_matches('/'))),
                    format!("{}/{{1}}", braced(add)),
                ),
                false => found(format!("(?i){}(.*)", escape(strip)), format!("{}{{1}}", braced(add))),
            },
            Place::Fixed(path) if query.is_some() => found(".*".to_string(), braced(path)),
            Place::Fixed(path) => drop(set.put(key!("rewrite.path"), braced(path))),
            Place::Made(path) => drop(set.put(key!("rewrite.path"), path.as_str())),
            Place::Searched { search, to } => {
                set.put(key!("rewrite.search"), search.as_str());
                set.put(key!("rewrite.to"), to.as_str());
            }
            Place::Unknown => {}
        }
    }
}

/// A test of a path that had `strip` at its beginning and has `add` instead.
fn moved(test: &Test, strip: &str, add: &str) -> Seen {
    let strip = strip.trim_end_matches('/');
    let is = |test| Seen::If(Cond::new(Key::Path, test));
    match test {
        Test::OneOf(paths) if paths.len() == 1 => match behind(&paths[0], add) {
            Some(rest) => is(Test::OneOf(vec![format!("{strip}{rest}")])),
            None => Seen::Never,
        },
        Test::Begins(text) => match (behind(text, add), behind(add, text)) {
            (_, Some(_)) => Seen::Always,
            (Some(rest), _) => is(Test::Begins(format!("{strip}{rest}"))),
            _ => Seen::Never,
        },
        Test::Ends(end) if add.is_empty() => is(Test::Regex(format!("{}.*{}", escape(strip), escape(end)))),
        Test::Contains(text) if add.is_empty() => is(Test::Regex(format!("{}.*{}.*", escape(strip), escape(text)))),
        Test::Regex(regex) if add.is_empty() => is(Test::Regex(format!("{}(?:{regex})", escape(strip)))),
        _ => Seen::Hidden,
    }
}

/// True if a fixed path fulfils a test, in any case of letters.
fn takes(test: &Test, path: &str) -> Option<bool> {
    let path = path.to_ascii_lowercase();
    match test {
        Test::OneOf(paths) => Some(paths.iter().any(|one| one.eq_ignore_ascii_case(&path))),
        Test::Begins(text) => Some(path.starts_with(&text.to_ascii_lowercase())),
        Test::Ends(text) => Some(path.ends_with(&text.to_ascii_lowercase())),
        Test::Contains(text) => Some(path.contains(&text.to_ascii_lowercase())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_behind_a_rewrite_are_conditions_on_the_client() {
        let is = |test: Test| Cond::new(Key::Path, test);
        let (_, below) = Place::default().stripped("/api").expect("a path may begin so");
        assert_eq!(below.see(&is(Test::Begins("/v1".into()))), Seen::If(is(Test::Begins("/api/v1".into()))));
        let new = below.rewritten("/new{path}");
        assert_eq!(new.see(&is(Test::OneOf(vec!["/new/x".into()]))), Seen::If(is(Test::OneOf(vec!["/api/x".into()]))));
        assert_eq!(new.see(&is(Test::Begins("/a".into()))), Seen::Never);
        assert_eq!(new.see(&is(Test::Begins("/N".into())).negate()), Seen::Never);
        assert_eq!(new.rewritten("/x").see(&is(Test::Ends("x".into()))), Seen::Always);
        assert_eq!(Place::Unknown.see(&is(Test::Ends("x".into()))), Seen::Hidden);
    }

    #[test]
    fn the_rest_of_a_path_is_put_behind_more_as_it_is_or_with_a_slash() {
        let rewrite = |prefix: &str, to: &str, slash: bool| {
            let (_, below) = Place::default().stripped(prefix).expect("a path may begin so");
            let mut set = RouteKeys::default();
            below.rewritten(to).put(None, slash, &mut set);
            (set.text(key!("rewrite.regex")).map(str::to_string), set.text(key!("rewrite.to")).map(str::to_string))
        };
        let is = |regex: &str, to: &str| (Some(regex.to_string()), Some(to.to_string()));
        assert_eq!(rewrite("/api", "/new{path}", false), is("(?i)/api(.*)", "/new{1}"));
        assert_eq!(rewrite("/api/", "/new{path}", false), is("(?i)/api/(.*)", "/new{1}"));
        assert_eq!(rewrite("/api/", "/new{path}", true), is("(?i)/api/?(.*)", "/new/{1}"));
        assert_eq!(rewrite("/api/", "{path}", false), is("(?i)/api/?(.*)", "/{1}"));
        assert_eq!(rewrite("/", "{path}", false), (None, None));
    }
}
