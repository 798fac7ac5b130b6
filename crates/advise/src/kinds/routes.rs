//! Routes of a configuration by their names in a log.

use crate::advice::Advice;
use crate::diff::Patch;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::traffic::OfRoute;
use evenkeel_config::plan::{Action, Listener, Route};

/// Fewest requests of a route that say something about it.
const REQUESTS_MIN: u64 = 100;

/// Advice on each route that the log says something about, in order of the names.
pub(super) fn each<'a>(inputs: &Inputs<'a>, advise: impl Fn(&'a str, &'a OfRoute) -> Option<Advice>) -> Vec<Advice> {
    let Some(traffic) = inputs.traffic else { return Vec::new() };
    let mut routes: Vec<_> = traffic.routes.iter().filter(|(_, of)| of.requests >= REQUESTS_MIN).collect();
    routes.sort_by_key(|(name, _)| *name);
    routes.into_iter().filter_map(|(name, of)| advise(name, of)).collect()
}

/// Position of a route in the text.
pub(super) enum Place<'a> {
    Section(At<'a>),
    /// No section: the only pool gets all requests.
    Implied,
    /// No section: `pool` of a listener gets its requests.
    OfListener,
    /// Section of an included file.
    Elsewhere,
}

/// Route of the configuration by its name in the log, with its position in the text. Without a name in the log, the
/// only route. `None` if there is none.
pub(super) fn position<'a>(inputs: &Inputs<'a>, name: &str) -> Option<(Place<'a>, &'a Route)> {
    let routes = &inputs.plan.routes;
    let index = match name {
        "" if routes.len() == 1 => 0,
        _ => routes.iter().position(|route| *route.name == *name)?,
    };
    let route = &routes[index];
    let is_own = |of: &Listener| of.pool.is_some() && route.listeners == [of.name.clone()] && route.name == of.name;
    let written = toml_routes(inputs.text);
    let place = match () {
        () if index < written => Place::Section(At::Nth("route", index)),
        () if inputs.plan.listeners.iter().any(|listener| is_own(listener)) => Place::OfListener,
        () if written == 0 && routes.len() == 1 && *route.name == *"default" => Place::Implied,
        () => Place::Elsewhere,
    };
    Some((place, route))
}

/// Patch that sets a key of a route. An implied route is written out.
///
/// # Errors
/// The reason why there is no patch.
pub(super) fn patch(
    inputs: &Inputs<'_>,
    place: &Place<'_>,
    route: &Route,
    key: &str,
    value: &str,
) -> Result<Patch, String> {
    let patched = match (place, &route.action) {
        (Place::Section(at), _) => inputs.patch(*at, key, value),
        (Place::Implied, Action::Pool(pool)) => {
            inputs.patch_section(&format!("[[route]]\npool = \"{pool}\"\n{key} = {value}\n"))
        }
        (Place::OfListener, _) => {
            Err(format!("write a [[route]] instead of the pool of the listener, with {key} = {value}"))
        }
        _ => Err(format!("the route is in another file: add {key} = {value}")),
    };
    patched.map(|(patch, _)| patch)
}

/// Number of `[[route]]` headers.
fn toml_routes(text: &str) -> usize {
    text.lines().filter(|line| line.trim_start().starts_with("[[route]]")).count()
}
