//! Addresses and ports that listeners of Gateways share. Each address and port is a listener of the plan. See
//! [`Ports`].

use super::gateways::{Gateways, Protocol};
use super::hosts::{covers, specificity};
use crate::providers::kubernetes::services::certificates::Shown;
use crate::providers::kubernetes::services::names;
use crate::providers::parts::Piece;
use evenkeel_config::plan::{
    Action, ClientAuth, ClientAuthMode, HostPattern, Listener, ListenerTls, Match, Mode, Paths, Pem, Pool, Respond,
    Route,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Ports that are listened at.
#[derive(Debug, Default)]
pub struct Ports(BTreeMap<(IpAddr, u16, bool), Port>);

/// An address and port, with the listeners of Gateways that are served there.
#[derive(Debug)]
pub struct Port {
    /// Name of the listener of the plan.
    pub name: Arc<str>,
    pub protocol: Protocol,
    pub addr: SocketAddr,
    /// Listeners by index, in the order in which they are preferred.
    listeners: Vec<usize>,
}

impl Ports {
    /// Ports of all listeners that can be served.
    pub fn of(gateways: &Gateways<'_>) -> Ports {
        let mut ports = BTreeMap::new();
        for (index, listener) in gateways.listeners.iter().enumerate().filter(|(_, listener)| listener.is_usable()) {
            let Some(protocol) = listener.protocol else { continue };
            for ip in &gateways.all[listener.gateway].addresses {
                let port = listener.spec.port;
                let key = (*ip, port, protocol == Protocol::Udp);
                let addr = SocketAddr::new(*ip, port);
                let name = || names::listener(addr, protocol == Protocol::Udp);
                let new = || Port { name: name(), protocol, addr, listeners: Vec::new() };
                let there: &mut Port = ports.entry(key).or_insert_with(new);
                if there.protocol == protocol {
                    there.listeners.push(index);
                }
            }
        }
        Ports(ports)
    }

    pub fn all(&self) -> impl Iterator<Item = &Port> {
        self.0.values()
    }
}

impl Port {
    /// Listeners of Gateways that are served here, by index.
    pub fn listeners(&self) -> &[usize] {
        &self.listeners
    }

    /// Hosts that a Route has at this port, through the listeners that it is attached to. If two listeners have a host
    /// in common, only the more specific listener gets its requests. `None` = every host.
    pub fn hosts(&self, attached: &[(usize, Vec<Option<String>>)], gateways: &Gateways<'_>) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for (listener, hosts) in attached.iter().filter(|(listener, _)| self.listeners.contains(listener)) {
            for host in hosts {
                if !all.contains(host) && self.owns(*listener, host.as_deref(), gateways) {
                    all.push(host.clone());
                }
            }
        }
        all
    }

    /// True if no more specific listener takes all requests for a host. A listener of another Gateway takes no requests
    /// from older listeners, since its namespace may differ.
    fn owns(&self, listener: usize, host: Option<&str>, gateways: &Gateways<'_>) -> bool {
        let Some(host) = host else { return true };
        let (own, gateway) = (specificity(gateways.listeners[listener].host()), gateways.listeners[listener].gateway);
        // Listeners are sorted by age.
        let may_take = |index: &&usize| **index < listener || gateways.listeners[**index].gateway == gateway;
        let others = self.listeners.iter().filter(may_take).filter_map(|index| gateways.listeners[*index].host());
        !others.into_iter().any(|other| specificity(Some(other)) < own && covers(&other.to_ascii_lowercase(), host))
    }

    /// Listener of the plan; `None` if it would have nothing to do.
    pub fn listener(&self, gateways: &Gateways<'_>, has_routes: bool) -> Option<Piece<Arc<Listener>>> {
        let mode = match self.protocol {
            Protocol::Http | Protocol::Https => Mode::Http,
            Protocol::Udp => Mode::Udp,
            Protocol::TlsPassthrough | Protocol::TlsTerminate | Protocol::Tcp => Mode::Tcp,
        };
        if mode != Mode::Http && !has_routes {
            return None;
        }
        let here = || self.listeners.iter().map(|index| &gateways.listeners[*index]);
        let tls = matches!(self.protocol, Protocol::Https | Protocol::TlsTerminate).then(|| {
            let mut certificates = Shown::default();
            for listener in here() {
                // Hosts of less specific listeners do not count here.
                let hosts = match listener.host() {
                    Some(host) => HostPattern::parse(host).map(Some),
                    None => Some(None),
                };
                for pair in &listener.certificates {
                    hosts.iter().for_each(|host| certificates.add(pair, host.clone()));
                }
            }
            let certificates = certificates.into_list();
            let client_auth =
                here().find_map(|listener| listener.clients.as_ref()).map(|(authorities, insecure)| ClientAuth {
                    mode: if *insecure { ClientAuthMode::Unverified } else { ClientAuthMode::Required },
                    ca: Pem::of(authorities),
                    ..ClientAuth::default()
                });
            let host_groups = match self.protocol {
                Protocol::Https => self.distinct_hosts(gateways).into_iter().filter_map(HostPattern::parse).collect(),
                _ => Vec::new(),
            };
            ListenerTls { certificates, client_auth, host_groups, ..ListenerTls::default() }
        });
        // The Gateway API leaves it open. Envoy's and NGINX's Gateways normalise paths.
        let paths = if mode == Mode::Http { Paths::Normalise } else { Paths::default() };
        let h2c = self.protocol == Protocol::Http;
        let listener = Listener { mode, tls, h2c, paths, ..Listener::new(&self.name, self.addr) };
        Some(Piece::new(&self.of(gateways), Arc::new(listener)))
    }

    /// Hosts of the listeners, without those that serve every host.
    fn distinct_hosts<'g>(&self, gateways: &'g Gateways<'_>) -> Vec<&'g str> {
        let mut hosts: Vec<&str> = Vec::new();
        for host in self.listeners.iter().filter_map(|index| gateways.listeners[*index].host()) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    /// Gateways and ListenerSets that it is made from, with the port: each of theirs may be refused alone.
    pub fn of(&self, gateways: &Gateways<'_>) -> Arc<str> {
        let (ip, port) = (self.addr.ip(), self.addr.port());
        let transport = if self.protocol == Protocol::Udp { "UDP " } else { "" };
        let at = match ip.is_unspecified() {
            true => format!("{transport}port {port}"),
            false => format!("{transport}{}", self.addr),
        };
        format!("{} at {at}", self.owners(gateways)).into()
    }

    fn owners(&self, gateways: &Gateways<'_>) -> String {
        let mut owners: Vec<String> = Vec::new();
        for index in &self.listeners {
            let (kind, key) = &gateways.listeners[*index].owner;
            let owner = format!("{} {key}", kind.name());
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        owners.join(", ")
    }

    /// Routes that respond with 404 for hosts of a listener that none of its Routes matches. Routes of less specific
    /// listeners must not get these requests.
    pub fn ends(&self, gateways: &Gateways<'_>) -> Vec<Piece<Route>> {
        let hosts = self.distinct_hosts(gateways);
        let has_others =
            self.listeners.iter().any(|index| gateways.listeners[*index].host().is_none()) || hosts.len() > 1;
        if !self.protocol.is_http() || !has_others {
            return Vec::new();
        }
        // The owners without the address: even if this route is refused, the listener is served.
        let of: Arc<str> = self.owners(gateways).into();
        let route = |host: &str| {
            let matching = Match { hosts: vec![pattern(host)?], ..Match::default() };
            let action = Action::Respond(Respond { status: 404, ..Respond::default() });
            let name = names::label(&format!("{}/{host}", self.name)).into();
            let (listeners, order) = (vec![self.name.clone()], u32::MAX);
            Some(Piece::new(&of, Route { name, listeners, matching, action, order, ..Route::to(&Pool::default()) }))
        };
        hosts.into_iter().filter_map(route).collect()
    }
}

/// Host of a Route as a pattern; `None` if it is not a host.
pub fn pattern(host: &str) -> Option<HostPattern> {
    let host = host.to_ascii_lowercase();
    match host.strip_prefix('*') {
        Some(suffix) if suffix.starts_with('.') => Some(HostPattern::Wildcard(suffix.to_owned())),
        Some(_) => None,
        None => Some(HostPattern::Exact(host)),
    }
}
