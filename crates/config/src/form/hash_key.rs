//! Hash keys: `client-ip`, `path`, `header:NAME`, `cookie:NAME`, `query:NAME`.

use super::misfit::Misfit;
use super::name::is_token_char;
use crate::code::Code;
use crate::nearest::nearest;
use crate::tree::quoted;
use std::fmt;

pub(super) fn read(text: &str) -> Result<HashKey, Misfit> {
    let bad = |why: String, help: String| {
        Err(Misfit::new(Code::BadHashKey, format!("{} is not a hash key: {why}", quoted(text)), help))
    };
    let allowed = "allowed: client-ip, path, header:NAME, cookie:NAME, query:NAME";
    let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
    // Names of query parameters may use any visible character.
    let token = |n: &str| n.chars().all(is_token_char);
    match (kind, name) {
        ("client-ip", None) => Ok(HashKey::ClientIp),
        ("path", None) => Ok(HashKey::Path),
        ("client-ip" | "path", Some(_)) => bad("it takes no name".to_string(), format!("write \"{kind}\"")),
        ("header" | "cookie" | "query", None | Some("")) => {
            bad(format!("{kind} needs a name"), format!("write which one, as \"{kind}:{}\"", example(kind)))
        }
        ("header", Some(name)) if token(name) => Ok(HashKey::Header(name.to_ascii_lowercase())),
        ("cookie", Some(name)) if token(name) => Ok(HashKey::Cookie(name.to_string())),
        ("query", Some(name)) if name.bytes().all(|b| b.is_ascii_graphic() && !b"&=#".contains(&b)) => {
            Ok(HashKey::Query(name.to_string()))
        }
        ("header" | "cookie" | "query", Some(name)) => {
            bad(format!("{} cannot be its name", quoted(name)), format!("write it as \"{kind}:{}\"", example(kind)))
        }
        _ => {
            let near = nearest(kind, ["client-ip", "path", "header", "cookie", "query"]);
            let did = near.map(|word| format!("did you mean \"{word}\"? ")).unwrap_or_default();
            bad(format!("{} is not known", quoted(kind)), format!("{did}{allowed}"))
        }
    }
}

fn example(kind: &str) -> &'static str {
    match kind {
        "header" => "x-tenant",
        "cookie" => "session",
        _ => "id",
    }
}

/// Part of a request that is hashed to choose an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashKey {
    ClientIp,
    /// Path of the request, without the query.
    Path,
    /// Value of this header field (lower case).
    Header(String),
    /// Value of the cookie of this name.
    Cookie(String),
    /// Value of this query parameter.
    Query(String),
}

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashKey::ClientIp => f.write_str("client-ip"),
            HashKey::Path => f.write_str("path"),
            HashKey::Header(name) => write!(f, "header:{name}"),
            HashKey::Cookie(name) => write!(f, "cookie:{name}"),
            HashKey::Query(name) => write!(f, "query:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys() {
        for (text, shown) in [
            ("client-ip", "client-ip"),
            ("path", "path"),
            ("header:X-Tenant", "header:x-tenant"),
            ("cookie:Session", "cookie:Session"),
            ("query:id", "query:id"),
        ] {
            assert_eq!(read(text).map(|k| k.to_string()), Ok(shown.to_string()));
        }
        for text in ["", "header", "header:", "header:a b", "path:x", "heder:x", "query:a=b", "client_ip"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
