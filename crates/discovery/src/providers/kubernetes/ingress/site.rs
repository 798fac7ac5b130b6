//! An Ingress with its annotations read. See [`Site`].

use super::annotations::Annotations;
use super::canary::Canary;
use super::{endpoints, filters, protection};
use crate::providers::kubernetes::services::backends::{Backends, Variant};
use crate::providers::kubernetes::world::objects::{IngressSpec, Key, Object};
use crate::providers::kubernetes::world::store::{Kind, World};
use evenkeel_config::plan::{Pool, Redirect, Route};
use std::sync::Arc;

/// An Ingress with the settings from its annotations.
pub struct Site<'w> {
    pub object: &'w Object<IngressSpec>,
    pub key: Key,
    /// Kind and name, for pieces of the plan.
    pub of: Arc<str>,
    pub annotations: Annotations<'w>,
    /// Route with the filters of all its paths.
    pub route: Route,
    /// True if no request is let through.
    pub is_closed: bool,
    pub variant: Variant,
    pub redirect: Option<Redirect>,
    pub app_root: Option<String>,
    /// Further hosts of all rules.
    pub aliases: Vec<String>,
    /// True if paths are expressions.
    pub is_regex: bool,
    pub rewrite_target: Option<String>,
    /// True if requests without TLS are redirected where there is TLS.
    pub redirects: bool,
    /// True if they are redirected in any case.
    pub redirects_always: bool,
    pub canary: Option<Canary>,
}

impl<'w> Site<'w> {
    /// Reads an Ingress with its annotations.
    pub fn read(object: &'w Object<IngressSpec>, world: &World, backends: &mut Backends<'_>) -> Site<'w> {
        let key = object.metadata.key();
        let of: Arc<str> = format!("{} {key}", Kind::Ingress.name()).into();
        let mut annotations = Annotations::new(&object.metadata.annotations, key.clone());
        let mut route = Route::to(&Pool::default());
        filters::put(&mut annotations, &mut route);
        let mut is_closed =
            protection::put(&mut annotations, &key.namespace, world, (backends, &of), &mut route).is_some();
        let variant = endpoints::variant(&mut annotations);
        let redirect = filters::redirect(&mut annotations);
        is_closed |= variant.is_err() || redirect.is_err();
        let rewrite_target = annotations.text("rewrite-target").map(str::to_owned);
        let is_regex = annotations.flag("use-regex") == Some(true) || rewrite_target.is_some();
        let redirects = annotations.flag("ssl-redirect").unwrap_or(true);
        let redirects_always = annotations.flag("force-ssl-redirect").unwrap_or(false);
        let canary = Canary::read(&mut annotations);
        let app_root = app_root(&mut annotations);
        let aliases = aliases(&mut annotations);
        Site {
            object,
            key,
            of,
            route,
            is_closed,
            variant: variant.unwrap_or_default(),
            redirect: redirect.unwrap_or_default(),
            app_root,
            aliases,
            is_regex,
            rewrite_target,
            redirects,
            redirects_always,
            canary,
            annotations,
        }
    }

    /// Hosts of all rules, without duplicates; `None` = every host.
    pub fn hosts(&self) -> Vec<Option<String>> {
        let mut all = Vec::new();
        let rules = &self.object.spec.rules;
        let of_rules = rules.iter().map(|rule| host_of(rule.host.as_deref()));
        let aliases = self.aliases.iter().filter(|_| !rules.is_empty()).map(|host| Some(host.clone()));
        for host in of_rules.chain(aliases) {
            if !all.contains(&host) {
                all.push(host);
            }
        }
        if all.is_empty() { vec![None] } else { all }
    }
}

/// Host of a rule; `None` = every host.
pub fn host_of(host: Option<&str>) -> Option<String> {
    host.filter(|host| !host.is_empty()).map(str::to_ascii_lowercase)
}

fn app_root(annotations: &mut Annotations<'_>) -> Option<String> {
    let path = annotations.text("app-root")?;
    let is_path = path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic() && !b"?#".contains(&b));
    if !is_path || path == "/" {
        annotations.ignore("app-root", &format!("\"{path}\" is not a path below /"));
        return None;
    }
    Some(path.to_owned())
}

fn aliases(annotations: &mut Annotations<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for host in annotations.list("server-alias").unwrap_or_default() {
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '*');
        match host.chars().all(is_host) {
            true => all.push(host.to_ascii_lowercase()),
            false => annotations.ignore("server-alias", &format!("\"{host}\" is not a host")),
        }
    }
    all
}
