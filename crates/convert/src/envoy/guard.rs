//! Routes that refuse some requests of other routes. See [`guard`].

use super::behind::close;
use crate::ledger::{Ledger, Line};
use crate::report::OPEN;
use evenkeel_config::plan::{Access, Action, Filters, Match, Respond, ResponseHeaders};
use evenkeel_envoy::action::{Acting, To, answering};
use evenkeel_envoy::pairs::{are_apart, both, takes_all};
use evenkeel_envoy::route::{PlannedRoute, VirtualHost};
use std::sync::Arc;

/// End of the labels of routes that refuse.
pub(super) const DENIED: &str = "/denied";

/// Gives a virtual host routes that refuse requests. `denied` returns the refused requests of a route; `of_others` are the
/// refused requests among those without a route. `line`: the directive that refuses them.
pub(super) fn guard(
    host: &mut VirtualHost,
    of_others: &[Match],
    line: Line,
    ledger: &mut Ledger,
    mut denied: impl FnMut(&PlannedRoute, &mut Ledger) -> Vec<Match>,
) {
    let mut all: Vec<PlannedRoute> = Vec::new();
    let takes_all = host.takes_all();
    for mut route in std::mem::take(&mut host.routes) {
        if !route.label.ends_with(DENIED) {
            let denied = denied(&route, ledger);
            refuse(&mut route, &denied, line, &mut all, ledger);
        }
        all.push(route);
    }
    if !takes_all {
        let acting = Arc::new(refusing(&refused()));
        let (label, order): (Arc<str>, _) = (format!("(none){DENIED}").into(), u32::MAX);
        let none = of_others.iter().map(|matching| {
            let (label, matching, acting) = (label.clone(), matching.clone(), acting.clone());
            PlannedRoute { label, matching, order, acting }
        });
        all.extend(none);
    }
    // Refusals stand before their route in the list, so they are before it in the order.
    all.sort_by_key(|route| route.order);
    for (order, route) in (0..).zip(&mut all) {
        route.order = order;
    }
    host.routes = all;
}

/// Adds routes for the requests of a route that are refused.
fn refuse(route: &mut PlannedRoute, denied: &[Match], line: Line, all: &mut Vec<PlannedRoute>, ledger: &mut Ledger) {
    for denied in denied {
        if are_apart(&route.matching, denied) {
            continue;
        }
        let acting = Arc::make_mut(&mut route.acting);
        // Envoy adds the fields of a route to a refusal, but not the fields of the route's own response.
        let answers = matches!(acting.to, To::Answer(_));
        if takes_all(denied, &route.matching) {
            close(&mut acting.route.filters);
            if answers {
                acting.route.filters.response_headers = ResponseHeaders::default();
            }
            return;
        }
        let access = &mut acting.route.filters.access;
        if access.is_none() && !answers && !has_clients(&route.matching) {
            *access = of_clients(denied);
            if access.is_some() {
                continue;
            }
        }
        match both(&route.matching, denied) {
            Ok(matching) => all.push(PlannedRoute {
                label: format!("{}{DENIED}", route.label).into(),
                matching,
                order: route.order,
                acting: Arc::new(refusing(&route.acting)),
            }),
            Err(why) => {
                ledger.decide(line, format!("{why}: all requests of the route are refused"), OPEN);
                close(&mut Arc::make_mut(&mut route.acting).route.filters);
                return;
            }
        }
    }
}

fn has_clients(matching: &Match) -> bool {
    !matching.criteria.clients.is_empty() || !matching.not.clients.is_empty()
}

/// Networks that are refused, or all but some, if nothing else decides.
fn of_clients(denied: &Match) -> Option<Access> {
    let (deny, allow) = (&denied.criteria.clients, &denied.not.clients);
    let is_only = |matching: &Match| {
        let mut bare = matching.clone();
        (bare.criteria.clients, bare.not.clients) = (Vec::new(), Vec::new());
        bare == Match::all()
    };
    let one = deny.is_empty() != allow.is_empty();
    (one && is_only(denied)).then(|| Access { allow: allow.clone(), deny: deny.clone(), ..Access::default() })
}

/// The action of a route whose requests get a 403.
fn refused() -> Acting {
    answering(Action::Respond(Respond { status: 403, ..Respond::default() }))
}

/// A route that refuses, with the changes and the protection of another.
fn refusing(of: &Acting) -> Acting {
    let mut acting = refused();
    let answers = matches!(of.to, To::Answer(_));
    let of = &of.route.filters;
    acting.route.filters = Filters {
        response_headers: if answers { ResponseHeaders::default() } else { of.response_headers.clone() },
        basic_auth: of.basic_auth.clone(),
        jwt: of.jwt.clone(),
        ..Filters::default()
    };
    acting
}
