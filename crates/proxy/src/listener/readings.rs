//! Choice of a route for a path that servers may read in several ways: all readings must choose the same route, or the
//! setting `paths` decides.

use super::route_id::RouteId;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Action, Listener, Paths, Route};
use evenkeel_net::event_loop::budget;
use evenkeel_wire::readings::{Readings, has_several, normalised, sole_other};
use std::sync::Arc;

/// Readings that cost about as much as a unit of a turn's budget.
const READINGS_PER_UNIT: u32 = 8;

/// The settings `paths` of a listener and its routes.
#[derive(Debug)]
pub struct PathRules {
    routes: Arc<[Route]>,
    /// Setting of the listener, for requests that no route matches and for routes without a setting.
    of_listener: Paths,
    /// Strictest setting that a reading can lead to.
    strictest: Paths,
}

/// Route that takes a request, with the path by which it matched.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// `None` if no route matches.
    pub route: Option<RouteId>,
    /// Path in normal form, if it replaces the client's path.
    pub path: Option<String>,
}

/// Readings of a path that choose different routes.
#[derive(Debug, PartialEq, Eq)]
pub struct Ambiguous {
    /// Route of the path as sent, or of its normal form if the normal form has several readings, too.
    pub route: Option<RouteId>,
    /// Another reading and its route; `None` if the path has too many readings.
    pub other: Option<(String, Option<RouteId>)>,
}

impl Ambiguous {
    /// The reason in words. `name`: the name of a route.
    pub fn text<'n>(&self, name: impl Fn(RouteId) -> &'n str) -> String {
        let named =
            |route: Option<RouteId>| route.map_or("no route".to_owned(), |id| format!("route \"{}\"", name(id)));
        match &self.other {
            None => "servers may read the path in too many ways".to_owned(),
            Some((reading, other)) => format!(
                "servers may read the path as \"{reading}\", which is for {} instead of {}",
                named(*other),
                named(self.route)
            ),
        }
    }
}

impl Choice {
    /// Route of a path as it was sent.
    pub fn as_sent(route: Option<RouteId>) -> Choice {
        Choice { route, path: None }
    }
}

impl PathRules {
    /// Returns the settings of a listener, for its internal routes or all others.
    pub fn of(plan: &Plan, listener: &Listener, internal: bool) -> PathRules {
        let routes = plan.routes_on(&listener.name).filter(|route| route.internal == internal);
        let of_routes = routes.filter_map(|route| route.paths);
        let strictest = of_routes.fold(listener.paths, Paths::min);
        PathRules { routes: plan.routes.clone(), of_listener: listener.paths, strictest }
    }

    /// True if the path as sent is all that decides.
    #[inline]
    pub fn take_as_sent(&self, path: &str) -> bool {
        self.strictest == Paths::AsSent || !has_several(path)
    }

    /// Chooses the route of a path with several readings. `find` finds the route of a reading.
    ///
    /// # Errors
    /// The readings choose different routes, and a setting refuses that.
    #[cold]
    pub fn choose(&self, path: &str, find: impl Fn(&[u8]) -> Option<RouteId>) -> Result<Choice, Ambiguous> {
        let route = find(path.as_bytes());
        let Some((ambiguous, setting)) = self.conflict(path, route, &find) else { return Ok(Choice::as_sent(route)) };
        match setting {
            Paths::AsSent => Ok(Choice::as_sent(route)),
            Paths::Refuse => Err(ambiguous),
            Paths::Normalise => {
                let normal = normalised(path);
                let route = find(normal.as_bytes());
                // Escaped slashes and parameters, for example, still have several readings.
                match self.conflict(&normal, route, &find) {
                    Some((ambiguous, Paths::Refuse | Paths::Normalise)) => Err(ambiguous),
                    Some((_, Paths::AsSent)) | None => Ok(Choice { route, path: Some(normal) }),
                }
            }
        }
    }

    /// The first reading with another route than `route`, which the path itself chooses, and the strictest setting of all
    /// routes of the readings: a client must not choose a lax setting by its spelling.
    fn conflict(
        &self,
        path: &str,
        route: Option<RouteId>,
        find: &impl Fn(&[u8]) -> Option<RouteId>,
    ) -> Option<(Ambiguous, Paths)> {
        let first = |reading: &[u8], other: Option<RouteId>| {
            let reading = String::from_utf8_lossy(reading).into_owned();
            (Ambiguous { route, other: Some((reading, other)) }, self.of_route(route).min(self.of_route(other)))
        };
        if let Some(reading) = sole_other(path) {
            let other = find(&reading);
            return (!self.are_alike(route, other)).then(|| first(&reading, other));
        }
        let (mut readings, mut conflict, mut is_first) = (Readings::of(path), None, true);
        while conflict.as_ref().is_none_or(|(_, setting)| *setting != Paths::Refuse) {
            let Ok(next) = readings.read_next() else {
                conflict = Some((Ambiguous { route, other: None }, self.strictest));
                break;
            };
            let Some(reading) = next else { break };
            // The first reading is the path itself.
            if std::mem::take(&mut is_first) {
                continue;
            }
            let other = find(reading);
            if self.are_alike(route, other) {
                continue;
            }
            let (_, setting) = conflict.get_or_insert_with(|| first(reading, other));
            *setting = self.of_route(other).min(*setting);
        }
        budget::charge(readings.found() as u32 / READINGS_PER_UNIT);
        conflict
    }

    fn of_route(&self, route: Option<RouteId>) -> Paths {
        route.and_then(|id| self.routes[id].paths).unwrap_or(self.of_listener)
    }

    /// True for the same route, and for routes to the same pool that differ in their matches only.
    fn are_alike(&self, a: Option<RouteId>, b: Option<RouteId>) -> bool {
        let (Some(a), Some(b)) = (a, b) else { return a == b };
        let (a, b) = match a == b {
            true => return true,
            false => (&self.routes[a], &self.routes[b]),
        };
        let is_same = a.action == b.action && a.filters == b.filters;
        // Each route has its own counts of limits, and its own prefix.
        let changes_path = a.filters.strip_prefix || a.filters.rewrite.is_some();
        is_same && matches!(a.action, Action::Pool(_)) && a.filters.limits.is_empty() && !changes_path
    }
}

/// Routes of the readings of a path, for explanations, the path as sent first; `None` if there are too many.
pub fn routes_of_readings(
    path: &str,
    find: impl Fn(&[u8]) -> Option<RouteId>,
) -> Option<Vec<(String, Option<RouteId>)>> {
    let (mut readings, mut all) = (Readings::of(path), Vec::new());
    while let Some(reading) = readings.read_next().ok()? {
        all.push((String::from_utf8_lossy(reading).into_owned(), find(reading)));
    }
    Some(all)
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
