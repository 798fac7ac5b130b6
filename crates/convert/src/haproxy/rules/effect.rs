//! Effects of the rules of a section, and the things that rules refer to.

use super::address::{AddressRule, Stage};
use super::caching::Caches;
use crate::haproxy::acl::Acls;
use crate::haproxy::criteria::Rate;
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::Conj;
use crate::haproxy::samples::Context;
use crate::haproxy::state::{State, Tracker, Trackers};
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Draft, Entries, Match, RouteKeys};
use crate::protection;
use crate::report::OPEN;
use evenkeel_config::plan::{Limit, Listener};
use std::collections::BTreeMap;

/// Rules of a section, sorted by their effect; each list in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Rules that end a request.
    pub finals: Vec<Final>,
    /// Keys of routes whose requests fulfil the conditions.
    pub filters: Vec<Filter>,
    /// Final rules on the client's address alone, those for connections first.
    pub addresses: Vec<AddressRule>,
    /// Keys under `limits` that the listener gets.
    pub limits: Draft<Listener>,
    /// Limits of requests by the names that routes have for them.
    pub counted: BTreeMap<String, Draft<Limit>>,
    /// Changes of the fields of responses of endpoints, with the line of each.
    pub responses: Vec<(Line, Entries)>,
    /// Changes that the rules have made at their end.
    pub state: State,
}

#[derive(Clone, Debug)]
pub(crate) struct Final {
    pub line: Line,
    pub matching: Match,
    pub action: Action,
    pub set: RouteKeys,
    /// Number of rules on addresses that HAProxy tries before this rule.
    pub behind: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub line: Line,
    pub matching: Match,
    pub set: RouteKeys,
    /// Change of fields, in the order of the rules.
    pub edit: Option<Edit>,
    /// Number of final rules before it, which it is not for.
    pub behind: usize,
}

/// Change of the fields of a message.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub is_response: bool,
    pub change: Entries,
    /// True if its condition reads the request as the client sent it, and the fields are others by now.
    pub splits: bool,
}

impl Filter {
    pub fn new(line: Line, matching: Match, set: RouteKeys, rules: &Rules) -> Filter {
        Filter { line, matching, set, edit: None, behind: rules.finals.len() }
    }

    /// True if it changes fields or the path of requests.
    pub fn changes_requests(&self) -> bool {
        self.set.has(key!("rewrite")) || self.edit.as_ref().is_some_and(|edit| !edit.is_response)
    }
}

/// Counters of stick-tables by section: each with its period in milliseconds.
pub(crate) type StickTables = BTreeMap<String, (Line, BTreeMap<String, u64>)>;

/// User of a userlist, with the hash of a password that evenkeel reads.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub line: Line,
    pub name: String,
    pub hash: Option<String>,
}

/// Everything that rules of a section refer to.
pub(crate) struct Scope<'s> {
    pub items: &'s [&'s Item],
    pub section: &'s str,
    /// True if a listener may have the limits.
    pub is_front: bool,
    /// True if rules on all responses read variables, so that they depend on the rule that ended a request.
    pub keeps_ends: bool,
    pub acls: &'s Acls,
    pub context: &'s Context<'s>,
    pub tables: &'s StickTables,
    /// Names and hashes by the name of their section `userlist`.
    pub userlists: &'s BTreeMap<String, Vec<User>>,
    /// Sections `cache`.
    pub caches: &'s Caches,
    pub trackers: Trackers,
}

impl Scope<'_> {
    /// The tracker of a counter, if rules of the section count in the table that it asks.
    pub fn tracker(&self, rate: &Rate) -> Option<&Tracker> {
        let is_asked = |table: &str, tracker: &&Tracker| tracker.table == table;
        match &rate.tracker {
            Some(number) => {
                let tracker = self.trackers.get(number)?.as_ref()?;
                Some(tracker).filter(|tracker| rate.table.as_ref().is_none_or(|table| is_asked(table, tracker)))
            }
            None => {
                let table = rate.table.as_deref().unwrap_or(self.section);
                self.trackers.values().flatten().find(|tracker| tracker.key == "src" && is_asked(table, tracker))
            }
        }
    }
}

/// Stage in which HAProxy tries a rule; `None` for directives without a stage.
pub(crate) fn stage(item: &Item) -> Option<Stage> {
    match (item.word(0), item.word(1)) {
        ("tcp-request", "connection") => Some(Stage::Connection),
        ("tcp-request", "session") => Some(Stage::Session),
        ("tcp-request", "content") => Some(Stage::Content),
        ("http-request" | "block", _) => Some(Stage::Request),
        _ => None,
    }
}

/// Refuses the requests of a match. Exceptions from it are not checked here.
pub(crate) fn close(item: &Item, reason: &str, matching: &Match, rules: &mut Rules, ledger: &mut Ledger) {
    let mut set = Draft::default();
    protection::close(&mut set);
    ledger.decide(item.line, format!("{reason}; {CLOSED}"), OPEN);
    rules.filters.push(Filter::new(item.line, matching.clone(), set, rules));
}

/// Reason for refusals that are wider than in the original.
pub(crate) const CLOSED: &str = "all requests that it may be for are refused";

/// Adds a rule that ends the requests of a match.
pub(crate) fn end(item: &Item, matching: Match, action: Action, set: RouteKeys, rules: &mut Rules) {
    let behind = rules.addresses.len();
    rules.finals.push(Final { line: item.line, matching, action, set, behind });
}

/// Adds keys of routes, for each alternative of a condition.
pub(crate) fn filter(item: &Item, conjs: &[Conj], set: &RouteKeys, rules: &mut Rules, ledger: &mut Ledger) {
    ledger.carried(item.line);
    for conj in conjs {
        match conj.is_plain() {
            true => rules.filters.push(Filter::new(item.line, conj.matching.clone(), set.clone(), rules)),
            false => {
                let todo = "see whether every request may have it, and write it in the [[route]]";
                ledger.changes(item.line, "its condition asks for a counter, a list in a file or a password", todo);
            }
        }
    }
}
