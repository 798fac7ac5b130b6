//! Rules that refuse requests, and rules that exempt from them.

use super::address::{AddressRule, Stage, Verdict, verdict};
use super::counter::limit;
use super::effect::{Filter, Rules, Scope, close, end, stage};
use super::redirect;
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::{Conj, Expr};
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Draft, Key, Match, Value};
use crate::protection;
use crate::report::UNKNOWN_LISTS;

/// An `allow` or `accept`, which exempts requests from the rules behind it.
pub(crate) struct Exception {
    line: Line,
    pub stage: Stage,
    /// True if it exempts from rules on addresses here too.
    pub carried: bool,
    /// True if there are rules behind it from which nothing is exempted here.
    pub is_needed: bool,
}

impl Exception {
    /// Enters the rule in the book, once all rules behind it are known.
    pub fn settle(self, ledger: &mut Ledger) {
        match (self.is_needed, self.carried) {
            (true, carried) => {
                let todo =
                    "exclude these requests in the rules that follow: not = { ... } in the match of their routes";
                let reason = match carried {
                    true => "it exempts from the address lists that follow, and not from other rules",
                    false => "a rule that exempts requests from later rules is not available",
                };
                ledger.changes(self.line, reason, todo);
            }
            (false, true) => ledger.carried(self.line),
            (false, false) => ledger.dropped(self.line, "no rule that was carried over refuses what it exempts"),
        }
    }
}

/// A rule that refuses requests, for each alternative of its condition.
pub(crate) fn deny(
    item: &Item,
    words: &[String],
    conjs: &[Conj],
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let (action, set) = match redirect::respond(words, default_status(item), scope, &rules.state) {
        Ok(found) => found,
        Err(reason) => {
            ledger.changes(item.line, format!("{reason}: refused by 403"), "write the response of a [[route]] by hand");
            (Action::respond(403), Draft::default())
        }
    };
    let (status, has_text) = match &action {
        Action::Respond(response) => match response.get(key!("status")) {
            Some(Value::Int(status)) => (*status, response.entries().iter().len() > 1),
            _ => (403, true),
        },
        _ => (403, true),
    };
    // Statuses that `access` can refuse with.
    let refusal = if (400..600).contains(&status) { status } else { 403 };
    ledger.carried(item.line);
    let counts = conjs.iter().any(|conj| !conj.rates.is_empty());
    if (!counts || item.word(0) == "http-request")
        && (matches!(item.word(1), "silent-drop" | "tarpit" | "reject") || item.word(0) == "tcp-request")
    {
        let reason = format!("requests are answered by {status}, and connections are not dropped or held");
        ledger.changes(item.line, reason, "nothing, or a firewall such as nftables");
    }
    for conj in conjs {
        if let [rate] = conj.rates.as_slice() {
            if !conj.client_files.is_empty() || !conj.auth.is_empty() {
                let todo = "limits of the [[route]]s that they are for";
                ledger.changes(item.line, "the limit is for all clients, and not for those of a list alone", todo);
            }
            limit(item, rate, &conj.matching, status, scope, rules, ledger);
            continue;
        }
        let stage = stage(item).unwrap_or(Stage::Request);
        // Without a condition it refuses all requests, except those that a rule before it has let in.
        let has_exceptions = rules.addresses.iter().any(|rule| rule.stage == stage && rule.lets_in);
        let rule = AddressRule::of(conj, item.line, stage, false, refusal);
        if let Some(rule) = rule.filter(|rule| !rule.is_unconditional() || has_exceptions) {
            rules.addresses.push(rule);
            if has_text || refusal != status || !set.is_empty() {
                let todo = format!("error_pages = [{{ status = [{refusal}], file = \"FILE.html\" }}] in the [[route]]");
                ledger.changes(item.line, format!("clients of address lists are refused by a plain {refusal}"), todo);
            }
            let asks = |filter: &Filter| filter.set.has(key!("basic_auth.users"));
            if stage == Stage::Request && rules.filters.iter().any(asks) {
                let reason =
                    "address lists are asked before passwords: of both refusals the client gets that of the list";
                ledger.changes(item.line, reason, "nothing, unless clients depend on the status");
            }
            continue;
        }
        if !conj.client_files.is_empty() && conj.auth.is_empty() && conj.rates.is_empty() {
            refuse_files(item, conj, refusal, rules, ledger);
            continue;
        }
        if let ([(list, true)], true) = (conj.auth.as_slice(), conj.client_files.is_empty()) {
            ledger.changes(item.line, "requests without a password get a 401", "nothing, unless clients depend on it");
            super::auth::require(item, list, None, &conj.matching, scope, rules, ledger);
            continue;
        }
        if !conj.is_plain() {
            let reason = "its condition asks for a password, a list in a file or counters beside other things";
            close(item, reason, &conj.matching, rules, ledger);
            continue;
        }
        if conj.matching.conds.is_empty() && item.word(0) == "tcp-request" {
            // Behind an `accept` it is for connections without a ClientHello, which no route takes here either.
            let is_accept =
                |other: &Item| (other.word(0), other.word(1), other.word(2)) == (item.word(0), item.word(1), "accept");
            if !scope.items.iter().any(|other| is_accept(other)) {
                refuse_all(item, rules);
            }
            ledger.changes(item.line, "it refuses every connection", "remove the listener");
            continue;
        }
        end(item, conj.matching.clone(), action.clone(), set.clone(), rules);
    }
}

/// Refuses all clients, for a rule on unknown clients.
pub(crate) fn refuse_all(item: &Item, rules: &mut Rules) {
    refuse_matching(item, Match::default(), rules);
}

/// Refuses all clients whose requests match.
pub(crate) fn refuse_matching(item: &Item, matching: Match, rules: &mut Rules) {
    let mut set = Draft::default();
    protection::close(&mut set);
    rules.filters.push(Filter::new(item.line, matching, set, rules));
}

/// Refuses clients by lists in files, where other conditions hold as well.
pub(crate) fn refuse_files(item: &Item, conj: &Conj, status: u64, rules: &mut Rules, ledger: &mut Ledger) {
    let (of_client, others) = conj.matching.conds.iter().cloned().partition(|cond| cond.key == Key::Client);
    let matching = Match { conds: others };
    let clients = Conj { matching: Match { conds: of_client }, ..conj.clone() };
    let rule = AddressRule::of(&clients, item.line, Stage::Request, false, status);
    match rule.map(|rule| verdict(&[&[rule]])) {
        Some(Verdict::Lists(access, _)) => {
            let set = Draft::one(key!("access"), access);
            rules.filters.push(Filter::new(item.line, matching, set, rules));
        }
        Some(Verdict::Open) => {}
        Some(Verdict::Unknown) | None => {
            let mut set = Draft::default();
            protection::close(&mut set);
            rules.filters.push(Filter::new(item.line, matching, set, rules));
            ledger.decide(item.line, UNKNOWN_LISTS.0, UNKNOWN_LISTS.1);
        }
    }
}

/// Status of a refusal that names none.
fn default_status(item: &Item) -> u64 {
    if item.words.iter().any(|word| word == "tarpit") { 500 } else { 403 }
}

/// An exception from the rules behind it. Address lists of routes know of exceptions by the client's address alone; other
/// rules exclude its requests.
pub(crate) fn allow(
    item: &Item,
    viewed: &Expr,
    rules: &mut Rules,
    scope: &Scope<'_>,
    exceptions: &mut Vec<Exception>,
    ledger: &mut Ledger,
) {
    let Some(stage) = stage(item) else {
        return ledger.dropped(item.line, "responses are allowed");
    };
    let conjs = viewed.alternatives(scope.context.maps);
    let rule = |conj: &Conj| AddressRule::of(conj, item.line, stage, true, 403);
    let all: Vec<AddressRule> = conjs.iter().flatten().filter_map(rule).collect();
    let is_exact = conjs.as_ref().is_ok_and(|conjs| conjs.len() == all.len());
    let is_request = stage == Stage::Request;
    if is_request {
        match (viewed.reason(), is_exact) {
            (Some(reason), _) => {
                let reason = format!("its condition cannot be written: {reason}; it exempts no request");
                return ledger.changes(item.line, reason, "exclude its requests in the rules that follow");
            }
            (None, true) => {
                rules.addresses.extend(all);
                rules.state.allowed_clients = rules.state.allowed_clients.clone().or(viewed.clone());
            }
            (None, false) => rules.state.stopped = rules.state.stopped.clone().or(viewed.clone()),
        }
        return ledger.carried(item.line);
    }
    if *viewed == Expr::Const(true) {
        rules.addresses.extend(all);
        return ledger.dropped(item.line, "connections are accepted unless a limit refuses them");
    }
    let all: Vec<AddressRule> = all.into_iter().filter(|rule| !rule.is_unconditional()).collect();
    let carried = is_exact && !all.is_empty();
    rules.addresses.extend(all);
    exceptions.push(Exception { line: item.line, stage, carried, is_needed: false });
}
