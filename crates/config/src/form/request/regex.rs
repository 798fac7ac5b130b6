//! Regular expressions, in the syntax of the crate `regex`, whose time is linear in the text.

use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::tree::quoted;
use regex::bytes::{Regex, RegexBuilder};

/// Most bytes of a regular expression in the configuration.
const LENGTH_MAX: usize = 4096;

/// Most bytes of its program in memory.
const SIZE_MAX: usize = 256 << 10;

pub(in crate::form) fn read(text: &str) -> Result<String, Misfit> {
    let bad = |why: String, help: &str| {
        Misfit::new(Code::BadRegex, format!("{} is not a regular expression: {why}", quoted(text)), help)
    };
    if text.is_empty() || text.len() > LENGTH_MAX {
        return Err(bad(format!("it has {} bytes", text.len()), "write 1 to 4096 bytes"));
    }
    for (look, name) in [("(?=", "look-ahead"), ("(?!", "look-ahead"), ("(?<=", "look-behind"), ("(?<!", "look-behind")]
    {
        if text.contains(look) {
            let help = "match the rest of the value, and put what it must not be into \"not\"";
            return Err(bad(format!("{name} is not supported, as its time is not linear"), help));
        }
    }
    match compile(text) {
        Ok(_) => Ok(text.to_string()),
        Err(why) => Err(bad(why, "the syntax is that of the crate regex; the whole value has to match")),
    }
}

/// Compiles an expression that the whole value has to match.
///
/// # Errors
/// The syntax, or a program that is too large.
pub fn compile(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(SIZE_MAX).dfa_size_limit(SIZE_MAX).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large once compiled".to_owned(),
        error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_value_matches_and_errors_have_a_reason() {
        let regex = compile("/u/[0-9]+|/x").expect("a regular expression");
        assert!(
            regex.is_match(b"/u/12") && regex.is_match(b"/x") && !regex.is_match(b"/u/12/") && !regex.is_match(b"a/x")
        );
        for (text, why) in [
            ("(", "unclosed group"),
            ("(?=a)", "look-ahead"),
            ("(a)\\1", "backreferences are not supported"),
            ("(((a{100}){100}){100})", "too large"),
            ("", "0 bytes"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.message.contains(why), "{text}: {}", misfit.message);
        }
    }
}
