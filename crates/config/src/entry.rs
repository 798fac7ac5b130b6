//! Values of endpoints that others name: registries, control planes, files of other programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Longest name of an endpoint, in characters.
const NAME_MAX: usize = 128;

/// Bytes of an entry that stand in for its name, if it cannot be read.
const QUOTED: usize = 60;

/// Beginning of an entry, on a single line.
pub fn quoted(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTED).collect();
    if text.chars().nth(QUOTED).is_some() {
        line.push_str("...");
    }
    line
}

/// Address of an endpoint.
///
/// # Errors
/// The host is a name or no address, or the port is none.
pub fn address(host: &str, port: u64) -> Result<SocketAddr, String> {
    let ip: IpAddr = host.parse().map_err(|_| match host {
        "" => "it has no address".to_owned(),
        name => format!("{name:?} is not an IP address"),
    })?;
    if is_no_machine(ip.to_canonical()) {
        return Err(format!("{ip} is not the address of one machine"));
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(SocketAddr::new(ip.to_canonical(), port)),
        _ => Err(format!("{port} is not a port")),
    }
}

/// True if an endpoint can have this name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= NAME_MAX && name.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

/// Zone of an endpoint; `None` if it is empty.
///
/// # Errors
/// No endpoint can have this zone.
pub fn zone(zone: &str) -> Result<Option<Arc<str>>, String> {
    match zone {
        "" => Ok(None),
        zone if is_name(zone) => Ok(Some(zone.into())),
        zone => Err(format!("{:?} is not a zone: it has up to {NAME_MAX} visible characters", quoted(zone))),
    }
}

/// True if an address belongs to no machine, or to several: 0.0.0.0 leads to this machine, and others cannot be
/// connected to.
pub fn is_no_machine(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_short_and_on_one_line() {
        let text = format!("{{\n\"a\":\"{}\"}}", "x".repeat(100));
        assert!(quoted(&text).len() <= QUOTED + 3 && !quoted(&text).contains('\n'));
    }
}
