//! Does the plan hold together? What goes over several tables: references, routes that collide, and pools that what is
//! spoken to them does not fit. What goes over the keys of one table is checked beside it, in `sections`.

mod answered;
mod collisions;
mod dns;
mod reports;
mod routes;
mod tcp;
mod udp;

use crate::diagnostic::Findings;
use crate::sections::listener::Listener;
use crate::sections::pool::Pool;
use crate::sections::route::Route;
use crate::table::Section;

/// Makes the routes between listeners and pools, and checks all three together.
pub(crate) fn routes(
    root: &Section,
    defaults: &Section,
    listeners: &[Listener],
    pools: &[Pool],
    findings: &mut Findings,
) -> Vec<Route> {
    dns::check(root, pools, findings);
    let routes = routes::routes(root, defaults, listeners, pools, findings);
    tcp::check(root, listeners, &routes, pools, findings);
    udp::check(root, listeners, &routes, pools, findings);
    reports::check(root, listeners, &routes, pools, findings);
    dns::check_limits(root, listeners, &routes, pools, findings);
    routes
}
