//! Media types: `type/subtype`, optionally with parameters, without characters that could end a header field.

use super::misfit::Misfit;
use super::name::is_token_char;
use crate::code::Code;
use crate::tree::quoted;

/// Longest media type accepted, in bytes; no registered type with parameters is longer.
const MAX: usize = 128;

pub(super) fn read(text: &str) -> Result<(), Misfit> {
    let is_token = |part: &str| !part.is_empty() && part.chars().all(is_token_char);
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let named =
        essence.trim_end_matches(' ').split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub));
    let plain = parameters.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && !text.ends_with([' ', ';']);
    match named && plain && text.len() <= MAX {
        true => Ok(()),
        false => Err(Misfit::new(
            Code::NotAllowed,
            format!("{} is not a media type", quoted(text)),
            "write \"text/html; charset=utf-8\" or \"application/json\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_and_what_would_end_a_field_is_not() {
        for good in ["text/html", "text/html; charset=utf-8", "application/problem+json", "a/b;c=\"d e\""] {
            assert!(read(good).is_ok(), "{good}");
        }
        for bad in
            ["", "html", "/", "text/", "text/html;", "text/html\r\nA: b", "text/html; a=\r\nb", "text/ html", "t/h ä"]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(read(&format!("a/{}", "b".repeat(127))).is_err());
    }
}
