//! Routes of a configuration by their names in a log.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use crate::traffic::OfRoute;
use evenkeel_config::plan::Route;

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
type Place<'a> = Option<At<'a>>;

/// Route of the configuration by its name in the log, with its position in the text. Without a name in the log, the
/// only route. `None` if there is none; a route that a listener implies is at that listener, which has no such keys.
pub(super) fn position<'a>(inputs: &Inputs<'a>, name: &str) -> Option<(Place<'a>, &'a Route)> {
    let routes = &inputs.plan.routes;
    let index = match name {
        "" if routes.len() == 1 => 0,
        _ => routes.iter().position(|route| *route.name == *name)?,
    };
    let written = toml_routes(inputs.text);
    Some(((index < written).then_some(At::Nth("route", index)), &routes[index]))
}

/// Number of `[[route]]` headers.
fn toml_routes(text: &str) -> usize {
    text.lines().filter(|line| line.trim_start().starts_with("[[route]]")).count()
}
