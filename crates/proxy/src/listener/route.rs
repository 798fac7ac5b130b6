//! Routing of requests by host, then by path, then by further criteria. The most specific match wins. Among equally
//! specific matches, the route with the lowest `order` wins.

pub use super::route_id::RouteId;

use super::by_host::ByHost;
use super::candidates::Candidates;
use super::paths::Paths;
use super::readings::{Ambiguous, Choice, PathRules, routes_of_readings};
use crate::peer::sender::{Seen, Sender};
use evenkeel_config::Plan;
use evenkeel_config::plan::{HostPattern, Match, Mode, PathPattern, Pieces, Route, Scheme};
use evenkeel_net::event_loop::budget;
use evenkeel_wire::folding::folded;
use evenkeel_wire::head::{Fields, Request};
use evenkeel_wire::host;
use evenkeel_wire::readings::unescaped;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Reason why a request gets no route, although some may match.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many steps of regular expressions for a single request.
    TooCostly,
    /// Readings of the path choose different routes.
    Ambiguous(Ambiguous),
}

impl Refusal {
    /// The reason in words. `name`: the name of a route.
    pub fn text<'n>(&self, name: impl Fn(RouteId) -> &'n str) -> String {
        match self {
            Refusal::TooCostly => "regular expressions of routes take too long for this request".to_owned(),
            Refusal::Ambiguous(ambiguous) => ambiguous.text(name),
        }
    }
}

/// The routes of a listener.
#[derive(Debug)]
pub struct Router {
    /// The only route, if it matches every request, as in most sidecars.
    sole: Option<RouteId>,
    /// Hosts of routes that name this listener, each with all of the host's routes.
    own: Hosts,
    /// All other hosts; the table is shared by all listeners with the same `ignore_case`.
    common: Arc<Hosts>,
    paths: PathRules,
    /// True if paths are compared without regard to case.
    ignore_case: bool,
}

#[derive(Debug, Default)]
struct Hosts {
    named: ByHost<Paths<Candidates>>,
    any: Option<Paths<Candidates>>,
}

/// Matches by host, while a router is built. Routes that name the listener come first.
#[derive(Debug, Default)]
struct Matches<'p> {
    named: ByHost<Vec<(RouteId, &'p Match)>>,
    any: Vec<(RouteId, &'p Match)>,
}

impl Router {
    /// Builds a router for the clients of each listener, in the order of the plan. The plan must not have equally specific
    /// routes.
    pub fn of_plan(plan: &Plan) -> Vec<Router> {
        Router::of_routes(plan, false)
    }

    /// Builds a router for the internal redirects of each listener, in the order of the plan.
    pub fn of_internal(plan: &Plan) -> Vec<Router> {
        Router::of_routes(plan, true)
    }

    fn of_routes(plan: &Plan, internal: bool) -> Vec<Router> {
        let matches: Vec<Vec<Match>> = plan.routes.iter().map(Route::matches).collect();
        let mut naming: HashMap<&str, Vec<RouteId>> = HashMap::new();
        let mut naming_none = Vec::new();
        for (id, route) in plan.routes_in_order().filter(|(_, route)| route.internal == internal && !route.is_by_name())
        {
            if route.listeners.is_empty() {
                naming_none.push(id);
            }
            for listener in &route.listeners {
                naming.entry(listener).or_default().push(id);
            }
        }
        let mut common = Matches::default();
        naming_none.iter().for_each(|&id| common.add(&matches[id], id));
        let [exact, folded] = [OnceCell::new(), OnceCell::new()];
        let none = Arc::<Hosts>::default();
        let router = |listener: &Arc<evenkeel_config::plan::Listener>| {
            let own = naming.get(&*listener.name).map_or(&[][..], Vec::as_slice);
            // Routes that name no listener apply to HTTP only.
            let (is_http, ignore_case) = (listener.mode == Mode::Http, listener.ignore_case);
            let others = if is_http { &naming_none[..] } else { &[] };
            let mut hosts = Matches::default();
            own.iter().for_each(|&id| hosts.add(&matches[id], id));
            if is_http {
                hosts.follow(&common, own.iter().flat_map(|&id| &matches[id]).flat_map(|matching| &matching.hosts));
            }
            let sole = match (own, others) {
                ([only], []) | ([], [only]) => Some(*only).filter(|&id| takes_all(&plan.routes[id])),
                _ => None,
            };
            let shared = if ignore_case { &folded } else { &exact };
            let shared = || shared.get_or_init(|| Arc::new(common.hosts(ignore_case))).clone();
            let common = if is_http { shared() } else { none.clone() };
            Router {
                sole,
                own: hosts.hosts(ignore_case),
                common,
                paths: PathRules::of(plan, listener, internal),
                ignore_case,
            }
        };
        plan.listeners.iter().map(router).collect()
    }

    /// Returns the route for a request. `sender` is not called if the listener has a sole route.
    ///
    /// # Errors
    /// The regular expressions would take too much time, or the path is ambiguous.
    #[inline]
    pub fn find<'m>(&self, request: &Request<'_, '_>, sender: impl FnOnce() -> Sender<'m>) -> Result<Choice, Refusal> {
        match self.sole {
            Some(sole) => Ok(Choice::as_sent(Some(sole))),
            None => {
                let (sender, path) = (sender(), request.path());
                let find = |reading: &[u8]| self.find_one(reading, request, &sender);
                let found = match self.paths.take_as_sent(path) {
                    true => Ok(Choice::as_sent(find(path.as_bytes()))),
                    false => self.paths.choose(path, find),
                };
                budget::charge(sender.units().ok_or(Refusal::TooCostly)?);
                found.map_err(Refusal::Ambiguous)
            }
        }
    }

    /// The readings of a request's path with the route of each, the path as sent first; `None` if there are too many.
    pub fn readings(&self, request: &Request<'_, '_>, sender: &Sender<'_>) -> Option<Vec<(String, Option<RouteId>)>> {
        routes_of_readings(request.path(), |reading| self.find_one(reading, request, sender))
    }

    /// Returns the route of a listener for datagrams, which have nothing to match.
    pub fn of_datagrams(&self) -> Option<RouteId> {
        let request = Request { method: "", target: "/", host: b"", fields: Fields { bytes: b"", rows: &mut [] } };
        self.find(&request, || Sender::new(Ipv4Addr::UNSPECIFIED.into(), Scheme::Http)).ok()?.route
    }

    /// The route of a request whose path is read as `path`.
    fn find_one(&self, path: &[u8], request: &Request<'_, '_>, sender: &Sender<'_>) -> Option<RouteId> {
        let host = host::without_port(request.host);
        if host.iter().any(u8::is_ascii_uppercase) {
            return self.find_lower(&host.to_ascii_lowercase(), path, request, sender);
        }
        self.find_lower(host, path, request, sender)
    }

    fn find_lower(&self, host: &[u8], path: &[u8], request: &Request<'_, '_>, sender: &Sender<'_>) -> Option<RouteId> {
        let path = if path == b"*" { b"/" } else { path };
        let compared = if self.ignore_case { folded(path) } else { Cow::Borrowed(path) };
        let seen = Seen { request, path, added: b"" };
        let at = |paths: &Paths<Candidates>| paths.find(&compared, |here| here.find(&seen, sender));
        let (own, common) = (&self.own, &*self.common);
        let exact = || own.named.exact(host).or_else(|| common.named.exact(host)).and_then(at);
        let longest = || if own.named.suffix_max() > common.named.suffix_max() { &own.named } else { &common.named };
        let wildcard = || {
            let paths = |suffix| own.named.wildcard(suffix).or_else(|| common.named.wildcard(suffix));
            longest().suffixes(host).find_map(|suffix| paths(suffix).and_then(at))
        };
        let any = || own.any.as_ref().or(common.any.as_ref()).and_then(at);
        exact().or_else(wildcard).or_else(any)
    }
}

impl<'p> Matches<'p> {
    fn add(&mut self, matches: &'p [Match], id: RouteId) {
        for matching in matches {
            if matching.hosts.is_empty() {
                self.any.push((id, matching));
            }
            matching.hosts.iter().for_each(|host| self.named.entry(host).push((id, matching)));
        }
    }

    /// Appends the matches of `common` for the hosts that are here already. `hosts` names all of these, possibly more
    /// than once.
    fn follow<'h>(&mut self, common: &Matches<'p>, hosts: impl Iterator<Item = &'h HostPattern>) {
        if !self.any.is_empty() {
            self.any.extend(&common.any);
        }
        let hosts: BTreeSet<&HostPattern> = hosts.collect();
        for host in hosts {
            let others = common.named.get(host);
            self.named.entry(host).extend(others.into_iter().flatten());
        }
    }

    fn hosts(&self, ignore_case: bool) -> Hosts {
        let paths = |matches: &[_]| paths(matches, ignore_case);
        let any = (!self.any.is_empty()).then(|| paths(&self.any));
        Hosts { named: self.named.map(paths), any }
    }
}

/// Builds the paths of a host's matches, which are in the order of their routes. On equal path and rank the earlier
/// match wins.
fn paths(matches: &[(RouteId, &Match)], ignore_case: bool) -> Paths<Candidates> {
    let folded = |form: Pieces| if ignore_case { form.folded() } else { form };
    let mut paths: Paths<Vec<(RouteId, &Match)>> = Paths::default();
    let forms = matches
        .iter()
        .flat_map(|(id, matching)| matching.path.forms().into_iter().map(move |form| (form, *id, *matching)));
    let forms: Vec<(Pieces, RouteId, &Match)> = forms.collect();
    forms.iter().for_each(|(form, id, matching)| paths.entry(&folded(form.clone())).push((*id, *matching)));
    // Readings have escapes in a single spelling.
    for (form, id, matching) in &forms {
        let other = form.spelled(unescaped);
        if forms.iter().all(|(form, ..)| *form != other) {
            paths.entry(&folded(other)).push((*id, *matching));
        }
    }
    paths.map(&|mut here: Vec<(RouteId, &Match)>| {
        here.sort_by_key(|(_, matching)| Reverse(matching.rank()));
        // A match that takes every request hides the matches behind it.
        let all = here.iter().position(|(_, matching)| matching.is_plain()).map_or(here.len(), |at| at + 1);
        Candidates::new(&here[..all], ignore_case)
    })
}

fn takes_all(route: &Route) -> bool {
    route.is_plain() && route.matching.hosts.is_empty() && takes_any(&route.matching.path)
}

/// True if every path matches: no pattern, or just a catch-all (`/{*rest}`).
fn takes_any(path: &PathPattern) -> bool {
    match path {
        PathPattern::Any => true,
        PathPattern::Pattern(pattern) => pattern.starts_with("/{*"),
        PathPattern::Prefix(_) => false,
        PathPattern::StartsWith(text) => text == "/",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    /// The names of the routes that these paths match at a listener.
    fn found(plan: &Plan, listener: usize, paths: &[&str]) -> Vec<String> {
        let router = &Router::of_plan(plan)[listener];
        let mut none: Table = Table::default();
        let mut name = |path: &&str| {
            let request = Request { method: "GET", target: path, host: b"a", fields: none.fields() };
            let sender = || Sender::new(Ipv4Addr::LOCALHOST.into(), Scheme::Http);
            router
                .find(&request, sender)
                .expect("it has one reading")
                .route
                .map_or("-".into(), |id| plan.routes[id].name.to_string())
        };
        paths.iter().map(&mut name).collect()
    }

    fn plan(text: &str) -> Plan {
        let pools = "[pool.p]\nendpoints = ['127.0.0.1:81']\n[pool.q]\nendpoints = ['127.0.0.1:82']\n";
        let outcome = evenkeel_config::parse_str("a.toml", &format!("{text}\n{pools}"), &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
    }

    #[test]
    fn a_prefix_takes_its_path_and_what_is_below_and_nothing_beside() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\n[[route]]\npool = 'p'\nmatch = { prefix = '/api' }\n\
             [[route]]\npool = 'q'\nmatch = { path = '/api/v2' }\n[[route]]\npool = 'q'\nmatch = { prefix = '/t/{id}' }",
        );
        let paths = ["/api", "/api/", "/api/x/y", "/api/v2", "/apix", "/", "/t/1", "/t/1/x", "/t/"];
        let want = ["/api/*", "/api/*", "/api/*", "/api/v2", "-", "-", "/t/{id}/*", "/t/{id}/*", "-"];
        assert_eq!(found(&plan, 0, &paths), want);
    }

    #[test]
    fn the_pool_of_a_listener_is_its_last_route() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\npool = 'p'\n[listener.b]\nbind = ['127.0.0.1:2']\n\
             [[route]]\npool = 'q'\n[[route]]\npool = 'q'\nmatch = { prefix = '/api' }\n\
             [[route]]\npool = 'q'\nmatch = { host = ['a'], path = '/a' }",
        );
        let paths = ["/", "/x", "/api/x", "/a"];
        assert_eq!(found(&plan, 0, &paths), ["a", "a", "/api/*", "a/a"]);
        assert_eq!(found(&plan, 1, &paths), ["default", "default", "/api/*", "a/a"]);
    }

    #[test]
    fn of_equally_specific_routes_the_lower_order_wins_and_of_others_the_more_specific_one() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\n\
             [[route]]\npool = 'p'\nname = 'third'\norder = 3\nmatch = { prefix = '/x' }\n\
             [[route]]\npool = 'p'\nname = 'second'\norder = 2\nmatch = { prefix = '/x', header = { b = '1' } }\n\
             [[route]]\npool = 'q'\nname = 'first'\norder = 1\nmatch = { prefix = '/x', header = { c = { present = false } } }\n\
             [[route]]\npool = 'q'\nname = 'exact'\norder = 9\nmatch = { path = '/x/y' }\n\
             [[route]]\npool = 'q'\nname = 'fourth'\norder = 4\nmatch = { prefix = '/x' }\n\
             [[route]]\npool = 'q'\nname = 'own'\norder = 5\nmatch = { listener = ['a'], prefix = '/z' }\n\
             [[route]]\npool = 'q'\nname = 'common'\nmatch = { prefix = '/z' }\n",
        );
        let router = &Router::of_plan(&plan)[0];
        for (target, fields, want) in [
            ("/x", &[][..], "first"),
            ("/x", &[(b"b", b"1")], "first"),
            ("/x", &[(b"b", b"1"), (b"c", b"1")], "second"),
            ("/x", &[(b"c", b"1")], "third"),
            ("/x/y", &[], "exact"),
            ("/z", &[], "own"),
        ] {
            let fields: &[(&[u8; 1], &[u8; 1])] = fields;
            let mut table: Table = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let request = Request { method: "GET", target, host: b"a", fields: table.fields() };
            let sender = || Sender::new(Ipv4Addr::LOCALHOST.into(), Scheme::Http);
            let found = router.find(&request, sender).expect("it is cheap").route.map(|id| &*plan.routes[id].name);
            assert_eq!(found, Some(want), "{target} {fields:?}");
        }
    }

    #[test]
    fn the_order_of_sessions_counts_for_the_same_name_and_protocol() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\nmode = 'tcp'\n\
             [[route]]\npool = 'p'\nname = 'second'\norder = 2\nmatch = { listener = ['a'], host = ['a.example', 'b.example'] }\n\
             [[route]]\npool = 'q'\nname = 'first'\norder = 1\nmatch = { listener = ['a'], host = ['a.example'] }\n\
             [[route]]\npool = 'q'\nname = 'wild'\nmatch = { listener = ['a'], host = ['*.example'] }\n",
        );
        let routes = super::super::tls_route::TlsRoutes::of_plan(&plan).remove(0).expect("a listener for sessions");
        let found = |name: &str| {
            let hello = evenkeel_wire::tls_hello::Hello { server_name: Some(name.into()), alpn: Vec::new() };
            routes.find(Some(&hello)).map(|id| &*plan.routes[id].name)
        };
        assert_eq!(["a.example", "b.example", "c.example"].map(found), [Some("first"), Some("second"), Some("wild")]);
    }

    #[test]
    fn expressions_that_take_too_long_have_no_result() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\npool = 'p'\n\
             [[route]]\nname = 'n'\npool = 'q'\nmatch = { not = { header = { x = { regex = '(?:[ab]*a){30}[ab]{100}x' } } } }\n",
        );
        let router = &Router::of_plan(&plan)[0];
        let hard: Vec<u8> = (0..10_000u32).map(|at| b"ab"[(at.wrapping_mul(at) % 7919) as usize & 1]).collect();
        let find = |value: &[u8]| {
            let mut table: Table = [(&b"x"[..], value)].into_iter().collect();
            let request = Request { method: "GET", target: "/", host: b"a", fields: table.fields() };
            let sender = || Sender::new(Ipv4Addr::LOCALHOST.into(), Scheme::Http);
            router.find(&request, sender).map(|found| found.route.map(|id| &*plan.routes[id].name))
        };
        assert_eq!(find(b"ab"), Ok(Some("n")));
        assert_eq!(find(&hard[..500]), Ok(Some("n")), "a short one may be hard");
        assert_eq!(find(&hard), Err(Refusal::TooCostly));
        assert_eq!(find(&b"c".repeat(10_000)), Ok(Some("n")), "a long one may be easy");
    }

    /// Nanoseconds of a lookup, at best of several rounds.
    fn cost(plan: &Plan, target: &str, fields: &[(&[u8], &[u8])]) -> u128 {
        let router = &Router::of_plan(plan)[0];
        let mut table: Table = fields.iter().copied().collect();
        let request = Request { method: "GET", target, host: b"h9.example", fields: table.fields() };
        let sender = || Sender::new(Ipv4Addr::LOCALHOST.into(), Scheme::Http);
        let round = || {
            let begin = std::time::Instant::now();
            for _ in 0..1000 {
                assert!(
                    std::hint::black_box(router.find(std::hint::black_box(&request), sender))
                        .is_ok_and(|found| found.route.is_some())
                );
            }
            begin.elapsed().as_nanos() / 1000
        };
        (0..50).map(|_| round()).min().unwrap_or_default()
    }

    #[test]
    #[ignore = "prints what lookups cost"]
    fn many_routes_cost_a_lookup_little() {
        let plan = |routes: String| plan(&format!("[listener.a]\nbind = ['127.0.0.1:1']\npool = 'q'\n{routes}"));
        let paths =
            |n: usize| (0..n).map(|at| format!("[[route]]\npool = 'p'\nmatch = {{ prefix = '/p{at}/x' }}\n")).collect();
        let hosts = |n: usize| {
            let route =
                |at: usize| format!("[[route]]\npool = 'p'\nmatch = {{ host = ['h{at}.example'], prefix = '/p9' }}\n");
            (0..n).map(route).collect()
        };
        let values = |n: usize| {
            let route =
                |at: usize| format!("[[route]]\npool = 'p'\nmatch = {{ prefix = '/p9', header = {{ x = '{at}' }} }}\n");
            (0..n).map(route).collect()
        };
        let fields: [(&[u8], &[u8]); 1] = [(b"x", b"9")];
        for n in [10, 1_000, 10_000] {
            let by_path = cost(&plan(paths(n)), "/p9/x/y", &[]);
            let by_host = cost(&plan(hosts(n)), "/p9/x/y", &[]);
            let by_value = cost(&plan(values(n)), "/p9/x/y", &fields);
            println!("{n} routes: {by_path} ns by path, {by_host} ns by host, {by_value} ns by a field");
        }
    }
}
