//! Changes that middlewares make to the routes of a router. See [`Effect`].

use crate::ledger::Ledger;
use crate::model::{Action, RouteKeys};
use crate::protection::{close as close_routes, would_replace};
use crate::report::{OPEN, PROTECTED};
use crate::tree::Node;

#[derive(Clone, Debug)]
pub(super) enum Move {
    /// Takes the first of these prefixes away that a path has.
    Strip(Vec<String>),
    Add(String),
    Replace(String),
    Search {
        search: String,
        to: String,
    },
}

/// Changes that the middlewares of a router make to its routes.
#[derive(Default)]
pub(super) struct Effect {
    pub set: RouteKeys,
    pub action: Option<Action>,
    /// Changes of the path, in their order.
    pub moves: Vec<Move>,
    /// True if something that protects the requests is not carried over.
    pub is_closed: bool,
}

/// Closes the routes, and notes everything in the middleware that is not settled.
pub(super) fn close(node: &Node, reason: &str, effect: &mut Effect, ledger: &mut Ledger) {
    effect.is_closed = true;
    ledger.decide(node.line, format!("{reason}; {PROTECTED}"), OPEN);
    node.lost(PROTECTED, OPEN, ledger);
}

/// Adds the keys of a middleware, unless another middleware has set the same kind of protection.
pub(super) fn add(more: RouteKeys, node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    let access = key!("access");
    let lists = more.has(access) && effect.set.has(access) && more.get(access) != effect.set.get(access);
    match lists || would_replace(&effect.set, &more) {
        true => close(node, "a route asks for one password or service, and two stand here", effect, ledger),
        false => effect.set.merge(&more),
    }
}

/// Closes a route if a password or permission is not carried over.
pub(super) fn settle(effect: &mut Effect) {
    if effect.is_closed {
        for key in [key!("basic_auth"), key!("forward_auth")] {
            effect.set.remove(key);
        }
        close_routes(&mut effect.set);
    }
}
