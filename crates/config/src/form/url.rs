//! Is this the URL of a directory? Over HTTPS, with a host, and with nothing that has no place in it.

use super::host;
use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;

/// Longer than any that is in use.
const MAX: usize = 1024;

pub(super) fn read(text: &str) -> Result<(), Misfit> {
    let bad = |why: &str, help: &str| {
        Err(Misfit::new(Code::BadAddress, format!("{} cannot be used as a URL: {why}", quoted(text)), help))
    };
    const AS: &str = "write \"https://acme-v02.api.letsencrypt.org/directory\"";
    let Some(rest) = text.strip_prefix("https://") else {
        let why = if text.starts_with("http://") { "it is not over TLS" } else { "it has no \"https://\"" };
        return bad(why, AS);
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if text.len() > MAX || !text.bytes().all(|b| b.is_ascii_graphic()) || text.contains(['"', '\\', '#']) {
        return bad("it has characters that no URL has, or is too long", AS);
    }
    match authority.contains('@') || host::authority(authority).is_err() {
        true => bad("it names no host", AS),
        false => Ok(()),
    }
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
            assert!(read(good).is_ok(), "{good}");
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
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
