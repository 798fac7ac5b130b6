//! Certificates of Secrets, for the hosts that rules of their namespace have. See [`assign`].

use super::site::Site;
use crate::providers::kubernetes::services::certificates::Pair;
use evenkeel_tls::inspect::names_pem;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts of the rules of Ingresses.
#[derive(Debug, Default)]
pub struct Claims {
    /// Namespaces that have rules for a host.
    hosts: BTreeMap<String, BTreeSet<String>>,
    /// Hosts a single label below a domain, by namespace and domain.
    below: BTreeMap<(String, String), Vec<String>>,
    /// Namespaces with rules for every host.
    every: BTreeSet<String>,
}

/// Rank of the rule by which a certificate has a name, the most specific rule first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Host,
    Wildcard,
    Every,
}

/// A certificate that Ingresses of a namespace name.
#[derive(Debug)]
pub struct Offer {
    pub namespace: String,
    pub pair: Pair,
    /// Host names in the certificate.
    pub names: Vec<String>,
}

impl Offer {
    pub fn new(namespace: &str, pair: Pair) -> Offer {
        let names = names_pem(pair.cert.as_bytes());
        Offer { namespace: namespace.to_owned(), pair, names }
    }
}

impl Claims {
    pub fn of(sites: &[Site<'_>]) -> Claims {
        let mut claims = Claims::default();
        for site in sites {
            let namespace = site.key.namespace.clone();
            for host in site.hosts() {
                let Some(host) = host else {
                    claims.every.insert(namespace.clone());
                    continue;
                };
                if let Some((_, domain)) = host.split_once('.').filter(|(label, _)| *label != "*") {
                    claims.below.entry((namespace.clone(), domain.to_owned())).or_default().push(host.clone());
                }
                claims.hosts.entry(host).or_default().insert(namespace.clone());
            }
        }
        claims
    }

    /// True if a rule of the namespace is for a host, or, if `host` is a wildcard, for a host below it.
    pub fn has(&self, namespace: &str, host: &str) -> bool {
        let domain = host.strip_prefix("*.").map(|domain| (namespace.to_owned(), domain.to_owned()));
        self.by(namespace, host).is_some() || domain.is_some_and(|domain| self.below.contains_key(&domain))
    }

    fn by(&self, namespace: &str, host: &str) -> Option<By> {
        let has = |host: &str| self.hosts.get(host).is_some_and(|all| all.contains(namespace));
        match () {
            () if has(host) => Some(By::Host),
            () if wildcard(host).is_some_and(|wildcard| has(&wildcard)) => Some(By::Wildcard),
            () if self.every.contains(namespace) => Some(By::Every),
            () => None,
        }
    }

    /// True if a rule of another namespace is for a host.
    fn is_of_others(&self, namespace: &str, host: &str) -> bool {
        let of_others = |host: &str| self.hosts.get(host).is_some_and(|all| all.iter().any(|one| one != namespace));
        of_others(host) || wildcard(host).is_some_and(|wildcard| of_others(&wildcard))
    }

    /// Hosts and wildcards that a certificate is for, with the rules by which it is.
    fn targets(&self, offer: &Offer) -> Vec<(String, By)> {
        let mut all = Vec::new();
        for name in &offer.names {
            if let Some(by) = self.by(&offer.namespace, name)
                && !(by == By::Every && self.is_of_others(&offer.namespace, name))
            {
                all.push((name.clone(), by));
            }
            if let Some(domain) = name.strip_prefix("*.") {
                let below = self.below.get(&(offer.namespace.clone(), domain.to_owned()));
                all.extend(below.into_iter().flatten().map(|host| (host.clone(), By::Host)));
            }
        }
        all
    }
}

/// Assigns hosts and wildcards to certificates, in the order of `offers`, oldest Ingress first. Each host belongs to a
/// single namespace: the namespace of the most specific rule, then of the oldest. Returns pairs of a host and the index
/// of a certificate.
pub fn assign(offers: &[Offer], claims: &Claims) -> Vec<(String, usize)> {
    let targets: Vec<Vec<(String, By)>> = offers.iter().map(|offer| claims.targets(offer)).collect();
    let mut owners: BTreeMap<&str, (By, usize)> = BTreeMap::new();
    for (index, all) in targets.iter().enumerate() {
        for (host, by) in all {
            let new = (*by, index);
            owners.entry(host).and_modify(|owner| *owner = new.min(*owner)).or_insert(new);
        }
    }
    let owns = |host: &str, index: usize| {
        owners.get(host).is_none_or(|(_, owner)| offers[*owner].namespace == offers[index].namespace)
    };
    let mut assigned = Vec::new();
    for (index, all) in targets.iter().enumerate() {
        for (host, by) in all {
            // A name below a wildcard belongs to the owner of the wildcard.
            let of_wildcard = *by != By::Wildcard || wildcard(host).is_none_or(|wildcard| owns(&wildcard, index));
            if of_wildcard && owns(host, index) {
                assigned.push((host.clone(), index));
            }
        }
    }
    assigned
}

/// The wildcard that includes a host; `None` for a wildcard.
pub fn wildcard(host: &str) -> Option<String> {
    host.split_once('.').filter(|(label, _)| *label != "*").map(|(_, domain)| format!("*.{domain}"))
}
