//! Hosts of the endpoints of a pool, as their addresses are configured: a name stays a name although it was resolved.

use evenkeel_config::plan::{Address, Pool, Resolve};
use evenkeel_net::dial::Remote;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

/// Configured hosts of the endpoints of a pool that are given by name.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Host and port, by the name of the endpoint.
    by_name: HashMap<Arc<str>, Box<str>>,
    /// Entries for several endpoints each.
    of_all: Box<[OfAll]>,
}

/// An entry with `resolve = "all"`.
#[derive(Debug)]
struct OfAll {
    name: Arc<str>,
    /// Host with the port, as in the file.
    host: Box<str>,
    port: u16,
}

impl Hosts {
    /// Collects the hosts of a pool.
    pub fn of(pool: &Pool) -> Hosts {
        let (mut by_name, mut of_all) = (HashMap::new(), Vec::new());
        for endpoint in &pool.endpoints {
            let Address::Name { port, .. } = &endpoint.addr else { continue };
            let host: Box<str> = endpoint.addr.to_string().into();
            match endpoint.resolve {
                Resolve::First => drop(by_name.insert(endpoint.name.clone(), host)),
                Resolve::All => of_all.push(OfAll { name: endpoint.name.clone(), host, port: *port }),
            }
        }
        Hosts { by_name, of_all: of_all.into() }
    }

    /// Appends the host of an endpoint, with its port unless it is the default of the scheme. A discovered endpoint has
    /// its address as its host.
    pub fn write(&self, (name, addr): (&str, Option<&Remote>), scheme: &str, out: &mut Vec<u8>) {
        let start = out.len();
        match (self.configured(name, addr), addr) {
            (Some(host), _) => out.extend_from_slice(host.as_bytes()),
            (None, Some(addr)) => {
                // Writing to a vector cannot fail.
                let _ = write!(out, "{}", addr.host());
            }
            (None, None) => {}
        }
        let usual: &[u8] = if scheme == "https" { b":443" } else { b":80" };
        if out[start..].ends_with(usual) {
            out.truncate(out.len() - usual.len());
        }
    }

    fn configured(&self, name: &str, addr: Option<&Remote>) -> Option<&str> {
        if let Some(host) = self.by_name.get(name) {
            return Some(host);
        }
        // Endpoints of an entry are named after the entry, if it has a name, and after their addresses.
        let is_of = |entry: &str| name.strip_prefix(entry).is_some_and(|rest| rest.starts_with('/'));
        let port = addr.and_then(Remote::socket_addr).map(|addr| addr.port());
        let mut named = self.of_all.iter().filter(|entry| is_of(&entry.name));
        let mut alike = self.of_all.iter().filter(|entry| *entry.name == *entry.host && Some(entry.port) == port);
        let entry = named.next().or_else(|| alike.next().filter(|_| alike.next().is_none()));
        entry.map(|entry| &*entry.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_that_of_the_file_without_the_port_of_the_scheme() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['a.internal:80', { addr = \
                    'b.internal:443', name = 'b' }, { addr = 'all.internal:82', resolve = 'all' }, { addr = \
                    'c.internal:83', resolve = 'all', name = 'c' }, '10.0.0.1:80', '[::1]:443']";
        let outcome = evenkeel_config::parse_str("a.toml", text, &|_| None);
        let plan = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics));
        let hosts = Hosts::of(&plan.pools[0]);
        for (name, addr, scheme, wanted) in [
            ("a.internal:80", "10.0.0.2:80", "http", "a.internal"),
            ("a.internal:80", "10.0.0.2:80", "https", "a.internal:80"),
            ("b", "10.0.0.2:443", "https", "b.internal"),
            ("b", "10.0.0.2:443", "http", "b.internal:443"),
            ("10.0.0.3:82", "10.0.0.3:82", "http", "all.internal:82"),
            ("c/10.0.0.3:83", "10.0.0.3:83", "http", "c.internal:83"),
            ("10.0.0.1:80", "10.0.0.1:80", "http", "10.0.0.1"),
            ("[::1]:443", "[::1]:443", "https", "[::1]"),
            ("found", "10.0.0.9:8080", "http", "10.0.0.9:8080"),
        ] {
            let mut out = Vec::new();
            hosts.write((name, addr.parse().ok().map(Remote::Ip).as_ref()), scheme, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), wanted, "{name} {scheme}");
        }
    }
}
