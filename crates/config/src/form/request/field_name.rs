//! Names of fields that a filter may change, and of those that it must leave alone.

use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::form::name::is_token_char;
use crate::tree::quoted;

/// Fields that steer a message, in lower case, each with the key to use instead or the reason.
const STEERING: &[(&str, &str)] = &[
    ("host", "use send_host, which sets it for each try"),
    ("content-length", "evenkeel writes it for the body that it sends"),
    ("transfer-encoding", "evenkeel writes it for the body that it sends"),
    ("connection", "it belongs to each connection, not to the message"),
    ("keep-alive", "it belongs to each connection, not to the message"),
    ("proxy-connection", "it belongs to each connection, not to the message"),
    ("upgrade", "evenkeel forwards a switch of protocols that both sides want"),
    ("http2-settings", "it belongs to each connection, not to the message"),
    ("te", "evenkeel sends it where trailers can be forwarded"),
    ("trailer", "it announces fields behind a body, which are forwarded as they come"),
    ("expect", "evenkeel forwards it if a body follows"),
    ("cdn-loop", "it finds loops: detect_loops of the listener turns that off"),
];

/// True if a field of this name, in any case, steers a message, so that filters leave it alone.
pub fn steers(name: &[u8]) -> bool {
    STEERING.iter().any(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Checks the name of a field that a filter sets.
pub(in crate::form) fn read(text: &str) -> Result<(), Misfit> {
    if text.starts_with(':') {
        let help = match text {
            ":authority" => "use send_host",
            ":path" => "use rewrite or strip_prefix",
            _ => "HTTP/2 has such names for parts of its own that no filter changes",
        };
        return Err(bad(text, "it begins with a colon", help));
    }
    if text.is_empty() || text.len() > 128 || !text.chars().all(is_token_char) {
        let help = "allowed: a name of up to 128 letters, digits or !#$%&'*+-.^_`|~";
        return Err(bad(text, "it has other characters than a name", help));
    }
    match STEERING.iter().find(|(known, _)| text.eq_ignore_ascii_case(known)) {
        Some((_, instead)) => Err(bad(text, "it steers the message", format!("leave it out: {instead}"))),
        None => Ok(()),
    }
}

/// Checks the name of a field to remove, or the beginning of names before a star.
pub(in crate::form) fn pattern(text: &str) -> Result<(), Misfit> {
    match text.strip_suffix('*') {
        Some("") => Err(bad(text, "it would remove every field", "write the beginning of the names: \"X-Internal-*\"")),
        Some(begin) if begin.contains('*') => {
            Err(bad(text, "it has two stars", "write one at the end: \"X-Internal-*\""))
        }
        // The beginning of a name that steers may be the beginning of others; these are passed over when fields are
        // removed.
        Some(begin) if begin.chars().all(is_token_char) => Ok(()),
        None if text.contains('*') => {
            Err(bad(text, "a star can only be at the end", "write \"X-Internal-*\", or name each field"))
        }
        _ => read(text),
    }
}

fn bad(text: &str, why: &str, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadName, format!("{} cannot be changed: {why}", quoted(text)), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_steer_the_message_are_refused_in_any_case() {
        for name in ["X-Real-IP", "x", "Server", "X-Forwarded-For", "Set-Cookie"] {
            assert!(read(name).is_ok() && pattern(name).is_ok() && !steers(name.as_bytes()), "{name}");
        }
        for (name, _) in STEERING {
            assert!(read(name).is_err() && pattern(&name.to_ascii_uppercase()).is_err(), "{name}");
            assert!(steers(name.to_ascii_uppercase().as_bytes()));
        }
        for (name, help) in [
            ("Host", "send_host"),
            (":authority", "send_host"),
            (":path", "rewrite"),
            (":x", "no filter changes"),
            ("a b", "letters"),
            ("", "letters"),
            ("a:", "letters"),
        ] {
            let misfit = read(name).expect_err(name);
            assert!(misfit.help.contains(help), "{name}: {misfit:?}");
        }
    }

    #[test]
    fn a_star_may_end_the_name_of_a_field_to_remove() {
        for name in ["X-Internal-*", "X-*", "T*"] {
            assert!(pattern(name).is_ok(), "{name}");
        }
        for name in ["*", "X-*-Id", "X-**", "a b*", "*X"] {
            assert!(pattern(name).is_err(), "{name}");
        }
    }
}
