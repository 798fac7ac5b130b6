//! Listeners, route configurations and clusters that are in use, as a part of the plan. See [`pieces`].

use crate::action::{Acting, To};
use crate::cluster::Cluster;
use crate::listener::{ChainTo, Idle, ListenerResource};
use crate::matching::OddDomain;
use crate::names;
use crate::route::{PlannedRoute, RouteConfiguration, VirtualHost};
use crate::values::{add, exclude};
use evenkeel_config::plan::{Action, Expected, HashKey, HostPattern, Listener, Match, Pool, Respond, Route, Split};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Resources that are in use, by name.
#[derive(Clone, Debug, Default)]
pub struct InUse {
    pub listeners: BTreeMap<String, Arc<ListenerResource>>,
    pub routes: BTreeMap<String, Arc<RouteConfiguration>>,
    pub clusters: BTreeMap<String, Arc<Cluster>>,
}

/// Listeners, routes and pools.
#[derive(Debug, Default)]
pub struct Pieces {
    pub listeners: Vec<Piece<Arc<Listener>>>,
    pub routes: Vec<Piece<Route>>,
    pub pools: Vec<Piece<Arc<Pool>>>,
    /// Parts that are kept differently, in words, each with the cluster that it concerns.
    pub notes: Vec<(String, String)>,
    /// Clusters for which a route names the key of their hash.
    pub keyed: BTreeSet<String>,
}

/// A listener, route or pool.
#[derive(Debug)]
pub struct Piece<T> {
    /// Kind and name of the resource that it was made from, such as `Listener main`.
    pub of: Arc<str>,
    pub value: T,
}

/// A route configuration at the filter chains that use it alike.
struct Use<'a> {
    /// Kind and name of the resource that it stands in.
    of: String,
    name: String,
    routes: &'a RouteConfiguration,
    hosts: &'a [HostPattern],
    /// Server names of the other filter chains of the listener.
    others: Vec<&'a HostPattern>,
    idle: Idle,
    listeners: Vec<Arc<str>>,
}

/// Pools and routes collected so far.
struct Making<'a> {
    in_use: &'a InUse,
    pools: BTreeMap<String, Pool>,
    routes: Vec<Piece<Route>>,
    names: HashSet<Arc<str>>,
    /// Key of the hash of each cluster, with the route that set it.
    keys: BTreeMap<&'a str, (&'a [HashKey], String)>,
    notes: Vec<(String, String)>,
}

/// Makes the pieces. A missing cluster becomes a pool without endpoints, which responds like Envoy.
pub fn pieces(in_use: &InUse) -> Pieces {
    // Nothing leads to pools without a listener, and a plan has to know which of several gets all requests.
    if in_use.listeners.is_empty() {
        return Pieces::default();
    }
    let pools = in_use.clusters.iter().map(|(name, cluster)| (name.clone(), cluster.pool.clone())).collect();
    let (routes, names, keys, notes) = (Vec::new(), HashSet::new(), BTreeMap::new(), Vec::new());
    let mut making = Making { in_use, pools, routes, names, keys, notes };
    for used in uses(in_use) {
        making.add(&used);
    }
    for (name, listener) in &in_use.listeners {
        making.sessions(name, listener);
    }
    making.finish()
}

/// Clusters that a listener leads to without a route configuration of a name.
pub fn clusters_of(listener: &ListenerResource) -> impl Iterator<Item = &str> {
    listener.chains.iter().flat_map(|chain| clusters_of_chain(&chain.to))
}

fn clusters_of_chain(to: &ChainTo) -> Vec<&str> {
    match to {
        ChainTo::Routes(routes, _) => routes.clusters().collect(),
        ChainTo::Clusters(all, _) => all.iter().map(|(name, _)| name.as_str()).collect(),
        ChainTo::NamedRoutes(..) => Vec::new(),
    }
}

/// Route configurations of all listeners. If several listeners use a configuration alike, it occurs once.
fn uses(in_use: &InUse) -> Vec<Use<'_>> {
    let mut uses: Vec<Use<'_>> = Vec::new();
    for (name, listener) in &in_use.listeners {
        for chain in &listener.chains {
            let (of, named, routes, idle) = match &chain.to {
                ChainTo::Clusters(..) => continue,
                ChainTo::Routes(routes, idle) => {
                    (format!("Listener {name}"), format!("{name}/{}", routes.name), &**routes, *idle)
                }
                ChainTo::NamedRoutes(named, idle) => {
                    let Some(routes) = in_use.routes.get(named) else { continue };
                    (format!("RouteConfiguration {named}"), named.clone(), &**routes, *idle)
                }
            };
            let of_listener = listener.listener.name.clone();
            let others = listener.chains.iter().filter(|other| other.position != chain.position);
            let others: Vec<&HostPattern> = others.flat_map(|other| &other.hosts).collect();
            let same = |one: &&mut Use<'_>| {
                let is_alike = one.hosts == chain.hosts && one.others == others && one.idle == idle;
                std::ptr::eq(one.routes, routes) && is_alike
            };
            match uses.iter_mut().find(same) {
                Some(there) if there.listeners.contains(&of_listener) => {}
                Some(there) => there.listeners.push(of_listener),
                None => {
                    let hosts = &chain.hosts[..];
                    uses.push(Use { of, name: named, routes, hosts, others, idle, listeners: vec![of_listener] });
                }
            }
        }
    }
    uses
}

impl<'a> Making<'a> {
    fn add(&mut self, used: &Use<'a>) {
        let is_wide = |host: &Arc<VirtualHost>| {
            host.is_for_all
                || !host.odd.is_empty()
                || host.domains.iter().any(|domain| matches!(domain, HostPattern::Wildcard(_)))
        };
        let has_wide = used.routes.hosts.iter().any(is_wide);
        for host in &used.routes.hosts {
            for place in places(host, used) {
                for route in &host.routes {
                    self.route(used, host, &place, route);
                }
                // A request belongs to a single virtual host, even if that host has no route for it.
                if has_wide && !place.is_everything() && !host.takes_all() {
                    let name = self.name(&format!("{}/{}/(none)", used.name, host.name));
                    let matching = place.matching(&Match::all()).unwrap_or_default();
                    // A condition on the host may make it as specific as a route.
                    let has_condition = place.odd.is_some() || place.not.is_some();
                    let order = if has_condition { u32::MAX } else { 0 };
                    let route = Route { name, listeners: used.listeners.clone(), matching, order, ..nothing() };
                    self.routes.push(Piece { of: format!("{}/{}", used.of, host.name).into(), value: route });
                }
            }
        }
    }

    fn route(&mut self, used: &Use<'a>, host: &'a VirtualHost, place: &Place, planned: &'a PlannedRoute) {
        let acting: &'a Acting = &planned.acting;
        let name = self.name(&format!("{}/{}/{}", used.name, host.name, planned.label));
        let of: Arc<str> = format!("{}/{}/{}", used.of, host.name, planned.label).into();
        let (listeners, order) = (used.listeners.clone(), planned.order);
        let Ok(matching) = place.matching(&planned.matching) else {
            // Conditions on the host that no single match can hold. The others stay, or other routes would win.
            let mut rest = planned.matching.clone();
            for side in [&mut rest.criteria, &mut rest.not] {
                side.headers.retain(|(name, _)| &**name != "host");
            }
            let matching = place.matching(&rest).unwrap_or_default();
            let action = Action::Respond(Respond { status: 403, ..Respond::default() });
            self.routes
                .push(Piece { of, value: Route { name, listeners, matching, order, action, ..Route::default() } });
            return;
        };
        let mut route = Route { name, listeners, matching, order, ..acting.route.clone() };
        if let (Some(idle), true) = (used.idle, acting.route.timeouts.idle == Route::default().timeouts.idle) {
            route.timeouts.idle = idle;
        }
        for cluster in acting.clusters() {
            self.know(cluster, acting.missing, &of);
            self.hash(cluster, &acting.hash, &of);
        }
        for (mirror, cluster) in route.filters.mirrors.iter_mut().zip(&acting.mirrors) {
            mirror.pool = names::of(cluster).into();
        }
        route.action = match &acting.to {
            To::Answer(action) => action.clone(),
            To::Cluster(cluster) => {
                if let Some(pool) = self.pools.get(cluster) {
                    route.timeouts.connect = pool.timeouts.connect;
                    route.timeouts.half_closed = pool.timeouts.half_closed;
                }
                Action::Pool(names::of(cluster).into())
            }
            To::Clusters(all, by_hash) => split(all, acting.hash.first().filter(|_| *by_hash)),
        };
        self.routes.push(Piece { of, value: route });
    }

    /// Routes of the sessions of a listener.
    fn sessions(&mut self, name: &str, listener: &ListenerResource) {
        for chain in &listener.chains {
            let (ChainTo::Clusters(all, idle), position) = (&chain.to, chain.position) else { continue };
            let of = format!("Listener {name}/filter_chains[{position}]");
            all.iter().for_each(|(cluster, _)| self.know(cluster, 503, &of));
            let matching = Match { hosts: chain.hosts.clone(), ..Match::all() };
            let action = match &all[..] {
                [(cluster, _)] => Action::Pool(names::of(cluster).into()),
                all => split(all, None),
            };
            let listeners = vec![listener.listener.name.clone()];
            let pool = all.first().and_then(|(cluster, _)| self.pools.get(cluster));
            let mut route = Route { listeners, matching, action, ..pool.map_or_else(Route::default, Route::to) };
            route.name = self.name(&format!("{name}/filter_chains[{position}]"));
            if let Some(idle) = idle {
                route.timeouts.idle = *idle;
            }
            self.routes.push(Piece { of: of.into(), value: route });
        }
    }

    /// Name of a route that no other has.
    fn name(&mut self, wanted: &str) -> Arc<str> {
        let mut name: Arc<str> = names::label(wanted).into();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = names::label(&format!("{wanted}~{number}")).into();
            number += 1;
        }
        name
    }

    /// Adds a pool without endpoints for a cluster that is not there.
    fn know(&mut self, cluster: &str, missing: u16, of: &str) {
        if !self.pools.contains_key(cluster) {
            let note = format!("Cluster {cluster} does not exist, and {of} leads to it");
            self.notes.push((cluster.to_owned(), note));
            let pool = Pool { empty_status: Some(missing), ..Pool::new(&names::of(cluster)) };
            self.pools.insert(cluster.to_owned(), pool);
        }
    }

    /// Gives a pool that hashes the key of a route.
    fn hash(&mut self, cluster: &'a str, keys: &'a [HashKey], of: &str) {
        let hashes = self.in_use.clusters.get(cluster).is_some_and(|cluster| cluster.pool.balance.key().is_some());
        if !hashes || keys.is_empty() {
            return;
        }
        match self.keys.get(cluster) {
            None => drop(self.keys.insert(cluster, (keys, of.to_owned()))),
            Some((other, first)) if *other != keys => {
                let note = format!(
                    "Cluster {cluster}: the hash_policy of {of} differs from that of {first}, which is used for both"
                );
                self.notes.push((cluster.to_owned(), note));
            }
            Some(_) => {}
        }
    }

    fn finish(mut self) -> Pieces {
        for (cluster, (keys, _)) in &self.keys {
            let Some(pool) = self.pools.get_mut(*cluster) else { continue };
            for (name, key) in ["key", "fallback"].into_iter().zip(*keys) {
                if let Some(there) = pool.balance.keys.get_mut(name) {
                    there.clone_from(key);
                }
            }
        }
        let listeners = self.in_use.listeners.iter().map(|(name, resource)| Piece {
            of: format!("Listener {name}").into(),
            value: Arc::new(resource.listener.clone()),
        });
        let pools = self
            .pools
            .into_iter()
            .map(|(name, pool)| Piece { of: format!("Cluster {name}").into(), value: Arc::new(pool) });
        self.notes.sort();
        self.notes.dedup();
        let keyed = self.keys.keys().map(ToString::to_string).collect();
        Pieces { listeners: listeners.collect(), routes: self.routes, pools: pools.collect(), notes: self.notes, keyed }
    }
}

/// A route that responds with 404, like Envoy if no route matches.
fn nothing() -> Route {
    Route { action: Action::Respond(Respond { status: 404, ..Respond::default() }), ..Route::default() }
}

fn split(all: &[(String, u32)], key: Option<&HashKey>) -> Action {
    let weights = all.iter().map(|(cluster, weight)| (names::of(cluster).into(), *weight)).collect();
    Action::Split(Split { weights, key: key.cloned() })
}

/// Hosts of the requests of a virtual host.
#[derive(Default)]
struct Place {
    hosts: Vec<HostPattern>,
    /// Domains that no host pattern has.
    odd: Option<Expected>,
    /// Domains of this kind that other virtual hosts have.
    not: Option<Expected>,
}

impl Place {
    /// True if every request is there.
    fn is_everything(&self) -> bool {
        self.hosts.is_empty() && self.odd.is_none() && self.not.is_none()
    }

    /// The match of requests that are there.
    ///
    /// # Errors
    /// Conditions on the host that a single match cannot hold.
    fn matching(&self, of: &Match) -> Result<Match, String> {
        let mut matching = Match { hosts: self.hosts.clone(), ..of.clone() };
        if let Some(odd) = &self.odd {
            add(&mut matching.criteria.headers, "host", odd.clone())?;
        }
        if let Some(not) = &self.not {
            exclude(&mut matching.not.headers, "host", not.clone())?;
        }
        Ok(matching)
    }
}

/// Places of a virtual host at a filter chain: one for each kind of route that it needs. Envoy prefers a whole domain,
/// then `*-a.test` and `*.test`, then `a.*`.
fn places(host: &VirtualHost, used: &Use<'_>) -> Vec<Place> {
    let others = || used.routes.hosts.iter().filter(|other| other.name != host.name).flat_map(|other| &other.odd);
    let expected = |all: Vec<&OddDomain>| (!all.is_empty()).then(|| OddDomain::expected(&all));
    let mut all = Vec::new();
    for hosts in hosts(host, used.hosts, &used.others) {
        let is_wide = |host: &HostPattern| matches!(host, HostPattern::Wildcard(_));
        let not = match host.is_for_all && (hosts.is_empty() || !used.hosts.is_empty()) {
            true => expected(others().collect()),
            false if hosts.iter().any(is_wide) => {
                expected(others().filter(|other| matches!(other, OddDomain::End(_))).collect())
            }
            false => None,
        };
        all.push(Place { hosts, odd: None, not });
    }
    if !host.odd.is_empty() {
        all.push(Place { hosts: used.hosts.to_vec(), odd: expected(host.odd.iter().collect()), not: None });
    }
    all
}

/// Hosts of a virtual host at a filter chain: a list for each kind of route that it needs. An empty list means any
/// host. Hosts that are server names of `others` belong to these, as clients use the same name for both.
fn hosts(host: &VirtualHost, chain: &[HostPattern], others: &[&HostPattern]) -> Vec<Vec<HostPattern>> {
    let mut named: BTreeSet<HostPattern> = BTreeSet::new();
    if chain.is_empty() {
        named.extend(host.domains.iter().cloned());
    } else {
        if host.is_for_all {
            named.extend(chain.iter().cloned());
        }
        for domain in &host.domains {
            named.extend(chain.iter().filter_map(|name| within(domain, name)).cloned());
        }
    }
    named.retain(|name| {
        let own = chain.iter().map(|of| closeness(of, name)).max().unwrap_or(0);
        others.iter().all(|of| closeness(of, name) <= own)
    });
    let mut all = Vec::new();
    if !named.is_empty() {
        all.push(named.into_iter().collect());
    }
    if host.is_for_all && chain.is_empty() {
        all.push(Vec::new());
    }
    all
}

/// Length of a pattern that takes all of a host, with one more for a whole name; 0 if it does not.
fn closeness(pattern: &HostPattern, host: &HostPattern) -> usize {
    match (pattern, within(host, pattern)) {
        (_, inner) if inner != Some(host) => 0,
        (HostPattern::Exact(name), _) => name.len() + 1,
        (HostPattern::Wildcard(suffix), _) => suffix.len(),
    }
}

/// Returns the host that lies within the other; `None` if neither does.
fn within<'a>(one: &'a HostPattern, other: &'a HostPattern) -> Option<&'a HostPattern> {
    let is_in = |inner: &HostPattern, outer: &HostPattern| match (inner, outer) {
        (HostPattern::Exact(host) | HostPattern::Wildcard(host), HostPattern::Wildcard(suffix)) => {
            host.ends_with(&**suffix)
        }
        (inner, outer) => inner == outer,
    };
    if is_in(one, other) { Some(one) } else { is_in(other, one).then_some(other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::answering;
    use evenkeel_config::Plan;
    use evenkeel_config::plan::{Balance, Listener};

    fn exact(host: &str) -> HostPattern {
        HostPattern::Exact(host.to_owned())
    }

    fn host(name: &str, domains: &[HostPattern], is_for_all: bool, acting: &Acting) -> Arc<VirtualHost> {
        let matching = Match { path: evenkeel_config::plan::PathPattern::StartsWith("/x".into()), ..Match::all() };
        let route = PlannedRoute { label: "0".into(), matching, order: 0, acting: Arc::new(acting.clone()) };
        Arc::new(VirtualHost {
            name: name.into(),
            domains: domains.to_vec(),
            odd: Vec::new(),
            is_for_all,
            routes: vec![route],
        })
    }

    fn in_use(hosts: Vec<Arc<VirtualHost>>, listeners: &[&str]) -> InUse {
        let mut in_use = InUse::default();
        in_use.routes.insert("r".into(), Arc::new(RouteConfiguration { name: "r".into(), hosts }));
        for (n, name) in listeners.iter().enumerate() {
            let listener = Listener::new(&names::of(name), ([127, 0, 0, 1], 80 + n as u16).into());
            let chains = vec![crate::listener::Chain {
                position: 0,
                hosts: Vec::new(),
                to: ChainTo::NamedRoutes("r".into(), None),
            }];
            let resource = ListenerResource { name: (*name).into(), listener, chains };
            in_use.listeners.insert((*name).into(), Arc::new(resource));
        }
        in_use
    }

    fn plan(in_use: &InUse) -> Plan {
        let part = pieces(in_use);
        let mut builder = Plan::builder();
        for piece in part.listeners {
            builder = builder.listener(piece.value);
        }
        for piece in part.routes {
            builder = builder.route(piece.value);
        }
        for piece in part.pools {
            builder = builder.pool(piece.value);
        }
        let outcome = builder.build("test");
        outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
    }

    fn notes(in_use: &InUse) -> Vec<String> {
        pieces(in_use).notes.into_iter().map(|(_, note)| note).collect()
    }

    fn to(cluster: &str) -> Acting {
        Acting { to: To::Cluster(cluster.into()), ..answering(Action::Respond(Respond::default())) }
    }

    #[test]
    fn a_request_belongs_to_one_virtual_host() {
        let wide = [HostPattern::Wildcard(".test".into())];
        let hosts = vec![host("a", &[exact("a.test")], false, &to("a")), host("b", &wide, true, &to("b"))];
        let in_use = in_use(hosts, &["one", "two"]);
        let plan = plan(&in_use);
        let shown: Vec<_> = plan
            .routes
            .iter()
            .map(|route| {
                let hosts: Vec<_> = route.matching.hosts.iter().map(ToString::to_string).collect();
                format!("{} {} {} [{}]", route.name, hosts.join(","), route.action, route.listeners.join(","))
            })
            .collect();
        let wanted = [
            "r/a/0 a.test a [one,two]",
            "r/a/(none) a.test respond 404 [one,two]",
            "r/b/0 *.test b [one,two]",
            "r/b/(none) *.test respond 404 [one,two]",
            "r/b/0~2  b [one,two]",
        ];
        assert_eq!(shown, wanted);
        assert!(plan.pools.iter().all(|pool| pool.empty_status == Some(503)), "clusters that are not there");
        let wanted = [
            "Cluster a does not exist, and RouteConfiguration r/a/0 leads to it",
            "Cluster b does not exist, and RouteConfiguration r/b/0 leads to it",
        ];
        assert_eq!(notes(&in_use), wanted);
    }

    #[test]
    fn a_pool_that_hashes_has_the_key_of_its_routes() {
        let by = |name: &str| Acting { hash: vec![HashKey::Header(name.into())], ..to("web") };
        let hosts =
            vec![host("a", &[exact("a.test")], false, &by("x-a")), host("b", &[exact("b.test")], false, &by("x-b"))];
        let mut in_use = in_use(hosts, &["one"]);
        let balance = Balance::of(evenkeel_balance::algorithms::find("maglev").expect("it is there"));
        let pool = Pool { balance, empty_status: Some(503), ..Pool::new("web") };
        in_use.clusters.insert("web".into(), Arc::new(Cluster { name: "web".into(), pool, assigned: None }));
        let notes = notes(&in_use);
        assert!(
            notes.len() == 1 && notes[0].contains("r/b/0 differs from that of RouteConfiguration r/a/0"),
            "{notes:?}"
        );
        assert_eq!(plan(&in_use).pools[0].balance.key(), Some(&HashKey::Header("x-a".into())));
    }
}
