//! Route configurations: virtual hosts and their routes, in the order of a plan. See [`RouteConfiguration`].

use crate::action::{Acting, Inherited, To, action, answering};
use crate::headers::{self, Changes, Fields};
use crate::matching::{OddDomain, host, is_never, matching, path_alone};
use crate::node::Node;
use crate::order::settle;
use evenkeel_config::plan::{Action, HostPattern, Match, Redirect, Respond, Scheme};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A `RouteConfiguration`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteConfiguration {
    pub name: String,
    pub hosts: Vec<Arc<VirtualHost>>,
}

/// A `VirtualHost`: its domains, and its routes.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualHost {
    pub name: String,
    /// Domains other than `*`.
    pub domains: Vec<HostPattern>,
    /// Domains with other wildcards.
    pub odd: Vec<OddDomain>,
    /// True if `*` is among them.
    pub is_for_all: bool,
    pub routes: Vec<PlannedRoute>,
}

/// A route of a virtual host.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRoute {
    /// Name, or position in the virtual host.
    pub label: Arc<str>,
    /// Path and criteria. The hosts are in the virtual host.
    pub matching: Match,
    /// Decides between routes that are equally specific.
    pub order: u32,
    pub acting: Arc<Acting>,
}

impl RouteConfiguration {
    /// Reads a route configuration.
    ///
    /// # Errors
    /// The field that cannot be kept, with its place.
    pub fn of(node: &Node<'_>) -> Result<RouteConfiguration, String> {
        let name = node.text("name").unwrap_or_default().to_owned();
        // No client of such a listener is internal: it has no proxies in front that it trusts.
        let internal: Vec<Arc<str>> = node.texts("internal_only_headers").map(Arc::from).collect();
        let first = Fields::without(&internal);
        let changes = Changes::of(node)?;
        let specific_wins = node.flag("most_specific_header_mutations_wins");
        let mirrors: Vec<_> = node.nodes("request_mirror_policies").collect();
        let mut hosts = Vec::new();
        let (mut names, mut domains) = (BTreeSet::new(), BTreeMap::new());
        for host in node.nodes("virtual_hosts") {
            let around = Around { internal: &first, whole: &changes, specific_wins };
            let read = virtual_host(host, &around, &mirrors).and_then(|read| {
                if let Some(field) =
                    read.matched().find(|name| internal.iter().any(|field| field.eq_ignore_ascii_case(name)))
                {
                    return Err(format!(
                        "a route matches the field {field:?}, which internal_only_headers removes before that"
                    ));
                }
                if !names.insert(read.name.clone()) {
                    return Err("duplicate name".to_owned());
                }
                let all = read.domains.iter().map(|domain| Some(domain.clone())).chain(read.is_for_all.then_some(None));
                for domain in all {
                    let shown = domain.as_ref().map_or_else(|| "*".to_owned(), ToString::to_string);
                    if let Some(other) = domains.get(&domain) {
                        return Err(format!("{other:?} has the domain {shown:?} too"));
                    }
                }
                Ok(read)
            });
            let place = |why: String| format!("virtual_hosts {:?}: {why}", host.text("name").unwrap_or_default());
            let read = host.part(read).map_err(place)?.unwrap_or_else(|| refusing(host, &domains));
            let all = read.domains.iter().map(|domain| Some(domain.clone())).chain(read.is_for_all.then_some(None));
            all.for_each(|domain| drop(domains.insert(domain, read.name.clone())));
            hosts.push(Arc::new(read));
        }
        Ok(RouteConfiguration { name, hosts })
    }

    /// Names of the clusters that the routes lead to.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        let all = self.hosts.iter().flat_map(|host| &host.routes);
        all.flat_map(|route| route.acting.clusters())
    }
}

impl Acting {
    /// Names of the clusters that get requests or copies.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        let (one, several) = match &self.to {
            To::Cluster(name) => (Some(name), &[][..]),
            To::Clusters(all, _) => (None, &all[..]),
            To::Answer(_) => (None, &[][..]),
        };
        let copied = self.mirrors.iter();
        one.into_iter().chain(several.iter().map(|(name, _)| name)).chain(copied).map(String::as_str)
    }
}

impl VirtualHost {
    /// Names of the fields that routes match.
    fn matched(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().flat_map(|route| {
            let Match { criteria, not, .. } = &route.matching;
            criteria.headers.iter().chain(&not.headers).map(|(name, _)| &**name)
        })
    }

    /// True if some route takes all requests.
    pub fn takes_all(&self) -> bool {
        self.routes.iter().any(|route| route.matching == Match::all())
    }
}

/// Changes of fields around a virtual host.
struct Around<'c> {
    /// Fields that are removed before all others.
    internal: &'c Fields,
    whole: &'c Changes,
    /// True if those of a route are applied last, and overwrite the others.
    specific_wins: bool,
}

fn virtual_host(node: &Node<'_>, around: &Around<'_>, mirrors: &[&Node<'_>]) -> Result<VirtualHost, String> {
    let mut bare = bare(node);
    for domain in node.texts("domains") {
        if let (Err(why), None) = (host(domain), OddDomain::of(domain)) {
            node.without(why)?;
        }
    }
    if bare.domains.is_empty() && bare.odd.is_empty() && !bare.is_for_all {
        return Err("it has no domains".to_owned());
    }
    let changes = Changes::of(node)?;
    let own: Vec<_> = node.nodes("request_mirror_policies").collect();
    let mirrors = if own.is_empty() { mirrors.to_vec() } else { own };
    let inherited = Inherited { mirrors, retry: node.node("retry_policy") };
    let (mut matches, mut routes, mut nodes) = (Vec::new(), Vec::<(Arc<str>, Arc<Acting>)>::new(), Vec::new());
    if node.number("require_tls") > 0 {
        let mut plain = Match::all();
        plain.criteria.scheme = Some(Scheme::Http);
        let to = Redirect { status: 301, scheme: Some(Scheme::Https), ..Redirect::default() };
        matches.push(plain);
        nodes.push(node);
        routes.push((Arc::from("require_tls"), Arc::new(answering(Action::Redirect(to)))));
    }
    for (position, route) in node.nodes("routes").enumerate() {
        let named = route.text("name").filter(|name| !name.is_empty());
        let label = named.map_or_else(|| position.to_string(), str::to_owned);
        let read = one(route, &changes, around, &inherited);
        let read = route.part(read).map_err(|why| format!("routes {label:?}: {why}"))?;
        let Some((mut matching, mut acting)) = read else { continue };
        if route.node("match").is_some_and(is_never) {
            route.differs("no request takes it, as its runtime_fraction is 0");
            continue;
        }
        if !bare.odd.is_empty() && matching.criteria.headers.iter().any(|(name, _)| &**name == "host") {
            route.without(
                "its condition on the host cannot be joined with the domain: its requests are refused".into(),
            )?;
            matching.criteria.headers.retain(|(name, _)| &**name != "host");
            acting = refused();
        }
        matches.push(matching);
        nodes.push(route);
        routes.push((label.into(), Arc::new(acting)));
    }
    let settled = settle(matches, &mut |earlier, later, why| {
        let (first, second) = (&routes[earlier].0, &routes[later].0);
        nodes[later].without(format!("routes {first:?} and {second:?}: their order cannot be kept: {why}"))
    })?;
    let is_needless = |position: &usize| settled.iter().all(|(_, other)| other != position);
    for position in (0..nodes.len()).filter(is_needless) {
        nodes[position].differs("earlier routes take all its requests");
    }
    let mut fitting = Vec::new();
    for (matching, position) in settled {
        let mut acting = routes[position].1.clone();
        if acting.prefix.is_some()
            && let Err(why) = Arc::make_mut(&mut acting).replace_prefix(&matching)
        {
            nodes[position].without(why)?;
            continue;
        }
        fitting.push((matching, position, acting));
    }
    let mut positions: Vec<usize> = fitting.iter().map(|(_, position, _)| *position).collect();
    positions.sort_unstable();
    let is_unique = positions.windows(2).all(|pair| pair[0] != pair[1]);
    let mut taken = vec![0; nodes.len()];
    let planned = fitting.into_iter().map(|(matching, position, acting)| {
        let label = routes[position].0.clone();
        // Several matches of a route are equally specific, too.
        let before = positions.partition_point(|other| *other < position) + taken[position];
        taken[position] += 1;
        let order = u32::try_from(if is_unique { position } else { before }).unwrap_or(u32::MAX);
        PlannedRoute { label, matching, order, acting }
    });
    bare.routes = planned.collect();
    Ok(bare)
}

/// A virtual host with its domains alone.
fn bare(node: &Node<'_>) -> VirtualHost {
    let name = node.text("name").unwrap_or_default().to_owned();
    let (mut domains, mut odd, mut is_for_all) = (Vec::new(), Vec::new(), false);
    for domain in node.texts("domains") {
        match host(domain) {
            Ok(None) => is_for_all = true,
            // Domains that differ only in their port are the same host here.
            Ok(Some(host)) if !domains.contains(&host) => domains.push(host),
            Ok(Some(_)) => {}
            Err(_) => odd.extend(OddDomain::of(domain)),
        }
    }
    VirtualHost { name, domains, odd, is_for_all, routes: Vec::new() }
}

/// A virtual host that refuses all requests, as it was left out: no other may have them. `taken`: domains of others.
fn refusing(node: &Node<'_>, taken: &BTreeMap<Option<HostPattern>, String>) -> VirtualHost {
    let mut host = bare(node);
    host.domains.retain(|domain| !taken.contains_key(&Some(domain.clone())));
    host.is_for_all &= !taken.contains_key(&None);
    let (label, acting) = ("(left out)".into(), Arc::new(refused()));
    host.routes = vec![PlannedRoute { label, matching: Match::all(), order: 0, acting }];
    host
}

/// The action of a route whose requests get a 403.
fn refused() -> Acting {
    answering(Action::Respond(Respond { status: 403, ..Respond::default() }))
}

/// True for a route that answers with an error.
fn refuses(node: &Node<'_>) -> bool {
    node.node("direct_response").is_some_and(|to| to.number("status") >= 400)
}

fn one(
    node: &Node<'_>,
    of_host: &Changes,
    around: &Around<'_>,
    inherited: &Inherited<'_, '_>,
) -> Result<(Match, Acting), String> {
    let of_match = node.node("match").ok_or("it has no match")?;
    let mut found = match of_match.whole(matching(of_match)) {
        Ok(found) => found,
        // Requests that Envoy may refuse are refused.
        Err(why) if node.is_of_file() && refuses(node) => {
            node.differs(format!("match: {why}; all requests for its path are refused"));
            path_alone(of_match)
        }
        Err(why) => return Err(format!("match: {why}")),
    };
    // Later routes must not get the requests of a route that is left out.
    let read = action(node, of_match, &found, inherited);
    let Some(mut acting) = node.part(read)? else { return Ok((found, refused())) };
    if let (To::Answer(_), Some(prefix)) = (&acting.to, &acting.prefix) {
        prefix.find_rest(&mut found)?;
    }
    let own = Changes::of(node)?;
    let mut levels = [&own, of_host, around.whole];
    if around.specific_wins {
        levels.reverse();
    }
    let [first, second, third] = levels;
    let read = levels.iter().flat_map(|level| level.response.reads());
    if let Some(name) = read.into_iter().find(|name| levels.iter().any(|level| level.request.changes(name))) {
        node.without(format!("response_headers_to_add: the value of {name:?} is the client's, without the changes"))?;
    }
    let filters = &mut acting.route.filters;
    let of_requests = [around.internal, &first.request, &second.request, &third.request];
    filters.request_headers = headers::of_requests(&of_requests);
    filters.response_headers = headers::of_responses(&[&first.response, &second.response, &third.response]);
    Ok((found, acting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ROUTE_CONFIGURATION;
    use crate::testing::encoded;
    use crate::wire::resource;
    use evenkeel_config::plan::{Filters, Route};
    use serde_json::{Value, json};

    fn read(json: &Value) -> Result<RouteConfiguration, String> {
        let bytes = encoded(&ROUTE_CONFIGURATION, json);
        let node = resource(&bytes, &ROUTE_CONFIGURATION).expect("a message");
        let read = RouteConfiguration::of(&node)?;
        let mut unread = Vec::new();
        node.unread("", &mut unread);
        if unread.is_empty() { Ok(read) } else { Err(unread.join(", ")) }
    }

    fn with(route: Value) -> Value {
        json!({ "name": "main", "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [route] }] })
    }

    fn route(action: Value) -> Value {
        with(json!({ "match": { "prefix": "/" }, "route": action }))
    }

    fn one(json: &Value) -> PlannedRoute {
        read(json).expect("it can be kept").hosts[0].routes[0].clone()
    }

    #[test]
    fn internal_only_fields_are_removed_before_others_are_added_and_no_route_matches_them() {
        let mut json = route(json!({ "cluster": "web" }));
        json["internal_only_headers"] = json!(["x-internal", "X-Tenant"]);
        json["request_headers_to_remove"] = json!(["x-tenant"]);
        let removed: Vec<String> =
            one(&json).acting.route.filters.request_headers.remove.iter().map(ToString::to_string).collect();
        assert_eq!(removed, ["x-internal", "X-Tenant", "x-tenant"]);
        let headers = json!([{ "name": "X-Internal", "exact_match": "1" }]);
        json["virtual_hosts"][0]["routes"][0]["match"]["headers"] = headers;
        let why = read(&json).expect_err("a stranger would choose the route");
        assert!(why.contains("internal_only_headers removes"), "{why}");
    }

    fn planned(json: &Value) -> Route {
        one(json).acting.route.clone()
    }

    #[test]
    fn paths_are_matched_as_envoy_does_and_odd_ones_by_expressions() {
        for (matching, shown) in [
            (json!({ "prefix": "/" }), "Any"),
            (json!({ "prefix": "/api" }), "StartsWith(\"/api\")"),
            (json!({ "path": "/a{b}" }), "Pattern(\"/a{{b}}\")"),
            (json!({ "path_separated_prefix": "/api" }), "Prefix(\"/api\")"),
            (json!({ "path": "/a*b" }), "Any \\/a\\*b"),
            (json!({ "prefix": "/Api", "case_sensitive": false }), "Any (?i)\\/Api.*"),
            (json!({ "safe_regex": { "regex": "/u/[0-9]+" } }), "Any /u/[0-9]+"),
        ] {
            let found = one(&with(json!({ "match": matching, "route": { "cluster": "web" } }))).matching;
            let regex = found.criteria.regex.as_ref().map(|regex| format!(" {regex}")).unwrap_or_default();
            assert_eq!(format!("{:?}{regex}", found.path), shown);
        }
    }

    #[test]
    fn conditions_on_fields_parameters_and_cookies_are_kept() {
        let matching = json!({
            "prefix": "/",
            "headers": [
                { "name": ":method", "string_match": { "safe_regex": { "regex": "GET|POST" } } },
                { "name": ":authority", "prefix_match": "a." },
                { "name": "X-Canary", "string_match": { "exact": "yes", "ignore_case": true } },
                { "name": "x-old", "present_match": true, "invert_match": true },
            ],
            "query_parameters": [{ "name": "q", "string_match": { "contains": "x" } }],
            "cookies": [{ "name": "c", "string_match": { "suffix": "1" } }],
            "grpc": {},
        });
        let found = one(&with(json!({ "match": matching, "route": { "cluster": "web" } }))).matching;
        let (criteria, not) = (&found.criteria, &found.not);
        assert_eq!(criteria.methods.iter().map(|method| &**method).collect::<Vec<_>>(), ["GET", "POST"]);
        let names: Vec<_> = criteria.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["host", "x-canary", "content-type"]);
        assert_eq!(criteria.headers[1].1.regex.as_deref(), Some("(?is)yes"));
        assert_eq!(not.headers[0].1.present, Some(true));
        assert_eq!((criteria.query.len(), criteria.cookies.len()), (1, 1));
    }

    #[test]
    fn times_retries_and_rewriting_are_kept() {
        let plain = planned(&route(json!({ "cluster": "web" })));
        assert_eq!((plain.timeouts.request, plain.timeouts.response), (Some(std::time::Duration::from_secs(15)), None));
        assert_eq!(plain.retry.settings.attempts, 0, "none without a policy");
        let policy = json!({
            "retry_on": "connect-failure,retriable-status-codes,unavailable", "num_retries": 3, "retriable_status_codes": 429,
            "per_try_timeout": 2, "retry_back_off": { "base_interval": 1 },
        });
        let json = with(json!({
            "match": { "prefix": "/api/" },
            "route": {
                "cluster": "web", "timeout": 0, "retry_policy": policy, "prefix_rewrite": "/v2/", "host_rewrite_literal": "a.test",
                "request_mirror_policies": { "cluster": "shadow", "runtime_fraction": { "default_value": { "numerator": 25 } } },
            },
        }));
        let set = planned(&json);
        let settings = &set.retry.settings;
        assert_eq!((set.timeouts.request, settings.attempts, &settings.on.statuses[..]), (None, 3, &[429][..]));
        assert!(settings.on.connect && !settings.on.reset && settings.on.grpc == 1 << 14);
        assert_eq!((settings.try_timeout_ns, settings.backoff_ns), (Some(2_000_000_000), 1_000_000_000));
        assert_eq!(
            set.filters.rewrite.and_then(|rewrite| rewrite.to).map(|to| to.to_string()),
            Some("/v2/{1}".into()),
            "a prefix would lose the slash at its end"
        );
        assert_eq!((set.filters.send_host.to_string(), set.filters.mirrors[0].share), ("a.test".into(), 0.25));
        assert_eq!(format!("{:?}", one(&json).matching.path), "StartsWith(\"/api/\")");
        assert_eq!(read(&json).expect("good").clusters().collect::<Vec<_>>(), ["web", "shadow"]);
    }

    #[test]
    fn splits_keep_their_shares() {
        let parts = json!([{ "name": "a", "weight": 4_000_000 }, { "name": "b", "weight": 1_000_000 }, { "name": "a", "weight": 0 }]);
        let json = route(json!({ "weighted_clusters": { "clusters": parts } }));
        let wanted = vec![("a".to_owned(), 1_000_000), ("b".to_owned(), 250_000)];
        assert_eq!(one(&json).acting.to, To::Clusters(wanted, false));
    }

    #[test]
    fn a_path_is_rewritten_where_an_expression_matches() {
        let rewrite = |regex: &str, to: &str| {
            let substitute = json!({ "pattern": { "regex": regex }, "substitution": to });
            let rewrite = planned(&route(json!({ "cluster": "web", "regex_rewrite": substitute }))).filters.rewrite;
            rewrite.map(|rewrite| (rewrite.search, rewrite.to.map(|to| to.to_string())))
        };
        let wanted = (Some("^/s/([^/]+)/(.*)$".into()), Some("/i/{1}-{2}".to_owned()));
        assert_eq!(rewrite("^/s/([^/]+)/(.*)$", "/i/\\1-\\2"), Some(wanted));
    }

    #[test]
    fn fields_are_changed_from_the_route_to_the_whole() {
        let add = |key: &str, value: &str, action: u64| json!({ "header": { "key": key, "value": value }, "append_action": action });
        let mut json = route(json!({ "cluster": "web" }));
        json["request_headers_to_add"] = json!([add("x-who", "whole", 2)]);
        json["virtual_hosts"][0]["response_headers_to_remove"] = json!(["server"]);
        let route = &mut json["virtual_hosts"][0]["routes"][0];
        route["request_headers_to_add"] = json!([
            add("x-who", "route", 2),
            add("x-ip", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", 0),
            add("x-pc", "5%% {a}", 0),
        ]);
        let shown = |json: &Value| {
            let Filters { request_headers: request, response_headers: response, .. } = planned(json).filters;
            let added = request.add.iter().flat_map(|(name, all)| all.iter().map(move |value| (name, value)));
            let set = request.set.iter().map(|(name, value)| (name, value));
            let all = set.chain(added).map(|(name, value)| format!("{name}: {value}"));
            (all.collect::<Vec<_>>().join("; "), response.remove)
        };
        let (request, removed) = shown(&json);
        assert_eq!(request, "x-who: whole; x-ip: {client.ip}; x-pc: 5% {{a}}");
        assert_eq!(removed, [Arc::from("server")]);
        json["most_specific_header_mutations_wins"] = json!(true);
        assert!(shown(&json).0.starts_with("x-who: route"), "{:?}", shown(&json));
    }

    #[test]
    fn redirects_and_responses_are_answers() {
        let answer = |json: Value| match &one(&with(json)).acting.to {
            To::Answer(action) => action.clone(),
            other => panic!("{other:?}"),
        };
        let Action::Redirect(redirect) = answer(json!({ "match": { "prefix": "/a/" }, "redirect": {
            "https_redirect": true, "host_redirect": "b.test", "prefix_rewrite": "/c", "response_code": 4, "strip_query": true,
        } })) else {
            panic!("a redirect")
        };
        assert_eq!(
            (redirect.status, redirect.target(), redirect.keep_query),
            (308, "https://b.test/c{1}".into(), false)
        );
        let Action::Respond(respond) = answer(
            json!({ "match": { "path": "/a" }, "direct_response": { "status": 403, "body": { "inline_bytes": "no" } } }),
        ) else {
            panic!("a response")
        };
        assert_eq!((respond.status, respond.body.as_deref()), (403, Some("no")));
    }

    #[test]
    fn hosts_that_need_tls_redirect_every_request_without_it() {
        let mut json = route(json!({ "cluster": "web" }));
        json["virtual_hosts"][0]["require_tls"] = json!(2);
        let routes = read(&json).expect("good").hosts[0].routes.clone();
        let labels: Vec<_> = routes.iter().map(|route| &*route.label).collect();
        assert_eq!(labels, ["require_tls", "0"]);
        assert_eq!(routes[0].matching.criteria.scheme, Some(Scheme::Http));
    }

    #[test]
    fn what_no_route_can_do_is_refused_with_its_place() {
        let of_match = |matching: Value| with(json!({ "name": "r", "match": matching, "route": { "cluster": "web" } }));
        for (json, why) in [
            (of_match(json!({ "connect_matcher": {} })), "virtual_hosts \"all\": routes \"r\": match: it has no path"),
            (of_match(json!({ "prefix": "/", "headers": { "name": "a", "range_match": {} } })), "range_match"),
            (
                of_match(json!({ "prefix": "/", "runtime_fraction": { "default_value": { "numerator": 5 } } })),
                "runtime_fraction",
            ),
            (of_match(json!({ "safe_regex": { "regex": "(" } })), "is not a regular expression"),
            (of_match(json!({ "prefix": "api" })), "\"api\" is not a path"),
            (route(json!({ "cluster_header": "x" })), "route: it has no cluster"),
            (route(json!({ "cluster": "a", "regex_rewrite": {} })), "regex_rewrite"),
            (
                route(json!({ "cluster": "a", "retry_policy": { "retry_on": "envoy-ratelimited" } })),
                "\"envoy-ratelimited\"",
            ),
            (route(json!({ "cluster": "a", "hash_policy": { "filter_state": {} } })), "hash_policy"),
            (
                route(json!({ "cluster": "a", "hash_policy": { "cookie": { "name": "c", "ttl": {} } } })),
                "hash_policy.cookie.ttl",
            ),
            (with(json!({ "match": { "prefix": "/" }, "filter_action": {} })), "no action that can be kept"),
            (
                json!({ "virtual_hosts": [{ "name": "a", "domains": ["a.*.b"] }] }),
                "virtual_hosts \"a\": domains \"a.*.b\"",
            ),
            (
                json!({ "virtual_hosts": [{ "name": "a", "domains": ["*"] }, { "name": "b", "domains": ["*"] }] }),
                "\"a\" has the domain \"*\" too",
            ),
            (
                with(json!({ "match": { "prefix": "/" }, "route": { "cluster": "a" }, "typed_per_filter_config": {} })),
                "typed_per_filter_config",
            ),
        ] {
            let refused = read(&json).expect_err(why);
            assert!(refused.contains(why), "{refused}: {why}");
        }
    }
}
