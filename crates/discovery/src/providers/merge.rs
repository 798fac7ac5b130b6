//! The merge of the plan of the file with the parts of other providers. Pieces that would make the plan impossible are left
//! out and named.

use super::parts::{Part, Piece, Refusal};
use evenkeel_config::plan::{Action, Listener, Mode, Pool, Respond, Route};
use evenkeel_config::{Builder, Diagnostic, Outcome, Plan, Severity};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Name shown in diagnostics of a merged plan.
const NAME: &str = "providers";

/// Origin of each listener, route and pool that is not of the file, by kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<(Kind, Arc<str>), Arc<str>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Listener,
    Route,
    Pool,
}

impl Origins {
    /// Provider and object that a piece comes from; `None` = the file.
    pub fn of(&self, kind: Kind, name: &str) -> Option<&Arc<str>> {
        self.0.get(&(kind, name.into()))
    }

    /// Origin by the key of the table, such as `pool`, and the name.
    pub fn of_table(&self, table: &str, name: &str) -> Option<Arc<str>> {
        let kind = match table {
            "listener" => Kind::Listener,
            "route" => Kind::Route,
            "pool" => Kind::Pool,
            _ => return None,
        };
        self.of(kind, name).cloned()
    }
}

/// Plan of the file with pieces of other providers.
#[derive(Clone, Debug)]
pub struct Merged {
    pub plan: Plan,
    pub origins: Origins,
    /// Objects that were left out, by provider.
    pub refused: BTreeMap<&'static str, Vec<Refusal>>,
}

impl Merged {
    /// Pieces that an error about the plan as a whole is likely to be about: those that it names; else those that the running
    /// plan does not have.
    pub fn blame(&self, text: &str, running: &Plan) -> Vec<(Kind, Arc<str>)> {
        let of_providers = |kind, name: &Arc<str>| self.origins.of(kind, name).is_some();
        let listeners = self.plan.listeners.iter().filter(|one| of_providers(Kind::Listener, &one.name));
        let named: Vec<_> = listeners
            .clone()
            .filter(|one| text.contains(&*one.name) || one.bind.iter().any(|addr| text.contains(&addr.to_string())))
            .map(|one| (Kind::Listener, one.name.clone()))
            .collect();
        if !named.is_empty() {
            return named;
        }
        let listeners = listeners.filter(|one| running.listener(&one.name) != Some(one));
        let listeners = listeners.map(|one| (Kind::Listener, one.name.clone()));
        let pools = self.plan.pools.iter().filter(|one| of_providers(Kind::Pool, &one.name));
        let pools = pools.filter(|one| running.pool(&one.name) != Some(one)).map(|one| (Kind::Pool, one.name.clone()));
        let routes = self.plan.routes.iter().filter(|one| of_providers(Kind::Route, &one.name));
        let routes = routes.filter(|one| !running.routes.contains(one)).map(|one| (Kind::Route, one.name.clone()));
        listeners.chain(pools).chain(routes).collect()
    }
}

/// Returns the pieces of a merged plan that the plan of the file does not have.
pub fn added(base: &Plan, merged: &Plan) -> Part {
    let of: Arc<str> = "the process before".into();
    let listeners = merged.listeners.iter().filter(|one| base.listener(&one.name).is_none());
    let routes = merged.routes.iter().filter(|one| base.routes.iter().all(|other| other.name != one.name));
    let pools = merged.pools.iter().filter(|one| base.pool(&one.name).is_none());
    Part {
        listeners: listeners.map(|one| Piece::new(&of, one.clone())).collect(),
        routes: routes.map(|one| Piece::new(&of, one.clone())).collect(),
        pools: pools.map(|one| Piece::new(&of, one.clone())).collect(),
    }
}

/// Position of a piece among those of its kind.
type Place = (Kind, usize);

/// Pieces of all providers, and those that were left out.
struct Pieces {
    listeners: Vec<(&'static str, Piece<Arc<Listener>>)>,
    routes: Vec<(&'static str, Piece<Route>)>,
    pools: Vec<(&'static str, Piece<Arc<Pool>>)>,
    left_out: BTreeMap<Place, String>,
}

/// Merges a valid plan with parts of providers, without the pieces for which `unwanted` has a reason, by kind and name.
pub fn merge(base: &Plan, parts: &[(&'static str, Arc<Part>)], unwanted: &HashMap<(Kind, Arc<str>), String>) -> Merged {
    let mut pieces = Pieces::of(parts);
    pieces.leave_out_twins(base);
    for (place, name) in pieces.names() {
        if let Some(why) = unwanted.get(&(place.0, name)) {
            pieces.leave_out(place, why.clone());
        }
    }
    let is_alone = parts.iter().all(|(_, part)| part.listeners.is_empty() && part.pools.is_empty());
    let own = if is_alone { base.clone() } else { with_listeners(base) };
    // Each turn leaves out all pieces that were at fault in the one before, so there is a last one.
    loop {
        let (outcome, routes) = pieces.build(&own);
        if let Some(plan) = outcome.plan {
            return Merged { plan, origins: pieces.origins(), refused: pieces.refused() };
        }
        let errors = outcome.diagnostics.iter().filter(|one| one.severity() == Severity::Error);
        let faults: Vec<(Place, String)> =
            errors.filter_map(|error| Some((pieces.place(error, &routes)?, error.message.clone()))).collect();
        if faults.is_empty() {
            break;
        }
        for (place, why) in faults {
            pieces.leave_out(place, why);
        }
    }
    // What remains cannot be attributed to a piece.
    for (place, _) in pieces.names() {
        pieces.leave_out(place, "it cannot be kept together with the configuration file".to_owned());
    }
    Merged { plan: base.clone(), origins: Origins::default(), refused: pieces.refused() }
}

/// The plan with routes that name their listeners: one that is for all is for all of the file. Nothing of others is implied.
fn with_listeners(base: &Plan) -> Plan {
    let http: Vec<Arc<str>> = base.listeners.iter().filter(|l| l.mode == Mode::Http).map(|l| l.name.clone()).collect();
    let routes = base.routes.iter().filter(|route| !route.listeners.is_empty() || !http.is_empty()).cloned();
    let named = routes.map(|route| match route.listeners.is_empty() {
        true => Route { listeners: http.clone(), ..route },
        false => route,
    });
    let mut routes: Vec<Route> = named.collect();
    if routes.is_empty() && !http.is_empty() {
        routes.push(nowhere("(none)".into(), http));
    }
    Plan { routes: routes.into(), ..base.clone() }
}

/// A route that answers 404 to all requests of some listeners. In a plan without any route, the only pool would have them,
/// which no provider has asked for.
fn nowhere(name: Arc<str>, listeners: Vec<Arc<str>>) -> Route {
    let action = Action::Respond(Respond { status: 404, ..Respond::default() });
    Route { name, listeners, action, ..Route::default() }
}

impl Pieces {
    fn of(parts: &[(&'static str, Arc<Part>)]) -> Pieces {
        fn each<T: Clone>(
            parts: &[(&'static str, Arc<Part>)],
            of: fn(&Part) -> &Vec<Piece<T>>,
        ) -> Vec<(&'static str, Piece<T>)> {
            parts.iter().flat_map(|(provider, part)| of(part).iter().map(|piece| (*provider, piece.clone()))).collect()
        }
        Pieces {
            listeners: each(parts, |part| &part.listeners),
            routes: each(parts, |part| &part.routes),
            pools: each(parts, |part| &part.pools),
            left_out: BTreeMap::new(),
        }
    }

    fn names(&self) -> Vec<(Place, Arc<str>)> {
        let listeners =
            self.listeners.iter().enumerate().map(|(at, (_, p))| ((Kind::Listener, at), p.value.name.clone()));
        let routes = self.routes.iter().enumerate().map(|(at, (_, p))| ((Kind::Route, at), p.value.name.clone()));
        let pools = self.pools.iter().enumerate().map(|(at, (_, p))| ((Kind::Pool, at), p.value.name.clone()));
        listeners.chain(routes).chain(pools).collect()
    }

    fn leave_out(&mut self, place: Place, why: String) {
        self.left_out.entry(place).or_insert(why);
    }

    /// Leaves out pieces whose name the file, or a piece before them, has.
    fn leave_out_twins(&mut self, base: &Plan) {
        let of_base = base.listeners.iter().map(|one| (Kind::Listener, one.name.clone()));
        let of_base = of_base.chain(base.routes.iter().map(|one| (Kind::Route, one.name.clone())));
        let mut taken: BTreeSet<(Kind, Arc<str>)> =
            of_base.chain(base.pools.iter().map(|one| (Kind::Pool, one.name.clone()))).collect();
        for (place, name) in self.names() {
            if !taken.insert((place.0, name.clone())) {
                self.leave_out(place, format!("the name \"{name}\" is taken"));
            }
        }
    }

    fn stays(&self, kind: Kind, at: usize) -> bool {
        !self.left_out.contains_key(&(kind, at))
    }

    /// Routes that lead [`nowhere`], for HTTP listeners that no other leads from.
    fn rests(&self) -> Vec<(&'static str, Piece<Route>)> {
        let routes =
            || self.routes.iter().enumerate().filter(|(at, _)| self.stays(Kind::Route, *at)).map(|(_, (_, r))| r);
        let led: HashSet<&Arc<str>> = routes().flat_map(|piece| &piece.value.listeners).collect();
        let taken: HashSet<&str> = routes().map(|piece| &*piece.value.name).collect();
        let is_idle = |listener: &Listener| {
            listener.mode == Mode::Http
                && listener.pool.is_none()
                && !listener.redirect_https
                && !led.contains(&listener.name)
        };
        let listeners = self.listeners.iter().enumerate().filter(|(at, _)| self.stays(Kind::Listener, *at));
        let idle = listeners.map(|(_, listener)| listener).filter(|(_, piece)| is_idle(&piece.value));
        let rest = |(provider, piece): &(&'static str, Piece<Arc<Listener>>)| {
            let name = format!("{}/(none)", piece.value.name);
            // Without a name, the plan finds a free one.
            let name = if taken.contains(&*name) { "".into() } else { name.into() };
            let route = nowhere(name, vec![piece.value.name.clone()]);
            (*provider, Piece::new(&piece.of, route))
        };
        idle.map(rest).collect()
    }

    /// The plan with all pieces that are not left out; and the piece of each route of its text, `None` for those of the file
    /// and for [`rests`](Self::rests).
    fn build(&self, base: &Plan) -> (Outcome, Vec<Option<usize>>) {
        let mut builder = Builder::from(base.clone());
        for (at, (_, piece)) in self.listeners.iter().enumerate() {
            if self.stays(Kind::Listener, at) {
                builder = builder.listener(piece.value.clone());
            }
        }
        let mut routes = vec![None; base.routes.len()];
        for (at, (_, piece)) in self.routes.iter().enumerate() {
            if self.stays(Kind::Route, at) {
                routes.push(Some(at));
                builder = builder.route(piece.value.clone());
            }
        }
        for (_, piece) in self.rests() {
            routes.push(None);
            builder = builder.route(piece.value);
        }
        for (at, (_, piece)) in self.pools.iter().enumerate() {
            if self.stays(Kind::Pool, at) {
                builder = builder.pool(piece.value.clone());
            }
        }
        let (builder, written) = builder.written_routes();
        (builder.build(NAME), written.into_iter().map(|at| routes[at]).collect())
    }

    /// Piece that an error is about.
    fn place(&self, error: &Diagnostic, routes: &[Option<usize>]) -> Option<Place> {
        let spots = std::iter::once(&error.at).chain(error.related.iter().map(|(_, spot)| spot));
        // Of two that exclude each other, the error is at the second one, and the first may be the only piece.
        spots.filter_map(|spot| self.place_of(spot.path.as_deref()?, routes)).next()
    }

    fn place_of(&self, path: &str, routes: &[Option<usize>]) -> Option<Place> {
        if let Some(rest) = path.strip_prefix("route[") {
            let index: usize = rest.split(']').next()?.parse().ok()?;
            return Some((Kind::Route, routes.get(index).copied()??));
        }
        let (kind, rest) = [("listener.", Kind::Listener), ("pool.", Kind::Pool)]
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, path.strip_prefix(prefix)?)))?;
        let name = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => rest.split(['.', '[']).next()?,
        };
        let found = self.names().into_iter().find(|(place, of)| place.0 == kind && **of == *name);
        found.map(|(place, _)| place).filter(|place| !self.left_out.contains_key(place))
    }

    fn describe(&self, (kind, at): Place) -> (&'static str, &Arc<str>) {
        match kind {
            Kind::Listener => (self.listeners[at].0, &self.listeners[at].1.of),
            Kind::Route => (self.routes[at].0, &self.routes[at].1.of),
            Kind::Pool => (self.pools[at].0, &self.pools[at].1.of),
        }
    }

    fn origins(&self) -> Origins {
        let shown = |provider: &str, of: &str| format!("{provider}: {of}").into();
        let stay = self.names().into_iter().filter(|((kind, at), _)| self.stays(*kind, *at));
        let origin = |(place, name): (Place, Arc<str>)| {
            let (provider, of) = self.describe(place);
            ((place.0, name), shown(provider, of))
        };
        let rests = self.rests().into_iter();
        let rests = rests.map(|(provider, piece)| ((Kind::Route, piece.value.name), shown(provider, &piece.of)));
        Origins(stay.map(origin).chain(rests).collect())
    }

    fn refused(&self) -> BTreeMap<&'static str, Vec<Refusal>> {
        let mut all = BTreeMap::<_, Vec<Refusal>>::new();
        for (place, why) in &self.left_out {
            let (provider, of) = self.describe(*place);
            let refusal = Refusal { of: of.clone(), why: why.clone() };
            let of_provider = all.entry(provider).or_default();
            if !of_provider.contains(&refusal) {
                of_provider.push(refusal);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::parse_str;
    use evenkeel_config::plan::{Endpoint, HostPattern, Match};

    const FILE: &str = r#"
        [listener.web]
        bind = ["127.0.0.1:8080"]
        [pool.web]
        endpoints = ["127.0.0.1:8081"]
        [provider.kubernetes]
    "#;

    fn base(text: &str) -> Plan {
        let outcome = parse_str("test", text, &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
    }

    fn pool(name: &str) -> Arc<Pool> {
        let endpoint = Endpoint::at(([127, 0, 0, 1], 9000).into());
        Arc::new(Pool { endpoints: vec![endpoint], ..Pool::new(name) })
    }

    fn route(name: &str, host: &str, pool: &Pool) -> Route {
        let hosts = vec![HostPattern::Exact(host.to_owned())];
        Route {
            name: name.into(),
            listeners: vec!["gateway".into()],
            matching: Match { hosts, ..Match::default() },
            ..Route::to(pool)
        }
    }

    /// A listener, a pool, and a route for each host.
    fn part(hosts: &[&str]) -> Part {
        let pool = pool("shop");
        let routes = hosts.iter().map(|host| Piece::new(&(*host).into(), route(host, host, &pool))).collect();
        let listener = Arc::new(Listener::new("gateway", ([127, 0, 0, 1], 8090).into()));
        let of = "Gateway".into();
        Part { listeners: vec![Piece::new(&of, listener)], routes, pools: vec![Piece::new(&"Service".into(), pool)] }
    }

    fn merged(base: &Plan, part: Part) -> Merged {
        merge(base, &[("kubernetes", Arc::new(part))], &HashMap::new())
    }

    fn refused(merged: &Merged) -> Vec<String> {
        merged.refused.values().flatten().map(|refusal| format!("{}: {}", refusal.of, refusal.why)).collect()
    }

    #[test]
    fn pieces_stand_beside_those_of_the_file_and_say_where_they_are_from() {
        let merged = merged(&base(FILE), part(&["a.example", "b.example"]));
        assert_eq!(refused(&merged), [""; 0]);
        let names: Vec<&str> = merged.plan.listeners.iter().map(|listener| &*listener.name).collect();
        assert_eq!(names, ["web", "gateway"]);
        assert_eq!(merged.origins.of(Kind::Route, "a.example").map(|of| &**of), Some("kubernetes: a.example"));
        assert_eq!(merged.origins.of(Kind::Listener, "web"), None);
        let text = merged.plan.to_toml_by_origin(&|table, name| merged.origins.of_table(table, name));
        assert!(text.contains("[pool.shop] # kubernetes: Service\n") && text.contains("[pool.web]\n"), "{text}");
        assert_eq!(base(&text), merged.plan, "it can be read as a file");
    }

    #[test]
    fn a_route_of_the_file_for_all_listeners_is_for_those_of_the_file() {
        let merged = merged(&base(FILE), part(&["a.example"]));
        let of_file = merged.plan.routes.iter().find(|route| route.action == Action::Pool("web".into()));
        assert_eq!(of_file.expect("it is there").listeners, ["web".into()]);
        assert_eq!(merged.plan.routes_on("gateway").count(), 1);
    }

    #[test]
    fn a_piece_that_makes_the_plan_impossible_is_left_out_with_what_needs_it() {
        let base = base(FILE);
        let mut part = part(&["a.example", "b.example"]);
        let bad = Pool { name: "bad".into(), keepalive: None, ..Pool::default() };
        let of_bad = route("to-bad", "c.example", &bad);
        part.pools.push(Piece::new(&"Service bad".into(), Arc::new(bad)));
        part.routes.push(Piece::new(&"HTTPRoute bad".into(), of_bad));
        // The same requests as one before it, and a name that the file has.
        part.routes.push(Piece::new(&"HTTPRoute twice".into(), route("twice", "b.example", &pool("shop"))));
        part.pools.push(Piece::new(&"Service web".into(), pool("web")));
        part.listeners
            .push(Piece::new(&"Gateway same".into(), Arc::new(Listener::new("same", ([127, 0, 0, 1], 8080).into()))));
        let merged = merged(&base, part);
        let refused = refused(&merged);
        for of in ["Service bad", "HTTPRoute bad", "HTTPRoute twice", "Service web", "Gateway same"] {
            assert!(refused.iter().any(|text| text.starts_with(&format!("{of}: "))), "{of}: {refused:#?}");
        }
        assert_eq!(refused.len(), 5, "{refused:#?}");
        let routes: Vec<&str> = merged.plan.routes_on("gateway").map(|route| &*route.name).collect();
        assert_eq!(routes, ["a.example", "b.example"]);
    }

    #[test]
    fn a_listener_whose_routes_are_all_left_out_leads_nowhere_however_many_pools_there_are() {
        for pools in 1..3 {
            let base = base("[provider.kubernetes]\n");
            let mut part = part(&["a.example"]);
            part.routes[0].value.listeners = vec!["elsewhere".into()];
            part.pools.extend((1..pools).map(|n| Piece::new(&"Service".into(), pool(&format!("shop-{n}")))));
            let merged = merged(&base, part);
            assert_eq!(refused(&merged), ["a.example: unknown listener \"elsewhere\""]);
            let routes: Vec<String> =
                merged.plan.routes.iter().map(|route| format!("{} {}", route.name, route.action)).collect();
            assert_eq!(routes, ["gateway/(none) respond 404"]);
            let of = merged.origins.of(Kind::Route, "gateway/(none)");
            assert_eq!(of.map(|of| &**of), Some("kubernetes: Gateway"));
        }
    }

    #[test]
    fn a_listener_of_the_file_leads_to_no_pool_of_others() {
        let base = base("[listener.web]\nbind = ['127.0.0.1:8080']\n[provider.kubernetes]\n");
        let merged = merged(&base, Part { listeners: Vec::new(), ..part(&["a.example"]) });
        let routes: Vec<String> = merged.plan.routes_on("web").map(|route| route.action.to_string()).collect();
        assert_eq!(routes, ["respond 404"]);
        assert_eq!(merge(&base, &[], &HashMap::new()).plan, base);
    }

    #[test]
    fn thousands_of_bad_pieces_cost_the_others_nothing() {
        let hosts: Vec<String> = (0..5000).map(|n| format!("{n}.example")).collect();
        let mut part = part(&hosts.iter().map(|host| &**host).collect::<Vec<_>>());
        for piece in &mut part.routes[1..] {
            piece.value.listeners = vec!["elsewhere".into()];
        }
        let merged = merged(&base(FILE), part);
        assert_eq!(refused(&merged).len(), 4999);
        assert_eq!(merged.plan.routes_on("gateway").map(|route| &*route.name).collect::<Vec<_>>(), ["0.example"]);
    }

    #[test]
    fn a_file_without_listeners_is_a_plan_and_what_others_add_is_served() {
        let base = base("[provider.kubernetes]\n");
        assert!(base.listeners.is_empty() && base.pools.is_empty() && base.routes.is_empty());
        assert_eq!(merged(&base, Part::default()).plan, base);
        let merged = merged(&base, part(&["a.example"]));
        assert_eq!((refused(&merged).len(), merged.plan.listeners.len()), (0, 1));
        let before = added(&base, &merged.plan);
        assert_eq!((before.listeners.len(), before.routes.len(), before.pools.len()), (1, 1, 1));
    }

    #[test]
    fn an_error_of_the_machine_is_blamed_on_the_listener_that_it_names_else_on_what_is_new() {
        let base = base(FILE);
        let merged = merged(&base, part(&["a.example"]));
        let gateway = (Kind::Listener, Arc::from("gateway"));
        assert_eq!(merged.blame("cannot listen on 127.0.0.1:8090: in use", &base), std::slice::from_ref(&gateway));
        let all = merged.blame("no such thing", &base);
        assert!(all.contains(&gateway) && all.contains(&(Kind::Pool, "shop".into())) && all.len() == 3, "{all:?}");
        assert_eq!(merged.blame("no such thing", &merged.plan), []);
        let without =
            merge(&base, &[("kubernetes", Arc::new(part(&["a.example"])))], &[(gateway, "in use".to_owned())].into());
        assert_eq!(refused(&without), ["Gateway: in use", "a.example: unknown listener \"gateway\""]);
    }
}
