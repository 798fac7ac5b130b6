//! Rules that refuse requests, and rules that exempt from them.

use super::address::{AddressRule, Stage, Verdict, verdict};
use super::counter::limit;
use super::effect::{Filter, Rules, Scope, close, end, stage};
use super::redirect;
use crate::haproxy::acl::Conj;
use crate::haproxy::lexer::Item;
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
    let (action, set) = match redirect::respond(words, 403) {
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
    if !counts && (matches!(item.word(1), "silent-drop" | "tarpit" | "reject") || item.word(0) == "tcp-request") {
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
            continue;
        }
        if !conj.client_files.is_empty() && conj.auth.is_empty() && conj.rates.is_empty() {
            refuse_files(item, conj, refusal, rules, ledger);
            continue;
        }
        if !conj.auth.is_empty() {
            close(item, "its condition asks for a password", &conj.matching, rules, ledger);
            continue;
        }
        if !conj.is_plain() {
            let todo = "write access or limits in a [[route]]";
            ledger.changes(item.line, "its condition asks for a list in a file or counters beside other things", todo);
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
    let mut set = Draft::default();
    protection::shut(&mut set);
    rules.filters.push(Filter { line: item.line, matching: Match::default(), set, strip: None });
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
            rules.filters.push(Filter { line: item.line, matching, set, strip: None });
        }
        Some(Verdict::Open) => {}
        Some(Verdict::Unknown) | None => {
            let mut set = Draft::default();
            protection::shut(&mut set);
            rules.filters.push(Filter { line: item.line, matching, set, strip: None });
            ledger.changes(item.line, UNKNOWN_LISTS.0, UNKNOWN_LISTS.1);
        }
    }
}

/// An exception from the rules behind it. That from rules on addresses is exact; others do not know of it.
pub(crate) fn allow(
    item: &Item,
    tail: &[String],
    conjs: &[Conj],
    rules: &mut Rules,
    exceptions: &mut Vec<Exception>,
    ledger: &mut Ledger,
) {
    let Some(stage) = stage(item) else {
        let todo = "exclude these requests in the rules that follow: not = { ... } in the match of their routes";
        return match tail.is_empty() {
            true => ledger.dropped(item.line, "responses are allowed"),
            false => ledger.changes(item.line, "a rule that exempts responses from later rules is not available", todo),
        };
    };
    let is_request = stage == Stage::Request;
    // Versions of HTTP are taken for granted, which is safe in refusals only.
    let is_exact = !tail.iter().any(|word| word.trim_start_matches('!').starts_with("HTTP"));
    let rule = |conj: &Conj| AddressRule::of(conj, item.line, stage, true, 403);
    let all: Vec<AddressRule> = conjs.iter().filter(|_| is_exact).filter_map(rule).collect();
    if tail.is_empty() {
        rules.addresses.extend(all);
        let reason = match is_request {
            true => "requests are allowed unless a rule refuses them",
            false => "connections are accepted unless a limit refuses them",
        };
        return ledger.dropped(item.line, reason);
    }
    let all: Vec<AddressRule> = all.into_iter().filter(|rule| !rule.is_unconditional()).collect();
    let carried = !all.is_empty() && all.len() == conjs.len();
    rules.addresses.extend(all);
    exceptions.push(Exception { line: item.line, stage, carried, is_needed: is_request && !carried });
}
