//! URLs of an ACME directory (HTTPS only), of a collector, of servers, of lists and of keys: scheme, host, path and
//! perhaps a query.

use super::host;
use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;
use std::net::IpAddr;

/// Longest URL accepted, in bytes.
const MAX: usize = 1024;

/// Longest path of a Unix socket, in bytes (`sun_path` without its end).
const UNIX_MAX: usize = 107;

pub(super) fn https(text: &str) -> Result<(), Misfit> {
    const AS: &str = "write \"https://acme-v02.api.letsencrypt.org/directory\"";
    match text.strip_prefix("https://") {
        Some(rest) => behind_scheme(text, rest, AS),
        None if text.starts_with("http://") => Err(bad(text, "it is not over TLS", AS)),
        None => Err(bad(text, "it has no \"https://\"", AS)),
    }
}

/// Checks the URL of a JWK set: over TLS, unless it stays on this machine.
pub(super) fn keys(text: &str) -> Result<(), Misfit> {
    const AS: &str = "write \"https://idp.example/jwks.json\"";
    match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => behind_scheme(text, rest, AS),
        (None, Some(rest)) if is_of_this_machine(rest) => behind_scheme(text, rest, AS),
        (None, Some(rest)) => {
            let why = "it is not over TLS, so others could put their keys in its place";
            Err(bad(text, why, &format!("write {}", quoted(&format!("https://{rest}")))))
        }
        (None, None) => Err(bad(text, "it has no \"https://\"", AS)),
    }
}

/// Checks the path of a file with keys.
pub(super) fn file(text: &str) -> Result<(), Misfit> {
    if !text.is_empty() && text.len() <= 4096 && !text.contains('\0') {
        return Ok(());
    }
    let message = format!("{} is not the path of a file", quoted(text));
    Err(Misfit::new(Code::BadName, message, "write \"/etc/evenkeel/jwks.json\""))
}

/// True for a host that is a loopback address, or the name of it.
fn is_of_this_machine(rest: &str) -> bool {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((inner, _)) => inner,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
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

/// Checks the URL of a server whose API is asked: with or without TLS, no query; or a Unix socket.
pub(super) fn server(text: &str) -> Result<(), Misfit> {
    const AS: &str = "write \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/PATH\"";
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.starts_with('/') && path.len() <= UNIX_MAX && !path.contains('\0') {
            true => Ok(()),
            false => Err(bad(text, "it is not the absolute path of a socket", AS)),
        };
    }
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        let like = with_scheme(text);
        return Err(bad(text, "it has no \"http://\" or \"https://\"", like.as_deref().unwrap_or(AS)));
    };
    if let Some((base, _)) = text.split_once('?') {
        return Err(bad(text, "a path is appended to it", &format!("write {}", quoted(base))));
    }
    behind_scheme(text, rest, AS)
}

/// Help for an address that has no scheme, or a scheme like `tcp://`, as `DOCKER_HOST` may have.
fn with_scheme(text: &str) -> Option<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let urls = [format!("http://{rest}"), format!("https://{rest}")];
    let is_one = !rest.contains('?') && behind_scheme(&urls[1], rest, "").is_ok();
    is_one.then(|| format!("write {} or {}", quoted(&urls[0]), quoted(&urls[1])))
}

/// Checks the URL of a list: with or without TLS.
pub(super) fn list(text: &str) -> Result<(), Misfit> {
    const AS: &str = "write \"http://127.0.0.1:9000/web.json\"";
    match text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) {
        Some(rest) => behind_scheme(text, rest, AS),
        None => Err(bad(text, "it has no \"http://\" or \"https://\"", AS)),
    }
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

    #[test]
    fn help_for_the_url_of_a_server_has_the_address_that_was_written() {
        for (text, help) in [
            ("tcp://127.0.0.1:2375", "write \"http://127.0.0.1:2375\" or \"https://127.0.0.1:2375\""),
            ("consul:8500", "write \"http://consul:8500\" or \"https://consul:8500\""),
            ("http://a:4646?region=eu", "write \"http://a:4646\""),
            ("unix:docker.sock", "write \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/PATH\""),
            ("", "write \"http://HOST:PORT\", \"https://HOST:PORT\" or \"unix:/PATH\""),
        ] {
            assert_eq!(server(text).expect_err("it is not a URL").help, help);
        }
    }
}
