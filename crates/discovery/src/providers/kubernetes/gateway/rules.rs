//! Rules of HTTPRoutes and GRPCRoutes as routes of the plan. See [`Rules`].

use super::filters::{self, name_of};
use super::ports::pattern;
use crate::providers::kubernetes::services::Fault;
use crate::providers::kubernetes::services::backends::{Backends, INVALID_STATUS, Variant};
use crate::providers::kubernetes::services::certificates::Pair;
use crate::providers::kubernetes::services::grants::From;
use crate::providers::kubernetes::world::objects::{
    BackendRef, GATEWAY_GROUP, GrpcMethod, Key, MethodMatch, Object, RequestMirror, RouteMatch, RouteRule, RouteSpec,
    ValueMatch,
};
use crate::providers::kubernetes::world::store::Kind;
use evenkeel_config::plan::{
    Action, Criteria, Expected, ListenerLimits, Match, Mirror, PathPattern, Pool, Respond, Route, RouteTimeouts, Split,
    compile_regex,
};
use evenkeel_config::tables::duration_ns;
use std::sync::Arc;
use std::time::Duration;

/// Most regular expressions of an object. Each is compiled before their total cost is known.
pub const EXPRESSIONS_MAX: usize = 400;

/// A Route together with a port that serves it.
pub struct Rules<'a> {
    pub kind: Kind,
    pub route: &'a Object<RouteSpec>,
    /// Listener of the plan, and its port.
    pub listener: &'a Arc<str>,
    pub port: u16,
    /// Hosts that it has there; `None` = every host.
    pub hosts: &'a [Option<String>],
    /// Certificate that endpoints get to see.
    pub certificate: Option<&'a Pair>,
    /// Gateways that it is attached to there.
    pub gateways: &'a [Key],
}

/// Routes of the plan, and the faults of the Route.
#[derive(Default)]
pub struct Made {
    pub routes: Vec<Route>,
    /// Fault of a reference. Its share of requests gets a response with status 500.
    pub unresolved: Option<Fault>,
    pub dropped: Option<Dropped>,
}

/// Rules of a Route that are not kept. Their requests get a response with status 500, unless their matches are unknown.
pub struct Dropped {
    /// Each with its name, or number from 0 on, if that is known; and the reason.
    pub rules: Vec<(Option<String>, String)>,
    pub are_all: bool,
}

impl Dropped {
    /// Reason for the first rule.
    pub fn why(&self) -> &str {
        self.rules.first().map_or("", |(_, why)| why)
    }

    /// Message of the condition, in the words of the Gateway API.
    pub fn message(&self) -> String {
        let rule = |(rule, why): &(Option<String>, String)| match rule {
            Some(rule) => format!("Rule {rule}: {why}"),
            None => format!("Rule: {why}"),
        };
        format!("Dropped {}", self.rules.iter().map(rule).collect::<Vec<_>>().join("; "))
    }
}

impl Rules<'_> {
    /// Makes the routes of all rules. Without an order yet.
    pub fn make(&self, backends: &mut Backends<'_>) -> Made {
        let mut made = Made::default();
        let rules = &self.route.spec.rules;
        let count: usize = rules.iter().flat_map(|rule| &rule.matches).map(expressions).sum();
        if count > EXPRESSIONS_MAX {
            let why = format!("the Route has {count} regular expressions, and {EXPRESSIONS_MAX} are allowed");
            made.dropped = Some(Dropped { rules: vec![(None, why)], are_all: true });
            return made;
        }
        let (mut wrong, mut are_all) = (Vec::new(), true);
        for (index, rule) in rules.iter().enumerate() {
            let any = [RouteMatch::default()];
            let matches = if rule.matches.is_empty() { &any[..] } else { &rule.matches };
            let number = index.to_string();
            let shown = rule.name.as_ref().unwrap_or(&number);
            let matchings = match matches.iter().map(|one| self.matching(one)).collect::<Result<Vec<_>, _>>() {
                Ok(all) => all,
                // Which requests it is about is not known.
                Err(why) => {
                    wrong.push((Some(shown.clone()), why));
                    continue;
                }
            };
            let too_large = matchings.iter().find_map(needs_too_much);
            // Other matches of the rule are served.
            are_all &= too_large.is_none() || matchings.iter().all(|one| needs_too_much(one).is_some());
            let is_whole = too_large.is_none();
            wrong.extend(too_large.map(|why| (Some(shown.clone()), why)));
            for (at, matching) in matchings.into_iter().enumerate().filter(|(_, one)| needs_too_much(one).is_none()) {
                let of_rule = rule.name.as_deref().or((rules.len() > 1).then_some(&*number));
                let of_match = (matches.len() > 1).then_some(at);
                let prefix = if self.kind == Kind::GrpcRoute { "grpc:" } else { "" };
                let name = name_of(prefix, &self.route.metadata.key().to_string(), of_rule, of_match);
                let kept = self.make_one(name, rule, matching, backends, &mut made);
                if let Some(why) = kept.err().filter(|_| at == 0 && is_whole) {
                    wrong.push((Some(shown.clone()), why));
                }
            }
        }
        if !wrong.is_empty() {
            made.dropped = Some(Dropped { are_all: are_all && wrong.len() == rules.len(), rules: wrong });
        }
        made
    }

    fn make_one(
        &self,
        name: Arc<str>,
        rule: &RouteRule,
        (path, criteria): (PathPattern, Criteria),
        backends: &mut Backends<'_>,
        made: &mut Made,
    ) -> Result<(), String> {
        let refused = || Action::Respond(Respond { status: INVALID_STATUS, ..Respond::default() });
        let mut route =
            Route { name, listeners: vec![self.listener.clone()], action: refused(), ..Route::to(&Pool::default()) };
        let filled = self.fill(rule, backends, &mut route, made);
        if filled.is_err() {
            route = Route {
                name: route.name,
                listeners: route.listeners,
                action: refused(),
                ..Route::to(&Pool::default())
            };
        }
        let with = |hosts| Match { hosts, path: path.clone(), criteria: criteria.clone(), ..Match::default() };
        let specific: Vec<_> = self.hosts.iter().flatten().filter_map(|host| pattern(host)).collect();
        if self.hosts.contains(&None) {
            let name = if specific.is_empty() { route.name.clone() } else { format!("{}*", route.name).into() };
            made.routes.push(Route { name, matching: with(Vec::new()), ..route.clone() });
        }
        if !specific.is_empty() {
            made.routes.push(Route { matching: with(specific), ..route });
        }
        filled
    }

    /// Puts filters, timeouts, retries and references of a rule into a route.
    fn fill(
        &self,
        rule: &RouteRule,
        backends: &mut Backends<'_>,
        route: &mut Route,
        made: &mut Made,
    ) -> Result<(), String> {
        if rule.session_persistence.is_some() {
            return Err("sessionPersistence is not supported".to_owned());
        }
        for filter in &rule.filters {
            filters::put(filter, self.port, route)?;
            if let (true, Some(mirror)) = (filter.kind == "RequestMirror", &filter.request_mirror) {
                match self.mirror(mirror, backends) {
                    Ok(mirror) => route.filters.mirrors.push(mirror),
                    Err(fault) => drop(made.unresolved.get_or_insert(fault)),
                }
            }
        }
        if let Some(timeouts) = &rule.timeouts {
            let request = timeouts.request.as_deref().map(duration).transpose()?;
            let response = timeouts.backend_request.as_deref().map(duration).transpose()?;
            let RouteTimeouts { request: usual_request, response: usual, .. } = route.timeouts;
            // 0 turns a limit off.
            let limit = |set: Option<Duration>, usual| set.map_or(usual, |set| (!set.is_zero()).then_some(set));
            route.timeouts.request = limit(request, usual_request);
            route.timeouts.response = limit(response, usual);
        }
        if let Some(retry) = &rule.retry {
            let settings = &mut route.retry.settings;
            settings.attempts = retry.attempts.unwrap_or(1).min(10);
            settings.on.statuses = retry.codes.iter().copied().filter(|code| (400..=599).contains(code)).collect();
            settings.on.statuses.sort_unstable();
            settings.on.timeout = true;
            settings.same_endpoint = true;
            settings.budget = 1.0;
            if let Some(pause) = retry.backoff.as_deref() {
                settings.backoff_ns = u64::try_from(duration(pause)?.as_nanos()).unwrap_or(u64::MAX);
                settings.backoff_max_ns = settings.backoff_ns.saturating_mul(10);
            }
            if let Some(limit) = rule.timeouts.as_ref().and_then(|of| of.backend_request.as_deref()) {
                let limit = duration(limit)?;
                settings.try_timeout_ns =
                    (!limit.is_zero()).then(|| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        if !matches!(route.action, Action::Redirect(_)) {
            route.action = self.action(&rule.backend_refs, backends, made)?;
        }
        Ok(())
    }

    /// Pools of the references, by weight.
    fn action(&self, refs: &[BackendRef], backends: &mut Backends<'_>, made: &mut Made) -> Result<Action, String> {
        let mut weights: Vec<(Arc<str>, u32)> = Vec::new();
        for to in refs {
            let weight = to.weight.unwrap_or(1);
            let (request_headers, response_headers) = filters::of_backend(&to.filters)?;
            let variant = Variant { request_headers, response_headers, ..self.variant() };
            let pool = match backends.pool(self.from(), &to.to, &variant, self.gateways) {
                Ok(pool) => pool,
                Err(fault) => {
                    made.unresolved.get_or_insert(fault);
                    backends.invalid()
                }
            };
            match weights.iter_mut().find(|(other, _)| *other == pool) {
                Some((_, sum)) => *sum = sum.saturating_add(weight).min(1_000_000),
                None => weights.push((pool, weight)),
            }
        }
        weights.retain(|(_, weight)| *weight > 0);
        Ok(match weights.len() {
            0 => Action::Respond(Respond { status: INVALID_STATUS, ..Respond::default() }),
            1 => Action::Pool(weights.swap_remove(0).0),
            _ => Action::Split(Split { weights, key: None }),
        })
    }

    fn mirror(&self, mirror: &RequestMirror, backends: &mut Backends<'_>) -> Result<Mirror, Fault> {
        let pool = backends.pool(self.from(), &mirror.backend_ref, &self.variant(), self.gateways)?;
        let of_fraction = || mirror.fraction.as_ref().map(|of| of.numerator / of.denominator.unwrap_or(100.0).max(1.0));
        let share = mirror.percent.map(|percent| percent / 100.0).or_else(of_fraction).unwrap_or(1.0).clamp(0.0, 1.0);
        Ok(Mirror { pool, share, ..Mirror::default() })
    }

    fn variant(&self) -> Variant {
        Variant { is_http2: self.kind == Kind::GrpcRoute, certificate: self.certificate.cloned(), ..Variant::default() }
    }

    fn from(&self) -> From<'_> {
        From { group: GATEWAY_GROUP, kind: self.kind.name(), namespace: &self.route.metadata.namespace }
    }

    fn matching(&self, from: &RouteMatch) -> Result<(PathPattern, Criteria), String> {
        let mut criteria = Criteria::default();
        let mut path = match &from.path {
            None => PathPattern::Any,
            Some(path) => self::path(path, &mut criteria)?,
        };
        match &from.method {
            None => {}
            Some(MethodMatch::Http(method)) => criteria.methods.push(method.as_str().into()),
            Some(MethodMatch::Grpc(method)) => path = grpc(method, &mut criteria)?,
        }
        criteria.headers = expected(&from.headers, true)?;
        criteria.query = expected(&from.query_params, false)?;
        Ok((path, criteria))
    }
}

/// Number of regular expressions of a match.
fn expressions(from: &RouteMatch) -> usize {
    let is_regex = |kind: &Option<String>| kind.as_deref() == Some("RegularExpression");
    let values = from.path.iter().chain(&from.headers).chain(&from.query_params);
    let of_grpc = matches!(&from.method, Some(MethodMatch::Grpc(method)) if is_regex(&method.kind));
    values.filter(|value| is_regex(&value.kind)).count() + usize::from(of_grpc)
}

/// Reason for which no request has a match: its head would be larger than listeners take.
fn needs_too_much((path, criteria): &(PathPattern, Criteria)) -> Option<String> {
    let value = |expected: &Expected| expected.equal.iter().map(|one| one.len()).min().unwrap_or_default();
    let path = match path {
        PathPattern::Any => 1,
        // Braces may be doubled, or hold the name of a segment.
        PathPattern::Pattern(path) | PathPattern::Prefix(path) => path.split(['{', '}']).map(str::len).sum(),
        PathPattern::StartsWith(path) => path.len(),
    };
    let method = criteria.methods.iter().map(|method| method.len()).min().unwrap_or(3);
    let query: usize = criteria.query.iter().map(|(name, expected)| name.len() + value(expected) + 2).sum();
    // "METHOD PATH?QUERY HTTP/1.1", "host:x", and an empty line, each with its end.
    let mut least = method + 1 + path + query + 11 + 8 + 2;
    least += criteria.headers.iter().map(|(name, expected)| name.len() + 1 + value(expected) + 2).sum::<usize>();
    let ListenerLimits { headers, header_count, .. } = ListenerLimits::default();
    let fields = criteria.headers.len() + 1;
    if least > headers {
        return Some(format!(
            "no request has this match: its head would have {least} bytes or more, and at most {headers} are taken"
        ));
    }
    (fields > header_count).then(|| {
        format!("no request has this match: it would have {fields} fields, and at most {header_count} are taken")
    })
}

fn regex(text: &str) -> Result<Arc<str>, String> {
    compile_regex(text).map_err(|why| format!("\"{text}\" is not a regular expression: {why}"))?;
    Ok(text.into())
}

/// Text of a path in which braces stand for themselves.
pub fn plain(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn path(from: &ValueMatch, criteria: &mut Criteria) -> Result<PathPattern, String> {
    let value = from.value.as_deref().unwrap_or("/");
    Ok(match from.kind.as_deref().unwrap_or("PathPrefix") {
        "Exact" => PathPattern::Pattern(plain(value)),
        "PathPrefix" => prefix(value),
        "RegularExpression" => {
            criteria.regex = Some(regex(value)?);
            PathPattern::Any
        }
        other => return Err(format!("a match of the path of type {other} is not supported")),
    })
}

/// Path and everything below it; a slash at its end says nothing.
pub fn prefix(path: &str) -> PathPattern {
    match path.trim_end_matches('/') {
        "" => PathPattern::Any,
        path => PathPattern::Prefix(plain(path)),
    }
}

fn grpc(from: &GrpcMethod, criteria: &mut Criteria) -> Result<PathPattern, String> {
    let text = |part: &Option<String>| part.clone().filter(|text| !text.is_empty());
    let (service, method) = (text(&from.service), text(&from.method));
    match from.kind.as_deref().unwrap_or("Exact") {
        "Exact" => Ok(match (service, method) {
            (Some(service), Some(method)) => PathPattern::Pattern(plain(&format!("/{service}/{method}"))),
            (Some(service), None) => PathPattern::Prefix(plain(&format!("/{service}"))),
            (None, Some(method)) => PathPattern::Pattern(format!("/{{service}}/{}", plain(&method))),
            (None, None) => PathPattern::Any,
        }),
        "RegularExpression" => {
            let part = |part: Option<String>| part.unwrap_or_else(|| "[^/]+".to_owned());
            criteria.regex = Some(regex(&format!("/(?:{})/(?:{})", part(service), part(method)))?);
            Ok(PathPattern::Any)
        }
        other => Err(format!("a match of the method of type {other} is not supported")),
    }
}

/// Expected values by name. If a name occurs several times, the first value counts.
fn expected(from: &[ValueMatch], ignores_case: bool) -> Result<Vec<(Arc<str>, Expected)>, String> {
    let mut all: Vec<(Arc<str>, Expected)> = Vec::new();
    for one in from {
        let name = if ignores_case { one.name.to_ascii_lowercase() } else { one.name.clone() };
        if all.iter().any(|(other, _)| **other == *name) {
            continue;
        }
        let value: Arc<str> = one.value.as_deref().unwrap_or_default().into();
        let expected = match one.kind.as_deref().unwrap_or("Exact") {
            "Exact" => Expected { equal: vec![value], ..Expected::default() },
            "RegularExpression" => Expected { regex: Some(regex(&value)?), ..Expected::default() },
            other => return Err(format!("a match of type {other} is not supported")),
        };
        all.push((name.into(), expected));
    }
    Ok(all)
}

/// A duration as the Gateway API writes it: `1h30m`, `500ms`, `0s`.
fn duration(text: &str) -> Result<Duration, String> {
    let is_zero = text.chars().all(|c| c == '0' || c.is_ascii_alphabetic()) && text.starts_with('0');
    match duration_ns(text) {
        Some(ns) => Ok(Duration::from_nanos(ns)),
        None if is_zero => Ok(Duration::ZERO),
        None => Err(format!("{text} is not a duration")),
    }
}
