//! Tree of the paths of a host's routes. A lookup visits the values of all matching patterns, the most specific first:
//! from the left, fixed text before a parameter before an open end.

use evenkeel_config::plan::{Piece, Pieces};
use memchr::memchr;

#[derive(Debug)]
pub struct Paths<T> {
    root: Node<T>,
}

#[derive(Debug)]
struct Node<T> {
    /// Nodes after fixed text. No two begin with the same byte.
    texts: Vec<(Box<[u8]>, Node<T>)>,
    /// Nodes after a parameter and the fixed end of its segment, longest end first.
    parameters: Vec<(Box<[u8]>, Node<T>)>,
    /// Values of patterns that end here, by [`End`](evenkeel_config::plan::End).
    ends: [Option<T>; 3],
}

impl<T> Default for Paths<T> {
    fn default() -> Paths<T> {
        Paths { root: Node::default() }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Node<T> {
        Node { texts: Vec::new(), parameters: Vec::new(), ends: [None, None, None] }
    }
}

impl<T> Paths<T> {
    /// Returns the value of a pattern, inserting the default if there is none.
    pub fn entry(&mut self, pattern: &Pieces) -> &mut T
    where
        T: Default,
    {
        let mut node = &mut self.root;
        let mut pieces = pattern.pieces.iter().peekable();
        while let Some(piece) = pieces.next() {
            node = match piece {
                Piece::Text(text) => node.after_text(text.as_bytes()),
                Piece::Parameter(_) => {
                    let text = pieces.next_if(|next| matches!(next, Piece::Text(_)));
                    let text = if let Some(Piece::Text(text)) = text { text.as_bytes() } else { b"" };
                    let (end, rest) = text.split_at(memchr(b'/', text).unwrap_or(text.len()));
                    node.after_parameter(end).after_text(rest)
                }
            };
        }
        node.ends[pattern.end as usize].get_or_insert_default()
    }

    /// Maps the value of each pattern.
    pub fn map<U>(self, value: &impl Fn(T) -> U) -> Paths<U> {
        Paths { root: self.root.map(value) }
    }

    /// Calls `visit` with the value of each matching pattern, the most specific first, until it returns a result.
    /// Visits each node of the tree at most once.
    #[inline]
    pub fn find<R>(&self, path: &[u8], mut visit: impl FnMut(&T) -> Option<R>) -> Option<R> {
        self.root.find(path, &mut visit)
    }
}

impl<T> Node<T> {
    fn after_text(&mut self, text: &[u8]) -> &mut Node<T> {
        let Some(first) = text.first() else { return self };
        let Some(at) = self.texts.iter().position(|(text, _)| text[0] == *first) else {
            self.texts.push((text.into(), Node::default()));
            let last = self.texts.len() - 1;
            return &mut self.texts[last].1;
        };
        let common = self.texts[at].0.iter().zip(text).take_while(|(a, b)| a == b).count();
        if common < self.texts[at].0.len() {
            self.texts[at].split(common);
        }
        self.texts[at].1.after_text(&text[common..])
    }

    fn after_parameter(&mut self, end: &[u8]) -> &mut Node<T> {
        let at = self.parameters.iter().position(|(other, _)| **other == *end).unwrap_or_else(|| {
            let at = self.parameters.partition_point(|(other, _)| other.len() >= end.len());
            self.parameters.insert(at, (end.into(), Node::default()));
            at
        });
        &mut self.parameters[at].1
    }

    fn map<U>(self, value: &impl Fn(T) -> U) -> Node<U> {
        let below =
            |all: Vec<(Box<[u8]>, Node<T>)>| all.into_iter().map(|(text, node)| (text, node.map(value))).collect();
        Node { texts: below(self.texts), parameters: below(self.parameters), ends: self.ends.map(|end| end.map(value)) }
    }

    fn find<R>(&self, rest: &[u8], visit: &mut impl FnMut(&T) -> Option<R>) -> Option<R> {
        let [exact, whole, open] = &self.ends;
        let found = match rest.first() {
            None => exact.as_ref().and_then(&mut *visit).or_else(|| whole.as_ref().and_then(&mut *visit)),
            Some(first) => {
                let text = self.texts.iter().find(|(text, _)| text[0] == *first);
                let text = text.and_then(|(text, node)| node.find(rest.strip_prefix(&**text)?, visit));
                text.or_else(|| self.find_parameter(rest, visit))
            }
        };
        found.or_else(|| open.as_ref().and_then(visit))
    }

    fn find_parameter<R>(&self, rest: &[u8], visit: &mut impl FnMut(&T) -> Option<R>) -> Option<R> {
        if self.parameters.is_empty() {
            return None;
        }
        let (segment, behind) = rest.split_at(memchr(b'/', rest).unwrap_or(rest.len()));
        let fits = |end: &[u8]| segment.len() > end.len() && segment.ends_with(end);
        self.parameters.iter().filter(|(end, _)| fits(end)).find_map(|(_, node)| node.find(behind, visit))
    }
}

/// Splits the text in front of a node, with a new node in between.
trait Split {
    fn split(&mut self, at: usize);
}

impl<T> Split for (Box<[u8]>, Node<T>) {
    fn split(&mut self, at: usize) {
        let (front, back) = self.0.split_at(at);
        let (front, back): (Box<[u8]>, Box<[u8]>) = (front.into(), back.into());
        let below = std::mem::take(&mut self.1);
        self.0 = front;
        self.1.texts.push((back, below));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::PathPattern;

    /// The patterns that match a path, the most specific first. Each is written as a key and a value.
    fn order(patterns: &[&str], path: &str) -> Vec<String> {
        let mut paths: Paths<Vec<String>> = Paths::default();
        for pattern in patterns {
            let parsed = match pattern.strip_suffix('*') {
                Some("") => PathPattern::Any,
                Some(text) => match text.strip_suffix("/*/") {
                    _ if text.ends_with('/') => PathPattern::Prefix(text.trim_end_matches('/').to_owned()),
                    _ => PathPattern::StartsWith(text.to_owned()),
                },
                None => PathPattern::Pattern((*pattern).to_owned()),
            };
            for form in parsed.forms() {
                paths.entry(&form).push((*pattern).to_owned());
            }
        }
        let mut all = Vec::new();
        let found: Option<()> = paths.find(path.as_bytes(), |here| {
            all.extend(here.iter().cloned());
            None
        });
        assert_eq!(found, None);
        all
    }

    #[test]
    fn all_that_match_are_visited_from_the_most_specific_one_on() {
        let all = [
            "/api",
            "/api/*",
            "/api*",
            "/api/{id}",
            "/api/x",
            "/api/{id}.png",
            "/{a}/{b}",
            "*",
            "/ap{x}",
            "/api/{*rest}",
        ];
        let rows: [(&str, &[&str]); 8] = [
            ("/api", &["/api", "/api/*", "/api*", "/ap{x}", "*"]),
            ("/api/", &["/api/*", "/api/{*rest}", "/api*", "*"]),
            ("/api/x", &["/api/x", "/api/{id}", "/api/*", "/api/{*rest}", "/api*", "/{a}/{b}", "*"]),
            ("/api/a.png", &["/api/{id}.png", "/api/{id}", "/api/*", "/api/{*rest}", "/api*", "/{a}/{b}", "*"]),
            ("/api/.png", &["/api/{id}", "/api/*", "/api/{*rest}", "/api*", "/{a}/{b}", "*"]),
            ("/apix", &["/api*", "/ap{x}", "*"]),
            ("/API", &["*"]),
            ("", &["*"]),
        ];
        for (path, want) in rows {
            assert_eq!(order(&all, path), want, "{path}");
        }
    }

    #[test]
    fn texts_with_a_common_beginning_are_split_in_any_order() {
        for patterns in [["/abc", "/ab", "/abd", "/x"], ["/x", "/abd", "/ab", "/abc"]] {
            for path in ["/abc", "/ab", "/abd", "/x"] {
                assert_eq!(order(&patterns, path), [path]);
            }
            assert!(order(&patterns, "/a").is_empty() && order(&patterns, "/abcd").is_empty());
        }
    }

    #[test]
    fn a_path_of_many_segments_visits_each_node_once() {
        let patterns: Vec<String> = (1..40).map(|depth| format!("{}/end", "/{a}".repeat(depth))).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        assert!(order(&patterns, &"/a".repeat(4000)).is_empty());
        assert_eq!(order(&patterns, &format!("{}/end", "/a".repeat(39))).len(), 1);
    }
}
