//! Regular expressions, in the syntax of the crate `regex`, whose time is linear in the text.

use super::expression::{Expression, Extent, Uncompiled};
use super::expressions::{self, compiled};
use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::tree::quoted;
use std::sync::Arc;

/// Most bytes of a regular expression in the configuration.
const LENGTH_MAX: usize = 4096;

/// Largest program, in bytes, that `runtime.regex_size` may allow.
pub const REGEX_SIZE_MAX: usize = 256 << 10;

/// Largest program by default, and for objects of providers. `\w+` takes 18 KiB, and `[^/]{1,64}` 19 KiB.
pub const REGEX_SIZE: usize = 32 << 10;

/// Bytes that the program of an expression for a part of a value may take in addition.
const PART: usize = 4 << 10;

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
    match compiled(text, REGEX_SIZE_MAX) {
        Ok(_) => Ok(text.to_string()),
        Err(why) => Err(bad(words(why, REGEX_SIZE_MAX), "the syntax is that of the crate regex")),
    }
}

/// Compiles an expression of an object of a provider, which the whole value has to match. Equal texts share an
/// expression.
///
/// # Errors
/// The syntax, or a program of more than [`REGEX_SIZE`].
pub fn compile(text: &str) -> Result<Arc<Expression>, String> {
    compiled(text, REGEX_SIZE).map_err(|why| words(why, REGEX_SIZE))
}

/// Returns the compiled expression of a plan that was checked; `None` for any other text that cannot be compiled.
pub fn checked(text: &str, extent: Extent) -> Option<Arc<Expression>> {
    match extent {
        Extent::Whole => compiled(text, REGEX_SIZE_MAX).ok(),
        // Any bytes before and behind it.
        Extent::Part => compiled(&format!("(?s-u:.)*(?:{text})(?s-u:.)*"), REGEX_SIZE_MAX + PART).ok(),
    }
}

/// Returns the expression that takes both cases of each letter.
pub fn without_case(text: &str) -> String {
    format!("(?i){text}")
}

/// Bytes that the expression of a plan takes in memory.
pub fn cost(text: &str, extent: Extent) -> usize {
    checked(text, extent).map_or(0, |expression| expressions::cost(&expression))
}

fn words(why: Uncompiled, size_max: usize) -> String {
    match why {
        Uncompiled::TooLarge => format!("it is too large: its program has more than {} KiB", size_max >> 10),
        Uncompiled::Wrong(why) => why,
    }
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
            ("(((a{100}){100}){100})", "more than 256 KiB"),
            ("", "0 bytes"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.message.contains(why), "{text}: {}", misfit.message);
        }
    }
}
