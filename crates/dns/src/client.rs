//! Networks of clients, as used for affinity and for the choice of near endpoints.

use crate::query::Subnet;
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_config::plan::{Cidr, ClientLocality};
use std::net::IpAddr;
use std::sync::Arc;

/// Prefix lengths that distinguish clients (the maximum that resolvers should send, RFC 7871 section 11.1).
const V4: u8 = 24;
const V6: u8 = 56;

impl Subnet {
    /// Network of an address, with the distinguishing prefix.
    pub fn around(address: IpAddr) -> Subnet {
        let address = address.to_canonical();
        Subnet { address, prefix: if address.is_ipv4() { V4 } else { V6 } }.masked()
    }

    /// The network shortened to the distinguishing prefix.
    pub fn told_apart(self) -> Subnet {
        let max = if self.address.is_ipv4() { V4 } else { V6 };
        Subnet { prefix: self.prefix.min(max), ..self }.masked()
    }

    fn masked(self) -> Subnet {
        let network = Cidr::around(self.address, self.prefix).map_or(self.address, |cidr| cidr.network());
        Subnet { address: network, ..self }
    }

    /// Hash of the network, equal on all instances.
    pub fn key(&self) -> u64 {
        match self.address {
            IpAddr::V4(ip) => stable_hash(&ip.octets()),
            IpAddr::V6(ip) => stable_hash(&ip.octets()),
        }
    }
}

/// Client networks with the zone of endpoints near them, longest prefix first.
#[derive(Clone, Debug, Default)]
pub struct Localities(Vec<(Cidr, Arc<str>)>);

impl Localities {
    /// Localities of a plan's zone.
    pub fn new(plan: &[ClientLocality]) -> Localities {
        let of = |l: &ClientLocality| l.clients.iter().map(|c| (*c, l.zone.clone())).collect::<Vec<_>>();
        let mut all: Vec<_> = plan.iter().flat_map(of).collect();
        all.sort_by_key(|(cidr, _)| std::cmp::Reverse(cidr.prefix()));
        Localities(all)
    }

    /// Zone of the endpoints near this network; `None` if no locality contains it.
    pub fn of(&self, client: Subnet) -> Option<&Arc<str>> {
        self.0.iter().find(|(cidr, _)| cidr.contains(client.address)).map(|(_, zone)| zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_network_says_where_a_client_is() {
        let cidr = |text: &str, prefix| Cidr::around(text.parse().unwrap(), prefix).unwrap();
        let plan = [
            ClientLocality { zone: "wide".into(), clients: vec![cidr("10.0.0.0", 8)] },
            ClientLocality { zone: "narrow".into(), clients: vec![cidr("10.1.0.0", 16), cidr("2001:db8::", 32)] },
        ];
        let all = Localities::new(&plan);
        let at = |text: &str| all.of(Subnet::around(text.parse().unwrap())).map(|zone| &**zone);
        assert_eq!(at("10.1.2.3"), Some("narrow"));
        assert_eq!(at("10.2.2.3"), Some("wide"));
        assert_eq!(at("::ffff:10.1.2.3"), Some("narrow"));
        assert_eq!((at("2001:db8::1"), at("192.0.2.1")), (Some("narrow"), None));
    }

    #[test]
    fn clients_of_one_network_have_one_key() {
        let key = |text: &str| Subnet::around(text.parse().unwrap()).key();
        assert_eq!(key("192.0.2.1"), key("192.0.2.254"));
        assert_ne!(key("192.0.2.1"), key("192.0.3.1"));
        assert_eq!(key("2001:db8::1"), key("2001:db8:0:ff::1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:100::1"));
    }
}
