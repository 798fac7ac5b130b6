//! Local addresses that endpoints must not have if others name them: addresses of this machine and its links. See
//! [`Guard`].

pub mod networks;

use crate::lock::lock;
use evenkeel_config::entry::is_no_machine;
use evenkeel_config::plan::{Cidr, takes};
use evenkeel_config::{Plan, is_own};
use networks::local;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time for which the lookup of an own address counts: lists of thousands of endpoints change often.
const OWN: Duration = Duration::from_secs(1);

/// Trust in the author of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A name in the configuration file, which may resolve to this machine.
    File,
    /// A registry of the operator: its endpoints may be on this machine, and none is the admin.
    Registry,
    /// An object that other users than the operator may write, such as an object of a cluster.
    Tenant,
}

/// Addresses that are refused, by the sockets that a plan listens on.
#[derive(Debug, Default)]
pub struct Guard {
    /// Networks in which local addresses are allowed.
    allowed: Vec<Cidr>,
    admin: Option<SocketAddr>,
    listeners: Vec<SocketAddr>,
    /// Time of the first lookup, and the looked-up addresses. True for addresses of this machine.
    own: Mutex<Option<(Instant, HashMap<IpAddr, bool>)>>,
}

impl Guard {
    pub fn of(plan: &Plan) -> Guard {
        Guard {
            allowed: plan.discovery.local_networks.clone(),
            admin: plan.admin.as_ref().and_then(|admin| Some(admin.http.as_ref()?.bind)),
            listeners: plan.listeners.iter().flat_map(|listener| listener.bind.iter().copied()).collect(),
            own: Mutex::default(),
        }
    }

    /// Reason for which an address is refused; `None` if it may be used.
    pub fn refuses(&self, addr: SocketAddr, trust: Trust) -> Option<String> {
        let ip = addr.ip().to_canonical();
        if is_no_machine(ip) {
            return Some(format!("{ip} is not the address of one machine"));
        }
        if trust != Trust::File && self.admin.is_some_and(|admin| self.is_at(addr, admin)) {
            return Some(format!("{addr} is the admin address of this evenkeel"));
        }
        if trust != Trust::Tenant || self.allowed.iter().any(|network| network.contains(ip)) {
            return None;
        }
        if let Some(what) = local(ip) {
            return Some(format!("{ip} is {what}; set `local_networks` of [discovery] to allow it"));
        }
        let is_ours = self.listeners.iter().any(|bound| self.is_at(addr, *bound));
        is_ours.then(|| format!("this evenkeel listens on {addr} itself"))
    }

    /// True if a connection to `addr` reaches the socket at `bound`.
    fn is_at(&self, addr: SocketAddr, bound: SocketAddr) -> bool {
        let ip = addr.ip().to_canonical();
        addr.port() == bound.port()
            && takes(bound.ip(), ip)
            && (!bound.ip().is_unspecified() || ip.is_loopback() || self.is_own(ip))
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        let mut own = lock(&self.own);
        let now = Instant::now();
        let (_, known) = match &mut *own {
            Some(known) if now.duration_since(known.0) < OWN => known,
            stale => stale.insert((now, HashMap::new())),
        };
        *known.entry(ip).or_insert_with(|| is_own(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(text: &str) -> Guard {
        let text = format!(
            "{text}\n[listener.web]\nbind = ['0.0.0.0:8080']\npool = 'web'\n[pool.web]\nendpoints = ['10.0.0.1:1']"
        );
        let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
        Guard::of(
            &outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false))),
        )
    }

    #[test]
    fn tenants_reach_neither_this_machine_nor_its_links() {
        let guard = guard("[admin]\nhttp = { bind = '127.0.0.1:9900' }");
        // File, registry, tenant.
        for (addr, refused) in [
            ("10.0.0.1:80", [false, false, false]),
            ("[fd00::1]:80", [false, false, false]),
            ("127.0.0.1:80", [false, false, true]),
            ("127.9.9.9:80", [false, false, true]),
            ("[::1]:80", [false, false, true]),
            ("[::ffff:127.0.0.1]:80", [false, false, true]),
            ("[64:ff9b::7f00:1]:80", [false, false, true]),
            ("169.254.169.254:80", [false, false, true]),
            ("[::ffff:169.254.169.254]:80", [false, false, true]),
            ("[64:ff9b::a9fe:a9fe]:80", [false, false, true]),
            ("[2002:a9fe:a9fe::1]:80", [false, false, true]),
            ("[fe80::1]:80", [false, false, true]),
            ("[fd00:ec2::254]:80", [false, false, true]),
            ("0.1.2.3:80", [false, false, true]),
            ("240.0.0.1:80", [false, false, true]),
            ("127.0.0.1:9900", [false, true, true]),
            ("[::ffff:127.0.0.1]:9900", [false, true, true]),
            ("10.0.0.1:9900", [false, false, false]),
            ("10.0.0.1:8080", [false, false, false]),
            ("0.0.0.0:80", [true, true, true]),
            ("[::]:80", [true, true, true]),
            ("224.0.0.1:80", [true, true, true]),
            ("[ff02::1]:80", [true, true, true]),
            ("255.255.255.255:80", [true, true, true]),
        ] {
            let addr: SocketAddr = addr.parse().expect("an address");
            let found = [Trust::File, Trust::Registry, Trust::Tenant].map(|trust| guard.refuses(addr, trust).is_some());
            assert_eq!(found, refused, "{addr}: {:?}", guard.refuses(addr, Trust::Tenant));
        }
    }

    #[test]
    fn networks_that_are_allowed_lead_anywhere_but_to_the_admin() {
        let guard = guard("[discovery]\nlocal_networks = ['127.0.0.0/8']\n[admin]\nhttp = { bind = '0.0.0.0:9900' }");
        let refuses = |addr: &str| guard.refuses(addr.parse().expect("an address"), Trust::Tenant);
        assert_eq!(refuses("127.0.0.1:80"), None);
        assert_eq!(refuses("127.0.0.1:9900").as_deref(), Some("127.0.0.1:9900 is the admin address of this evenkeel"));
        assert!(refuses("[::1]:80").is_some_and(|why| why.contains("local_networks")));
    }

    #[test]
    fn listeners_are_no_endpoints_of_tenants_at_any_address_of_this_machine() {
        let guard = guard("");
        let Some(own) = std::net::UdpSocket::bind("0.0.0.0:0").ok().and_then(|socket| {
            // Nothing is sent (TEST-NET-2, RFC 5737).
            socket.connect("198.51.100.1:9").ok()?;
            socket.local_addr().ok().map(|addr| addr.ip()).filter(|ip| local(*ip).is_none())
        }) else {
            return;
        };
        let refuses = |port, trust| guard.refuses(SocketAddr::new(own, port), trust);
        assert_eq!(refuses(8080, Trust::Tenant), Some(format!("this evenkeel listens on {own}:8080 itself")));
        assert_eq!([refuses(8080, Trust::Registry), refuses(8081, Trust::Tenant)], [None, None], "a pod on this node");
    }
}
