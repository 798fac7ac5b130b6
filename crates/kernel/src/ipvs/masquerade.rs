//! Rules of nftables that give packets of services an address of this machine, as IPVS does not.
//!
//! They look at the addresses that clients sent to, which connection tracking knows of packets that IPVS has changed, if
//! `net.ipv4.vs.conntrack` is 1.

use super::entry::Key;
use super::steps::Entries;
use crate::driver::Fault;
use crate::nftables::program;
use crate::service::Transport;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Tables of nftables with the rules, one for each family.
#[derive(Debug)]
pub(super) struct Masquerade {
    table: String,
    has: BTreeSet<Key>,
    /// True if the tables may be there with other services.
    stale: bool,
    is_there: bool,
}

impl Masquerade {
    pub(super) fn new(name: &str) -> Masquerade {
        Masquerade { table: format!("{name}_ipvs"), has: BTreeSet::new(), stale: false, is_there: false }
    }

    /// Notes that an earlier process has left tables.
    pub(super) fn inherit(&mut self) {
        self.stale = true;
    }

    /// Returns the services whose packets get an address of this machine.
    pub(super) fn of(entries: &Entries) -> BTreeSet<Key> {
        entries.iter().filter(|(_, entry)| entry.masqueraded).map(|(key, _)| *key).collect()
    }

    /// Tests if the kernel takes such rules, and changes nothing.
    ///
    /// # Errors
    /// Like [`set`](Self::set).
    pub(super) fn check(&self) -> Result<(), Fault> {
        let any = |addr: IpAddr| Key { transport: Transport::Tcp, addr: SocketAddr::new(addr, 9) };
        let services = [any(Ipv4Addr::LOCALHOST.into()), any(Ipv6Addr::LOCALHOST.into())];
        program::check(&text(&self.table, &services.into()))
    }

    /// Replaces the tables in one step, if their services would differ. They stay without services: with the last chain
    /// that translates, connections that are translated would end.
    ///
    /// # Errors
    /// `nft` is not there, or refuses it.
    pub(super) fn set(&mut self, services: BTreeSet<Key>) -> Result<(), Fault> {
        if !self.stale && self.has == services {
            return Ok(());
        }
        program::apply(&text(&self.table, &services))?;
        (self.has, self.stale, self.is_there) = (services, false, true);
        Ok(())
    }

    /// Removes the tables, if they may be there.
    ///
    /// # Errors
    /// Like [`set`](Self::set).
    pub(super) fn remove(&mut self) -> Result<(), Fault> {
        if self.stale || self.is_there {
            program::apply(&FAMILIES.map(|family| without(family, &self.table)).concat())?;
        }
        (self.has, self.stale, self.is_there) = (BTreeSet::new(), false, false);
        Ok(())
    }
}

/// Rule without an effect, whose expression keeps connection tracking on: the kernel switches it off with the last one in
/// the namespace, and connections that are translated would end.
const TRACKS: &str = "ct state invalid return";

/// Families of addresses, in words of nftables.
const FAMILIES: [&str; 2] = ["ip", "ip6"];

/// Removes a table, which may not be there: it is created before.
fn without(family: &str, table: &str) -> String {
    format!("table {family} {table}\ndelete table {family} {table}\n")
}

fn text(table: &str, services: &BTreeSet<Key>) -> String {
    let mut text = String::new();
    for family in FAMILIES {
        text.push_str(&without(family, table));
        // A `String` takes all that is written.
        let _ = writeln!(text, "table {family} {table} {{\nchain source {{");
        let _ = writeln!(text, "type nat hook postrouting priority 100\n{TRACKS}");
        for key in services.iter().filter(|key| key.addr.is_ipv4() == (family == "ip")) {
            let (transport, ip, port) = (key.transport.name(), key.addr.ip(), key.addr.port());
            let _ = writeln!(
                text,
                "meta l4proto {transport} ct original {family} daddr {ip} ct original proto-dst {port} masquerade"
            );
        }
        text.push_str("}\n}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_a_table() {
        let key = |transport, addr: &str| Key { transport, addr: addr.parse().unwrap() };
        let services = [key(Transport::Tcp, "192.0.2.1:80"), key(Transport::Udp, "[2001:db8::1]:53")];
        let both = text("evenkeel_ipvs", &services.into());
        assert!(
            both.contains("l4proto tcp ct original ip daddr 192.0.2.1 ct original proto-dst 80 masquerade"),
            "{both}"
        );
        assert!(
            both.contains("l4proto udp ct original ip6 daddr 2001:db8::1 ct original proto-dst 53 masquerade"),
            "{both}"
        );
        assert_eq!(text("evenkeel_ipvs", &BTreeSet::new()).matches("type nat hook").count(), 2);
    }
}
