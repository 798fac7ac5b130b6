//! Media types of responses that are compressed.

/// Set of media types, by whole types and by main types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    /// Whole types, in lower case.
    whole: Vec<Box<[u8]>>,
    /// Main types whose subtypes all belong to it, each with its slash, in lower case; `""` is every type.
    main: Vec<Box<[u8]>>,
}

impl Types {
    /// Set of the types with these patterns: a type, a main type as `text/*`, or `*/*`.
    pub fn new<'p>(patterns: impl Iterator<Item = &'p str>) -> Types {
        let mut types = Types::default();
        for pattern in patterns {
            let pattern = pattern.to_ascii_lowercase();
            match pattern.strip_suffix('*') {
                Some("*/") => types.main.push(Box::default()),
                Some(main) => types.main.push(main.as_bytes().into()),
                None => types.whole.push(pattern.as_bytes().into()),
            }
        }
        types
    }

    /// True if the set has the type of this value of `Content-Type`. gRPC is in no set: it compresses
    /// its messages itself.
    pub fn has(&self, value: &[u8]) -> bool {
        let essence = essence(value);
        if starts_with(essence, b"application/grpc") {
            return false;
        }
        self.whole.iter().any(|whole| essence.eq_ignore_ascii_case(whole))
            || self.main.iter().any(|main| starts_with(essence, main))
    }
}

/// True for the type of event streams, which stay open for long.
pub fn is_of_events(value: &[u8]) -> bool {
    essence(value).eq_ignore_ascii_case(b"text/event-stream")
}

/// Type and subtype, without parameters.
fn essence(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

fn starts_with(value: &[u8], start: &[u8]) -> bool {
    value.get(..start.len()).is_some_and(|begins| begins.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_match_without_their_parameters_in_any_case() {
        let types = Types::new(["text/*", "Application/JSON"].into_iter());
        for value in ["text/html", "TEXT/css; charset=utf-8", "application/json ;a=b", "text/event-stream"] {
            assert!(types.has(value.as_bytes()), "{value}");
        }
        for value in ["", "text", "textual/a", "application/json5", "image/png", "x/text/html"] {
            assert!(!types.has(value.as_bytes()), "{value}");
        }
        assert!(is_of_events(b"Text/Event-Stream; charset=utf-8") && !is_of_events(b"text/event-streams"));
    }

    #[test]
    fn a_star_is_every_type_but_grpc() {
        let all = Types::new(["*/*"].into_iter());
        assert!(all.has(b"image/png") && all.has(b"a/b"));
        assert!(!all.has(b"application/grpc") && !all.has(b"Application/gRPC-web+proto"));
    }
}
