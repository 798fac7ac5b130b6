//! Parts of a path pattern: the text and the parameters between its slashes.

use super::path::PathPattern;
use super::pieces::{Piece, Pieces};

/// Text or parameter of a [`PathPattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// Literal text, its braces already unescaped; may have slashes.
    Text(String),
    /// Name of a parameter, which stands for a character or more of a segment.
    Parameter(String),
    /// Name of a rest at the end, which stands for everything, also nothing.
    Rest(String),
}

impl PathPattern {
    /// Text and parameters of the pattern, in order; of a prefix without the part below it. Empty for any path.
    pub fn parts(&self) -> Vec<PathPart> {
        let Pieces { pieces, rest, .. } = self.forms().swap_remove(0);
        let part = |piece| match piece {
            Piece::Text(text) => PathPart::Text(text),
            Piece::Parameter(name) => PathPart::Parameter(name),
        };
        pieces.into_iter().map(part).chain(rest.map(PathPart::Rest)).collect()
    }

    /// Names of the parameters of the pattern, in order.
    pub fn parameters(&self) -> Vec<String> {
        let name = |part| match part {
            PathPart::Parameter(name) | PathPart::Rest(name) => Some(name),
            PathPart::Text(_) => None,
        };
        self.parts().into_iter().filter_map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_parameters_come_in_order() {
        let pattern = PathPattern::Pattern("/a{{b}}/img-{id}.png/{*rest}".to_string());
        let text = |text: &str| PathPart::Text(text.to_string());
        assert_eq!(
            pattern.parts(),
            [
                text("/a{b}/img-"),
                PathPart::Parameter("id".to_string()),
                text(".png/"),
                PathPart::Rest("rest".to_string())
            ]
        );
        assert_eq!(pattern.parameters(), ["id", "rest"]);
        assert_eq!(PathPattern::Prefix("/x".to_string()).parts(), [text("/x")]);
        assert_eq!(PathPattern::Any.parts(), []);
    }
}
