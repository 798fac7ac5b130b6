//! Addresses of this machine that Gateways are served at. See [`Addresses`].

use crate::providers::kubernetes::world::objects::{GatewaySpec, Key, Object};
use evenkeel_config::plan::takes;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// True if a socket at either address would also accept connections to the other.
pub fn overlap(a: IpAddr, b: IpAddr) -> bool {
    takes(a, b) || takes(b, a)
}

/// Addresses to listen on, and which Gateway has which.
#[derive(Clone, Debug)]
pub struct Addresses {
    all: Vec<IpAddr>,
    given: BTreeMap<Key, Vec<IpAddr>>,
}

impl Addresses {
    /// `all` must not be empty.
    pub fn new(all: &[IpAddr]) -> Addresses {
        Addresses { all: all.to_vec(), given: BTreeMap::new() }
    }

    /// Takes back the addresses of other Gateways than these.
    pub fn keep(&mut self, exists: impl Fn(&Key) -> bool) {
        self.given.retain(|key, _| exists(key));
    }

    /// Assigns addresses to a Gateway: the wanted addresses, else its previous address, else a free address, else the
    /// address with the fewest Gateways. Also returns the reason if a wanted address cannot be used.
    ///
    /// # Errors
    /// If it asks for an address of a kind that is not supported.
    pub fn assign(
        &mut self,
        key: &Key,
        gateway: &Object<GatewaySpec>,
    ) -> Result<(Vec<IpAddr>, Option<String>), String> {
        let mut wanted = Vec::new();
        let mut unusable = None;
        for address in &gateway.spec.addresses {
            let kind = address.kind.as_deref().unwrap_or("IPAddress");
            if kind != "IPAddress" {
                self.given.remove(key);
                return Err(format!("addresses of type {kind} are not supported"));
            }
            let Some(value) = address.value.as_deref().filter(|value| !value.is_empty()) else { continue };
            // Others could take a port from all Gateways at an address that includes them.
            match value.parse::<IpAddr>().ok().filter(|ip| self.all.contains(ip)) {
                Some(ip) => wanted.push(ip),
                None => unusable = Some(format!("{value} is not one of `addresses` of [provider.kubernetes]")),
            }
        }
        // An address that another address includes would be bound twice.
        let wide: Vec<IpAddr> = wanted.iter().filter(|ip| ip.is_unspecified()).copied().collect();
        wanted.retain(|ip| !wide.iter().any(|wide| wide != ip && takes(*wide, *ip)));
        if wanted.is_empty() && unusable.is_none() {
            wanted = vec![self.free(key, gateway)];
        }
        self.given.insert(key.clone(), wanted.clone());
        Ok((wanted, unusable))
    }

    fn free(&self, key: &Key, gateway: &Object<GatewaySpec>) -> IpAddr {
        let users = |ip: &IpAddr| self.given.iter().filter(|(other, ips)| *other != key && ips.contains(ip)).count();
        if let Some(ip) = self.given.get(key).and_then(|ips| ips.first()).filter(|ip| self.all.contains(ip)) {
            return *ip;
        }
        // After a restart, the status of the Gateway shows its previous address.
        let before = gateway.status["addresses"].as_array().into_iter().flatten();
        let before = before.filter_map(|address| address["value"].as_str()?.parse::<IpAddr>().ok());
        if let Some(ip) = before.into_iter().find(|ip| self.all.contains(ip) && users(ip) == 0) {
            return ip;
        }
        *self.all.iter().min_by_key(|ip| users(ip)).expect("there is at least one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn gateway(addresses: Value, status: Value) -> Object<GatewaySpec> {
        serde_json::from_value(json!({ "spec": { "addresses": addresses }, "status": { "addresses": status } }))
            .expect("a Gateway")
    }

    #[test]
    fn each_gateway_gets_an_address_of_its_own_while_they_last_and_keeps_it() {
        let ips: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address")).to_vec();
        let mut addresses = Addresses::new(&ips);
        let none = || gateway(json!([]), json!([]));
        let key = |name| Key::new("infra", name);
        let mut assign = |name, gateway: &Object<GatewaySpec>| {
            addresses
                .assign(&key(name), gateway)
                .map(|(ips, why)| (ips.iter().map(ToString::to_string).collect::<Vec<_>>(), why))
        };
        let second = gateway(json!([]), json!([{ "value": "10.0.0.2" }]));
        assert_eq!(assign("b", &second), Ok((vec!["10.0.0.2".into()], None)), "as before a restart");
        assert_eq!(assign("a", &none()), Ok((vec!["10.0.0.1".into()], None)));
        assert_eq!(assign("b", &none()), Ok((vec!["10.0.0.2".into()], None)));
        assert_eq!(assign("c", &none()), Ok((vec!["10.0.0.1".into()], None)), "they are shared then");
        let asks = gateway(json!([{ "value": "10.0.0.2" }, { "value": "10.0.0.9" }]), json!([]));
        let (ips, why) = assign("d", &asks).expect("of a kind that is known");
        assert_eq!((ips, why.is_some()), (vec!["10.0.0.2".to_owned()], true));
        assert!(assign("e", &gateway(json!([{ "type": "Hostname", "value": "a" }]), json!([]))).is_err());
    }
}
