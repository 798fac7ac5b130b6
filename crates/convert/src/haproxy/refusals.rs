//! Refusals of frontends: address lists of routes, and differences of their responses.

use super::pages::{self, Pages};
use super::rules::{AddressRule, Filter, Rules, Verdict, verdict};
use crate::ledger::{Ledger, Line};
use crate::model::{Key, Route, RouteKeys};
use crate::protection::close;
use crate::report::UNKNOWN_LISTS;

/// Notes refusals that become filters of routes with a page for their status: pages of a backend, or of a response. `backends`
/// have their pages and their rules.
pub(super) fn note_pages<'b>(
    rules: &Rules,
    own: &Pages,
    backends: impl Iterator<Item = (&'b Pages, &'b Rules)> + Clone,
    ledger: &mut Ledger,
) {
    let of_finals = |rules: &Rules, status: u64| {
        let pages = rules.finals.iter().filter_map(|rule| rule.set.get(key!("error_pages")));
        pages.flat_map(pages::statuses).any(|other| other == status)
    };
    let mut note = |line| {
        let reason =
            "its refusals have the error page of a backend or of another rule, which they do not have in HAProxy";
        ledger.changes(line, reason, "nothing, unless clients depend on it");
    };
    for (line, status) in refusals(rules) {
        let differs = |(pages, rules): (&Pages, &Rules)| {
            let page = pages.get(&status);
            page.is_some() && page != own.get(&status) || of_finals(rules, status)
        };
        if of_finals(rules, status) || backends.clone().any(differs) {
            note(line);
        }
    }
    for (_, rules) in backends {
        refusals(rules).filter(|(_, status)| of_finals(rules, *status)).for_each(|(line, _)| note(line));
    }
}

/// Notes changes of backends that refusals of the frontend get, too, as both are filters of a route.
pub(super) fn note_edits<'b>(rules: &Rules, backends: impl Iterator<Item = &'b Rules>, ledger: &mut Ledger) {
    if refusals(rules).next().is_none() {
        return;
    }
    let is_of_responses = |filter: &&Filter| filter.edit.as_ref().is_some_and(|edit| edit.is_response);
    for filter in backends.flat_map(|rules| rules.filters.iter().filter(is_of_responses)) {
        let reason = "refusals of a frontend get the change of the backend, too, which they do not have in HAProxy";
        ledger.changes(filter.line, reason, "nothing, unless clients depend on it");
    }
}

/// Lines of rules that become filters that refuse, each with its status.
fn refusals(rules: &Rules) -> impl Iterator<Item = (Line, u64)> {
    let of_lists = rules.addresses.iter().filter(|rule| !rule.lets_in).map(|rule| (rule.line, rule.status));
    let of_filters = rules.filters.iter().flat_map(|filter| {
        let kinds = [(key!("access"), 403), (key!("basic_auth"), 401), (key!("limits"), 429)];
        kinds.into_iter().filter(|(key, _)| filter.set.has(*key)).map(|(_, status)| (filter.line, status))
    });
    of_lists.chain(of_filters)
}

/// Settings with the address lists of these rules.
pub(super) fn with_access(set: &RouteKeys, groups: &[&[AddressRule]], ledger: &mut Ledger) -> RouteKeys {
    let mut set = set.clone();
    let rules = || groups.iter().flat_map(|rules| rules.iter());
    match verdict(groups) {
        Verdict::Open => {}
        Verdict::Lists(access, differs) => {
            set.put(key!("access"), access);
            for rule in rules().filter(|rule| differs && rule.is_unknown()) {
                let reason = "clients that are in this list and in others may be refused, and HAProxy lets them in";
                ledger.changes(rule.line, reason, "name the networks that must be let in, in `allow` of access");
            }
            let mut refusals = rules().filter(|rule| !rule.lets_in);
            let status = refusals.next().map_or(403, |rule| rule.status);
            for rule in refusals.filter(|rule| rule.status != status) {
                let reason = format!("all address lists of a route refuse by one status, here {status}");
                ledger.changes(rule.line, reason, "nothing, unless clients depend on it");
            }
        }
        Verdict::Unknown => {
            close(&mut set);
            for rule in rules() {
                ledger.decide(rule.line, UNKNOWN_LISTS.0, UNKNOWN_LISTS.1);
            }
        }
    }
    set
}

/// True if sessions are to be refused by the client's address, which no listener can do.
pub(super) fn refuses_sessions(routes: &[Route], addresses: &[AddressRule], ledger: &mut Ledger) -> bool {
    let asks = |route: &&Route| {
        route.set.has(key!("access")) || route.matching.conds.iter().any(|cond| cond.key == Key::Client)
    };
    let lines: Vec<Line> = routes.iter().filter(asks).map(|route| route.line).collect();
    let rules = addresses.iter().filter(|rule| !rule.lets_in && !lines.is_empty()).map(|rule| rule.line);
    for line in lines.iter().copied().chain(rules) {
        let reason = "sessions are not refused by the client's address, so the listener is left out";
        ledger.decide(line, reason, "write the listener by hand, and refuse clients by nftables");
    }
    !lines.is_empty()
}
