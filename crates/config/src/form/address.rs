//! Is this an address? `127.0.0.1:8080`, `[::1]:8080`, and for endpoints `web.internal:8080`.

use super::misfit::Misfit;
use super::name::is_host_name;
use crate::code::Code;
use crate::tree::quoted;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address to listen on.
pub(super) fn bind(text: &str) -> Result<SocketAddr, Misfit> {
    match read(text, "127.0.0.1")? {
        Address::Ip(addr) => Ok(addr),
        Address::Name { port, .. } => Err(bad(
            text,
            "it must be an IP address, not a name",
            format!("write \"127.0.0.1:{port}\" for this machine only, or \"[::]:{port}\" for every address"),
        )),
    }
}

/// An address to connect to.
pub(super) fn upstream(text: &str) -> Result<Address, Misfit> {
    match read(text, "10.0.0.1")? {
        Address::Ip(addr) if addr.ip().is_unspecified() => Err(bad(
            text,
            "nothing can be reached at an unspecified address",
            format!("write the address of the endpoint, as \"127.0.0.1:{}\"", addr.port()),
        )),
        address => Ok(address),
    }
}

/// A name that can be resolved: lower case, without a final dot.
pub(super) fn dns_name(text: &str) -> Result<String, Misfit> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if is_host_name(&name) {
        return Ok(name);
    }
    let message = format!("{} is not the name of a host", quoted(text));
    Err(Misfit::new(Code::BadHost, message, "write it without scheme and port, as \"web.internal\""))
}

fn bad(text: &str, why: &str, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadAddress, format!("{} is not an address: {why}", quoted(text)), help)
}

fn read(text: &str, example: &str) -> Result<Address, Misfit> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.split('/').next().unwrap_or_default();
        return Err(bad(text, &format!("\"{scheme}://\" does not belong to it"), format!("write {}", quoted(rest))));
    }
    let (host, port) = match text.rfind(']') {
        Some(at) if text.starts_with('[') => (&text[1..at], text[at + 1..].strip_prefix(':')),
        _ if text.matches(':').count() > 1 => {
            return Err(bad(
                text,
                "IPv6 needs brackets",
                "write \"[::1]:8080\": the address in brackets, then the port",
            ));
        }
        _ => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let Some(port) = port else {
        let with_port = if text.is_empty() { format!("{example}:8080") } else { format!("{text}:8080") };
        return Err(bad(text, "it has no port", format!("add one: {}", quoted(&with_port))));
    };
    let port = match port.parse::<u16>() {
        Ok(port) if port > 0 && port_is_digits(text) => port,
        _ => return Err(bad(text, &format!("{} is not a port", quoted(port)), "allowed: 1 to 65535")),
    };
    if text.starts_with('[') {
        let wrong = || bad(text, "there is no IPv6 address in the brackets", format!("write \"[::1]:{port}\""));
        return Ok(Address::Ip(SocketAddr::new(IpAddr::V6(host.parse::<Ipv6Addr>().map_err(|_| wrong())?), port)));
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Address::Ip(SocketAddr::new(ip, port)));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if is_host_name(&name) {
        return Ok(Address::Name { host: name, port });
    }
    if host.is_empty() {
        let help =
            format!("write \"127.0.0.1:{port}\" for this machine, or \"[::]:{port}\" to listen on every address");
        return Err(bad(text, "it has no host", help));
    }
    Err(bad(
        text,
        &format!("{} is no IP address and no host name", quoted(host)),
        format!("write \"{example}:{port}\""),
    ))
}

/// `parse` would take `+80`.
fn port_is_digits(text: &str) -> bool {
    text.rsplit(':').next().is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Where an endpoint listens. The port is never 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address.
    Ip(SocketAddr),
    /// A host name, lower case without a final dot, to be resolved.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// The port.
    pub fn port(&self) -> u16 {
        match self {
            Address::Ip(addr) => addr.port(),
            Address::Name { port, .. } => *port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(addr) => write!(f, "{addr}"),
            Address::Name { host, port } => write!(f, "{host}:{port}"),
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
            ("10.0.0.1:0", "1 to 65535"),
            ("10.0.0.1:70000", "1 to 65535"),
            ("10.0.0.1:+80", "1 to 65535"),
            ("10.0.0.1:", "1 to 65535"),
            ("::1:80", "brackets"),
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
        assert!(bind("localhost:80").expect_err("a name").help.contains("127.0.0.1:80"));
    }
}
