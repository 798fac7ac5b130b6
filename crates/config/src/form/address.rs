//! Addresses: `127.0.0.1:8080`, `[::1]:8080`, and for endpoints `web.internal:8080`.

use super::misfit::Misfit;
use super::name::is_host_name;
use crate::code::Code;
use crate::printable::is_hidden;
use crate::tree::quoted;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// End of a connection. Advice for either would be wrong for the other.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Bind,
    Endpoint,
}

/// Parses an address to listen on.
pub(super) fn bind(text: &str) -> Result<SocketAddr, Misfit> {
    match read(text, End::Bind)? {
        Address::Ip(addr) => Ok(addr),
        Address::Unix(_) => Err(of_tcp(text)),
        Address::Name { port, .. } => Err(bad(
            text,
            "it must be an IP address, not a name",
            format!("write \"127.0.0.1:{port}\" for this machine only, or \"[::]:{port}\" for every address"),
        )),
    }
}

/// Most bytes of the path or the name of a Unix socket (`sun_path` without the byte that ends a path or begins a name).
const UNIX_MAX: usize = 107;

/// Parses an address to connect to.
pub(super) fn upstream(text: &str) -> Result<Address, Misfit> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(text, path);
    }
    match read(text, End::Endpoint)? {
        Address::Ip(addr) if addr.ip().is_unspecified() => Err(bad(
            text,
            "an unspecified address cannot be connected to",
            format!("write the address of the endpoint, as \"127.0.0.1:{}\"", addr.port()),
        )),
        address => Ok(address),
    }
}

/// Parses a Unix socket: an absolute path, or `@` and an abstract name.
fn unix(text: &str, path: &str) -> Result<Address, Misfit> {
    let bad = |why: &str, help: &str| {
        Err(Misfit::new(Code::BadAddress, format!("{} is not a Unix socket: {why}", quoted(text)), help))
    };
    let len = path.strip_prefix('@').unwrap_or(path).len();
    match path {
        _ if len > UNIX_MAX => bad(
            &format!("its path has {len} bytes"),
            "a path has at most 107 bytes; bind the socket in a shorter folder",
        ),
        _ if path.chars().any(|c| is_hidden(c) || c == ' ') => {
            bad("it has spaces or characters that are not visible", "write \"unix:/run/app.sock\"")
        }
        "@" => bad("it has no name", "write \"unix:@app\" for an abstract socket, or \"unix:/run/app.sock\""),
        _ if path.starts_with('@') => Ok(Address::Unix(path.into())),
        _ if path.starts_with('/') && !path.starts_with("//") && !path.ends_with('/') => Ok(Address::Unix(path.into())),
        _ => bad("it is not the absolute path of a socket", "write \"unix:/run/app.sock\""),
    }
}

/// Parses a name to resolve: lower case, without a final dot.
pub(super) fn dns_name(text: &str) -> Result<String, Misfit> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if is_host_name(&name) {
        return Ok(name);
    }
    let message = format!("{} is not a host name", quoted(text));
    Err(Misfit::new(Code::BadHost, message, "write it without scheme and port, as \"web.internal\""))
}

fn bad(text: &str, why: &str, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadAddress, format!("{} is not an address: {why}", quoted(text)), help)
}

fn read(text: &str, end: End) -> Result<Address, Misfit> {
    if let Some(misfit) = spelled_otherwise(text, end) {
        return Err(misfit);
    }
    let (host, port) = match text.rfind(']') {
        Some(at) if text.starts_with('[') => (&text[1..at], text[at + 1..].strip_prefix(':')),
        _ if text.matches(':').count() > 1 => {
            let with_port = text.rsplit_once(':').filter(|(host, port)| is_ipv6(host) && is_port(port));
            let write = match with_port {
                Some((host, port)) => format!("[{host}]:{port}"),
                None if is_ipv6(text) => format!("[{text}]:8080"),
                None => "[::1]:8080".to_string(),
            };
            return Err(bad(
                text,
                "IPv6 needs brackets",
                format!("write {}: the address in brackets, then the port", quoted(&write)),
            ));
        }
        _ => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let Some(port) = port else { return Err(without_port(text, end)) };
    let port = match port.parse::<u16>() {
        Ok(port) if port > 0 && port_is_digits(text) => port,
        _ => return Err(bad(text, &format!("{} is not a port", quoted(port)), "allowed: 1 to 65535")),
    };
    if text.starts_with('[') {
        let wrong = || bad(text, "the brackets hold no IPv6 address", format!("write \"[::1]:{port}\""));
        return Ok(Address::Ip(SocketAddr::new(IpAddr::V6(host.parse::<Ipv6Addr>().map_err(|_| wrong())?), port)));
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Address::Ip(SocketAddr::new(ip, port)));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if is_host_name(&name) {
        return Ok(Address::Name { host: name, port });
    }
    let (why, help) = match (host, end) {
        ("", End::Bind) => ("it has no host", everywhere(port)),
        ("*", End::Bind) => ("* is not an IP address", everywhere(port)),
        ("" | "*", End::Endpoint) => {
            ("an endpoint has one address", format!("write the address of the endpoint, as \"127.0.0.1:{port}\""))
        }
        (_, end) => {
            let why = format!("{} is neither an IP address nor a host name", quoted(host));
            let example = if end == End::Bind { "127.0.0.1" } else { "10.0.0.1" };
            return Err(bad(text, &why, format!("write \"{example}:{port}\"")));
        }
    };
    Err(bad(text, why, help))
}

fn everywhere(port: u16) -> String {
    format!(
        "write \"[::]:{port}\" for every address, \"0.0.0.0:{port}\" for those of IPv4, or \"127.0.0.1:{port}\" for this machine only"
    )
}

/// Error for an address without a port, or a port without an address.
fn without_port(text: &str, end: End) -> Misfit {
    match (text.parse::<u16>(), end) {
        (Ok(port), End::Bind) if port > 0 => bad(text, "it is only a port", everywhere(port)),
        (Ok(port), End::Endpoint) if port > 0 => {
            let help = format!("write \"127.0.0.1:{port}\", or the address of the endpoint with this port");
            bad(text, "it is only a port", help)
        }
        _ => {
            let example = if end == End::Bind { "127.0.0.1" } else { "10.0.0.1" };
            let host = if is_host(text) { text } else { example };
            bad(text, "it has no port", format!("add one: {}", quoted(&format!("{host}:8080"))))
        }
    }
}

/// Error for the notations of other proxies.
fn spelled_otherwise(text: &str, end: End) -> Option<Misfit> {
    if let Some(write) = braced(text) {
        return Some(bad(text, "a variable needs braces", format!("write {}", quoted(&write))));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.split('/').next().unwrap_or_default();
        let port = match scheme {
            "http" | "ws" | "h2c" => 80,
            "https" | "wss" => 443,
            _ => 8080,
        };
        let write = match read(rest, end).is_ok() {
            true => rest.to_string(),
            false if is_host(rest) => format!("{rest}:{port}"),
            false => format!("10.0.0.1:{port}"),
        };
        let help = match (end, scheme) {
            (End::Endpoint, "https" | "wss") => format!(
                "write {}, and tls = true in the pool, or tls = {{ ca = \"FILE.pem\" }} for a private authority",
                quoted(&write)
            ),
            (End::Bind, "https" | "wss") => format!("write {}, and tls in the listener", quoted(&write)),
            _ => format!("write {}", quoted(&write)),
        };
        return Some(bad(text, &format!("\"{scheme}://\" does not belong here"), help));
    }
    if text.starts_with("unix") && text[4..].starts_with([':', '/', '@']) || text.starts_with('/') {
        if end == End::Bind {
            return Some(of_tcp(text));
        }
        let path = text.trim_start_matches("unix").trim_start_matches([':', '@']);
        let write = format!("unix:{}{path}", if path.starts_with('/') { "" } else { "@" });
        return Some(bad(text, "it is a Unix socket", format!("write {}", quoted(&write))));
    }
    let parts: Vec<&str> = text.split([',', ' ', '\t']).filter(|part| !part.is_empty()).collect();
    if parts.len() < 2 || !parts.iter().all(|part| part.is_ascii()) {
        return None;
    }
    // Several addresses, or an address followed by parameters of HAProxy or NGINX.
    if parts.iter().all(|part| read(part, end).is_ok()) {
        let each: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
        return Some(bad(text, "it is a list", format!("write a string for each: {}", each.join(", "))));
    }
    let of_first = end == End::Endpoint && !text.contains(',') && read(parts[0], end).is_ok();
    of_first.then(|| {
        let number =
            |name: &str| parts.iter().find_map(|p| p.strip_prefix(name)?.strip_prefix('=')?.parse::<u16>().ok());
        let after = |name: &str| parts.iter().skip_while(|p| **p != name).nth(1).and_then(|p| p.parse::<u16>().ok());
        let mut keys = format!("addr = {}", quoted(parts[0]));
        if let Some(weight) = number("weight").or_else(|| after("weight")) {
            keys += &format!(", weight = {weight}");
        }
        if parts.contains(&"backup") {
            keys += ", priority = 1";
        }
        if parts.contains(&"down") || parts.contains(&"disabled") {
            keys += ", drain = true";
        }
        let more = "health, outlier and limits are tables of the pool";
        bad(text, "there is more after it", format!("write {{ {keys} }}; {more}"))
    })
}

/// Error for a Unix socket to listen on.
fn of_tcp(text: &str) -> Misfit {
    bad(
        text,
        "it is a Unix socket",
        "use a TCP address, as \"127.0.0.1:8080\": listeners do not support Unix sockets yet",
    )
}

/// The text with its first `$NAME` written as `${NAME}`; `None` if it has none.
pub(crate) fn braced(text: &str) -> Option<String> {
    let (before, rest) = text.split_once('$')?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    (!name.is_empty()).then(|| format!("{before}${{{name}}}{after}"))
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// True if the text is a host that a port can follow.
fn is_host(text: &str) -> bool {
    text.parse::<std::net::Ipv4Addr>().is_ok()
        || is_host_name(text)
        || text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).is_some_and(is_ipv6)
}

/// Rejects `+80`, which `parse` would accept.
fn port_is_digits(text: &str) -> bool {
    text.rsplit(':').next().is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Address of an endpoint. The port is never 0, and the path of a socket has at most 107 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    Ip(SocketAddr),
    /// Host name to resolve, lower case, without a final dot.
    Name {
        host: String,
        port: u16,
    },
    /// Unix socket: an absolute path, or an abstract name behind an `@`.
    Unix(Arc<str>),
}

impl Address {
    /// Port, never 0; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Ip(addr) => Some(addr.port()),
            Address::Name { port, .. } => Some(*port),
            Address::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(addr) => write!(f, "{addr}"),
            Address::Name { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        for (text, shown) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:8080", "[::1]:8080"),
            ("Web.Internal.:80", "web.internal:80"),
            ("localhost:1", "localhost:1"),
            ("a_b-c:65535", "a_b-c:65535"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("unix:@app", "unix:@app"),
        ] {
            assert_eq!(upstream(text).map(|a| a.to_string()), Ok(shown.to_string()));
        }
        assert!(bind("[::]:80").is_ok());
    }

    #[test]
    fn refuses_the_rest_with_a_fix() {
        for (text, help) in [
            ("", "\"10.0.0.1:8080\""),
            ("10.0.0.1", "\"10.0.0.1:8080\""),
            ("http://10.0.0.1:80/x", "\"10.0.0.1:80\""),
            ("https://app-4", "\"app-4:443\""),
            ("http://app-4/", "\"app-4:80\""),
            ("http://[::1]", "\"[::1]:80\""),
            ("80", "\"127.0.0.1:80\""),
            ("app-4", "\"app-4:8080\""),
            ("a b", "\"10.0.0.1:8080\""),
            ("*:80", "\"127.0.0.1:80\""),
            ("/run/app.sock", "\"unix:/run/app.sock\""),
            ("unix@/run/app.sock", "\"unix:/run/app.sock\""),
            ("unix:app.sock", "\"unix:/run/app.sock\""),
            ("unix:/run/", "\"unix:/run/app.sock\""),
            ("unix:/a b", "\"unix:/run/app.sock\""),
            ("unix:", "\"unix:/run/app.sock\""),
            ("unix:@", "\"unix:@app\""),
            ("unix://app", "\"unix:/run/app.sock\""),
            ("https://app:443", "\"app:443\", and tls = true"),
            ("$APP", "\"${APP}\""),
            ("$APP:80", "\"${APP}:80\""),
            ("a:80,b:80", "\"a:80\", \"b:80\""),
            ("a:80, b:80", "\"a:80\", \"b:80\""),
            ("a:80 check weight 3 backup", "{ addr = \"a:80\", weight = 3, priority = 1 }"),
            ("a:80 weight=3 max_fails=2", "{ addr = \"a:80\", weight = 3 }"),
            ("fe80::1", "\"[fe80::1]:8080\""),
            ("10.0.0.1:0", "1 to 65535"),
            ("10.0.0.1:70000", "1 to 65535"),
            ("10.0.0.1:+80", "1 to 65535"),
            ("10.0.0.1:", "1 to 65535"),
            ("fd00::1:80", "\"[fd00::1]:80\""),
            ("a:b:80", "brackets"),
            ("[::1]", "[::1]:8080"),
            ("[nope]:80", "\"[::1]:80\""),
            (":80", "127.0.0.1:80"),
            ("10.0.0.300:80", "\"10.0.0.1:80\""),
            ("a b:80", "\"10.0.0.1:80\""),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("]:80", "10.0.0.1:80"),
        ] {
            let misfit = upstream(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
        let long = |len: usize| format!("unix:/{}", "x".repeat(len - 1));
        assert!(upstream(&long(107)).is_ok() && upstream(&format!("unix:@{}", "x".repeat(107))).is_ok());
        assert!(upstream(&long(108)).expect_err("108").message.contains("108 bytes"));
        assert!(bind("unix:/run/app.sock").expect_err("a socket").help.contains("TCP"));
        for text in ["localhost:80", "*:80", ":80", "80"] {
            let help = bind(text).expect_err(text).help;
            assert!(help.contains("\"[::]:80\""), "{text}: {help}");
        }
        assert!(
            bind("127.0.0.1:80,127.0.0.1:81").expect_err("two").help.contains("\"127.0.0.1:80\", \"127.0.0.1:81\"")
        );
    }
}
