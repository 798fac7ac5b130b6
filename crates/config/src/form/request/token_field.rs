//! Place of a token in a request: `bearer`, `cookie:NAME`, `header:NAME`.

use super::field_name;
use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::form::name::is_token_char;
use crate::tree::quoted;
use std::fmt;

/// Place of a token in a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenField {
    /// `Authorization`, behind `Bearer`.
    Bearer,
    /// Cookie of this name, compared with regard to case.
    Cookie(String),
    /// Field of this name, which has nothing but the token.
    Header(String),
}

impl fmt::Display for TokenField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenField::Bearer => f.write_str("bearer"),
            TokenField::Cookie(name) => write!(f, "cookie:{name}"),
            TokenField::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// Parses a place of tokens.
pub(in crate::form) fn read(text: &str) -> Result<TokenField, Misfit> {
    match text.split_once(':') {
        None if text == "bearer" => return Ok(TokenField::Bearer),
        Some(("cookie", name)) if !name.is_empty() && name.len() <= 128 && name.chars().all(is_token_char) => {
            return Ok(TokenField::Cookie(name.to_string()));
        }
        Some(("header", name)) if field_name::read(name).is_ok() => {
            return Ok(TokenField::Header(name.to_string()));
        }
        _ => {}
    }
    let message = format!("{} is not a place of tokens", quoted(text));
    Err(Misfit::new(Code::BadName, message, "allowed: bearer, cookie:NAME, header:NAME, as \"cookie:token\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_places_and_refuses_the_rest() {
        for text in ["bearer", "cookie:Token", "header:X-Jwt"] {
            assert_eq!(read(text).map(|place| place.to_string()), Ok(text.to_string()));
        }
        for bad in ["", "Bearer", "bearer:x", "cookie", "cookie:", "cookie:a b", "header:Host", "header:", "query:t"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
