//! Routes of a configuration by their names in a log.

use crate::edit::At;
use crate::inputs::Inputs;
use evenkeel_config::plan::Route;

/// Fewest requests of a route that say something about it.
pub(super) const REQUESTS_MIN: u64 = 100;

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
