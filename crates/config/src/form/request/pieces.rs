//! Pieces of path patterns: fixed text, and parameters that stand for a segment.

use evenkeel_wire::folding::folded;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Piece {
    /// Fixed text, its braces already unescaped.
    Text(String),
    /// Name of a parameter, which stands for a segment, or a part of it with fixed text around; not empty.
    Parameter(String),
}

/// A path pattern without the names of braces: its pieces, and the way in which it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    pub pieces: Vec<Piece>,
    pub end: End,
    /// Name of the rest at the end, if any.
    pub rest: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Nothing may follow, as in `/users/{id}`.
    Exact,
    /// The path ends here; it is the prefix of a pattern that also takes everything below it.
    Whole,
    /// Any rest follows, or none.
    Open,
}

/// Reason why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::form) enum Wrong {
    /// A segment has two parameters.
    TwoParameters,
    /// `{*rest}` is not a whole segment at the end.
    MisplacedRest,
    Braces,
}

/// Parses `/users/{id}/posts`, `/img-{id}.png` or `/v1/{*rest}`; `{{` and `}}` are literal braces.
pub(in crate::form) fn parse(pattern: &str) -> Result<Pieces, Wrong> {
    let mut parsed = Pieces { pieces: Vec::new(), end: End::Exact, rest: None };
    let mut rest = pattern;
    // Two parameters in a segment have no unique reading.
    let mut is_segment_taken = false;
    while let Some(c) = rest.chars().next() {
        if parsed.end == End::Open {
            return Err(Wrong::MisplacedRest);
        }
        if rest.starts_with("{{") || rest.starts_with("}}") {
            parsed.text(&rest[..1]);
            rest = &rest[2..];
        } else if c == '}' {
            return Err(Wrong::Braces);
        } else if c == '{' {
            let end = rest.find('}').ok_or(Wrong::Braces)?;
            let name = &rest[1..end];
            let is_rest = name.starts_with('*');
            if name.trim_start_matches('*').is_empty() || name.contains(['/', '{']) || name[1..].contains('*') {
                return Err(Wrong::Braces);
            }
            if is_rest {
                let follows_slash = matches!(parsed.pieces.last(), Some(Piece::Text(text)) if text.ends_with('/'));
                parsed.end = if follows_slash { End::Open } else { return Err(Wrong::MisplacedRest) };
                parsed.rest = Some(name[1..].to_owned());
            } else {
                if std::mem::replace(&mut is_segment_taken, true) {
                    return Err(Wrong::TwoParameters);
                }
                parsed.pieces.push(Piece::Parameter(name.to_owned()));
            }
            rest = &rest[end + 1..];
        } else {
            is_segment_taken &= c != '/';
            parsed.text(&rest[..c.len_utf8()]);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(parsed)
}

impl Pieces {
    pub(in crate::form) fn of_text(text: &str, end: End) -> Pieces {
        let mut pieces = Pieces { pieces: Vec::new(), end, rest: None };
        pieces.text(text);
        pieces
    }

    /// The pattern without the names of its parameters. Patterns of equal shape match the same paths.
    pub fn shape(&self) -> (Vec<Piece>, End) {
        let unnamed = |piece: &Piece| match piece {
            Piece::Parameter(_) => Piece::Parameter(String::new()),
            text @ Piece::Text(_) => text.clone(),
        };
        (self.pieces.iter().map(unnamed).collect(), self.end)
    }

    /// Returns the pattern for paths without regard to case, see [`folded`].
    pub fn folded(&self) -> Pieces {
        self.spelled(|text| String::from_utf8_lossy(&folded(text.as_bytes())).into_owned())
    }

    /// Returns the pattern with its texts in another spelling.
    pub fn spelled(&self, spelling: impl Fn(&str) -> String) -> Pieces {
        let spelled = |piece: &Piece| match piece {
            Piece::Text(text) => Piece::Text(spelling(text)),
            Piece::Parameter(name) => Piece::Parameter(name.clone()),
        };
        Pieces { pieces: self.pieces.iter().map(spelled).collect(), ..self.clone() }
    }

    /// Returns the pattern with this text behind it, and with another end.
    pub(in crate::form) fn then(&self, text: &str, end: End) -> Pieces {
        let mut longer = Pieces { pieces: self.pieces.clone(), end, rest: None };
        longer.text(text);
        longer
    }

    fn text(&mut self, more: &str) {
        match self.pieces.last_mut() {
            _ if more.is_empty() => {}
            Some(Piece::Text(text)) => text.push_str(more),
            _ => self.pieces.push(Piece::Text(more.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_parameters_are_told_apart() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let id = || Piece::Parameter("id".to_owned());
        let parsed = |pattern| parse(pattern).expect("a pattern");
        assert_eq!(parsed("/a/{id}/b").pieces, [text("/a/"), id(), text("/b")]);
        assert_eq!(parsed("/img-{id}.png").pieces, [text("/img-"), id(), text(".png")]);
        assert_eq!(parsed("/a{{b}}").pieces, [text("/a{b}")]);
        assert_eq!(
            parsed("/v1/{*rest}"),
            Pieces { pieces: vec![text("/v1/")], end: End::Open, rest: Some("rest".to_owned()) }
        );
        for (pattern, wrong) in [
            ("/{a}{b}", Wrong::TwoParameters),
            ("/{a}x{b}", Wrong::TwoParameters),
            ("/{*a}/x", Wrong::MisplacedRest),
            ("/x{*a}", Wrong::MisplacedRest),
            ("/{", Wrong::Braces),
            ("/{}", Wrong::Braces),
            ("/{*}", Wrong::Braces),
            ("/}", Wrong::Braces),
            ("/{a/b}", Wrong::Braces),
        ] {
            assert_eq!(parse(pattern), Err(wrong), "{pattern}");
        }
        assert!(parse("/{a}/{b}").is_ok());
    }
}
