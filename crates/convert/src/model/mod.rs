//! Model of the output: listeners, routes and pools, before they are written. Both translations fill it in.

// Order: order, matching, units, write, value
mod matching;
mod order;
mod units;
mod value;
mod write;

pub(crate) use matching::{Apart, Cond, Key, Match, Test, escape};
pub(crate) use order::{Clash, settle_order};
pub(crate) use units::{braced, duration, name_of, parse_size, size};
pub(crate) use value::{Table, Value};

/// An output file before it is written.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// Tables of the top level other than listeners, routes and pools.
    pub root: Table,
    pub listeners: Vec<Listener>,
    pub routes: Vec<Route>,
    pub pools: Vec<Pool>,
}

/// A `[listener.NAME]` of the output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    pub name: String,
    pub comments: Vec<String>,
    pub bind: Vec<String>,
    pub is_tcp: bool,
    pub is_udp: bool,
    pub pool: Option<String>,
    pub set: Table,
}

/// A `[[route]]` of the output.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub name: String,
    pub comments: Vec<String>,
    pub matching: Match,
    pub action: Action,
    /// Filters and other keys of the route.
    pub set: Table,
    /// Directive that it was made from, for notes.
    pub line: crate::ledger::Line,
}

/// The one action of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pool(String),
    /// Table of `split`: pools with their weights.
    Split(Value),
    Redirect(Value),
    Respond(Value),
}

/// A `[pool.NAME]` of the output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub name: String,
    pub comments: Vec<String>,
    pub endpoints: Vec<Endpoint>,
    pub set: Table,
}

/// An element of `endpoints`; a plain string if it has only an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub addr: String,
    pub set: Table,
}

impl Target {
    /// The pool of this name, if there is one.
    pub fn pool(&mut self, name: &str) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.name == name)
    }
}
