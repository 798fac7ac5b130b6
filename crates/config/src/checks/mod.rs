//! Checks that span several tables: references, colliding routes, pools that do not fit the protocol of their
//! listeners, and optionally the machine. Checks within a table are beside its keys in `sections`.

// Order: acme, dns, endpoints, kernel, loops, reports, routes, limits, maps, expressions, matches, paths, collisions, disjoint, tcp, tls,
// machine, udp, leads
mod acme;
mod collisions;
mod disjoint;
mod dns;
mod endpoints;
mod expressions;
mod kernel;
mod leads;
mod limits;
mod loops;
mod machine;
mod maps;
mod matches;
mod paths;
mod reports;
mod routes;
mod tcp;
mod tls;
mod udp;

use crate::diagnostic::Findings;
use crate::sections::listener::Listener;
use crate::sections::map::Map;
use crate::sections::pool::Pool;
use crate::sections::route::Route;
use crate::table::Section;
use leads::Leads;
use std::sync::Arc;

pub(crate) use acme::check as acme;
pub(crate) use kernel::check_machine as planes;
pub(crate) use loops::check as loops;
pub(crate) use machine::check as machine;
pub(crate) use tls::check as tls;

/// Builds all routes, and checks listeners, routes and pools together.
pub(crate) fn routes(
    root: &Section,
    defaults: &Section,
    listeners: &[Arc<Listener>],
    (pools, maps): (&[Arc<Pool>], &[Arc<Map>]),
    findings: &mut Findings,
) -> Vec<Route> {
    dns::check(root, pools, findings);
    maps::check(root, maps, findings);
    limits::check(root, findings);
    let routes = routes::routes(root, defaults, listeners, (pools, maps), findings);
    let leads = Leads::new(&routes, listeners);
    tcp::check(root, listeners, &leads, pools, findings);
    udp::check(root, &leads, pools, findings);
    kernel::check(root, listeners, &leads, pools, findings);
    reports::check(root, &leads, pools, findings);
    endpoints::check(root, &leads, pools, findings);
    dns::check_limits(root, &leads, pools, findings);
    routes
}
