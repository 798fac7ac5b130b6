//! Host patterns: `api.example.com`, `*.example.com`, `10.0.0.1`, `[::1]`.

use super::misfit::Misfit;
use super::name::is_host_name;
use crate::code::Code;
use crate::tree::quoted;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

pub(super) fn read(text: &str) -> Result<HostPattern, Misfit> {
    let bad =
        |why: &str, help: &str| Err(Misfit::new(Code::BadHost, format!("{} is not a host: {why}", quoted(text)), help));
    let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if ["*", "", "default", "default_server"].contains(&&*host) {
        return bad("it would match every host", "leave host out to match every host");
    }
    if let Some((_, rest)) = text.split_once('(').filter(|(function, _)| function.starts_with("Host")) {
        let name = rest.trim_end_matches(')').trim_matches(['`', '"', '\'']);
        let write = if read(name).is_ok() { name } else { "api.example.com" };
        return bad("it is a rule of Traefik", &format!("write {}", quoted(write)));
    }
    if let Some(suffix) = host.strip_prefix('.').filter(|suffix| is_host_name(suffix)) {
        let both = format!("write two: {} and {}", quoted(suffix), quoted(&format!("*.{suffix}")));
        return bad("it has a label without a letter", &both);
    }
    if host.starts_with(['~', '^']) || host.contains(['\\', '$', '(']) {
        return bad("regular expressions are not supported", "name each host, or write \"*.example.com\"");
    }
    let parts: Vec<&str> = text.split([',', ' ']).filter(|part| !part.is_empty()).collect();
    if parts.len() > 1 && parts.iter().all(|part| read(part).is_ok()) {
        let each: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
        return bad("it is a list", &format!("write a string for each: {}", each.join(", ")));
    }
    if host.contains("://") || host.contains('/') {
        let bare = host.split_once("://").map_or(&*host, |(_, rest)| rest).split(['/', ':']).next().unwrap_or_default();
        let write = if read(bare).is_ok() { bare } else { "api.example.com" };
        return bad("only the host belongs here", &format!("write it without scheme and path: {}", quoted(write)));
    }
    if let Some(inner) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(ip) => Ok(HostPattern::Exact(format!("[{ip}]"))),
            Err(_) => bad("the brackets hold no IPv6 address", "write \"[::1]\""),
        };
    }
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => return Ok(HostPattern::Exact(host)),
        Ok(IpAddr::V6(_)) => return bad("IPv6 needs brackets", &format!("write \"[{host}]\"")),
        Err(_) => {}
    }
    if host.contains(':') {
        let bare = host.split(':').next().filter(|bare| read(bare).is_ok());
        let help = "a route matches the host on every port; choose ports by listener";
        let help = bare.map_or(help.to_string(), |bare| format!("write {}: {help}", quoted(bare)));
        return bad("a port does not belong here", &help);
    }
    if !host.is_ascii() {
        return bad("it is not ASCII", "write international names as clients send them: \"xn--...\"");
    }
    match host.strip_prefix("*.") {
        Some(suffix) if is_host_name(suffix) => Ok(HostPattern::Wildcard(format!(".{suffix}"))),
        _ if host.contains('*') => {
            bad("* can only be the whole first label", "write \"*.example.com\", or name each host")
        }
        None if is_host_name(&host) => Ok(HostPattern::Exact(host)),
        _ => bad(
            "labels are 1 to 63 letters, digits, - and _, separated by dots",
            "write \"api.example.com\" or \"*.example.com\"",
        ),
    }
}

/// Parses the value of a `Host` field: a host, with a port unless it is the default.
pub(super) fn authority(text: &str) -> Result<String, Misfit> {
    let bare = text.ends_with(']');
    let (host, port) = text.rsplit_once(':').filter(|_| !bare).map_or((text, None), |(host, port)| (host, Some(port)));
    let digits = |p: &str| p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok_and(|p| p > 0);
    if port.is_some_and(|port| !digits(port)) {
        let message = format!("{} is not a host: the text after the colon is not a port", quoted(text));
        return Err(Misfit::new(Code::BadHost, message, "write \"web.internal\" or \"web.internal:8080\""));
    }
    match read(host)? {
        HostPattern::Exact(host) => Ok(port.map_or(host.clone(), |port| format!("{host}:{port}"))),
        HostPattern::Wildcard(_) => {
            let message = format!("{} is not a host: patterns are not allowed here", quoted(text));
            Err(Misfit::new(Code::BadHost, message, "write \"web.internal\""))
        }
    }
}

/// Hosts that a route matches. Lower case, without port and without a final dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// A single host: a name or an IP address (IPv6 in brackets).
    Exact(String),
    /// `*.example.com`: any number of labels before this suffix, which starts with a dot (`.example.com`).
    Wildcard(String),
}

impl HostPattern {
    /// Reads a pattern as the configuration takes it; `None` if it is not a host.
    pub fn parse(text: &str) -> Option<HostPattern> {
        read(text).ok()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => f.write_str(host),
            HostPattern::Wildcard(suffix) => write!(f, "*{suffix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hosts_with_and_without_a_port() {
        for (text, host) in
            [("Web.Internal", "web.internal"), ("a:8080", "a:8080"), ("[::1]", "[::1]"), ("[::1]:1", "[::1]:1")]
        {
            assert_eq!(authority(text), Ok(host.to_string()));
        }
        for text in ["", ":80", "a:", "a:0", "a:+1", "a:b", "*.a", "::1", "http://a", "a/b"] {
            assert!(authority(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reads_hosts_and_wildcards() {
        for (text, shown) in [
            ("API.example.com.", "api.example.com"),
            ("*.Example.com", "*.example.com"),
            ("10.0.0.1", "10.0.0.1"),
            ("[::0:1]", "[::1]"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(read(text).map(|h| h.to_string()), Ok(shown.to_string()));
        }
        for text in ["", ".", "*", "*.", "a.*.com", "*a.com", "a b", "a:80", "http://a", "a..b", "ä.de", "::1", "[x]"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
