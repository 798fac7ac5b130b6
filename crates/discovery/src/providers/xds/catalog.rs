//! Resources of a control plane: accepted resources, and resources in use. See [`Catalog`].
//!
//! An accepted resource is used once its dependencies are there (warming): the endpoints of a cluster, the clusters of
//! a route configuration, the route configurations of a listener. Until then, and for at most [`PATIENCE`], the
//! previous version stays in use. A removed resource stays in use as long as a resource in use needs it.

use crate::xds::consumer::{Kind, Received};
use evenkeel_config::plan::XdsServer;
use evenkeel_envoy::cluster::Cluster;
use evenkeel_envoy::listener::ListenerResource;
use evenkeel_envoy::node::Node;
use evenkeel_envoy::plan::{InUse, clusters_of};
use evenkeel_envoy::route::RouteConfiguration;
use evenkeel_envoy::schema::{CLUSTER, LISTENER, Message, ROUTE_CONFIGURATION};
use evenkeel_envoy::wire::resource;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest time that a resource waits for its dependencies: Envoy's `initial_fetch_timeout`.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Resources that are named in a refusal, at most.
const REFUSED_MAX: usize = 20;

#[derive(Debug)]
pub struct Catalog {
    server: XdsServer,
    listeners: Store<ListenerResource>,
    clusters: Store<Cluster>,
    routes: Store<RouteConfiguration>,
    in_use: InUse,
    /// Time of the first response.
    began: Option<Instant>,
}

/// Resources of a type that were accepted, by name.
#[derive(Debug)]
struct Store<T> {
    all: BTreeMap<String, Accepted<T>>,
    /// True if a response was accepted.
    answered: bool,
    /// True if the stream began with an empty list that did not count, and has had no other since.
    emptied: bool,
}

#[derive(Debug)]
struct Accepted<T> {
    bytes: Vec<u8>,
    value: Arc<T>,
    since: Instant,
    /// Fields that protect, and are not kept.
    noted: BTreeSet<&'static str>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { all: BTreeMap::new(), answered: false, emptied: false }
    }
}

/// Outcome of a response that was accepted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// True if the list has been empty since the stream began, and the last list stays.
    pub emptied: bool,
}

impl Catalog {
    pub fn new(server: XdsServer) -> Catalog {
        let (listeners, clusters, routes) = (Store::default(), Store::default(), Store::default());
        Catalog { server, listeners, clusters, routes, in_use: InUse::default(), began: None }
    }

    /// Takes a response as a whole.
    ///
    /// # Errors
    /// The resources that cannot be kept, each with the field.
    pub fn take(&mut self, received: &Received<'_>, now: Instant) -> Result<Taken, String> {
        self.began.get_or_insert(now);
        let server = &self.server;
        match received.kind {
            Kind::Assignment => Ok(Taken::default()),
            Kind::Cluster => self.clusters.take(received, now, &CLUSTER, |node| Cluster::of(node, server)),
            Kind::Listener => {
                let taken = self.listeners.take(received, now, &LISTENER, ListenerResource::of);
                self.drop_routes();
                taken
            }
            Kind::Routes => {
                let taken = self.routes.take(received, now, &ROUTE_CONFIGURATION, RouteConfiguration::of);
                self.drop_routes();
                taken
            }
        }
    }

    /// Forgets route configurations that no listener names.
    fn drop_routes(&mut self) {
        let mut names = self.route_names();
        let in_use = self.in_use.listeners.values().flat_map(|listener| listener.route_names());
        names.extend(in_use.map(str::to_owned));
        self.routes.all.retain(|name, _| names.contains(name));
    }

    /// Names of the route configurations that listeners need.
    pub fn route_names(&self) -> BTreeSet<String> {
        let all = self.listeners.all.values().flat_map(|accepted| accepted.value.route_names());
        all.map(str::to_owned).collect()
    }

    /// Names by which the endpoints of clusters are assigned.
    pub fn assigned(&self) -> BTreeSet<String> {
        self.clusters.all.values().filter_map(|accepted| accepted.value.assigned.clone()).collect()
    }

    /// Protections of resources that are not kept, a line for each resource.
    pub fn noted(&self) -> Vec<String> {
        let (listeners, routes) = (self.listeners.noted("Listener"), self.routes.noted("RouteConfiguration"));
        listeners.chain(routes).chain(self.clusters.noted("Cluster")).collect()
    }

    /// Resources that are in use.
    pub fn in_use(&self) -> &InUse {
        &self.in_use
    }

    /// True if there is enough for a plan: every listener is in use that the control plane has, or it had its time.
    pub fn is_complete(&self, now: Instant) -> bool {
        let answered = self.listeners.answered && self.clusters.answered;
        let all = self.listeners.all.keys().all(|name| self.in_use.listeners.contains_key(name));
        answered && all || self.began.is_some_and(|began| now >= began + PATIENCE)
    }

    /// Puts resources with all dependencies into use, and drops unneeded resources. `is_warm` is true for clusters with
    /// assigned endpoints. Returns true if anything has changed.
    pub fn advance(&mut self, now: Instant, is_warm: impl Fn(&str) -> bool) -> bool {
        let mut changed = false;
        for (name, accepted) in &self.clusters.all {
            let is_used = self.in_use.clusters.get(name).is_some_and(|used| Arc::ptr_eq(used, &accepted.value));
            if !is_used && (accepted.is_due(now) || accepted.value.assigned.as_deref().is_none_or(&is_warm)) {
                self.in_use.clusters.insert(name.clone(), accepted.value.clone());
                changed = true;
            }
        }
        let needed = self.route_names();
        for (name, accepted) in self.routes.all.iter().filter(|(name, _)| needed.contains(*name)) {
            let is_used = self.in_use.routes.get(name).is_some_and(|used| Arc::ptr_eq(used, &accepted.value));
            if !is_used && (accepted.is_due(now) || accepted.value.clusters().all(|cluster| self.has(cluster))) {
                self.in_use.routes.insert(name.clone(), accepted.value.clone());
                changed = true;
            }
        }
        for (name, accepted) in &self.listeners.all {
            let is_used = self.in_use.listeners.get(name).is_some_and(|used| Arc::ptr_eq(used, &accepted.value));
            if !is_used && (accepted.is_due(now) || self.is_warm(&accepted.value)) {
                self.in_use.listeners.insert(name.clone(), accepted.value.clone());
                changed = true;
            }
        }
        self.drop_unneeded() || changed
    }

    /// Drops removed resources that are not needed: listeners first, then their route configurations, then clusters.
    fn drop_unneeded(&mut self) -> bool {
        let InUse { listeners, routes, clusters } = &mut self.in_use;
        let before = (listeners.len(), routes.len(), clusters.len());
        listeners.retain(|name, _| self.listeners.all.contains_key(name));
        let named: BTreeSet<&str> = listeners.values().flat_map(|listener| listener.route_names()).collect();
        let accepted = self.listeners.all.values().flat_map(|accepted| accepted.value.route_names());
        let named: BTreeSet<&str> = accepted.chain(named).collect();
        routes.retain(|name, _| named.contains(name.as_str()));
        let of_routes = routes.values().flat_map(|routes| routes.clusters());
        let of_listeners = listeners.values().flat_map(|listener| clusters_of(listener));
        let needed: BTreeSet<&str> = of_routes.chain(of_listeners).collect();
        clusters.retain(|name, _| self.clusters.all.contains_key(name) || needed.contains(name.as_str()));
        before != (listeners.len(), routes.len(), clusters.len())
    }

    fn has(&self, cluster: &str) -> bool {
        self.in_use.clusters.contains_key(cluster)
    }

    fn is_warm(&self, listener: &ListenerResource) -> bool {
        listener.route_names().all(|name| self.in_use.routes.contains_key(name))
            && clusters_of(listener).all(|cluster| self.has(cluster))
    }

    /// Time at which something has waited long enough; `None` if nothing waits.
    pub fn due(&self) -> Option<Instant> {
        let used = &self.in_use;
        let clusters = self.clusters.waiting(&used.clusters).into_iter();
        let waiting = clusters.chain(self.routes.waiting(&used.routes)).chain(self.listeners.waiting(&used.listeners));
        let complete = self.began.filter(|_| used.listeners.is_empty());
        waiting.chain(complete).map(|since| since + PATIENCE).min()
    }
}

impl<T> Accepted<T> {
    fn is_due(&self, now: Instant) -> bool {
        now >= self.since + PATIENCE
    }
}

impl<T: PartialEq> Store<T> {
    fn take(
        &mut self,
        received: &Received<'_>,
        now: Instant,
        message: &'static Message,
        read: impl Fn(&Node<'_>) -> Result<T, String>,
    ) -> Result<Taken, String> {
        let (mut new, mut wrong) = (BTreeMap::new(), Vec::new());
        for (n, resource) in received.resources.iter().enumerate() {
            let bytes = match resource {
                Ok(bytes) => bytes,
                Err(unread) if unread.name.is_empty() => {
                    wrong.push(format!("resource {n}: {}", unread.why));
                    continue;
                }
                Err(unread) => {
                    wrong.push(format!("{}: {}", unread.name, unread.why));
                    continue;
                }
            };
            match self.one(bytes, now, message, &read) {
                Ok((name, accepted)) => {
                    if new.insert(name.clone(), accepted).is_some() {
                        wrong.push(format!("{name}: duplicate name"));
                    }
                }
                Err((name, why)) if name.is_empty() => wrong.push(format!("resource {n}: {why}")),
                Err((name, why)) => wrong.push(format!("{name}: {why}")),
            }
        }
        if let more @ 1.. = wrong.len() {
            let shown = wrong[..more.min(REFUSED_MAX)].join("; ");
            let more = more.saturating_sub(REFUSED_MAX);
            return Err(if more > 0 { format!("{shown}; and {more} more") } else { shown });
        }
        self.answered = true;
        let stay = |name: &String| new.contains_key(name) || !received.is_whole && !received.removed.contains(name);
        // A server that has just been started may not have its resources yet.
        let is_empty = new.is_empty() && !self.all.keys().any(stay);
        self.emptied = is_empty && !self.all.is_empty() && (received.is_first || self.emptied);
        if self.emptied {
            return Ok(Taken { emptied: true });
        }
        // Route configurations stay until no listener names them.
        if received.kind != Kind::Routes {
            self.all.retain(|name, _| stay(name));
        }
        self.all.extend(new);
        Ok(Taken::default())
    }

    /// Reads a resource. An unchanged resource is not read again.
    fn one(
        &self,
        bytes: &[u8],
        now: Instant,
        message: &'static Message,
        read: impl Fn(&Node<'_>) -> Result<T, String>,
    ) -> Result<(String, Accepted<T>), (String, String)> {
        let node = resource(bytes, message).map_err(|why| (String::new(), why))?;
        let name = node.text("name").unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err((name, "it has no name".to_owned()));
        }
        let there = self.all.get(&name);
        if let Some(there) = there.filter(|there| there.bytes == bytes) {
            let (value, noted) = (there.value.clone(), there.noted.clone());
            return Ok((name, Accepted { bytes: bytes.to_vec(), value, since: there.since, noted }));
        }
        let value = match read(&node) {
            Ok(value) => value,
            Err(why) => return Err((name, why)),
        };
        let mut unread = Vec::new();
        node.unread("", &mut unread);
        if !unread.is_empty() {
            return Err((name, format!("not supported here: {}", unread.join(", "))));
        }
        let mut noted = BTreeSet::new();
        node.noted(&mut noted);
        // Other bytes may mean the same.
        let value =
            there.filter(|there| *there.value == value).map_or_else(|| Arc::new(value), |there| there.value.clone());
        Ok((name, Accepted { bytes: bytes.to_vec(), value, since: now, noted }))
    }

    /// Resources with protections that are not kept, each with their fields.
    fn noted(&self, kind: &str) -> impl Iterator<Item = String> {
        let all = self.all.iter().filter(|(_, accepted)| !accepted.noted.is_empty());
        all.map(move |(name, accepted)| {
            let fields: Vec<&str> = accepted.noted.iter().copied().collect();
            format!("{kind} {name}: protection that is not kept: {}", fields.join(", "))
        })
    }

    /// Since when resources wait to be used.
    fn waiting(&self, used: &BTreeMap<String, Arc<T>>) -> Vec<Instant> {
        let waits = |(name, accepted): &(&String, &Accepted<T>)| {
            !used.get(*name).is_some_and(|used| Arc::ptr_eq(used, &accepted.value))
        };
        self.all.iter().filter(waits).map(|(_, accepted)| accepted.since).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::part;
    use super::*;
    use crate::providers::merge::{self, Unwanted, merge};
    use evenkeel_config::Plan;
    use evenkeel_config::plan::{Providers, Route, XdsProvider};
    use evenkeel_envoy::testing::encoded;
    use serde_json::{Value, json};

    const EDS: u64 = 3;

    struct World {
        catalog: Catalog,
        now: Instant,
        warm: BTreeSet<String>,
    }

    impl World {
        fn new() -> World {
            let catalog = Catalog::new(XdsServer::default());
            World { catalog, now: Instant::now(), warm: BTreeSet::new() }
        }

        fn give(
            &mut self,
            kind: Kind,
            all: &[Value],
            removed: &[&str],
            is_first: bool,
            is_whole: bool,
        ) -> Result<Taken, String> {
            let message = match kind {
                Kind::Cluster => &CLUSTER,
                Kind::Listener => &LISTENER,
                _ => &ROUTE_CONFIGURATION,
            };
            let resources = all.iter().map(|json| Ok(encoded(message, json))).collect();
            let removed: Vec<String> = removed.iter().map(ToString::to_string).collect();
            let received = Received { kind, is_first, is_whole, resources, removed: &removed };
            self.catalog.take(&received, self.now)
        }

        /// A list of all listeners or clusters, or some route configurations.
        fn list(&mut self, kind: Kind, all: &[Value]) -> Result<Taken, String> {
            self.give(kind, all, &[], false, kind != Kind::Routes)
        }

        fn advance(&mut self) -> bool {
            let warm = self.warm.clone();
            self.catalog.advance(self.now, |cluster| warm.contains(cluster))
        }

        /// Names of listeners, route configurations and clusters in use.
        fn used(&mut self) -> String {
            self.advance();
            let InUse { listeners, routes, clusters } = self.catalog.in_use();
            let listeners: Vec<_> = listeners.keys().cloned().collect();
            let routes: Vec<_> = routes.keys().cloned().collect();
            let clusters: Vec<_> = clusters.keys().cloned().collect();
            [listeners, routes, clusters].map(|names| names.join(",")).join(" ")
        }
    }

    fn eds(name: &str) -> Value {
        json!({ "name": name, "type": EDS, "eds_cluster_config": { "eds_config": { "ads": {} } } })
    }

    fn listener(name: &str, port: u64, routes: &str) -> Value {
        let rds = json!({ "route_config_name": routes, "config_source": { "ads": {} } });
        let manager = json!({ "name": "http", "typed_config": { "@type": "HttpConnectionManager", "rds": rds } });
        let address = json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
        json!({ "name": name, "address": address, "filter_chains": [{ "filters": [manager] }] })
    }

    fn routes(name: &str, cluster: &str) -> Value {
        let route = json!({ "match": { "prefix": "/" }, "route": { "cluster": cluster } });
        json!({ "name": name, "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [route] }] })
    }

    /// A world with a resource of each kind, in use.
    fn begun() -> World {
        let mut world = World::new();
        world.list(Kind::Cluster, &[eds("web")]).expect("good");
        world.list(Kind::Listener, &[listener("main", 80, "main")]).expect("good");
        world.list(Kind::Routes, &[routes("main", "web")]).expect("good");
        assert_eq!(world.used(), "  ", "its endpoints are not there");
        assert!(!world.catalog.is_complete(world.now));
        world.warm.insert("web".into());
        assert_eq!(world.used(), "main main web");
        assert!(world.catalog.is_complete(world.now) && world.catalog.due().is_none());
        world
    }

    #[test]
    fn what_is_new_is_used_once_all_that_it_needs_is_there() {
        let mut world = begun();
        world.list(Kind::Routes, &[routes("main", "new")]).expect("good");
        assert!(!world.advance(), "its cluster is not there");
        world.list(Kind::Cluster, &[eds("web"), eds("new")]).expect("good");
        assert!(!world.advance(), "its cluster has no endpoints");
        assert_eq!(world.catalog.in_use().routes["main"].clusters().collect::<Vec<_>>(), ["web"]);
        world.warm.insert("new".into());
        assert_eq!(world.used(), "main main new,web");
        assert_eq!(world.catalog.in_use().routes["main"].clusters().collect::<Vec<_>>(), ["new"]);
    }

    #[test]
    fn nothing_is_waited_for_longer_than_fifteen_seconds() {
        let mut world = begun();
        world.list(Kind::Routes, &[routes("main", "none")]).expect("good");
        world.list(Kind::Listener, &[listener("main", 80, "main"), listener("late", 81, "late")]).expect("good");
        assert!(!world.advance());
        assert_eq!(world.catalog.due(), Some(world.now + PATIENCE));
        world.now += PATIENCE;
        assert_eq!(world.used(), "late,main main web");
        assert!(world.catalog.due().is_none());
        let (part, _) = part(world.catalog.in_use());
        let providers = Providers { xds: Some(XdsProvider::default()), kubernetes: None };
        let base = Plan::builder().providers(providers).build("test").plan.expect("an empty plan");
        let merged = merge(&base, &[("xds", Arc::new(part.clone()))], &Unwanted::new(), &base);
        let shown = |route: &Route| {
            let of = merged.origins.of(merge::Kind::Route, &route.name).expect("it is of the provider");
            format!("{} {}", of.trim_start_matches("xds: "), route.action)
        };
        let shown: Vec<_> = merged.plan.routes.iter().map(shown).collect();
        assert_eq!(shown, ["RouteConfiguration main/all/0 none", "Listener late respond 404"]);
        let empty = part.pools.iter().find(|piece| &*piece.value.name == "none").expect("it answers");
        assert_eq!((empty.value.empty_status, empty.value.endpoints.len()), (Some(503), 0));
    }

    #[test]
    fn what_was_removed_is_used_while_something_needs_it() {
        let mut world = begun();
        world.list(Kind::Cluster, &[eds("other")]).expect("good");
        world.warm.insert("other".into());
        assert_eq!(world.used(), "main main other,web", "its routes are still there");
        world.list(Kind::Routes, &[routes("main", "other")]).expect("good");
        assert_eq!(world.used(), "main main other");
        // Route configurations that are not sent again stay, and go with the listener.
        world.list(Kind::Routes, &[]).expect("good");
        assert_eq!(world.used(), "main main other");
        world.list(Kind::Listener, &[listener("more", 81, "more")]).expect("good");
        assert_eq!(world.used(), "  other", "the new one waits for its routes");
        assert_eq!(world.catalog.route_names().into_iter().collect::<Vec<_>>(), ["more"]);
    }

    #[test]
    fn an_empty_list_removes_all_unless_it_is_the_first_of_a_stream() {
        let mut world = begun();
        for whole in [true, false] {
            let removed: &[&str] = if whole { &[] } else { &["main"] };
            let taken = world.give(Kind::Listener, &[], removed, true, whole);
            assert_eq!((taken, world.used()), (Ok(Taken { emptied: true }), "main main web".into()));
        }
        assert_eq!(world.list(Kind::Listener, &[]), Ok(Taken { emptied: true }), "it has had nothing yet");
        world.list(Kind::Listener, &[listener("main", 80, "main")]).expect("good");
        world.give(Kind::Listener, &[], &["main"], false, false).expect("good");
        assert_eq!(world.used(), "  web");
        assert_eq!(world.list(Kind::Cluster, &[]), Ok(Taken::default()));
        assert_eq!(world.used(), "  ");
    }

    #[test]
    fn a_response_with_one_bad_resource_is_refused_as_a_whole() {
        let mut world = begun();
        let mut bad = eds("bad");
        bad["lb_policy"] = json!(6);
        bad["filters"] = json!([{}]);
        let mut unread = eds("unread");
        unread["lb_subset_config"] = json!({});
        let why = world.list(Kind::Cluster, &[eds("new"), bad, unread, eds("new"), json!({})]).expect_err("bad");
        for part in [
            "bad: lb_policy: CLUSTER_PROVIDED has no counterpart",
            "unread: not supported here: lb_subset_config",
            "new: duplicate name",
            "resource 4: it has no name",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(world.catalog.assigned().into_iter().collect::<Vec<_>>(), ["web"]);
        assert!(!world.advance());
    }

    #[test]
    fn the_same_resources_again_change_nothing() {
        let mut world = begun();
        world.give(Kind::Cluster, &[eds("web")], &[], true, true).expect("good");
        world.give(Kind::Listener, &[listener("main", 80, "main")], &[], true, true).expect("good");
        world.list(Kind::Routes, &[routes("main", "web")]).expect("good");
        assert!(!world.advance());
    }

    #[test]
    fn a_cluster_with_other_endpoints_waits_for_them_and_the_one_before_serves() {
        let mut world = begun();
        let mut moved = eds("web");
        moved["eds_cluster_config"]["service_name"] = json!("moved");
        world.list(Kind::Cluster, &[moved]).expect("good");
        assert!(!world.advance());
        assert_eq!(world.catalog.in_use().clusters["web"].assigned.as_deref(), Some("web"));
        world.warm.insert("moved".into());
        assert!(world.advance());
        assert_eq!(world.catalog.in_use().clusters["web"].assigned.as_deref(), Some("moved"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_of_a_server_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120), at in 0usize..200) {
            let mut world = begun();
            let near = |json: &Value, message| {
                let mut near = encoded(message, json);
                let at = at.min(near.len());
                near[at..].iter_mut().zip(&bytes).for_each(|(here, byte)| *here = *byte);
                near
            };
            let all = [
                (Kind::Cluster, near(&eds("web"), &CLUSTER)),
                (Kind::Listener, near(&listener("main", 80, "main"), &LISTENER)),
                (Kind::Routes, near(&routes("main", "web"), &ROUTE_CONFIGURATION)),
            ];
            for (kind, near) in all {
                let resources = vec![Ok(bytes.clone()), Ok(near)];
                let received = Received { kind, is_first: false, is_whole: true, resources, removed: &[] };
                let _ = world.catalog.take(&received, world.now);
                world.advance();
                let _ = part(world.catalog.in_use());
            }
        }
    }
}
