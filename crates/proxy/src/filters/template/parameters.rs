//! Parameters of a path: matches the pattern of a route against the path of a request. The router only finds the route,
//! and most routes need no parameter.

use evenkeel_config::plan::{PathPart, PathPattern, Route};
use std::collections::BTreeSet;

/// Patterns of the path that a route matches, for each of its alternatives, with their parameters.
#[derive(Debug)]
pub struct Parameters {
    patterns: Box<[Pattern]>,
    names: Box<[String]>,
}

#[derive(Debug)]
struct Pattern {
    parts: Box<[PathPart]>,
}

impl Parameters {
    /// Splits the patterns of a route into text and parameters.
    pub fn of_route(route: &Route) -> Parameters {
        Parameters::of(route.matches().iter().map(|matching| &matching.path))
    }

    /// Splits these patterns into text and parameters.
    pub fn of<'p>(paths: impl Iterator<Item = &'p PathPattern>) -> Parameters {
        let (mut names, mut patterns) = (BTreeSet::new(), Vec::new());
        for path in paths {
            names.extend(path.parameters());
            patterns.push(Pattern { parts: path.parts().into() });
        }
        Parameters { patterns: patterns.into(), names: names.into_iter().collect() }
    }

    /// Index of the parameter of this name; `None` if no pattern has it.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Part of the path that a parameter matches; `None` if the path does not match.
    pub fn value<'p>(&self, path: &'p str, index: usize) -> Option<&'p str> {
        let name = self.names.get(index)?;
        self.patterns.iter().find_map(|pattern| pattern.value(path, name))
    }

    /// Length of the longest part of the path that a whole pattern matches; 0 for a pattern of any path.
    pub fn prefix_len(&self, path: &str) -> Option<usize> {
        self.patterns.iter().filter_map(|pattern| pattern.prefix_len(path)).max()
    }
}

impl Pattern {
    fn value<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        let is_named = |part: &PathPart| matches!(part, PathPart::Parameter(n) | PathPart::Rest(n) if n == name);
        let (from, to) = self.walk(path, self.parts.iter().position(is_named)?)?;
        path.get(from..to)
    }

    fn prefix_len(&self, path: &str) -> Option<usize> {
        match self.parts.len() {
            0 => Some(0),
            parts => Some(self.walk(path, parts - 1)?.1),
        }
    }

    /// Start and end of the text that the part at `index` matches.
    fn walk(&self, path: &str, index: usize) -> Option<(usize, usize)> {
        let (mut at, mut range) = (0, (0, 0));
        for (part, next) in self.parts.iter().zip(self.parts.iter().skip(1).map(Some).chain([None])).take(index + 1) {
            let rest = path.get(at..)?;
            let len = match part {
                PathPart::Text(text) => rest.starts_with(text.as_str()).then_some(text.len())?,
                PathPart::Rest(_) => rest.len(),
                PathPart::Parameter(_) => {
                    let segment = &rest[..rest.find('/').unwrap_or(rest.len())];
                    // Text behind it in the same segment, as in `/img-{id}.png`.
                    let suffix = match next {
                        Some(PathPart::Text(text)) => text.split('/').next().unwrap_or_default(),
                        _ => "",
                    };
                    segment.strip_suffix(suffix).filter(|value| !value.is_empty())?.len()
                }
            };
            range = (at, at + len);
            at += len;
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(pattern: &str, path: &str, name: &str) -> Option<String> {
        let parameters = Parameters::of([PathPattern::Pattern(pattern.to_string())].iter());
        parameters.value(path, parameters.index(name)?).map(str::to_string)
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
            assert_eq!(value(pattern, path, name).as_deref(), found, "{pattern} {path}");
        }
    }

    #[test]
    fn a_prefix_ends_with_its_last_segment() {
        let len = |prefix: &str, path: &str| {
            Parameters::of([PathPattern::Prefix(prefix.to_string())].iter()).prefix_len(path)
        };
        assert_eq!(len("/api", "/api"), Some(4));
        assert_eq!(len("/api", "/api/x"), Some(4));
        assert_eq!(len("/users/{id}", "/users/17/x"), Some(9));
        assert_eq!(len("/users/{id}", "/users"), None);
        assert_eq!(Parameters::of([PathPattern::Any].iter()).prefix_len("/x"), Some(0));
    }
}
