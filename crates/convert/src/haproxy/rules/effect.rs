//! Effects of the rules of a section, and the things that rules refer to.

use super::address::{AddressRule, Stage};
use super::caching::Caches;
use crate::haproxy::acl::{Acls, Conj, Rate};
use crate::haproxy::lexer::Item;
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Draft, Match, RouteKeys};
use crate::protection::closed_by;
use evenkeel_config::plan::Listener;
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
    /// Path that the requests must be below, if the filter takes it away.
    pub strip: Option<String>,
}

/// Counters of stick-tables by section: each with its period in milliseconds.
pub(crate) type StickTables = BTreeMap<String, (Line, BTreeMap<String, u64>)>;

/// Everything that rules of a section refer to.
pub(crate) struct Scope<'s> {
    pub items: &'s [&'s Item],
    pub section: &'s str,
    pub acls: &'s Acls,
    pub tables: &'s StickTables,
    /// Lines of the userlist of each name.
    pub userlists: &'s BTreeMap<String, Vec<Line>>,
    /// Sections `cache`.
    pub caches: &'s Caches,
    /// Trackers by number: the key and the table.
    pub trackers: BTreeMap<String, (String, String)>,
}

impl Scope<'_> {
    pub fn key_of(&self, rate: &Rate) -> (Option<String>, String) {
        let tracker = rate.tracker.clone().unwrap_or_else(|| "0".to_string());
        match self.trackers.get(&tracker) {
            Some((key, table)) => (Some(key.clone()), table.clone()),
            // `src_http_req_rate(TABLE)` names the table itself.
            None if self.tables.contains_key(&tracker) => (Some("src".to_string()), tracker),
            None => (None, self.section.to_string()),
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

/// Closes the requests of a match: their password or permission is not checked here.
pub(crate) fn close(item: &Item, reason: &str, matching: &Match, rules: &mut Rules, ledger: &mut Ledger) {
    let mut set = Draft::default();
    closed_by(item.line, reason, &mut set, ledger);
    rules.filters.push(Filter { line: item.line, matching: matching.clone(), set, strip: None });
}

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
            true => {
                rules.filters.push(Filter {
                    line: item.line,
                    matching: conj.matching.clone(),
                    set: set.clone(),
                    strip: None,
                });
            }
            false => {
                let todo = "see whether every request may have it, and write it in the [[route]]";
                ledger.changes(item.line, "its condition asks for a counter, a list in a file or a password", todo);
            }
        }
    }
}
