//! Passwords of userlists as `basic_auth` of routes.

use super::effect::{Filter, Rules, Scope, close, end};
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::Conj;
use crate::ledger::Ledger;
use crate::model::{Action, Draft, Match};

/// `http-request auth`.
pub(crate) fn auth(
    item: &Item,
    words: &[String],
    conjs: &[Conj],
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let realm = words.iter().position(|word| word == "realm").and_then(|at| words.get(at + 1)).map(String::as_str);
    ledger.carried(item.line);
    for conj in conjs {
        match (conj.auth.as_slice(), conj.client_files.is_empty() && conj.rates.is_empty()) {
            ([(list, true)], true) => require(item, list, realm, &conj.matching, scope, rules, ledger),
            // Whoever has a password is asked for it all the same.
            ([], true) => {
                let proof = format!("Basic realm=\"{}\"", realm.unwrap_or(scope.section));
                let mut set = Draft::default();
                set.insert(key!("response_headers.set"), "WWW-Authenticate", proof);
                end(item, conj.matching.clone(), Action::respond(401), set, rules);
            }
            _ => close(
                item,
                "its condition asks for more than the passwords of one userlist",
                &conj.matching,
                rules,
                ledger,
            ),
        }
    }
}

/// Requires a password of a userlist for the requests of a match.
pub(crate) fn require(
    item: &Item,
    list: &str,
    realm: Option<&str>,
    matching: &Match,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let users = scope.userlists.get(list).map_or(&[][..], Vec::as_slice);
    let mut lines = Vec::new();
    for user in users {
        match &user.hash {
            Some(hash) => {
                lines.push(format!("{}:{hash}", user.name));
                ledger.carried(user.line);
            }
            None => {
                let todo = format!("write the line of `htpasswd -nB {}` into users of basic_auth", user.name);
                ledger.changes(user.line, "its password is not hashed in a way that is read here", todo);
            }
        }
    }
    if lines.is_empty() {
        return close(item, "no user of the list has a password that is read here", matching, rules, ledger);
    }
    let mut set = Draft::one(key!("basic_auth.users"), lines.join("\n"));
    set.put(key!("basic_auth.realm"), realm.unwrap_or(scope.section));
    // HAProxy forwards the credentials too.
    set.put(key!("basic_auth.keep"), true);
    rules.filters.push(Filter::new(item.line, matching.clone(), set, rules));
}
