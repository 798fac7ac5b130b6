//! Origins of pages (RFC 6454), as browsers send them: `https://a.example`, or patterns of them.

use super::host::{self, HostPattern};
use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;
use std::fmt;
use std::sync::Arc;

/// Origins of pages that a route allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Every origin: `*`.
    Any,
    /// A single origin as browsers send it, without the default port; or `null`.
    Exact(Arc<str>),
    /// Every subdomain of a host, of any depth, with the same scheme and port.
    Below {
        /// Scheme with `://`.
        scheme: Arc<str>,
        /// Dot, host, and port unless it is the default: `.b.example:8443`.
        suffix: Arc<str>,
    },
}

impl Origin {
    /// True if a page of this origin, in the words of its browser, is meant.
    pub fn matches(&self, origin: &[u8]) -> bool {
        match self {
            Origin::Any => true,
            Origin::Exact(exact) => exact.as_bytes() == origin,
            Origin::Below { scheme, suffix } => {
                let labels =
                    origin.strip_prefix(scheme.as_bytes()).and_then(|rest| rest.strip_suffix(suffix.as_bytes()));
                // Only labels may stand for the star: with a colon or a slash, the host would be another host.
                let fits = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
                labels.is_some_and(|labels| !labels.is_empty() && !labels.starts_with(b".") && labels.iter().all(fits))
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Any => f.write_str("*"),
            Origin::Exact(origin) => f.write_str(origin),
            Origin::Below { scheme, suffix } => write!(f, "{scheme}*{suffix}"),
        }
    }
}

pub(super) fn read(text: &str) -> Result<Origin, Misfit> {
    const LIKE: &str = "write \"https://a.example\", \"https://*.a.example\" or \"*\"";
    match text {
        "*" => return Ok(Origin::Any),
        "null" => return Ok(Origin::Exact(text.into())),
        _ => {}
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let help = match host::authority(text.strip_prefix("*.").unwrap_or(text)) {
            Ok(_) => format!("write {}", quoted(&format!("https://{text}"))),
            Err(_) => LIKE.to_string(),
        };
        return Err(bad(text, "it has no scheme", help));
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !is_scheme {
        return Err(bad(text, "its scheme has other characters than letters and digits", LIKE));
    }
    let scheme = format!("{}://", scheme.to_ascii_lowercase());
    if let Some(end) = rest.find(['/', '?', '#']) {
        let bare = format!("{scheme}{}", &rest[..end]);
        let help = if read(&bare).is_ok() { format!("write {}", quoted(&bare)) } else { LIKE.to_string() };
        return Err(bad(text, "it has a path", help));
    }
    if rest == "*" {
        return Err(bad(text, "* can only be all of it, or the first label of a host", LIKE));
    }
    let (star, named) = match rest.strip_prefix("*.") {
        Some(named) => (true, named),
        None => (false, rest),
    };
    let Ok(authority) = host::authority(named) else {
        return Err(bad(text, "it names no host", LIKE));
    };
    let is_name = matches!(host::read(&format!("*.{named}")), Ok(HostPattern::Wildcard(_))) || named.contains(':');
    if star && (!is_name || named.starts_with('[')) {
        return Err(bad(text, "it names no host", LIKE));
    }
    // Browsers leave the default port out.
    let default = match &*scheme {
        "http://" | "ws://" => ":80",
        "https://" | "wss://" => ":443",
        _ => "",
    };
    let authority = authority.strip_suffix(default).unwrap_or(&authority);
    Ok(match star {
        true => Origin::Below { scheme: scheme.into(), suffix: format!(".{authority}").into() },
        false => Origin::Exact(format!("{scheme}{authority}").into()),
    })
}

fn bad(text: &str, why: &str, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadHost, format!("{} is not an origin: {why}", quoted(text)), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_send_them() {
        for (text, wanted) in [
            ("*", "*"),
            ("null", "null"),
            ("https://a.example", "https://a.example"),
            ("HTTPS://A.example:443", "https://a.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:80", "http://[::1]"),
            ("https://*.b.example:8443", "https://*.b.example:8443"),
            ("https://*.b.example:443", "https://*.b.example"),
            ("capacitor://localhost", "capacitor://localhost"),
        ] {
            assert_eq!(read(text).map(|origin| origin.to_string()), Ok(wanted.to_string()), "{text}");
        }
        for (text, help) in [
            ("a.example", "\"https://a.example\""),
            ("*.a.example", "\"https://*.a.example\""),
            ("https://a.example/", "write \"https://a.example\""),
            ("https://a.example/x?y", "write \"https://a.example\""),
            ("https://", "\"*\""),
            ("https://*", "\"*\""),
            ("https://a.*.example", "\"*\""),
            ("https://*.*.example", "\"*\""),
            ("https://*.[::1]", "\"*\""),
            ("https://u@a.example", "\"*\""),
            ("https://a b", "\"*\""),
            ("https://a:b", "\"*\""),
            ("1://a", "\"*\""),
            ("://a", "\"*\""),
            ("", "\"*\""),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn a_star_stands_for_labels_only() {
        let matches = |pattern: &str, origin: &str| read(pattern).is_ok_and(|read| read.matches(origin.as_bytes()));
        for origin in ["https://a.b.example", "https://x.y-1.b.example"] {
            assert!(matches("https://*.b.example", origin), "{origin}");
        }
        for origin in [
            "https://b.example",
            "https://.b.example",
            "http://a.b.example",
            "https://a.b.example:8443",
            "https://ab.example",
            "https://evil.example/.b.example",
            "https://evil.example:1.b.example",
            "https://u@a.b.example",
            "https://a.b.example.evil.example",
            "null",
            "",
        ] {
            assert!(!matches("https://*.b.example", origin), "{origin}");
        }
        assert!(matches("https://*.b.example:8443", "https://a.b.example:8443"));
        assert!(
            matches("*", "null") && matches("null", "null") && !matches("https://a.example", "https://a.example:1")
        );
    }
}
