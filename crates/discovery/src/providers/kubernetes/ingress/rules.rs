//! Routes of Ingresses. See [`Rules`].

use super::canary::{Branch, Canary};
use super::listeners::Listeners;
use super::paths::{self, Matched};
use super::site::{Site, host_of};
use crate::providers::kubernetes::gateway::ports::pattern;
use crate::providers::kubernetes::gateway::rules::EXPRESSIONS_MAX;
use crate::providers::kubernetes::services::backends::{Backends, Wanted};
use crate::providers::kubernetes::services::names;
use crate::providers::kubernetes::services::ordered::Ordered;
use crate::providers::kubernetes::statuses::events::{REFUSED, UNAVAILABLE};
use crate::providers::kubernetes::world::objects::{IngressBackend, IngressPath, Key};
use evenkeel_config::plan::{
    Action, Criteria, Expected, HostPattern, Match, PathPattern, Pool, Redirect, Respond, Route, Scheme, Template,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Status of responses to requests that no endpoint may get, as in ingress-nginx.
const UNAVAILABLE_STATUS: u16 = 503;

/// Status of redirects to TLS: clients keep the method.
const TO_TLS: u16 = 308;

/// Paths that are never redirected to TLS: an authority asks for them before there is a certificate.
const CHALLENGES: &str = "/.well-known/acme-challenge";

pub struct Rules<'r, 'w> {
    pub listeners: &'r Listeners,
    pub backends: &'r mut Backends<'w>,
    pub routes: &'r mut Ordered,
    /// Port of redirects to TLS.
    pub redirect_port: u16,
}

/// Namespace, host, path and its type: Ingresses and canaries that have these in common belong together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    namespace: String,
    host: Option<String>,
    path: String,
    is_exact: bool,
}

/// A canary and its pool, by the place of the requests that are divided.
type Canaries = BTreeMap<Place, (Canary, Arc<str>)>;

impl Rules<'_, '_> {
    /// Makes the routes, oldest Ingress first. Default backends follow all other routes.
    pub fn make(&mut self, sites: &mut [Site<'_>]) {
        let mut canaries = self.canaries(sites);
        for site in sites.iter_mut().filter(|site| site.canary.is_none()) {
            self.paths(site, &mut canaries);
        }
        for site in sites.iter_mut().filter(|site| site.canary.is_none()) {
            self.default(site);
        }
        for site in sites.iter_mut().filter(|site| site.canary.is_some()) {
            let is_left = |place: &Place| canaries.contains_key(place);
            if places(site).iter().any(|(place, _)| is_left(place)) {
                let message = "no other Ingress of this namespace has a path of this canary, or an older canary has it";
                site.annotations.event(REFUSED, message.to_owned());
            }
        }
    }

    /// Finds the canaries. If two have the same place, the older canary counts.
    fn canaries(&mut self, sites: &mut [Site<'_>]) -> Canaries {
        let mut all = Canaries::new();
        for site in sites.iter_mut() {
            // All requests stay with the main Ingress while the canary cannot be kept.
            let Some(canary) = site.canary.clone().filter(|_| !site.is_closed) else { continue };
            for (place, path) in places(site) {
                if let Some(pool) = self.pool(site, &path.backend) {
                    all.entry(place).or_insert_with(|| (canary.clone(), pool));
                }
            }
        }
        all
    }

    fn paths(&mut self, site: &mut Site<'_>, canaries: &mut Canaries) {
        self.routes.since(&site.object.metadata, false);
        let mut seen = BTreeSet::new();
        let all = places(site);
        if site.is_regex && all.len() > EXPRESSIONS_MAX {
            let message =
                format!("{} paths with use-regex, and {EXPRESSIONS_MAX} are allowed: none is served", all.len());
            return site.annotations.event(REFUSED, message);
        }
        for (place, path) in all {
            if !seen.insert(place.clone()) {
                continue;
            }
            let text = path.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
            let is_regex = site.is_regex;
            let matched = match paths::read(text, &path.path_type, is_regex, site.rewrite_target.as_deref()) {
                Ok(matched) => matched,
                Err(why) => {
                    site.annotations.event(REFUSED, format!("path {text}: {why}"));
                    continue;
                }
            };
            let fault = matched.fault.as_ref().map(|why| site.annotations.refuse("rewrite-target", why));
            let pool = self.pool(site, &path.backend);
            let is_closed = site.is_closed || fault.is_some();
            let branches = match (&site.redirect, pool) {
                _ if is_closed => vec![always(unavailable())],
                (Some(redirect), _) => vec![always(Action::Redirect(redirect.clone()))],
                (None, None) => vec![always(unavailable())],
                (None, Some(main)) => match canaries.remove(&place) {
                    Some((canary, pool)) => canary.divide(&main, &pool),
                    None => vec![always(Action::Pool(main))],
                },
            };
            self.add(site, &place.host, text, &matched, branches, is_closed);
        }
        let Some(root) = site.app_root.clone() else { return };
        let matched = Matched { path: PathPattern::Pattern("/".to_owned()), regex: None, rewrite: None, fault: None };
        for host in site.hosts() {
            let path = Some(Template::literal(&root));
            let redirect = Redirect { status: 302, path, keep_query: false, ..Redirect::default() };
            self.add(site, &host, "/:app-root", &matched, vec![always(Action::Redirect(redirect))], false);
        }
    }

    /// Adds the default backend of an Ingress: for its hosts, or for every host if it has none.
    fn default(&mut self, site: &mut Site<'_>) {
        self.routes.since(&site.object.metadata, true);
        let Some(backend) = &site.object.spec.default_backend else { return };
        let action = match self.pool(site, backend) {
            Some(pool) if !site.is_closed => Action::Pool(pool),
            _ => unavailable(),
        };
        let matched = Matched { path: PathPattern::Any, regex: None, rewrite: None, fault: None };
        let is_closed = site.is_closed;
        for host in site.hosts() {
            self.add(site, &host, ":default", &matched, vec![always(action.clone())], is_closed);
        }
    }

    /// Returns the pool of a backend. If there is none, an event about the Ingress has the reason.
    fn pool(&mut self, site: &mut Site<'_>, backend: &IngressBackend) -> Option<Arc<str>> {
        let Some(service) = &backend.service else {
            let what = backend.resource.as_ref().and_then(|resource| resource["kind"].as_str()).unwrap_or("nothing");
            let effect = site.annotations.effect;
            let message = format!("requests can be sent to a Service, not to {what}: {effect}");
            site.annotations.event(UNAVAILABLE, message);
            return None;
        };
        let key = Key::new(&site.key.namespace, &service.name);
        let wanted = match (&service.port.name, service.port.number) {
            (Some(name), _) if !name.is_empty() => Wanted::Name(name),
            (_, Some(number)) => Wanted::Number(number),
            _ => Wanted::Name(""),
        };
        match self.backends.of_port(&key, wanted, &site.variant, &[]) {
            Ok(pool) => Some(pool),
            Err((_, why)) => {
                let effect = site.annotations.effect;
                site.annotations.event(UNAVAILABLE, format!("{why}: {effect}"));
                None
            }
        }
    }

    /// Adds routes for the requests of a path, and redirects to TLS in front of them.
    fn add(
        &mut self,
        site: &mut Site<'_>,
        host: &Option<String>,
        text: &str,
        matched: &Matched,
        branches: Vec<Branch>,
        is_closed: bool,
    ) {
        let Some((hosts, criteria)) = host_match(host.as_deref()) else {
            let message = format!("host {}: it is not a host", host.as_deref().unwrap_or_default());
            site.annotations.event(REFUSED, message);
            return;
        };
        let shown = host.as_deref().unwrap_or("*");
        let name =
            |suffix: &str| -> Arc<str> { names::label(&format!("ingress:{}/{shown}{text}{suffix}", site.key)).into() };
        let criteria = Criteria { regex: matched.regex.as_deref().map(Arc::from), ..criteria };
        let matching = Match { hosts, path: matched.path.clone(), criteria, ..Match::default() };
        let Listeners { http, https, .. } = self.listeners;
        let to_tls =
            site.redirects_always || site.redirects && self.listeners.has_tls(&site.key.namespace, host.as_deref());
        let to_tls = to_tls && https.is_some() && !text.starts_with(CHALLENGES);
        let own: Vec<Arc<str>> = http.iter().filter(|_| !to_tls).chain(https).cloned().collect();
        if let (true, Some(http)) = (to_tls, http) {
            let redirect = Redirect {
                status: TO_TLS,
                scheme: Some(Scheme::Https),
                port: Some(self.redirect_port).filter(|port| *port != 443),
                ..Redirect::default()
            };
            let route = Route {
                name: name(":https"),
                listeners: vec![http.clone()],
                matching: matching.clone(),
                action: Action::Redirect(redirect),
                ..Route::to(&Pool::default())
            };
            self.routes.add(&site.of, route);
        }
        // A route that names no listener would be for all of them.
        if own.is_empty() {
            return;
        }
        for Branch { suffix, criteria: more, action } in branches {
            let mut matching = matching.clone();
            matching.criteria.headers.extend(more.headers);
            matching.criteria.cookies.extend(more.cookies);
            let base = if is_closed { Route::to(&Pool::default()) } else { site.route.clone() };
            let is_sent = matches!(action, Action::Pool(_) | Action::Split(_));
            let mut route = Route { name: name(suffix), listeners: own.clone(), matching, action, ..base };
            route.filters.rewrite = matched.rewrite.clone().filter(|_| is_sent);
            self.routes.add(&site.of, route);
        }
    }
}

/// Places of all paths of an Ingress, including additional hosts.
fn places<'w>(site: &Site<'w>) -> Vec<(Place, &'w IngressPath)> {
    let mut all = Vec::new();
    for rule in &site.object.spec.rules {
        let own = host_of(rule.host.as_deref());
        let hosts = std::iter::once(own).chain(site.aliases.iter().map(|alias| Some(alias.clone())));
        for host in hosts {
            for path in rule.http.iter().flat_map(|http| &http.paths) {
                let is_exact = path.path_type == "Exact";
                let text = path.path.as_deref().unwrap_or("/");
                // A slash at the end of a prefix has no meaning.
                let text = if is_exact { text } else { text.trim_end_matches('/') };
                let namespace = site.key.namespace.clone();
                all.push((Place { namespace, host: host.clone(), path: text.to_owned(), is_exact }, path));
            }
        }
    }
    all
}

/// Pattern of a host, with a criterion so that a wildcard matches a single label only; `None` if it is not a host.
fn host_match(host: Option<&str>) -> Option<(Vec<HostPattern>, Criteria)> {
    let Some(host) = host else { return Some((Vec::new(), Criteria::default())) };
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let labels = host.strip_prefix("*.").unwrap_or(host);
    let pattern = pattern(host).filter(|_| labels.split('.').all(is_label))?;
    let mut criteria = Criteria::default();
    if let HostPattern::Wildcard(suffix) = &pattern {
        let regex = format!("(?i)[^.]+{}\\.?(:[0-9]+)?", suffix.replace('.', "\\."));
        criteria.headers.push(("host".into(), Expected { regex: Some(regex.into()), ..Expected::default() }));
    }
    Some((vec![pattern], criteria))
}

fn always(action: Action) -> Branch {
    Branch { suffix: "", criteria: Criteria::default(), action }
}

fn unavailable() -> Action {
    Action::Respond(Respond { status: UNAVAILABLE_STATUS, ..Respond::default() })
}
