//! Rules of nftables that give packets of services an address of this machine, as IPVS does not.
//!
//! They look at the addresses that clients sent to, which connection tracking knows of packets that IPVS has changed,
//! if `net.ipv4.vs.conntrack` is 1.

use super::entry::Key;
use super::steps::Entries;
use crate::driver::Fault;
use crate::nftables::expressions::STATE_INVALID;
use crate::nftables::transaction::{IPV4, IPV6, Transaction};
use crate::service::Transport;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Text that tells operators whose tables they are.
const COMMENT: &str = "evenkeel: source addresses of IPVS, layout 1";

/// Tables of nftables with the rules, for each family.
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

    /// Removes the tables, which may not be there, and defines them anew if `services` are given.
    fn tables(&self, services: Option<&BTreeSet<Key>>) -> Transaction {
        let mut rules = Transaction::new();
        for family in [IPV4, IPV6] {
            rules.table(family, &self.table);
            rules.add_table(COMMENT);
            rules.delete_table();
            if let Some(services) = services {
                define(&mut rules, services.iter().filter(|key| key.addr.is_ipv4() == (family == IPV4)));
            }
        }
        rules
    }

    /// Tests if the kernel takes such rules, and changes nothing.
    ///
    /// # Errors
    /// Like [`set`](Self::set).
    pub(super) fn check(&self) -> Result<(), Fault> {
        let any = |addr: IpAddr| Key { transport: Transport::Tcp, addr: SocketAddr::new(addr, 9) };
        let services = [any(Ipv4Addr::LOCALHOST.into()), any(Ipv6Addr::LOCALHOST.into())];
        self.tables(Some(&services.into())).check()
    }

    /// Replaces the tables in a single step, if their services would differ. They stay without services: with the last
    /// chain that translates, connections that are translated would end.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn set(&mut self, services: BTreeSet<Key>) -> Result<(), Fault> {
        if !self.stale && self.has == services {
            return Ok(());
        }
        self.tables(Some(&services)).apply()?;
        (self.has, self.stale, self.is_there) = (services, false, true);
        Ok(())
    }

    /// Removes the tables, if they may be there.
    ///
    /// # Errors
    /// Like [`set`](Self::set).
    pub(super) fn remove(&mut self) -> Result<(), Fault> {
        if self.stale || self.is_there {
            self.tables(None).apply()?;
        }
        (self.has, self.stale, self.is_there) = (BTreeSet::new(), false, false);
        Ok(())
    }
}

/// Chain with the rules of a table.
const CHAIN: &str = "source";

/// Hook for packets that leave, `NF_INET_POST_ROUTING`, and the priority of translated sources.
const POST_ROUTING: u32 = 4;
const SRCNAT: i32 = 100;

/// Defines the table of a family.
fn define<'s>(rules: &mut Transaction, services: impl Iterator<Item = &'s Key>) {
    rules.add_table(COMMENT);
    rules.add_hook(CHAIN, "nat", POST_ROUTING, SRCNAT);
    // Without an effect, but its expression keeps connection tracking on: the kernel switches it off with the last rule
    // in the namespace, and connections that are translated would end.
    rules.add_rule(CHAIN, |rule| _ = rule.is_state(STATE_INVALID).end());
    for key in services {
        rules.add_rule(CHAIN, |rule| _ = rule.is_transport(key.transport).is_to(key.addr).masquerade());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nftables::transaction::tests::in_namespace;
    use std::process::Command;

    /// Lists the rules of the namespace of the thread.
    fn rules() -> String {
        let listed = Command::new("nft").args(["list", "ruleset"]).output().expect("it is installed");
        String::from_utf8(listed.stdout).expect("rules are text")
    }

    #[test]
    fn each_family_has_a_table() {
        in_namespace(|| {
            let key = |transport, addr: &str| Key { transport, addr: addr.parse().expect("it is an address") };
            let services = [key(Transport::Tcp, "192.0.2.1:80"), key(Transport::Udp, "[2001:db8::1]:53")];
            let mut tables = Masquerade::new("evenkeel");
            tables.check().expect("the kernel has nftables");
            assert_eq!(rules(), "");
            tables.set(services.into()).expect("the kernel has nftables");
            let both = rules();
            let v4 = "meta l4proto tcp ct original ip daddr 192.0.2.1 ct original proto-dst 80 masquerade";
            let v6 = "meta l4proto udp ct original ip6 daddr 2001:db8::1 ct original proto-dst 53 masquerade";
            assert!(both.contains("table ip evenkeel_ipvs") && both.contains("table ip6 evenkeel_ipvs"), "{both}");
            assert!(both.contains(v4) && both.contains(v6) && both.contains("ct state invalid return"), "{both}");
            tables.set(BTreeSet::new()).expect("the kernel has nftables");
            assert_eq!(rules().matches("type nat hook postrouting priority srcnat").count(), 2);
            tables.remove().expect("they are there");
            assert_eq!(rules(), "");
        });
    }
}
