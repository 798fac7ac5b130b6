//! `compress` of routes, from the codings that other programs name.

use crate::model::{Draft, RouteKeys, Value};
use evenkeel_config::plan::Compress;

/// Codings of evenkeel among these names, in their order and each once.
pub(crate) fn codings<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'static str> {
    let mut codings = Vec::new();
    for name in names {
        let coding = match name.to_ascii_lowercase().as_str() {
            "gzip" => "gzip",
            "br" | "brotli" => "br",
            "zstd" => "zstd",
            _ => continue,
        };
        if !codings.contains(&coding) {
            codings.push(coding);
        }
    }
    codings
}

/// Media types that `compress` takes among these, each once and without parameters. A star or the beginning of a type with
/// a star is a main type.
pub(crate) fn types<'t>(types: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in types {
        let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let essence = match essence.split_once('/') {
            None if essence == "*" => "*/*".to_string(),
            Some((main, sub)) if sub.is_empty() && !main.is_empty() => format!("{main}/*"),
            // A star behind a whole type is for its parameters.
            Some((_, sub)) if sub.len() > 1 && sub.ends_with('*') && !sub.ends_with("-*") => {
                essence.trim_end_matches('*').to_string()
            }
            Some((main, sub)) if sub == "*" || !sub.contains('*') && !main.contains('*') => essence,
            _ => continue,
        };
        if !all.contains(&essence) {
            all.push(essence);
        }
    }
    all
}

/// Adds `compress` to a route: `true` if it has no settings.
pub(crate) fn put(compress: Draft<Compress>, set: &mut RouteKeys) {
    let value = if compress.is_empty() { Value::Bool(true) } else { compress.into() };
    set.put(key!("compress"), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_become_those_of_evenkeel() {
        assert_eq!(codings(["gzip", "deflate", "Brotli", "gzip", "zstd"]), ["gzip", "br", "zstd"]);
        assert_eq!(
            types(["text/html", "TEXT/css; charset=utf-8", "text/html", "image/"]),
            ["text/html", "text/css", "image/*"]
        );
        assert_eq!(types(["*", "text/x-*", "html", "a/b*", "a/*"]), ["*/*", "a/b", "a/*"]);
    }
}
