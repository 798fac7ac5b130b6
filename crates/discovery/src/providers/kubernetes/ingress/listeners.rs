//! Listeners for Ingresses, without and with TLS: separate listeners, or listeners of Gateways at the same port. See
//! [`Listeners`].

use super::certificates::{Claims, Offer, assign, wildcard};
use super::site::Site;
use crate::providers::kubernetes::services::certificates::{Pair, Shown, pair};
use crate::providers::kubernetes::services::grants::From;
use crate::providers::kubernetes::services::names;
use crate::providers::kubernetes::statuses::events::REFUSED;
use crate::providers::kubernetes::world::objects::{Key, Reference};
use crate::providers::kubernetes::world::store::World;
use crate::providers::parts::{Part, Piece, Refusal};
use evenkeel_config::plan::{Certificate, HostPattern, KubernetesProvider, Listener, ListenerTls, Mode, Paths};
use evenkeel_tls::inspect::names_pem;
use evenkeel_tls::pair::self_signed_pem;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// Reason of events about hosts without a certificate.
const UNCOVERED: &str = "CertificateUnavailable";

pub const GROUP: &str = "networking.k8s.io";

/// Names of the listeners that serve Ingresses; `None` if there is none.
#[derive(Debug, Default)]
pub struct Listeners {
    pub http: Option<Arc<str>>,
    pub https: Option<Arc<str>>,
    /// Hosts with TLS, each with the namespace of the Ingress that asks for TLS; `None` stands for rules without a
    /// host.
    hosts: BTreeSet<(String, Option<String>)>,
    /// Ports that are listened at.
    pub ports: Vec<u16>,
}

impl Listeners {
    /// Adds the listeners that these Ingresses need.
    pub fn add(
        sites: &mut [Site<'_>],
        world: &World,
        provider: &KubernetesProvider,
        refused: &[Refusal],
        part: &mut Part,
    ) -> Listeners {
        let mut listeners = Listeners::default();
        let Some(ip) = provider.addresses.first().filter(|_| !sites.is_empty()) else { return listeners };
        let certificates = listeners.certificates(sites, world, provider);
        let http = SocketAddr::new(*ip, provider.http_port);
        listeners.http = add_one(http, None, refused, sites, part);
        listeners.ports.push(provider.http_port);
        if !certificates.is_empty() {
            let https = SocketAddr::new(*ip, provider.https_port);
            listeners.https = add_one(https, Some(certificates), refused, sites, part);
            listeners.ports.push(provider.https_port);
        }
        listeners
    }

    /// True if requests for a host can be sent over TLS by an Ingress of this namespace.
    pub fn has_tls(&self, namespace: &str, host: Option<&str>) -> bool {
        let has = |host: Option<String>| self.hosts.contains(&(namespace.to_owned(), host));
        self.https.is_some() && (has(host.map(str::to_owned)) || host.and_then(wildcard).is_some_and(|w| has(Some(w))))
    }

    /// Certificates of all Ingresses, after the certificate for unknown names. Empty if no Ingress has TLS.
    fn certificates(
        &mut self,
        sites: &mut [Site<'_>],
        world: &World,
        provider: &KubernetesProvider,
    ) -> Vec<Certificate> {
        let mut offers: Vec<Offer> = Vec::new();
        let mut known: BTreeSet<(String, Pair)> = BTreeSet::new();
        for site in sites.iter_mut() {
            let namespace = site.key.namespace.clone();
            for tls in &site.object.spec.tls {
                let hosts = match tls.hosts.is_empty() {
                    true => site.hosts(),
                    false => tls.hosts.iter().map(|host| Some(host.to_ascii_lowercase())).collect(),
                };
                self.hosts.extend(hosts.into_iter().map(|host| (namespace.clone(), host)));
                let Some(name) = tls.secret_name.as_ref().filter(|name| !name.is_empty()) else { continue };
                match secret(world, &namespace, name) {
                    Ok(pair) => {
                        if known.insert((namespace.clone(), pair.clone())) {
                            offers.push(Offer::new(&namespace, pair));
                        }
                    }
                    Err(why) => {
                        let message = format!("TLS: {why}; the default certificate is shown");
                        site.annotations.event(UNCOVERED, message);
                    }
                }
            }
        }
        let mut first = None;
        if let Some((namespace, name)) = provider.default_certificate.as_ref().and_then(|text| text.split_once('/')) {
            match secret(world, namespace, name) {
                Ok(pair) => first = Some(pair),
                Err(why) => tracing::warn!(why, "kubernetes: `default_certificate` cannot be used"),
            }
        }
        let claims = Claims::of(sites);
        let usual: HashSet<String> = first.iter().flat_map(|pair| names_pem(pair.cert.as_bytes())).collect();
        let mut names: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
        for offer in &offers {
            names.entry(&offer.namespace).or_default().extend(offer.names.iter().map(String::as_str));
        }
        for site in sites.iter_mut() {
            let own = names.get(&*site.key.namespace);
            let has = |name: &str| usual.contains(name) || own.is_some_and(|own| own.contains(name));
            name_uncovered(site, world, has, &claims);
        }
        if self.hosts.is_empty() && provider.default_certificate.is_none() {
            return Vec::new();
        }
        let mut shown = Shown::default();
        if let Some(first) = first.or_else(|| made().clone()) {
            shown.add(&first, None);
        }
        let mut assigned = assign(&offers, &claims);
        // If several certificates are for the same host, the first is preferred.
        assigned.sort_by_key(|(_, index)| *index);
        for (host, index) in assigned {
            if let Some(host) = HostPattern::parse(&host) {
                shown.add(&offers[index].pair, Some(host));
            }
        }
        shown.into_list()
    }
}

/// Adds an event for the first host of each Secret of an Ingress that has no rule, or no certificate. `has`: true for names of
/// certificates of its namespace.
fn name_uncovered(site: &mut Site<'_>, world: &World, has: impl Fn(&str) -> bool, claims: &Claims) {
    let namespace = site.key.namespace.clone();
    for tls in &site.object.spec.tls {
        let name = tls.secret_name.as_deref().unwrap_or_default();
        // A Secret that cannot be read has a separate event.
        if !world.secrets.contains_key(&Key::new(&namespace, name)) {
            continue;
        }
        let hosts = match tls.hosts.is_empty() {
            true => site.hosts().into_iter().flatten().collect(),
            false => tls.hosts.iter().map(|host| host.to_ascii_lowercase()).collect::<Vec<_>>(),
        };
        if let Some(host) = hosts.iter().find(|host| !claims.has(&namespace, host)) {
            let message =
                format!("TLS: no rule of namespace {namespace} is for {host}, and its certificate is not shown");
            site.annotations.event(UNCOVERED, message);
            continue;
        }
        let is_uncovered = |host: &&String| !has(host) && !wildcard(host).is_some_and(|name| has(&name));
        if let Some(host) = hosts.iter().find(is_uncovered) {
            let message = format!(
                "TLS: the certificate of Secret {namespace}/{name} is not for {host}; the default certificate is shown"
            );
            site.annotations.event(UNCOVERED, message);
        }
    }
}

fn secret(world: &World, namespace: &str, name: &str) -> Result<Pair, String> {
    let from = From { group: GROUP, kind: "Ingress", namespace };
    let to = Reference { name: name.to_owned(), ..Reference::default() };
    pair(world, from, &to).map_err(|why| why.message())
}

/// Certificate for names that no other certificate covers. It stays the same until the process ends.
fn made() -> &'static Option<Pair> {
    static MADE: OnceLock<Option<Pair>> = OnceLock::new();
    MADE.get_or_init(|| {
        let (cert, key) = self_signed_pem("ingress.local")?;
        Some(Pair { cert: cert.into(), key: key.into() })
    })
}

/// Adds a listener, or shares a Gateway's listener. Returns its name; `None` if this machine does not serve it.
fn add_one(
    addr: SocketAddr,
    certificates: Option<Vec<Certificate>>,
    refused: &[Refusal],
    sites: &mut [Site<'_>],
    part: &mut Part,
) -> Option<Arc<str>> {
    let is_tls = certificates.is_some();
    let fits = |listener: &Listener| {
        let is_open = listener.tls.as_ref().is_none_or(|tls| tls.client_auth.is_none());
        listener.mode == Mode::Http && listener.tls.is_some() == is_tls && is_open
    };
    let there = part.listeners.iter_mut().find(|piece| piece.value.bind.contains(&addr) && fits(&piece.value));
    let (of, name) = match there {
        Some(piece) => {
            if let (Some(more), Some(tls)) = (certificates, &mut Arc::make_mut(&mut piece.value).tls) {
                // The first certificate serves unknown names. It stays the Gateway's certificate.
                let new: Vec<_> = more.into_iter().filter(|one| !tls.certificates.contains(one)).collect();
                tls.certificates.extend(new);
            }
            (piece.of.clone(), piece.value.name.clone())
        }
        None => {
            let of: Arc<str> = format!("Ingresses at port {}", addr.port()).into();
            let name = names::listener(addr, false);
            let tls = certificates.map(|certificates| ListenerTls { certificates, ..ListenerTls::default() });
            // As ingress-nginx does.
            let listener = Listener { tls, paths: Paths::Normalise, ..Listener::new(&name, addr) };
            part.listeners.push(Piece::new(&of, Arc::new(listener)));
            (of, name)
        }
    };
    let Some(refusal) = refused.iter().find(|refusal| refusal.of == of) else { return Some(name) };
    let concerned = sites.iter_mut().filter(|site| !is_tls || !site.object.spec.tls.is_empty());
    let effect = if is_tls { ", and requests are not redirected to it" } else { "" };
    for site in concerned {
        site.annotations.event(REFUSED, format!("port {} is not served{effect}: {}", addr.port(), refusal.why));
    }
    None
}
