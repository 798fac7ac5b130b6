//! The merge of the plan of the file with the parts of other providers. Pieces that would make the plan impossible are left
//! out and named.
//!
//! 1. [`pieces`]: the pieces of all providers, and the plan that is built of them, which is [`built`] with its errors. An error
//!    carries its subject as data, so no name is read back from a text.
//! 2. [`search`]: finds the pieces at fault when an error has no subject, among those that [`unwanted`] lists.
//! 3. [`merged`]: the result, and the pieces that an error of this machine is about.

// Order: expressions, merged, search, built & pieces, unwanted, origins
#[cfg(test)]
mod any_piece;
mod built;
mod expressions;
mod merged;
mod origins;
mod pieces;
mod search;
#[cfg(test)]
mod tests;
mod unwanted;

pub use merged::Merged;
pub use origins::{Kind, Origins};
pub use search::{Search, Step};
pub use unwanted::{Impossible, Kept, Unwanted};

use super::parts::{Part, Piece};
use built::Fault;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Mode, Route};
use pieces::{Pieces, nowhere};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use unwanted::{Candidates, changed};

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

/// Merges a valid plan with parts of providers, without the pieces that are unwanted. Errors about a piece cost that
/// piece. If the plan is impossible for a reason that no error attributes, a [`Search`] finds the pieces at fault:
/// first among the pieces that differ from the `running` plan, then among all.
pub fn merge(base: &Plan, parts: &[(&'static str, Arc<Part>)], unwanted: &Unwanted, running: &Plan) -> Merged {
    if parts.is_empty() {
        return Merged { plan: base.clone(), origins: Origins::default(), refused: BTreeMap::new() };
    }
    let is_alone = parts.iter().all(|(_, part)| part.listeners.is_empty() && part.pools.is_empty());
    let own = if is_alone { base.clone() } else { with_listeners(base) };
    let attempt = |unwanted: &Unwanted| {
        let mut pieces = Pieces::of(parts);
        pieces.leave_out_twins(base);
        expressions::limit(&mut pieces);
        pieces.leave_out_unwanted(unwanted);
        settle(pieces, &own)
    };
    if let Ok(merged) = attempt(unwanted) {
        return merged;
    }
    for running in [Some(running), None] {
        let listeners = parts.iter().flat_map(|(_, part)| &part.listeners).map(|piece| &piece.value);
        let routes = parts.iter().flat_map(|(_, part)| &part.routes).map(|piece| &piece.value);
        let pools = parts.iter().flat_map(|(_, part)| &part.pools).map(|piece| &piece.value);
        let Some(mut search) = Search::of(changed(Candidates { listeners, routes, pools }, running)) else { continue };
        let mut step = Step::Try;
        while step == Step::Try {
            step = search.learn(attempt(&search.unwanted(unwanted)).map(|_| ()));
        }
        if let (Step::Over, Ok(merged)) = (step, attempt(&search.unwanted(unwanted))) {
            return merged;
        }
    }
    // The file alone is possible.
    let mut pieces = Pieces::of(parts);
    for (place, _) in pieces.names() {
        pieces.leave_out(place, "it cannot be kept together with the configuration file".to_owned());
    }
    Merged { plan: base.clone(), origins: Origins::default(), refused: pieces.refused() }
}

/// Turns after which all pieces of an error are at fault: only many that are made to depend on each other need more.
const TURNS_MAX: usize = 16;

/// Builds the plan of pieces, without those that its errors are about. `Err` with an error that is about none.
fn settle(mut pieces: Pieces, own: &Plan) -> Result<Merged, String> {
    let mut turn = 0;
    // Each turn leaves out at least a piece, so the loop ends.
    loop {
        turn += 1;
        let built = pieces.build(own);
        let (mut gone, mut other) = (HashSet::new(), None);
        for Fault { places, why } in built.faults() {
            let Some((at_fault, involved)) = places.split_first() else {
                other.get_or_insert(why);
                continue;
            };
            // The other piece may be left out itself. The next turn shows whether the error remains.
            if turn < TURNS_MAX && involved.iter().any(|place| gone.contains(place)) {
                continue;
            }
            gone.insert(*at_fault);
            pieces.leave_out(*at_fault, why);
        }
        match (built.outcome.plan, other) {
            (Some(plan), _) => {
                return Ok(Merged { plan, origins: pieces.origins(), refused: pieces.refused() });
            }
            (None, Some(why)) if gone.is_empty() => return Err(why),
            (None, None) if gone.is_empty() => return Err("the configuration is impossible with it".to_owned()),
            _ => {}
        }
    }
}

/// The plan with the listeners of each route named: a route for all listeners is for the listeners of the file only.
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
