//! Metrics that a client asks for by their names.

/// Limit of the names in a query.
const NAMES_MAX: usize = 100;

/// Limit of the length of a name, in bytes.
const LENGTH_MAX: usize = 200;

/// Endings of names of series that the name of their family does not have.
const ENDINGS: [&str; 5] = ["_total", "_bucket", "_count", "_sum", "_info"];

/// Names of families or of their series; with `*` at the end, all that begin so. None: all metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Reads the names of a query: its keys and values, decoded. Other keys than `name` have no meaning.
    ///
    /// # Errors
    /// The reason why a name is not valid, as a sentence.
    pub fn read(query: &[(String, String)]) -> Result<Names, String> {
        let names: Vec<&str> = query.iter().filter(|(key, _)| key == "name").map(|(_, name)| &**name).collect();
        if names.len() > NAMES_MAX {
            return Err(format!(
                "the query has {} names; it may have {NAMES_MAX}, and a prefix as name=evenkeel_http_* is one",
                names.len()
            ));
        }
        for name in names.iter().copied() {
            let stem = name.strip_suffix('*').unwrap_or(name);
            let is_valid = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
            if name.is_empty() || !is_valid || name.len() > LENGTH_MAX {
                let name: String = name.chars().take(LENGTH_MAX).collect();
                return Err(format!(
                    "{name:?} is not the name of a metric: use letters, digits and _, with * at the end for all that begin so, \
                     as name=evenkeel_http_requests or name=evenkeel_http_*"
                ));
            }
        }
        Ok(Names(names.into_iter().map(str::to_owned).collect()))
    }

    /// True if the family of this name is asked for.
    pub fn has(&self, family: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| is_of(name, family))
    }
}

fn is_of(name: &str, family: &str) -> bool {
    match name.strip_suffix('*') {
        Some(prefix) => family.starts_with(prefix),
        None => name == family || ENDINGS.iter().any(|ending| name.strip_suffix(ending) == Some(family)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Result<Names, String> {
        Names::read(&all.iter().map(|name| ("name".to_owned(), (*name).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_of_families_or_series_and_prefixes_have_a_star() {
        let some = names(&["evenkeel_http_*", "evenkeel_retries_total", "evenkeel_taps_open"]).expect("valid");
        let asked = ["evenkeel_http_requests", "evenkeel_retries", "evenkeel_taps_open"];
        assert!(asked.iter().all(|family| some.has(family)));
        assert!(!some.has("evenkeel_retries_refused") && !some.has("evenkeel_taps_open_x"));
        assert!(names(&[]).expect("valid").has("anything") && names(&["*"]).expect("valid").has("anything"));
        let other = [("x".to_owned(), "?".to_owned())];
        assert_eq!(Names::read(&other), Ok(Names::default()));
    }

    #[test]
    fn a_name_that_cannot_be_is_refused_with_an_example() {
        for wrong in ["", "a b", "a*b", "**", "evenkeel_{x}", &"x".repeat(201)] {
            let error = names(&[wrong]).expect_err(wrong);
            assert!(error.contains("name=evenkeel_http_*"), "{error}");
        }
        assert!(names(&["a"; 101]).expect_err("too many").contains("101 names"));
    }
}
