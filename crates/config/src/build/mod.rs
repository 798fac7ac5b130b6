//! Is it possible as a whole? From what each table says to the [`Plan`]: references, names given twice, routes that
//! collide, and what is allowed but hardly meant.

mod discover;
pub(crate) mod health;
mod leads;
mod listeners;
pub(crate) mod pools;
mod process;
mod reports;
pub(crate) mod retry;
mod routes;
mod sticky;
mod tcp;
mod udp;
mod zone;

pub(crate) use pools::endpoints as listed_endpoints;

use crate::code::Code;
use crate::diagnostic::{Finding, Findings};
use crate::plan::Plan;
use crate::read::Section;
use crate::source::Place;
use leads::Leads;
use std::collections::BTreeMap;
use std::time::Duration;

/// Builds the plan. It is only good if there is no error among the findings afterwards.
pub(crate) fn build(root: &Section, findings: &mut Findings) -> Plan {
    let defaults = root.section("defaults");
    let admin = process::admin(root);
    let listeners = listeners::listeners(root, &defaults, admin.as_ref(), findings);
    check_defaults(&defaults, findings);
    let resolver = discover::resolver(root, findings);
    let pools = pools::pools(root, &defaults, &resolver, findings);
    zone::check(root, &pools, findings);
    let routes = routes::routes(root, &defaults, &listeners, &pools, findings);
    let leads = Leads::new(&routes, &listeners);
    tcp::check(root, &listeners, &leads, &pools, findings);
    udp::check(root, &leads, &pools, findings);
    reports::check(root, &leads, &pools, findings);
    zone::check_limits(root, &leads, &pools, findings);
    Plan {
        runtime: process::runtime(root),
        admin,
        telemetry: process::telemetry(root, &pools, findings),
        resolver,
        listeners,
        routes,
        pools,
    }
}

/// What is said of the tables of a pool or route, of those that they start from.
fn check_defaults(defaults: &Section, findings: &mut Findings) {
    let (timeouts, retry) = (defaults.section("timeouts"), defaults.section("retry"));
    check_order(&timeouts, findings);
    retry::check(&retry, &timeouts, &retry::retry(&[], &retry), timeouts.duration("request"), findings);
}

/// A duration that is never off.
fn always(chain: &[&Section], name: &str) -> Duration {
    Section::inherited(chain, name).unwrap_or_default()
}

/// Says so if, in the same table, a part may take longer than the whole.
fn check_order(timeouts: &Section, findings: &mut Findings) {
    let set = |name| timeouts.set(name).and(timeouts.duration(name)).map(|d| (d, timeouts.place_of(name)));
    let Some((whole, whole_place)) = set("request") else { return };
    for part in ["connect", "response"] {
        if let Some((_, place)) = set(part).filter(|(d, _)| *d > whole) {
            findings
                .add(Code::TimeoutOrder, place, format!("\"{part}\" is longer than \"request\", so it never ends one"))
                .see("the whole request ends before", whole_place)
                .help(format!("make \"{part}\" shorter, or leave it out"));
        }
    }
}

/// Reports what cannot be together with what `other`, a key of the same table, says.
fn contradiction<'f>(
    table: &Section,
    place: Place,
    message: impl Into<String>,
    other: &str,
    findings: &'f mut Findings,
) -> &'f mut Finding {
    let finding = findings.add(Code::Contradiction, place, message);
    match table.set(other) {
        Some(other) => finding.see("the other one is here", other.place),
        None => finding,
    }
}

/// Says so if a name was given before; `seen` has the names so far.
fn check_name(name: &str, place: Place, what: &str, seen: &mut BTreeMap<String, Place>, findings: &mut Findings) {
    if let Some(first) = seen.get(name) {
        findings
            .add(Code::SameName, place, format!("two {what} are named \"{name}\""))
            .see("the first one is here", *first)
            .help("give each a name of its own");
        return;
    }
    seen.insert(name.to_string(), place);
}
