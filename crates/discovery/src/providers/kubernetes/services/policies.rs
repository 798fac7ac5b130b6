//! BackendTLSPolicies: how endpoints of a Service prove who they are. See [`Policies`].

use super::Fault;
use super::certificates::{Pair, Unusable, authorities};
use super::grants::From;
use crate::providers::kubernetes::statuses::status::{Condition, Parent, Says, Statuses, Wanted};
use crate::providers::kubernetes::world::objects::{GATEWAY_GROUP, Key, Object, PolicySpec, Reference, SubjectAltName};
use crate::providers::kubernetes::world::store::{Kind, World};
use evenkeel_config::plan::{Pem, PoolTls};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All policies, with the Gateways whose requests they are about.
#[derive(Debug)]
pub struct Policies<'w> {
    all: BTreeMap<Key, Policy<'w>>,
    /// Policies of Services, and of their ports by name.
    of_services: BTreeMap<(Key, Option<String>), Key>,
}

#[derive(Debug)]
struct Policy<'w> {
    object: &'w Object<PolicySpec>,
    trust: Result<Trust, String>,
    accepted: Result<(), Fault>,
    resolved: Result<(), Fault>,
    /// Services and ports that it is about.
    targets: Vec<Key>,
    gateways: BTreeSet<Key>,
}

/// Names and authorities that certificates of endpoints must have.
#[derive(Clone, Debug)]
pub struct Trust {
    hostname: Arc<str>,
    /// Names to accept instead of the host name: the certificate must have at least one. Empty = the host name.
    names: Vec<Arc<str>>,
    /// Authorities as PEM; `None` = the authorities of the system.
    authorities: Option<Arc<str>>,
}

impl<'w> Policies<'w> {
    pub fn new(world: &'w World) -> Policies<'w> {
        let mut objects: Vec<&Object<PolicySpec>> = world.policies.values().map(|policy| &**policy).collect();
        objects.sort_by_key(|policy| policy.metadata.age());
        let mut policies = Policies { all: BTreeMap::new(), of_services: BTreeMap::new() };
        for object in objects {
            let key = object.metadata.key();
            let mut policy = Policy::of(object, world);
            for to in &object.spec.target_refs {
                let is_service =
                    to.kind.as_deref() == Some("Service") && to.group.as_deref().unwrap_or_default().is_empty();
                if !is_service {
                    continue;
                }
                let service = Key::new(&key.namespace, &to.name);
                policy.targets.push(service.clone());
                let target = (service, to.section_name.clone());
                match policies.of_services.get(&target) {
                    Some(other) => {
                        let message =
                            format!("BackendTLSPolicy {other} is older, and about the same Service {}", target.0);
                        policy.accepted = Err(("Conflicted", message));
                    }
                    None => drop(policies.of_services.insert(target, key.clone())),
                }
            }
            policies.all.insert(key, policy);
        }
        policies
    }

    /// Proof that endpoints of a port must give; `None` if they speak without TLS. Notes these Gateways as senders of
    /// requests.
    ///
    /// # Errors
    /// The policy cannot be kept.
    pub fn of(&mut self, service: &Key, port: &str, gateways: &[Key]) -> Option<Result<Trust, String>> {
        for policy in self.all.values_mut().filter(|policy| policy.targets.contains(service)) {
            policy.gateways.extend(gateways.iter().cloned());
        }
        let of_port = self.of_services.get(&(service.clone(), Some(port.to_owned())));
        let key = of_port.or_else(|| self.of_services.get(&(service.clone(), None)))?;
        Some(self.all[key].trust.clone())
    }

    pub fn statuses(&self, statuses: &mut Statuses) {
        for (key, policy) in &self.all {
            let conditions =
                [("Accepted", "Accepted", &policy.accepted), ("ResolvedRefs", "ResolvedRefs", &policy.resolved)];
            let conditions = conditions.into_iter().map(|(of, good, fault)| match fault {
                Ok(()) => Condition::yes(of, good),
                Err((reason, message)) => Condition::no(of, reason, message.clone()),
            });
            let conditions: Vec<Condition> = conditions.collect();
            let ancestor = |gateway: &Key| {
                let to = Reference {
                    group: Some(GATEWAY_GROUP.into()),
                    kind: Some("Gateway".into()),
                    namespace: Some(gateway.namespace.clone()),
                    name: gateway.name.clone(),
                    ..Reference::default()
                };
                Parent { to, conditions: conditions.clone() }
            };
            let says = Says::Ancestors(policy.gateways.iter().map(ancestor).collect());
            let generation = policy.object.metadata.generation;
            statuses.insert((Kind::BackendTlsPolicy, key.clone()), Wanted { generation, says });
        }
    }
}

impl<'w> Policy<'w> {
    fn of(object: &'w Object<PolicySpec>, world: &World) -> Policy<'w> {
        let validation = &object.spec.validation;
        let from = From { group: GATEWAY_GROUP, kind: "BackendTLSPolicy", namespace: &object.metadata.namespace };
        let (mut accepted, mut resolved) = (Ok(()), Ok(()));
        let authorities = match validation.well_known.as_deref() {
            Some("System") => Ok(None),
            Some(other) => {
                accepted = Err(("Invalid", format!("wellKnownCACertificates {other} is not known")));
                Err("its authorities are not known".to_owned())
            }
            None => {
                let (text, wrong) = authorities(world, from, &validation.ca_certificate_refs);
                if let Some(why) = wrong.into_iter().next() {
                    let reason = match why {
                        Unusable::Kind(_) => "InvalidKind",
                        Unusable::NotPermitted(_) => "RefNotPermitted",
                        Unusable::Content(_) => "InvalidCACertificateRef",
                    };
                    resolved = Err((reason, why.message()));
                }
                match text {
                    Some(text) => Ok(Some(text)),
                    None => {
                        let message = "no authority can be used".to_owned();
                        accepted = Err(("NoValidCACertificate", message.clone()));
                        Err(message)
                    }
                }
            }
        };
        let name = |name: &SubjectAltName| name.hostname.as_deref().or(name.uri.as_deref()).map(Arc::from);
        let names = validation.subject_alt_names.iter().filter_map(name).collect();
        let hostname = validation.hostname.as_str().into();
        let trust = authorities.map(|authorities| Trust { hostname, names, authorities });
        let trust = trust.map_err(|why| format!("BackendTLSPolicy {}: {why}", object.metadata.key()));
        Policy { object, trust, accepted, resolved, targets: Vec::new(), gateways: BTreeSet::new() }
    }
}

impl Trust {
    /// Settings of a pool. `pair`: certificate that endpoints get to see.
    pub fn tls(&self, pair: Option<&Pair>) -> PoolTls {
        PoolTls {
            ca: self.authorities.as_deref().map(Pem::of),
            server_name: Some(self.hostname.clone()),
            names: self.names.clone(),
            cert: pair.map(|pair| Pem::of(&pair.cert)),
            key: pair.map(|pair| Pem::of(&pair.key)),
            ..PoolTls::default()
        }
    }
}
