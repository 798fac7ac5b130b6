//! Prerequisites of IPVS on this machine.

use super::entry::{self, Key};
use super::masquerade::Masquerade;
use super::table::Table;
use crate::driver::Lack;
use crate::netlink::Error;
use crate::service::{Service, Source, Transport};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

fn lack(problem: impl Into<String>, help: impl Into<String>) -> Lack {
    Lack::new(problem, help)
}

/// Returns everything that this machine lacks for services; `owned` are evenkeel's already.
pub(super) fn find(services: &[Service], owned: &BTreeSet<Key>, masquerade: &Masquerade) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let table = Table::open().and_then(|mut table| table.probe().map(|()| table));
    match table {
        Ok(mut table) => {
            schedulers(&mut table, services, &mut lacks);
            clashes(&mut table, services, owned, &mut lacks);
        }
        Err(error) => lacks.push(closed(&error)),
    }
    for service in services {
        if let Err(reason) = entry::scheduler(service) {
            lacks.push(lack(
                format!("listener {:?}: {reason}", &*service.name),
                "set balance to random, leastconn, round_robin or maglev, or set another plane",
            ));
        }
        for addr in service.addrs.iter().filter(|addr| !is_local(addr)) {
            lacks.push(lack(
                format!(
                    "listener {:?}: {} is not an address of this machine, and IPVS sees no packets to it",
                    &*service.name,
                    addr.ip()
                ),
                format!("add it with `ip address add {}/{} dev lo`", addr.ip(), if addr.is_ipv4() { 32 } else { 128 }),
            ));
        }
    }
    settings(services, &mut lacks);
    if services.iter().any(|service| service.source == Source::Own)
        && let Err(fault) = masquerade.check()
    {
        lacks.push(lack(
            format!("endpoints cannot see an address of this machine: {fault}"),
            "enable CONFIG_NF_TABLES_IPV4, CONFIG_NF_TABLES_IPV6 and CONFIG_NFT_MASQ in the kernel; or write `source = \
             \"client\"`, and lead the endpoints' route to clients through this machine",
        ));
    }
    lacks
}

/// Explains why the table cannot be used.
pub(super) fn closed(error: &Error) -> Lack {
    if error.is(Errno::NOENT) {
        lack("this kernel has no IPVS", "load it with `modprobe ip_vs`, or set another plane")
    } else if error.is(Errno::PERM) {
        lack(
            "IPVS needs the capability CAP_NET_ADMIN in the first user namespace",
            "start evenkeel as root, or with `AmbientCapabilities=CAP_NET_ADMIN` in its systemd unit",
        )
    } else {
        lack(format!("IPVS does not respond: {error}"), "`dmesg` shows its messages")
    }
}

fn schedulers(table: &mut Table, services: &[Service], lacks: &mut Vec<Lack>) {
    let names: BTreeSet<&str> = services.iter().filter_map(|service| Some(entry::scheduler(service).ok()?.0)).collect();
    for name in names {
        match table.has_scheduler(name) {
            Ok(true) => {}
            Ok(false) => lacks.push(lack(
                format!("this kernel has no IPVS scheduler {name}"),
                match name {
                    "twos" => {
                        "load it with `modprobe ip_vs_twos`, if this kernel was built with it; or choose leastconn"
                            .to_owned()
                    }
                    _ => format!("load it with `modprobe ip_vs_{name}`, or choose another algorithm"),
                },
            )),
            Err(error) => lacks.push(closed(&error)),
        }
    }
}

fn clashes(table: &mut Table, services: &[Service], owned: &BTreeSet<Key>, lacks: &mut Vec<Lack>) {
    let present: BTreeSet<Key> = match table.services() {
        Ok(services) => services.into_iter().map(|(key, _)| key).collect(),
        Err(error) => return lacks.push(closed(&error)),
    };
    for service in services {
        let keys = service.addrs.iter().map(|addr| Key { transport: service.transport, addr: *addr });
        for key in keys.filter(|key| present.contains(key) && !owned.contains(key)) {
            let letter = if key.transport == Transport::Tcp { 't' } else { 'u' };
            lacks.push(lack(
                format!("listener {:?}: IPVS has a service {key} already, which is not evenkeel's", &*service.name),
                format!("choose another address, or remove the service with `ipvsadm -D -{letter} {}`", key.addr),
            ));
        }
    }
}

/// Looks at settings of the kernel that services depend on.
fn settings(services: &[Service], lacks: &mut Vec<Lack>) {
    let uses = |of: fn(&Service) -> bool| services.iter().any(of);
    let wanted = [
        (
            uses(|service| service.addrs.iter().any(SocketAddr::is_ipv4)),
            "net.ipv4.ip_forward",
            "this machine does not forward packets of IPv4, as IPVS does to endpoints",
        ),
        (
            uses(|service| service.addrs.iter().any(SocketAddr::is_ipv6)),
            "net.ipv6.conf.all.forwarding",
            "this machine does not forward packets of IPv6, as IPVS does to endpoints",
        ),
        (
            uses(|service| service.transport == Transport::Udp),
            "net.ipv4.vs.expire_nodest_conn",
            "IPVS drops datagrams of flows whose endpoint is down, instead of giving them another one",
        ),
        (
            uses(|service| service.affinity.is_some()),
            "net.ipv4.vs.expire_quiescent_template",
            "IPVS keeps clients with affinity at an endpoint that drains",
        ),
        (
            uses(|service| service.source == Source::Own),
            "net.ipv4.vs.conntrack",
            "IPVS hides its packets from connection tracking, so that endpoints see the client's address",
        ),
    ];
    for (_, name, problem) in wanted.into_iter().filter(|(used, ..)| *used) {
        // A kernel without the file has no IPVS, which is named already.
        if fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).is_ok_and(|value| value.trim() == "0") {
            lacks
                .push(lack(problem, format!("set it with `sysctl -w {name}=1`, and in /etc/sysctl.d for later boots")));
        }
    }
}

/// Returns true if packets to an address are for this machine.
fn is_local(addr: &SocketAddr) -> bool {
    let bound = UdpSocket::bind(SocketAddr::new(addr.ip(), 0));
    !bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}
