//! Parts of a path pattern: the text and the parameters between its slashes.

use super::path::PathPattern;

/// Text or parameter of a [`PathPattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// Literal text, its braces already unescaped; may have slashes.
    Text(String),
    /// Name of a parameter, which stands for at least one character of one segment.
    Parameter(String),
    /// Name of a rest at the end, which stands for everything, also nothing.
    Rest(String),
}

impl PathPattern {
    /// Text and parameters of the pattern, in order; of a prefix without what is below it. Empty for any path.
    pub fn parts(&self) -> Vec<PathPart> {
        let (PathPattern::Pattern(pattern) | PathPattern::Prefix(pattern)) = self else { return Vec::new() };
        let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), pattern.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let inner = &rest[at + 1..];
            // `{{` and `}}` are braces.
            if let Some(after) = inner.strip_prefix(&rest[at..=at]) {
                text.push_str(&rest[at..=at]);
                rest = after;
                continue;
            }
            // Patterns were checked, so each parameter ends.
            let (name, after) = inner.split_once('}').unwrap_or((inner, ""));
            if !text.is_empty() {
                parts.push(PathPart::Text(std::mem::take(&mut text)));
            }
            parts.push(match name.strip_prefix('*') {
                Some(name) => PathPart::Rest(name.to_string()),
                None => PathPart::Parameter(name.to_string()),
            });
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(PathPart::Text(text));
        }
        parts
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
