//! Place of a JWK set: a file, or a URL.

use crate::form::misfit::Misfit;
use crate::form::url;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Place of the keys that sign tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    File(PathBuf),
    /// URL over TLS, or without TLS on this machine.
    Url(Arc<str>),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "{}", path.display()),
            KeySource::Url(url) => f.write_str(url),
        }
    }
}

/// Parses a place of keys: everything with a scheme is a URL.
pub(in crate::form) fn read(text: &str) -> Result<KeySource, Misfit> {
    if text.contains("://") {
        return url::keys(text).map(|()| KeySource::Url(text.into()));
    }
    url::file(text).map(|()| KeySource::File(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_a_scheme_is_a_url_which_needs_tls_unless_it_is_of_this_machine() {
        for url in [
            "https://idp.example/jwks.json?tenant=a",
            "http://127.0.0.1:8080/keys",
            "http://localhost/keys",
            "http://[::1]:1/",
        ] {
            assert_eq!(read(url), Ok(KeySource::Url(url.into())));
        }
        for file in ["/etc/evenkeel/jwks.json", "keys.json", "C:/x"] {
            assert_eq!(read(file), Ok(KeySource::File(file.into())));
        }
        for (bad, help) in [
            ("http://idp.example/jwks.json", "https://idp.example/jwks.json"),
            ("http://127.0.0.1.example/jwks", "https://127.0.0.1.example/jwks"),
            ("http://localhost@idp.example/", "https://"),
            ("ftp://idp.example/", "https://"),
            ("https://", "https://"),
            ("https://user@idp.example/", "https://"),
            ("", "/etc/evenkeel/jwks.json"),
            ("a\0b", "/etc/evenkeel/jwks.json"),
        ] {
            assert!(read(bad).expect_err(bad).help.contains(help), "{bad:?}");
        }
    }
}
