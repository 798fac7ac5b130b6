//! Servers: addresses, and files with the proofs of both sides. See [`Server`].

use crate::fault::Fault;
use hyper::header::HeaderValue;
use std::fmt;
use std::path::{Path, PathBuf};

/// Largest secret in a file, in bytes.
const SECRET_MAX: usize = 16 * 1024;

/// Server that can be asked. Its files are read anew for each connection, so that they may be renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub(crate) place: Place,
    /// `Host` of requests.
    pub(crate) authority: String,
    /// Path before the path of each request, without a slash at its end.
    pub(crate) base: String,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp { host, port } | Place::Tls { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp { host, port } | Place::Tls { host, port } => write!(f, "{host}:{port}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Server {
    /// Reads a URL: `http://HOST[:PORT][/BASE]`, the same with `https`, or `unix:/PATH`.
    ///
    /// # Errors
    /// The text is no URL of these schemes.
    pub fn at(url: &str) -> Result<Server, Fault> {
        if let Some(path) = url.strip_prefix("unix:") {
            return Ok(Server::unix(path.into()));
        }
        let uri: hyper::Uri = url.parse()?;
        let authority = uri.authority().ok_or("the URL names no host")?.as_str().to_owned();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16();
        let place = match uri.scheme_str() {
            Some("http") => Place::Tcp { host, port: port.unwrap_or(80) },
            Some("https") => Place::Tls { host, port: port.unwrap_or(443) },
            _ => return Err("the URL has neither http:// nor https://".into()),
        };
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Server { place, authority, base, ca: None, identity: None })
    }

    /// Server behind a Unix socket.
    pub fn unix(path: PathBuf) -> Server {
        let (authority, base) = ("localhost".to_owned(), String::new());
        Server { place: Place::Unix(path), authority, base, ca: None, identity: None }
    }

    /// Trusts the authorities of a PEM file instead of the system's.
    #[must_use]
    pub fn trusting(self, ca: Option<PathBuf>) -> Server {
        Server { ca, ..self }
    }

    /// Presents a certificate, from PEM files with its chain and its key.
    #[must_use]
    pub fn presenting(self, identity: Option<(PathBuf, PathBuf)>) -> Server {
        Server { identity, ..self }
    }
}

/// Reads a secret from a file, without the white space around it, as the value of a field after `before`.
///
/// # Errors
/// The file cannot be read, is empty, larger than 16 KiB, or holds bytes that no field can.
pub fn secret(file: &Path, before: &str) -> Result<HeaderValue, Fault> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {name}: {error}"))?;
    let text = text.trim();
    if text.is_empty() || text.len() > SECRET_MAX {
        return Err(format!("{name} holds no token: it is empty, or larger than 16 KiB").into());
    }
    // The value is secret: the error does not quote it.
    let value = HeaderValue::try_from(format!("{before}{text}"));
    let mut value = value.map_err(|_| format!("{name} holds more than a token: it has several lines"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_place_a_host_and_a_base() {
        let read = |url: &str| {
            let server = Server::at(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            (server.place, server.authority, server.base)
        };
        let tcp = |host: &str, port| Place::Tcp { host: host.into(), port };
        assert_eq!(read("http://a.inside"), (tcp("a.inside", 80), "a.inside".into(), String::new()));
        assert_eq!(read("http://[::1]:8500/x/"), (tcp("::1", 8500), "[::1]:8500".into(), "/x".into()));
        let tls = Place::Tls { host: "a".into(), port: 443 };
        assert_eq!(read("https://a/"), (tls, "a".into(), String::new()));
        assert_eq!(read("unix:/run/a.sock"), (Place::Unix("/run/a.sock".into()), "localhost".into(), String::new()));
        for url in ["", "a", "ftp://a", "http://", "a:80"] {
            assert!(Server::at(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_secret_is_one_line_and_never_quoted() {
        let file = std::env::temp_dir().join(format!("evenkeel-secret-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).expect("it can be written");
            secret(&file, "Bearer ")
        };
        assert_eq!(read(" abc \n").expect("it is one line"), "Bearer abc");
        for text in ["", " \n", "abc\nxyz", &"a".repeat(SECRET_MAX + 1)] {
            let error = read(text).expect_err("it is no token").to_string();
            assert!(!error.contains("abc") && !error.contains("aaaa"), "{error}");
        }
        std::fs::remove_file(&file).expect("it is there");
        assert!(secret(&file, "").is_err());
    }
}
