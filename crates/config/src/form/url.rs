//! URLs of an ACME directory (HTTPS only) and of a collector: scheme, host and path, nothing else.

use super::host;
use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;

/// Longest URL accepted, in bytes.
const MAX: usize = 1024;

pub(super) fn https(text: &str) -> Result<(), Misfit> {
    const AS: &str = "write \"https://acme-v02.api.letsencrypt.org/directory\"";
    match text.strip_prefix("https://") {
        Some(rest) => behind_scheme(text, rest, AS),
        None if text.starts_with("http://") => Err(bad(text, "it is not over TLS", AS)),
        None => Err(bad(text, "it has no \"https://\"", AS)),
    }
}

/// Checks the URL of a collector: with or without TLS, no query.
pub(super) fn collector(text: &str) -> Result<(), Misfit> {
    const AS: &str = "write \"http://127.0.0.1:4318\"";
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return Err(bad(text, "it has no \"http://\" or \"https://\"", AS));
    };
    if rest.contains('?') {
        return Err(bad(text, "a path is appended to it", AS));
    }
    behind_scheme(text, rest, AS)
}

fn behind_scheme(text: &str, rest: &str, like: &str) -> Result<(), Misfit> {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if text.len() > MAX || !text.bytes().all(|b| b.is_ascii_graphic()) || text.contains(['"', '\\', '#']) {
        return Err(bad(text, "it has characters that no URL has, or is too long", like));
    }
    match authority.contains('@') || host::authority(authority).is_err() {
        true => Err(bad(text, "it names no host", like)),
        false => Ok(()),
    }
}

fn bad(text: &str, why: &str, like: &str) -> Misfit {
    Misfit::new(Code::BadAddress, format!("{} cannot be used as a URL: {why}", quoted(text)), like)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_over_https_and_name_a_host() {
        for good in [
            "https://acme.example/directory",
            "https://127.0.0.1:14000/dir",
            "https://ca.inside",
            "https://[::1]:1/a?b=c",
        ] {
            assert!(https(good).is_ok() && (good.contains('?') || collector(good).is_ok()), "{good}");
        }
        for bad in [
            "",
            "https://",
            "http://a/b",
            "a.example",
            "https:///x",
            "https://a b/",
            "https://a:b/",
            "https://u@a/",
            "https://*.a/",
        ] {
            assert!(https(bad).is_err(), "{bad:?}");
        }
        assert!(collector("http://[::1]:4318/otlp").is_ok());
        for bad in ["127.0.0.1:4318", "grpc://a:4317", "http://", "http://a?b", "http://a b"] {
            assert!(collector(bad).is_err(), "{bad:?}");
        }
    }
}
