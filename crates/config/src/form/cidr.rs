//! Networks of IP addresses: [`Cidr`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of IP addresses (RFC 4632, RFC 4291 section 2.3). All bits after the prefix are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// All IPv4 addresses.
    pub(crate) const EVERYTHING: Cidr = Cidr { network: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };

    /// The network with this prefix that contains an address. An IPv4-mapped address (`::ffff:10.0.0.0/104`)
    /// gives an IPv4 network. `None` if `prefix` is longer than the address.
    pub fn around(address: IpAddr, prefix: u8) -> Option<Cidr> {
        let (address, prefix) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), mapped @ IpAddr::V4(_)) if prefix >= 96 => (mapped, prefix.checked_sub(96)?),
            _ => (address, prefix),
        };
        Some(Cidr { network: first_of(address, prefix)?, prefix })
    }

    /// True if the network contains an address. IPv4-mapped addresses, as dual-stack sockets report them,
    /// count as IPv4, so `::/0` contains no IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        first_of(address.to_canonical(), self.prefix) == Some(self.network)
    }

    /// True if the network contains every address of another.
    pub fn contains_network(&self, other: &Cidr) -> bool {
        self.prefix <= other.prefix && self.contains(other.network)
    }

    /// True if the networks have an address in common.
    pub(crate) fn overlaps(&self, other: &Cidr) -> bool {
        self.contains_network(other) || other.contains_network(self)
    }

    /// Number of leading bits that are significant: 0 = every address of the family.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// First address of the network.
    pub fn network(&self) -> IpAddr {
        self.network
    }
}

/// The address with all bits after the prefix cleared; `None` if `prefix` is too long.
fn first_of(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    // A prefix of 0 would shift by all bits, which checked_shl refuses.
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(prefix.into())?).unwrap_or(0);
            Some(Ipv4Addr::from_bits(v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(prefix.into())?).unwrap_or(0);
            Some(Ipv6Addr::from_bits(v6.to_bits() & mask).into())
        }
    }
}

/// Formats the network as in a file; a single address has no prefix.
impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cidr { network, prefix } = self;
        match if network.is_ipv4() { 32 } else { 128 } {
            all if all == *prefix => write!(f, "{network}"),
            _ => write!(f, "{network}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str, prefix: u8) -> Cidr {
        Cidr::around(address.parse().expect(address), prefix).expect("the prefix fits")
    }

    #[test]
    fn has_the_addresses_between_its_first_and_its_last() {
        for (cidr, first, last, before, after) in [
            (network("10.1.2.3", 8), "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            (network("192.168.1.130", 25), "192.168.1.128", "192.168.1.255", "192.168.1.127", "192.168.2.0"),
            (network("127.0.0.1", 32), "127.0.0.1", "127.0.0.1", "127.0.0.0", "127.0.0.2"),
            (network("2001:db8::1", 32), "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "::", "2001:db9::"),
            (network("::1", 128), "::1", "::1", "::", "::2"),
        ] {
            let has = |address: &str| cidr.contains(address.parse().expect(address));
            assert!(has(first) && has(last), "{cidr}");
            assert!(!has(before) && !has(after), "{cidr}");
        }
    }

    #[test]
    fn a_prefix_of_0_has_every_address_of_its_family() {
        let (v4, v6) = (network("10.0.0.1", 0), network("::1", 0));
        assert!(v4.contains(Ipv4Addr::BROADCAST.into()) && !v4.contains(Ipv6Addr::LOCALHOST.into()));
        assert!(v6.contains(Ipv6Addr::LOCALHOST.into()) && !v6.contains(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn ipv4_written_as_ipv6_is_ipv4() {
        let mapped: IpAddr = "::ffff:10.9.8.7".parse().expect("an address");
        assert!(network("10.0.0.0", 8).contains(mapped));
        assert_eq!(network("::ffff:10.0.0.0", 104), network("10.0.0.0", 8));
        assert_eq!(network("::ffff:10.0.0.1", 128).to_string(), "10.0.0.1");
    }

    #[test]
    fn a_prefix_longer_than_the_address_is_none() {
        assert_eq!(Cidr::around(Ipv4Addr::LOCALHOST.into(), 33), None);
        assert_eq!(Cidr::around(Ipv6Addr::LOCALHOST.into(), 129), None);
    }
}
