//! Parameters of a path: matches the pattern of a route against the path of a request, and finds the groups of its
//! expression. The router only finds the route, and most routes need no parameter.

use crate::peer::sender::{STEPS_MAX, STEPS_PER_UNIT};
use evenkeel_config::plan::{Captures, Extent, Match, PathPart, PathPattern, Route, captures, without_case};
use evenkeel_net::event_loop::budget;
use evenkeel_wire::folding::matched_len;
use std::cell::Cell;
use std::sync::Arc;

/// Patterns and expressions of the path that a route matches, for each of its alternatives.
#[derive(Debug, Default)]
pub struct Parameters {
    patterns: Box<[Pattern]>,
    /// True if paths are compared without regard to case.
    ignore_case: bool,
}

#[derive(Debug)]
struct Pattern {
    parts: Box<[PathPart]>,
    expressions: Box<[(Arc<str>, Extent)]>,
    /// True if another spelling of its text is another path.
    as_sent: bool,
}

/// A parameter, by its place in each pattern.
pub struct Parameter(Box<[Option<Place>]>);

enum Place {
    /// Index of a part of the pattern.
    Part(usize),
    /// Number of a group of an expression.
    Group(Arc<Captures>, usize),
}

impl Parameters {
    /// Splits the patterns of a route into text and parameters. `ignore_case`: the setting of the listener.
    pub fn of_route(route: &Route, ignore_case: bool) -> Parameters {
        let expression = |(text, extent): (&Arc<str>, Extent)| match ignore_case {
            true => (without_case(text).into(), extent),
            false => (text.clone(), extent),
        };
        let pattern = |matching: &Match| Pattern {
            parts: matching.path.parts().into(),
            expressions: matching.criteria.of_path().map(expression).collect(),
            as_sent: false,
        };
        Parameters { patterns: route.matches().iter().map(pattern).collect(), ignore_case }
    }

    /// Splits a pattern into text and parameters. `ignore_case`: the setting of the listener. `as_sent`: another spelling of
    /// the text is another path.
    pub fn of(path: &PathPattern, ignore_case: bool, as_sent: bool) -> Parameters {
        let pattern = Pattern { parts: path.parts().into(), expressions: Box::default(), as_sent };
        Parameters { patterns: [pattern].into(), ignore_case }
    }

    /// No parameters, for requests that may have no route. `ignore_case`: the setting of the listener.
    pub fn none(ignore_case: bool) -> Parameters {
        Parameters { patterns: Box::default(), ignore_case }
    }

    /// The parameter, or the group of an expression, of this name; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<Parameter> {
        let places: Box<[_]> = self.patterns.iter().map(|pattern| pattern.place(name)).collect();
        places.iter().any(Option::is_some).then_some(Parameter(places))
    }

    /// Part of the path that a parameter matches; `None` if the path does not match, or if that takes too long.
    pub fn value<'p>(&self, path: &'p str, of: &Parameter) -> Option<&'p str> {
        self.patterns.iter().zip(&of.0).find_map(|(pattern, place)| match place.as_ref()? {
            Place::Part(index) => pattern.value(path, *index, self.ignore_case),
            Place::Group(expression, number) => {
                pattern.prefix_len(path, self.ignore_case)?;
                group(path, expression, *number)
            }
        })
    }

    /// Length of the longest part of the path that a whole pattern matches; 0 for a pattern of any path.
    pub fn prefix_len(&self, path: &str) -> Option<usize> {
        self.patterns.iter().filter_map(|pattern| pattern.prefix_len(path, self.ignore_case)).max()
    }
}

fn group<'p>(path: &'p str, expression: &Captures, number: usize) -> Option<&'p str> {
    let left = Cell::new(STEPS_MAX);
    let found = expression.find(path.as_bytes(), 0, &left);
    charge(&left);
    path.get(found?.get(number)?)
}

/// Charges the turn of the worker for the steps that were taken of [`STEPS_MAX`].
pub fn charge(left: &Cell<u32>) {
    budget::charge((STEPS_MAX - left.get()) / STEPS_PER_UNIT);
}

impl Pattern {
    fn place(&self, name: &str) -> Option<Place> {
        let is_named = |part: &PathPart| matches!(part, PathPart::Parameter(n) | PathPart::Rest(n) if n == name);
        if let Some(index) = self.parts.iter().position(is_named) {
            return Some(Place::Part(index));
        }
        self.expressions.iter().find_map(|(text, extent)| {
            let expression = captures(text, *extent)?;
            let number = expression.group(name)?;
            Some(Place::Group(expression, number))
        })
    }

    fn value<'p>(&self, path: &'p str, index: usize, ignore_case: bool) -> Option<&'p str> {
        let (from, to) = self.walk(path, index, ignore_case)?;
        path.get(from..to)
    }

    fn prefix_len(&self, path: &str, ignore_case: bool) -> Option<usize> {
        match self.parts.len() {
            0 => Some(0),
            parts => Some(self.walk(path, parts - 1, ignore_case)?.1),
        }
    }

    /// Start and end of the text that the part at `index` matches.
    fn walk(&self, path: &str, index: usize, ignore_case: bool) -> Option<(usize, usize)> {
        let (mut at, mut range) = (0, (0, 0));
        for (part, next) in self.parts.iter().zip(self.parts.iter().skip(1).map(Some).chain([None])).take(index + 1) {
            let rest = path.get(at..)?;
            let len = match part {
                PathPart::Text(text) if self.as_sent => {
                    let is_text = |start: &&str| *start == text || ignore_case && start.eq_ignore_ascii_case(text);
                    rest.get(..text.len()).filter(is_text)?.len()
                }
                PathPart::Text(text) => matched_len(rest, text, ignore_case)?,
                PathPart::Rest(_) => rest.len(),
                PathPart::Parameter(_) => {
                    let segment = &rest[..rest.find('/').unwrap_or(rest.len())];
                    // Text behind it in the same segment, as in `/img-{id}.png`.
                    let suffix = match next {
                        Some(PathPart::Text(text)) => text.split('/').next().unwrap_or_default(),
                        _ => "",
                    };
                    without_end(segment, suffix, ignore_case).filter(|value| !value.is_empty())?.len()
                }
            };
            range = (at, at + len);
            at += len;
        }
        Some(range)
    }
}

/// The text before its end, which may be in another spelling.
fn without_end<'t>(text: &'t str, end: &str, ignore_case: bool) -> Option<&'t str> {
    let is_end =
        |at: &usize| text.get(*at..).is_some_and(|rest| matched_len(rest, end, ignore_case) == Some(rest.len()));
    text.strip_suffix(end).or_else(|| text.get(..(0..text.len()).rev().find(is_end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(pattern: &str, path: &str, name: &str, ignore_case: bool) -> Option<String> {
        let parameters = Parameters::of(&PathPattern::Pattern(pattern.to_string()), ignore_case, false);
        parameters.value(path, &parameters.find(name)?).map(str::to_string)
    }

    #[test]
    fn a_parameter_is_a_segment_or_part_of_one_and_a_rest_is_all_that_is_left() {
        for (pattern, path, name, found) in [
            ("/users/{id}", "/users/7", "id", Some("7")),
            ("/users/{id}/posts/{post}", "/users/7/posts/9", "post", Some("9")),
            ("/img-{id}.png", "/img-a.png.png", "id", Some("a.png")),
            ("/img-{id}.png/x", "/img-a.png/x", "id", Some("a")),
            ("/v1/{*rest}", "/v1/a/b", "rest", Some("a/b")),
            ("/v1/{*rest}", "/v1/", "rest", Some("")),
            ("/{a}/{*rest}", "/x/y", "a", Some("x")),
            ("/a{{b}}/{id}", "/a{b}/%2F..", "id", Some("%2F..")),
            ("/users/{id}", "/users/", "id", None),
            ("/users/{id}", "/other/7", "id", None),
            ("/users/{id}", "/users/7", "di", None),
            ("/img-{id}.png", "/img-.png", "id", None),
        ] {
            assert_eq!(value(pattern, path, name, false).as_deref(), found, "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_is_found_in_other_spellings_and_in_any_case_if_that_is_set() {
        for (pattern, path, name, exact, any_case) in [
            ("/caf%c3%a9/{id}", "/caf%C3%A9/7", "id", Some("7"), Some("7")),
            ("/Users/{id}", "/USERS/aB", "id", None, Some("aB")),
            ("/Users/{id}", "/u%C5%BFers/aB", "id", None, Some("aB")),
            ("/img-{id}.png", "/IMG-x.PNG", "id", None, Some("x")),
            ("/img-{id}.k", "/img-x.K.%E2%84%AA", "id", None, Some("x.K")),
            ("/img-{id}.%6b", "/img-x.k", "id", Some("x"), Some("x")),
            ("/img-{id}.png", "/img-.PNG", "id", None, None),
        ] {
            let value = |ignore_case| value(pattern, path, name, ignore_case);
            assert_eq!([value(false).as_deref(), value(true).as_deref()], [exact, any_case], "{pattern} {path}");
        }
    }

    #[test]
    fn groups_of_the_expression_of_any_alternative_are_parameters() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2']\n[[route]]\n\
            pool = 'web'\nmatch = { any = [{ prefix = '/a/{id}', regex = '/a/(.*)/(?P<name>[0-9]+)' },\n\
            { search = '-(?P<name>[a-z]+)(x)?' }] }\n";
        let outcome = evenkeel_config::parse_str("test.toml", text, &|_| None);
        let plan =
            outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)));
        let parameters = Parameters::of_route(&plan.routes[0], false);
        let value = |name: &str, path| parameters.value(path, &parameters.find(name)?);
        assert_eq!(value("id", "/a/b/c/7"), Some("b"));
        assert_eq!(value("1", "/a/b/c/7"), Some("b/c"));
        assert_eq!(value("name", "/a/b/c/7"), Some("7"));
        assert_eq!(value("name", "/other-n"), Some("n"));
        assert_eq!(value("2", "/other-n"), None, "the group is no part of the match");
        assert_eq!(value("3", "/other-n"), None);
    }

    #[test]
    fn a_prefix_ends_with_its_last_segment() {
        let len = |prefix: &str, path: &str| {
            Parameters::of(&PathPattern::Prefix(prefix.to_string()), false, false).prefix_len(path)
        };
        assert_eq!(len("/api", "/api"), Some(4));
        assert_eq!(len("/api", "/api/x"), Some(4));
        assert_eq!(len("/users/{id}", "/users/17/x"), Some(9));
        assert_eq!(len("/users/{id}", "/users"), None);
        assert_eq!(Parameters::of(&PathPattern::Any, true, false).prefix_len("/x"), Some(0));
    }
}
