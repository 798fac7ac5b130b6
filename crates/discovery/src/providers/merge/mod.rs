//! The merge of the plan of the file with the parts of other providers. Pieces that would make the plan impossible are left
//! out and named: [`pieces`] has them. [`merged`] is the result, and says which of them an error of this machine is about.

mod expressions;
mod merged;
mod origins;
mod pieces;
#[cfg(test)]
mod tests;

pub use merged::{Impossible, Merged, Unwanted};
pub use origins::{Kind, Origins};

use super::parts::{Part, Piece};
use evenkeel_config::plan::{Mode, Route};
use evenkeel_config::{Plan, Severity};
use pieces::{Pieces, Place, nowhere};
use std::sync::Arc;

/// Returns the pieces of a merged plan that the plan of the file does not have.
pub fn added(base: &Plan, merged: &Plan) -> Part {
    let of: Arc<str> = "the process before".into();
    let listeners = merged.listeners.iter().filter(|one| base.listener(&one.name).is_none());
    let routes = merged.routes.iter().filter(|one| base.routes.iter().all(|other| other.name != one.name));
    let pools = merged.pools.iter().filter(|one| base.pool(&one.name).is_none());
    Part {
        listeners: listeners.map(|one| Piece::new(&of, one.clone())).collect(),
        routes: routes.map(|one| Piece::new(&of, one.clone())).collect(),
        pools: pools.map(|one| Piece::new(&of, one.clone())).collect(),
    }
}

/// Merges a valid plan with parts of providers, without the pieces that are unwanted.
pub fn merge(base: &Plan, parts: &[(&'static str, Arc<Part>)], unwanted: &Unwanted) -> Merged {
    let mut pieces = Pieces::of(parts);
    pieces.leave_out_twins(base);
    expressions::limit(&mut pieces);
    for (place, name) in pieces.names() {
        if let Some(Impossible { why, instead }) = unwanted.get(&(place.0, name)) {
            let was_there = pieces.stays(place);
            pieces.leave_out(place, why.clone());
            if let (true, Some(instead)) = (was_there, instead) {
                pieces.keep(place.1, instead.clone());
            }
        }
    }
    let is_alone = parts.iter().all(|(_, part)| part.listeners.is_empty() && part.pools.is_empty());
    let own = if is_alone { base.clone() } else { with_listeners(base) };
    // Each turn leaves out all pieces that were at fault in the one before, so there is a last one.
    loop {
        let (outcome, routes) = pieces.build(&own);
        if let Some(plan) = outcome.plan {
            return Merged { plan, origins: pieces.origins(), refused: pieces.refused() };
        }
        let errors = outcome.diagnostics.iter().filter(|one| one.severity() == Severity::Error);
        let faults: Vec<(Place, String)> =
            errors.filter_map(|error| Some((pieces.place(error, &routes)?, pieces.why(error, &routes)))).collect();
        if faults.is_empty() {
            break;
        }
        for (place, why) in faults {
            pieces.leave_out(place, why);
        }
    }
    // What remains cannot be attributed to a piece.
    for (place, _) in pieces.names() {
        pieces.leave_out(place, "it cannot be kept together with the configuration file".to_owned());
    }
    Merged { plan: base.clone(), origins: Origins::default(), refused: pieces.refused() }
}

/// The plan with routes that name their listeners: one that is for all is for all of the file. Nothing of others is implied.
fn with_listeners(base: &Plan) -> Plan {
    let http: Vec<Arc<str>> = base.listeners.iter().filter(|l| l.mode == Mode::Http).map(|l| l.name.clone()).collect();
    let routes = base.routes.iter().filter(|route| !route.listeners.is_empty() || !http.is_empty()).cloned();
    let named = routes.map(|route| match route.listeners.is_empty() {
        true => Route { listeners: http.clone(), ..route },
        false => route,
    });
    let mut routes: Vec<Route> = named.collect();
    if routes.is_empty() && !http.is_empty() {
        routes.push(nowhere("(none)".into(), http));
    }
    Plan { routes: routes.into(), ..base.clone() }
}
