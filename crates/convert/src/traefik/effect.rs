//! Changes that middlewares make to the routes of a router. See [`Effect`].

use crate::ledger::{Ledger, Line};
use crate::model::{Action, Draft, Match, RouteKeys};
use crate::protection::{close as close_routes, would_replace};
use crate::report::{OPEN, PROTECTED};
use crate::tree::Node;
use evenkeel_config::plan::Redirect;

/// Reason and advice for redirects of other methods than GET.
pub(super) const METHODS: (&str, &str) = (
    "Traefik answers other methods than GET by 307 or 308; here every request gets this status",
    "nothing, unless clients send a POST there: status = 308 keeps its method",
);

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
    /// A change that was not carried over.
    Unknown,
}

/// Changes that the middlewares of a router make to its routes.
#[derive(Default)]
pub(super) struct Effect {
    pub set: RouteKeys,
    pub action: Option<Action>,
    /// Changes of the path, in their order.
    pub moves: Vec<Move>,
    /// Redirects of some of the requests, before all that follows.
    pub redirects: Vec<Partial>,
    /// True if something that protects the requests is not carried over.
    pub is_closed: bool,
    /// True for requests that come by TLS.
    pub is_tls: bool,
    /// The smallest limit of bodies, in bytes.
    pub body_max: Option<u64>,
    /// Place of the last check among those that evenkeel makes, in its order.
    pub rank: usize,
}

/// A redirect of the requests of a match, with the keys of the middlewares before it.
pub(super) struct Partial {
    pub matching: Match,
    pub to: Draft<Redirect>,
    pub set: RouteKeys,
    pub line: Line,
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
        effect.redirects.iter_mut().for_each(|redirect| close_routes(&mut redirect.set));
    }
}
