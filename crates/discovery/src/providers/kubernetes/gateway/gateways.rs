//! Gateways with their addresses and listeners, including ListenerSets: which of them are served, and their statuses.

use super::addresses::Addresses;
use crate::providers::kubernetes::services::Fault;
use crate::providers::kubernetes::services::certificates::{Pair, Unusable, authorities, pair};
use crate::providers::kubernetes::services::grants::From;
use crate::providers::kubernetes::statuses::status::{Condition, ListenerStatus, Says, Statuses, Wanted};
use crate::providers::kubernetes::translation::{Shown, Taken};
use crate::providers::kubernetes::world::objects::{
    AllowedRoutes, GATEWAY_GROUP, GatewayListener, GatewaySpec, Key, ListenerSetSpec, Object, Selector, Validation,
};
use crate::providers::kubernetes::world::store::{Kind, World};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

const NOT_ACCEPTED: &str = "the Gateway is not accepted";

/// Message of a Gateway that is served and has no address to show.
const UNPUBLISHED: &str = "the Service that `publish_service` names has no address yet; without a load balancer, set \
    `publish` of [provider.kubernetes]";

/// All Gateways of this controller.
#[derive(Debug, Default)]
pub struct Gateways<'w> {
    pub all: Vec<Gateway<'w>>,
    /// Listeners of all Gateways. If two listeners exclude each other, the first is served.
    pub listeners: Vec<Listener<'w>>,
    sets: Vec<ListenerSet<'w>>,
}

#[derive(Debug)]
pub struct Gateway<'w> {
    pub key: Key,
    pub(super) object: &'w Object<GatewaySpec>,
    /// Addresses at which its listeners are served; none if it cannot be.
    pub addresses: Vec<IpAddr>,
    accepted: Result<(), Fault>,
    /// Fault of the addresses that were asked for. Others of them are served.
    address_fault: Option<Fault>,
    /// Certificate that endpoints get to see.
    pub client_certificate: Option<Pair>,
    client_certificate_fault: Option<Fault>,
}

#[derive(Debug)]
struct ListenerSet<'w> {
    key: Key,
    object: &'w Object<ListenerSetSpec>,
    gateway: usize,
    accepted: Result<(), Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Https,
    /// TLS sessions that are routed by server name without being decrypted.
    TlsPassthrough,
    /// TLS sessions that are decrypted here.
    TlsTerminate,
    Tcp,
    Udp,
}

#[derive(Debug)]
pub struct Listener<'w> {
    /// Gateway or ListenerSet, and its name.
    pub owner: (Kind, Key),
    pub gateway: usize,
    pub spec: &'w GatewayListener,
    /// `None` if it is not known.
    pub protocol: Option<Protocol>,
    /// Kinds of Routes that it takes.
    pub kinds: Vec<Kind>,
    pub(super) accepted: Result<(), Fault>,
    resolved: Result<(), Fault>,
    pub(super) conflict: Option<Fault>,
    /// True if an object that it refers to cannot be used.
    is_broken: bool,
    pub certificates: Vec<Pair>,
    /// Authorities of clients, and whether clients without a valid certificate are served, too.
    pub clients: Option<(Arc<str>, bool)>,
    /// Number of Routes that it has accepted.
    pub attached: usize,
    /// Reason for which this machine does not serve it.
    pub refused: Option<String>,
}

impl Protocol {
    fn of(spec: &GatewayListener) -> Option<Protocol> {
        let passes = spec.tls.as_ref().is_some_and(|tls| tls.mode.as_deref() == Some("Passthrough"));
        match &*spec.protocol {
            "HTTP" => Some(Protocol::Http),
            "HTTPS" if !passes => Some(Protocol::Https),
            "TLS" if passes => Some(Protocol::TlsPassthrough),
            "TLS" => Some(Protocol::TlsTerminate),
            "TCP" => Some(Protocol::Tcp),
            "UDP" => Some(Protocol::Udp),
            _ => None,
        }
    }

    fn kinds(self) -> &'static [Kind] {
        match self {
            Protocol::Http | Protocol::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
            Protocol::TlsPassthrough | Protocol::TlsTerminate => &[Kind::TlsRoute],
            Protocol::Tcp => &[Kind::TcpRoute],
            Protocol::Udp => &[Kind::UdpRoute],
        }
    }

    fn has_certificates(self) -> bool {
        matches!(self, Protocol::Https | Protocol::TlsTerminate)
    }

    /// True if sessions carry a host name, by which several listeners can share a port.
    pub fn has_hosts(self) -> bool {
        !matches!(self, Protocol::Tcp | Protocol::Udp)
    }

    pub fn is_http(self) -> bool {
        matches!(self, Protocol::Http | Protocol::Https)
    }
}

impl<'w> Gateways<'w> {
    /// Finds the Gateways of these classes.
    pub fn find(world: &'w World, classes: &[&str], addresses: &mut Addresses, taken: &[Taken<'_>]) -> Gateways<'w> {
        let mut objects: Vec<&Object<GatewaySpec>> = world
            .gateways
            .values()
            .map(|gateway| &**gateway)
            .filter(|gateway| classes.contains(&&*gateway.spec.gateway_class_name))
            .collect();
        objects.sort_by_key(|gateway| gateway.metadata.age());
        let mut found = Gateways::default();
        addresses.keep(|key| objects.iter().any(|gateway| gateway.metadata.key() == *key));
        for object in objects {
            let gateway = Gateway::of(object, world, addresses);
            let index = found.all.len();
            let owner = (Kind::Gateway, gateway.key.clone());
            let listeners = object.spec.listeners.iter();
            found.listeners.extend(listeners.map(|spec| Listener::of(owner.clone(), index, spec, object, world)));
            found.all.push(gateway);
        }
        found.add_sets(world);
        let Gateways { all, listeners, .. } = &mut found;
        listeners.iter_mut().for_each(|listener| listener.refused = all[listener.gateway].unserved());
        found.divide_ports(world, taken);
        found
    }

    fn add_sets(&mut self, world: &'w World) {
        let mut sets: Vec<&Object<ListenerSetSpec>> = world.listener_sets.values().map(|set| &**set).collect();
        sets.sort_by_key(|set| set.metadata.age());
        for object in sets {
            let (parent, namespace) = (&object.spec.parent_ref, &object.metadata.namespace);
            let is_gateway = parent.kind.as_deref().unwrap_or("Gateway") == "Gateway"
                && parent.group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP;
            let key = parent.key(namespace);
            let Some(gateway) = self.all.iter().position(|gateway| is_gateway && gateway.key == key) else { continue };
            let of = self.all[gateway].object;
            let accepted = match admits_set(of, namespace, world) {
                true => Ok(()),
                false => Err(("NotAllowed", format!("Gateway {key} does not allow ListenerSets of this namespace"))),
            };
            let owner = (Kind::ListenerSet, object.metadata.key());
            if accepted.is_ok() {
                let listeners = object.spec.listeners.iter();
                self.listeners.extend(listeners.map(|spec| Listener::of(owner.clone(), gateway, spec, of, world)));
            }
            self.sets.push(ListenerSet { key: owner.1, object, gateway, accepted });
        }
    }

    /// Statuses of Gateways and ListenerSets.
    pub fn statuses(&self, shown: &Shown, statuses: &mut Statuses) {
        for (index, gateway) in self.all.iter().enumerate() {
            let owner = (Kind::Gateway, gateway.key.clone());
            let own: Vec<&Listener<'_>> = self.listeners.iter().filter(|listener| listener.owner == owner).collect();
            let usable =
                self.listeners.iter().filter(|listener| listener.gateway == index && listener.is_usable()).count();
            let is_bound = !gateway.addresses.is_empty();
            let is_valid = own.iter().all(|listener| listener.is_valid() && (listener.refused.is_none() || !is_bound));
            let addresses = gateway.shown(shown);
            let mut conditions = Vec::new();
            conditions.push(match &gateway.accepted {
                Err((reason, message)) => Condition::no("Accepted", reason, message.clone()),
                Ok(()) if !own.is_empty() && own.iter().all(|l| l.accepted.is_err() || l.conflict.is_some()) => {
                    Condition::no("Accepted", "ListenersNotValid", "no listener is valid")
                }
                Ok(()) if !is_valid => Condition::yes("Accepted", "ListenersNotValid"),
                Ok(()) => Condition::yes("Accepted", "Accepted"),
            });
            conditions.push(match (&gateway.accepted, &gateway.address_fault) {
                (Err(_), _) => Condition::no("Programmed", "Invalid", NOT_ACCEPTED),
                (_, Some((reason, message))) => Condition::no("Programmed", reason, message.clone()),
                _ if usable == 0 => {
                    let why = own.iter().find_map(|listener| listener.refused.as_deref());
                    Condition::no("Programmed", "Invalid", why.unwrap_or("no listener can be served"))
                }
                _ if addresses.is_empty() && shown.published.is_some() => {
                    Condition::no("Programmed", "AddressNotAssigned", UNPUBLISHED)
                }
                _ => Condition::yes("Programmed", "Programmed"),
            });
            conditions.push(match &gateway.client_certificate_fault {
                Some((reason, message)) => Condition::no("ResolvedRefs", reason, message.clone()),
                None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
            });
            let is_insecure =
                |listener: &&Listener<'_>| listener.clients.as_ref().is_some_and(|(_, insecure)| *insecure);
            let (of, reason) = ("InsecureFrontendValidationMode", "ConfigurationChanged");
            let said =
                gateway.object.status["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == of);
            if own.iter().any(is_insecure) {
                let message = "clients without a valid certificate are served".to_owned();
                conditions.push(Condition { of, holds: true, reason, message });
            } else if said {
                conditions.push(Condition::no(of, reason, ""));
            }
            let listeners = own.iter().map(|listener| listener.status()).collect();
            let sets = self.sets.iter().filter(|set| set.gateway == index && self.accepts(set)).count();
            let says = Says::Gateway { addresses, conditions, listeners, sets };
            statuses.insert(owner, Wanted { generation: gateway.object.metadata.generation, says });
        }
        for set in &self.sets {
            let owner = (Kind::ListenerSet, set.key.clone());
            let own = self.listeners.iter().filter(|listener| listener.owner == owner);
            let gateway = &self.all[set.gateway];
            let both = |reason, message: &str| {
                vec![Condition::no("Accepted", reason, message), Condition::no("Programmed", reason, message)]
            };
            let conditions = match &set.accepted {
                Err((reason, message)) => both(reason, message),
                Ok(()) if gateway.accepted.is_err() => both("ParentNotAccepted", NOT_ACCEPTED),
                Ok(()) if !self.accepts(set) => both("ListenersNotValid", "no listener is valid"),
                Ok(()) => {
                    let valid = own.clone().all(|listener| listener.is_usable());
                    let reason = if valid { "Accepted" } else { "ListenersNotValid" };
                    vec![Condition::yes("Accepted", reason), Condition::yes("Programmed", "Programmed")]
                }
            };
            let says = Says::ListenerSet { conditions, listeners: own.map(Listener::status).collect() };
            statuses.insert(owner, Wanted { generation: set.object.metadata.generation, says });
        }
    }

    /// True if a ListenerSet has a listener that can be served.
    fn accepts(&self, set: &ListenerSet<'_>) -> bool {
        let owner = (Kind::ListenerSet, set.key.clone());
        set.accepted.is_ok() && self.listeners.iter().any(|listener| listener.owner == owner && listener.is_usable())
    }
}

/// True if a Gateway allows ListenerSets of a namespace.
fn admits_set(gateway: &Object<GatewaySpec>, namespace: &str, world: &World) -> bool {
    let allowed = gateway.spec.allowed_listeners.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
    let (from, selector) =
        allowed.map_or(("None", None), |of| (of.from.as_deref().unwrap_or("None"), of.selector.as_ref()));
    admits(from, selector, &gateway.metadata.namespace, namespace, world)
}

/// True if a namespace is among those that are chosen.
pub fn admits(from: &str, selector: Option<&Selector>, own: &str, namespace: &str, world: &World) -> bool {
    match from {
        "All" => true,
        "Same" => own == namespace,
        "Selector" => {
            let none = BTreeMap::new();
            let labels = world.namespaces.get(&Key::new("", namespace)).map_or(&none, |object| &object.metadata.labels);
            selector.is_some_and(|selector| selector.matches(labels))
        }
        _ => false,
    }
}

impl<'w> Gateway<'w> {
    fn of(object: &'w Object<GatewaySpec>, world: &World, all: &mut Addresses) -> Gateway<'w> {
        let key = object.metadata.key();
        let (addresses, accepted, address_fault) = match all.assign(&key, object) {
            Err(unsupported) => (Vec::new(), Err(("UnsupportedAddress", unsupported)), None),
            Ok((addresses, None)) => (addresses, Ok(()), None),
            Ok((addresses, Some(unusable))) => (addresses, Ok(()), Some(("AddressNotUsable", unusable))),
        };
        let has_parameters = object.spec.infrastructure.as_ref().is_some_and(|of| of.parameters_ref.is_some());
        let accepted = match has_parameters {
            true => Err(("InvalidParameters", "no parameters are known".to_owned())),
            false => accepted,
        };
        let from = From { group: GATEWAY_GROUP, kind: "Gateway", namespace: &key.namespace };
        let wanted = object.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref()?.client_certificate_ref.as_ref());
        let (client_certificate, client_certificate_fault) = match wanted.map(|to| pair(world, from, to)) {
            None => (None, None),
            Some(Ok(pair)) => (Some(pair), None),
            Some(Err(why)) => {
                let reason = match why {
                    Unusable::NotPermitted(_) => "RefNotPermitted",
                    _ => "InvalidClientCertificateRef",
                };
                (None, Some((reason, why.message())))
            }
        };
        let addresses = if accepted.is_ok() { addresses } else { Vec::new() };
        Gateway { key, object, addresses, accepted, address_fault, client_certificate, client_certificate_fault }
    }

    pub fn is_accepted(&self) -> bool {
        self.accepted.is_ok()
    }

    /// Reason for which none of its listeners is served.
    fn unserved(&self) -> Option<String> {
        match (&self.accepted, &self.address_fault) {
            (Err(_), _) => Some(NOT_ACCEPTED.to_owned()),
            (Ok(()), Some((_, why))) if self.addresses.is_empty() => Some(why.clone()),
            _ => None,
        }
    }

    /// Addresses that its status shows.
    fn shown(&self, shown: &Shown) -> Vec<String> {
        let is_specific = |addr: &&IpAddr| !addr.is_unspecified();
        match &shown.published {
            _ if self.addresses.is_empty() => Vec::new(),
            Some(published) => published.iter().map(ToString::to_string).collect(),
            None if self.addresses.iter().all(IpAddr::is_unspecified) => {
                shown.own.iter().map(ToString::to_string).collect()
            }
            None => self.addresses.iter().filter(is_specific).map(ToString::to_string).collect(),
        }
    }
}

impl<'w> Listener<'w> {
    fn of(
        owner: (Kind, Key),
        gateway: usize,
        spec: &'w GatewayListener,
        of: &Object<GatewaySpec>,
        world: &World,
    ) -> Listener<'w> {
        let protocol = Protocol::of(spec);
        let accepted = match protocol {
            Some(_) => Ok(()),
            None => Err(("UnsupportedProtocol", format!("protocol {} is not supported", spec.protocol))),
        };
        let mut listener = Listener {
            owner,
            gateway,
            spec,
            protocol,
            kinds: Vec::new(),
            accepted,
            resolved: Ok(()),
            conflict: None,
            is_broken: false,
            certificates: Vec::new(),
            clients: None,
            attached: 0,
            refused: None,
        };
        listener.find_kinds();
        if protocol.is_some_and(Protocol::has_certificates) {
            listener.find_certificates(world);
            listener.find_authorities(of, world);
        }
        listener
    }

    fn find_kinds(&mut self) {
        let known = self.protocol.map_or(&[][..], Protocol::kinds);
        let wanted = self.spec.allowed_routes.as_ref().map_or(&[][..], |allowed| &allowed.kinds);
        if wanted.is_empty() {
            self.kinds = known.to_vec();
            return;
        }
        for kind in wanted {
            let is_ours = kind.group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP;
            match known.iter().find(|known| is_ours && known.name() == kind.kind) {
                Some(kind) => self.kinds.push(*kind),
                None => self.resolved = Err(("InvalidRouteKinds", format!("it takes no {}", kind.kind))),
            }
        }
    }

    /// Reads the certificates. A single usable certificate is enough.
    fn find_certificates(&mut self, world: &World) {
        let refs = self.spec.tls.as_ref().map_or(&[][..], |tls| &tls.certificate_refs);
        let from = From { group: GATEWAY_GROUP, kind: self.owner.0.name(), namespace: &self.owner.1.namespace };
        for to in refs {
            match pair(world, from, to) {
                Ok(pair) => self.certificates.push(pair),
                Err(Unusable::NotPermitted(message)) => self.resolved = Err(("RefNotPermitted", message)),
                Err(why) => self.resolved = Err(("InvalidCertificateRef", why.message())),
            }
        }
        if refs.is_empty() {
            self.resolved = Err(("InvalidCertificateRef", "it has no certificate".to_owned()));
        }
        self.is_broken |= self.certificates.is_empty();
    }

    fn find_authorities(&mut self, of: &Object<GatewaySpec>, world: &World) {
        let Some(frontend) = of.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref()) else { return };
        let port = frontend.per_port.iter().find(|one| one.port == self.spec.port).and_then(|one| one.tls.as_ref());
        let Some(validation) = port.or(frontend.default.as_ref()).and_then(|of| of.validation.as_ref()) else { return };
        let Validation { ca_certificate_refs, mode } = validation;
        let from = From { group: GATEWAY_GROUP, kind: "Gateway", namespace: &of.metadata.namespace };
        let (text, wrong) = authorities(world, from, ca_certificate_refs);
        if let Some(why) = wrong.into_iter().next() {
            let reason = match why {
                Unusable::Kind(_) => "InvalidCACertificateKind",
                Unusable::NotPermitted(_) => "RefNotPermitted",
                Unusable::Content(_) => "InvalidCACertificateRef",
            };
            self.resolved = Err((reason, why.message()));
        }
        match text {
            Some(text) => self.clients = Some((text, mode.as_deref() == Some("AllowInsecureFallback"))),
            None => {
                self.accepted = Err(("NoValidCACertificate", "no authority of clients can be used".to_owned()));
                self.is_broken = true;
            }
        }
    }

    /// Host that it serves; `None` = every host.
    pub fn host(&self) -> Option<&str> {
        self.spec.hostname.as_deref().filter(|host| !host.is_empty() && self.protocol.is_some_and(Protocol::has_hosts))
    }

    pub fn is_valid(&self) -> bool {
        self.accepted.is_ok() && self.conflict.is_none()
    }

    /// True if it can be served.
    pub fn is_usable(&self) -> bool {
        self.is_valid() && !self.is_broken && self.refused.is_none()
    }

    /// True if it takes Routes of this kind from this namespace.
    pub fn admits(&self, kind: Kind, namespace: &str, world: &World) -> bool {
        let none = AllowedRoutes::default();
        let allowed = self.spec.allowed_routes.as_ref().unwrap_or(&none);
        let from = allowed.namespaces.as_ref().and_then(|of| of.from.as_deref()).unwrap_or("Same");
        let selector = allowed.namespaces.as_ref().and_then(|of| of.selector.as_ref());
        self.kinds.contains(&kind) && admits(from, selector, &self.owner.1.namespace, namespace, world)
    }

    fn status(&self) -> ListenerStatus {
        let fault = |of, fault: &Result<(), Fault>, good| match fault {
            Ok(()) => Condition::yes(of, good),
            Err((reason, message)) => Condition::no(of, reason, message.clone()),
        };
        let (accepted, conflicted) = match &self.conflict {
            Some((reason, message)) => (
                Condition::no("Accepted", reason, message.clone()),
                Condition { of: "Conflicted", holds: true, reason, message: message.clone() },
            ),
            None => (fault("Accepted", &self.accepted, "Accepted"), Condition::no("Conflicted", "NoConflicts", "")),
        };
        let programmed = match (&self.conflict, &self.refused) {
            (Some((reason, message)), _) => Condition::no("Programmed", reason, message.clone()),
            (None, Some(why)) => Condition::no("Programmed", "Invalid", why.clone()),
            _ if self.is_usable() => Condition::yes("Programmed", "Programmed"),
            _ => {
                let why = self.accepted.as_ref().err().or(self.resolved.as_ref().err());
                Condition::no("Programmed", "Invalid", why.map(|(_, why)| why.clone()).unwrap_or_default())
            }
        };
        let resolved = fault("ResolvedRefs", &self.resolved, "ResolvedRefs");
        ListenerStatus {
            name: self.spec.name.clone(),
            kinds: self.kinds.iter().filter(|_| self.conflict.is_none()).map(|kind| kind.name()).collect(),
            attached: self.attached,
            conditions: vec![accepted, programmed, resolved, conflicted],
        }
    }
}

impl Gateways<'_> {
    /// Index of the Gateway that has the listeners of a Gateway or ListenerSet; `None` if it is not of this controller.
    pub fn gateway_of(&self, (kind, key): &(Kind, Key)) -> Option<usize> {
        match kind {
            Kind::Gateway => self.all.iter().position(|gateway| gateway.key == *key),
            _ => self.sets.iter().find(|set| set.key == *key).map(|set| set.gateway),
        }
    }
}
