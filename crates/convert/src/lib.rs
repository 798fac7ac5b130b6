//! Conversion of configurations of HAProxy, NGINX, Traefik, Caddy and Envoy: text in; a configuration of evenkeel and a [`Report`] out.
//!
//! 1. [`recognise()`]: whose configuration a text is.
//! 2. `template`: lines of templates are taken out of the text.
//! 3. `haproxy`, `nginx`, `traefik`, `caddy`: a reader and a translation each. `envoy`: a reader; the translation is in
//!    `evenkeel_envoy`, which control planes share. `tree` reads YAML and TOML.
//! 4. `ledger`: every directive that was read, and its end. `report`: the three lists that come of it. `always`:
//!    differences from each program in every conversion.
//! 5. `model`: listeners, routes and pools of all but Envoy, as drafts of `evenkeel_config` with the conditions of routes, and
//!    the order of rules. `shared`: repeated keys, written once. `comments`: comments of the input.
//! 6. `asks`: requests by which an original and its conversion are compared. `compare`: their responses.
//!
//! ```
//! use evenkeel_config::NoFiles;
//! let text = "frontend www\n  bind :80\n  default_backend app\nbackend app\n  server a 10.0.0.1:80\n";
//! let converted = evenkeel_convert::convert("haproxy.cfg", text, None, &NoFiles).expect("it is one of HAProxy");
//! assert!(converted.toml.contains("[listener.www]"), "{}", converted.toml);
//! assert_eq!(converted.report.forgotten, 0);
//! ```
#![forbid(unsafe_code)]

// Order: compare, asks, comments, shared, nginx, haproxy, traefik, caddy, envoy, place, rewriting, reconcile, template, expression, limits, tree, durations,
// compression, protection, model, ledger, report, always, recognise

/// A key of a table of evenkeel's files. An unknown key does not compile.
macro_rules! key {
    ($path:literal) => {
        const { evenkeel_config::draft::KeyOf::new($path) }
    };
}

mod always;
mod asks;
mod caddy;
mod comments;
mod compare;
mod compression;
mod durations;
mod envoy;
mod expression;
mod haproxy;
mod ledger;
mod limits;
mod model;
mod nginx;
mod place;
mod protection;
mod recognise;
mod reconcile;
mod report;
mod rewriting;
mod shared;
mod template;
mod traefik;
mod tree;

pub use always::always;
pub use asks::{Ask, asks};
pub use compare::{Answer, difference, normal_fields, other_field, without_addresses};
pub use recognise::{From, recognise};
pub use report::{CHANGES, DECIDE, Item, LOSSLESS, Report};

use evenkeel_config::Files;
use ledger::Ledger;
use model::{Key, Target, Test};
use protection::is_closed;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    pub from: From,
    /// Configuration of evenkeel, with comments where a person must look.
    pub toml: String,
    pub report: Report,
}

/// Converts a configuration that was read from the file `name`. Included files are read from `files`, relative to the
/// folder of that file. `None` if the program is neither named nor recognised.
pub fn convert(name: &str, text: &str, from: Option<From>, files: &dyn Files) -> Option<Converted> {
    convert_all(name, &[(name, text)], from, files)
}

/// Converts a configuration in several files, each with its name and text, as Traefik reads the files of a folder. Of other
/// programs, the first file counts. `name` stands for all of them in the output.
pub fn convert_all(name: &str, texts: &[(&str, &str)], from: Option<From>, files: &dyn Files) -> Option<Converted> {
    let from = from.or_else(|| texts.iter().find_map(|(name, text)| recognise(name, text)))?;
    let mut ledger = Ledger::default();
    let spelled = |text| if from == From::Traefik { template::environment(text) } else { text.into() };
    let texts: Vec<(Arc<str>, Cow<'_, str>)> =
        texts.iter().map(|(name, text)| ((*name).into(), spelled(text))).collect();
    let stripped = texts.iter().map(|(file, text)| (file.clone(), template::strip(text, file, &mut ledger)));
    let all: Vec<(Arc<str>, Cow<'_, str>)> = stripped.collect();
    let (file, plain) = all.first()?;
    let mut target = match from {
        From::Haproxy => haproxy::translate(plain, file, files, &mut ledger),
        From::Nginx => nginx::translate(plain, file, files, &mut ledger),
        From::Traefik => traefik::translate(&all, &mut ledger),
        From::Envoy => {
            let toml = made_from(name, envoy::translate(plain, file, &mut ledger).to_toml_with_secrets());
            return Some(Converted { from, toml, report: report(name, from, ledger) });
        }
        From::Caddy => caddy::translate(plain, file, files, &mut ledger),
    };
    close_without_routes(&mut target);
    leave_listeners_out(&mut target);
    name_apart(&mut target);
    name_hosts_of_loops(&mut target);
    read_paths(&mut target, from);
    comment_once(&mut target);
    if ledger.has_decisions() {
        mark_closed(&mut target);
    }
    texts.iter().for_each(|(file, text)| comments::keep(text, file, &mut target, &ledger));
    shared::share(&mut target);
    let toml = made_from(name, target.into_toml());
    Some(Converted { from, toml, report: report(name, from, ledger) })
}

fn report(name: &str, from: From, ledger: Ledger) -> Report {
    Report { from: Some(from), name: name.to_string(), ..ledger.into_report() }
}

/// Keeps the first of equal comments on routes, and on pools.
fn comment_once(target: &mut Target) {
    let mut seen = BTreeSet::new();
    target.routes.iter_mut().for_each(|route| route.comments.retain(|comment| seen.insert(comment.clone())));
    target.pools.iter_mut().for_each(|pool| pool.comments.retain(|comment| seen.insert(comment.clone())));
}

/// Writes above each route that is closed that it waits for a decision.
fn mark_closed(target: &mut Target) {
    for route in target.routes.iter_mut().filter(|route| is_closed(&route.set)) {
        route.comments.push("Closed to all clients: see `must decide` in the report.".to_string());
    }
}

/// The output below a line with the name of its source. A comment of the first table stays apart from that line.
fn made_from(source: &str, toml: String) -> String {
    let source = source.replace(char::is_control, " ");
    let tables = toml.strip_prefix('\n').filter(|tables| tables.starts_with('[')).unwrap_or(&toml);
    format!("# Made by `evenkeel convert` from {source}. `evenkeel check` reports what is wrong with it.\n{tables}")
}

/// Adds a route that answers with 404 if there is no other: the only pool would get all requests.
fn close_without_routes(target: &mut Target) {
    let serves = |listener: &&model::Listener| !listener.is_tcp && !listener.is_udp && listener.pool.is_none();
    let Some(listener) = target.listeners.iter().find(serves) else { return };
    if target.routes.is_empty() && !listener.set.has(key!("redirect_https")) {
        target.routes.push(model::Route {
            name: "nothing-else".to_string(),
            comments: vec!["No route was carried over.".to_string()],
            matching: model::Match::default(),
            action: model::Action::respond(404),
            set: model::Draft::default(),
            line: ledger::Line::none(),
        });
    }
}

/// Removes listener names from matches that name all listeners with routes: such a list has no effect.
fn leave_listeners_out(target: &mut Target) {
    let serves = |listener: &&model::Listener| !listener.is_tcp && !listener.set.has(key!("redirect_https"));
    let serving: Vec<String> = target.listeners.iter().filter(serves).map(|listener| listener.name.clone()).collect();
    for route in &mut target.routes {
        let names_all = match route.matching.find(&Key::Listener) {
            Some(Test::OneOf(names)) => !serving.is_empty() && serving.iter().all(|name| names.contains(name)),
            _ => false,
        };
        if names_all {
            route.matching.conds.retain(|cond| cond.key != Key::Listener);
        }
    }
}

/// Names the host in redirects to the path of their own route: `check` takes them for a mistake, and the original sends them.
fn name_hosts_of_loops(target: &mut Target) {
    for route in &mut target.routes {
        let model::Action::Redirect(to) = &mut route.action else { continue };
        let stays = [key!("scheme"), key!("host"), key!("port")].into_iter().all(|key| !to.has(key));
        let path = to.text(key!("path")).map(str::to_string);
        let is_own = matches!(route.matching.only_path(), Some(Test::OneOf(paths)) if paths.first() == path.as_ref());
        if stays && is_own {
            to.put(key!("host"), "{host}");
        }
    }
}

/// True for a part of a request that may depend on its path.
fn is_of_path(key: &Key) -> bool {
    matches!(key, Key::Path | Key::Map(_))
}

/// Has paths read as the program reads them, if any route depends on a path: HAProxy compares them as sent, unless a rule
/// normalises them, and the others in normal form, Caddy without regard to case.
fn read_paths(target: &mut Target, from: From) {
    let depends = |route: &model::Route| {
        let rewrites = from == From::Caddy && (route.set.has(key!("rewrite")) || route.set.has(key!("strip_prefix")));
        rewrites || route.matching.conds.iter().any(|cond| is_of_path(&cond.key))
    };
    if target.root.has(key!("defaults.paths")) || !target.routes.iter().any(depends) {
        return;
    }
    if from == From::Caddy {
        target.root.put(key!("defaults.ignore_case"), true);
    }
    target.root.put(key!("defaults.paths"), if from == From::Haproxy { "as_sent" } else { "normalise" });
}

/// Numbers names that occur more than once, as names are unique. A listener with a pool is a route of its name, too.
fn name_apart(target: &mut Target) {
    let mut taken = BTreeSet::new();
    target.pools.iter_mut().for_each(|pool| number(&mut pool.name, &mut taken));
    taken.clear();
    target.listeners.iter_mut().for_each(|listener| number(&mut listener.name, &mut taken));
    target.routes.iter_mut().for_each(|route| number(&mut route.name, &mut taken));
}

fn number(name: &mut String, taken: &mut BTreeSet<String>) {
    let (base, mut next) = (name.clone(), 2);
    while !taken.insert(name.clone()) {
        *name = format!("{base}-{next}");
        next += 1;
    }
}
