//! Rules of a section: http-request, http-response, tcp-request, redirect, with their conditions.

// Order: bandwidth, paths, fields, refusal, counter, auth, redirect, sample, caching & effect, address
mod address;
mod auth;
mod bandwidth;
mod caching;
mod counter;
mod effect;
mod fields;
mod paths;
mod redirect;
mod refusal;
mod sample;

pub(super) use address::{AddressRule, Verdict, verdict};
pub(super) use bandwidth::{is_filter, unused};
pub(super) use caching::{Caches, section as cache_section};
pub(super) use effect::{Edit, Filter, Rules, Scope, StickTables, User};
pub(super) use fields::as_sent;
pub(super) use refusal::{refuse_all, refuse_files, refuse_matching};
pub(super) use sample::read as sample;

use super::acl::condition;
use super::criteria::{Atom, STATE};
use super::lexer::Item;
use super::logic::{Conj, Expr};
use super::state::{Source, State, Tracker};
use crate::ledger::Ledger;
use crate::model::{Action, Cond, Draft, Key, Match, RouteKeys, Test};
use address::Stage;
use effect::{close, end, stage};
use fields::Condition;
use refusal::{Exception, allow, deny};

/// Notes `track-sc` rules of a section, before its other rules are read.
pub(super) fn trackers(items: &[&Item], scope: &mut Scope<'_>, ledger: &mut Ledger) {
    for item in items {
        let Some(at) = item.words.iter().position(|word| word.starts_with("track-sc") && word.len() > 8) else {
            continue;
        };
        if !matches!(item.word(0), "http-request" | "tcp-request") {
            continue;
        }
        let table = item.words.iter().position(|word| word == "table").map(|n| item.word(n + 1));
        let table = table.unwrap_or(scope.section).to_string();
        let number = item.word(at)["track-sc".len()..].to_string();
        if let Some((line, _)) = scope.tables.get(&table) {
            ledger.carried(*line);
        }
        let split = item.words.iter().position(|word| word == "if" || word == "unless").unwrap_or(item.words.len());
        let on = condition(item.from(split), scope.acls, scope.context);
        let tracker = Tracker { key: item.word(at + 1).to_string(), table, on };
        let known = scope.trackers.entry(number).or_insert_with(|| Some(tracker.clone()));
        match known {
            Some(known) if known.key == tracker.key && known.table == tracker.table => {
                known.on = known.on.clone().or(tracker.on);
            }
            known => *known = None,
        }
        ledger.carried(item.line);
    }
}

/// Reads the rules of a section, which begin in this state.
pub(super) fn read(items: &[&Item], scope: &Scope<'_>, state: State, ledger: &mut Ledger) -> Rules {
    let mut rules = Rules { state, ..Rules::default() };
    // HAProxy tries rules for connections first, then `monitor-uri`, then `http-request`, and `redirect` last. Responses come
    // behind all of them.
    let rank = |item: &&&Item| match (item.word(0), stage(item)) {
        ("http-response" | "http-after-response" | "tcp-response" | "rspadd" | "rspdel" | "rspidel", _) => 6,
        ("monitor-uri", _) => 3,
        ("redirect", _) => 5,
        (_, Some(Stage::Connection)) => 0,
        (_, Some(Stage::Session)) => 1,
        (_, Some(Stage::Content)) => 2,
        _ => 4,
    };
    let mut ordered: Vec<&&Item> = items.iter().filter(|item| is_rule(item)).collect();
    ordered.sort_by_key(rank);
    let mut exceptions: Vec<Exception> = Vec::new();
    for item in ordered {
        let before = (rules.finals.len(), rules.filters.len(), rules.limits.clone());
        let (addresses, stage) = (rules.addresses.len(), stage(item));
        rule(item, scope, &mut rules, &mut exceptions, ledger);
        let is_other = before != (rules.finals.len(), rules.filters.len(), rules.limits.clone());
        let refuses = rules.addresses[addresses..].iter().any(|rule| !rule.lets_in);
        for exception in exceptions.iter_mut().filter(|exception| Some(exception.stage) == stage) {
            exception.is_needed |= is_other || refuses && !exception.carried;
        }
    }
    for exception in exceptions {
        exception.settle(ledger);
    }
    rules
}

/// True for rules that end a request, or may end it.
fn ends(name: &str) -> bool {
    let may = name.starts_with("lua.") || name == "use-service";
    may || is_refusal(name) || matches!(name, "auth" | "redirect" | "monitor-uri")
}

fn is_refusal(name: &str) -> bool {
    matches!(name, "deny" | "reject" | "return" | "tarpit" | "silent-drop" | "block") || refuses_by_line(name)
}

/// True for rules of HAProxy before 2.1 that refuse messages by an expression over their lines.
fn refuses_by_line(name: &str) -> bool {
    matches!(name, "reqdeny" | "reqideny" | "reqtarpit" | "reqitarpit" | "rspdeny" | "rspideny")
}

/// True for rules of today that [`request`] carries over.
fn is_read(name: &str) -> bool {
    let is_path = ["-path", "-pathq", "-uri"].iter().any(|end| name.ends_with(end)) || name == "set-query";
    is_path
        || is_refusal(name)
        || matches!(
            name,
            "redirect" | "auth" | "cache-use" | "set-bandwidth-limit" | "use-service" | "expect-proxy" | "monitor-uri"
        )
}

fn is_rule(item: &Item) -> bool {
    matches!(
        item.word(0),
        "http-request"
            | "http-response"
            | "http-after-response"
            | "tcp-request"
            | "tcp-response"
            | "redirect"
            | "block"
            | "reqadd"
            | "rspadd"
            | "monitor-uri"
            | "reqdel"
            | "reqidel"
            | "rspdel"
            | "rspidel"
            | "reqallow"
            | "reqiallow"
            | "reqpass"
            | "reqipass"
    ) || refuses_by_line(item.word(0))
        || (item.word(0), item.word(1)) == ("option", "http-restrict-req-hdr-names")
}

/// Words of a rule before its condition, the name first, and the condition. `None` for other directives.
fn parts(item: &Item) -> Option<(&[String], &[String])> {
    let skipped = match (item.word(0), item.word(1)) {
        ("tcp-response", "content") => 2,
        ("tcp-response", _) => return None,
        ("http-request" | "http-response" | "http-after-response", _) => 1,
        ("tcp-request", "connection" | "content" | "session") => 2,
        ("tcp-request", _) => return None,
        _ => 0,
    };
    let words = item.from(skipped);
    let split = words.iter().position(|word| word == "if" || word == "unless").unwrap_or(words.len());
    (split > 0).then(|| words.split_at(split))
}

fn rule(item: &Item, scope: &Scope<'_>, rules: &mut Rules, exceptions: &mut Vec<Exception>, ledger: &mut Ledger) {
    let Some((words, tail)) = parts(item) else { return };
    let name = words[0].as_str();
    if !scope.is_front && !rules.state.captures && words.iter().any(|word| word.contains("%[capture.req.")) {
        let reason =
            "samples of `capture.req` have no value there, as the frontend does not keep the line of the request";
        ledger.changes(item.line, reason, "nothing, if the URL is meant");
    }
    if SETS.iter().any(|start| name.starts_with(start)) {
        return variable(item, words, tail, scope, rules, ledger);
    }
    if super::known::fate("", &item.words).is_some() || name.starts_with("track-sc") {
        return noted(item, words, tail, scope, rules);
    }
    let is_response = matches!(item.word(0), "http-response" | "http-after-response" | "tcp-response");
    if is_response {
        return response(item, words, tail, scope, rules, ledger);
    }
    if matches!(name, "reqallow" | "reqiallow" | "reqpass" | "reqipass") {
        let todo = "exclude its requests in the rules that follow";
        return ledger.changes(item.line, "it asks by an expression over lines, and exempts no request", todo);
    }
    if let Some((is_response, line)) =
        name.starts_with("r").then(|| fields::of_old(words)).flatten().filter(|_| is_old(name))
    {
        return match is_response {
            true => fields::of_response(item, &line, tail, false, scope, rules, ledger),
            false => request(item, &line, tail, scope, rules, exceptions, ledger),
        };
    }
    if is_old(name) {
        return ledger.changes(
            item.line,
            "fields are removed by name, not by an expression",
            "name each field in `remove`",
        );
    }
    request(item, words, tail, scope, rules, exceptions, ledger);
}

fn is_old(name: &str) -> bool {
    matches!(name, "reqadd" | "rspadd" | "reqdel" | "reqidel" | "rspdel" | "rspidel")
}

/// Notes the parts of a rule that are not carried over.
fn noted(item: &Item, words: &[String], tail: &[String], scope: &Scope<'_>, rules: &mut Rules) {
    let on = viewed(item, tail, scope, rules).viewed;
    let state = &mut rules.state;
    match words[0].as_str() {
        "set-method" => state.methods = state.methods.clone().or(on),
        "set-status" => state.has_status = true,
        "set-src" => state.clients = state.clients.clone().or(on),
        _ => {}
    }
}

/// The condition of a rule. Requests that an `allow` took out do not fulfil it.
fn viewed(item: &Item, tail: &[String], scope: &Scope<'_>, rules: &Rules) -> Condition {
    let raw = condition(tail, scope.acls, scope.context);
    let viewed = rules.state.view(&raw, scope.context.maps);
    match stage(item) {
        Some(Stage::Request) => {
            let with_allowed = viewed.and(rules.state.stopped.clone().not());
            let viewed = with_allowed.clone().and(rules.state.allowed_clients.clone().not());
            Condition { raw, viewed, with_allowed }
        }
        _ => Condition { raw, with_allowed: viewed.clone(), viewed },
    }
}

/// Name of the variable in `set-var(NAME)`, without conditions for setting it.
fn named(word: &str) -> Option<&str> {
    let name = word.split_once('(').map(|(_, rest)| rest.split_once(')').map_or(rest, |(name, _)| name))?;
    name.split(',').next()
}

/// Names of the variables that rules of a section set.
pub(super) fn variables(items: &[&Item]) -> Vec<String> {
    let words = items.iter().flat_map(|item| &item.words);
    let sets = words.filter(|word| SETS.iter().any(|start| word.starts_with(start)));
    sets.filter_map(|word| named(word)).map(str::to_string).collect()
}

/// Beginnings of rules that change variables.
const SETS: [&str; 3] = ["set-var", "unset-var", "do-resolve("];

/// `set-var`.
fn variable(item: &Item, words: &[String], tail: &[String], scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    let Some(name) = named(&words[0]) else { return };
    if !matches!(item.word(0), "http-request" | "tcp-request") {
        rules.state.set_var(name, Expr::unknown("a rule on responses sets the variable"), Source::Unknown);
        return ledger.changes(
            item.line,
            "variables of responses are not available",
            "write the value where it is used",
        );
    }
    let on = viewed(item, tail, scope, rules).viewed;
    if words[0].starts_with("unset") {
        rules.state.set_var(name, on, Source::Removed);
        return ledger.carried(item.line);
    }
    let text = words[1..].join(" ");
    let of_variable = |name: &str| rules.state.variable(name);
    let is_address = words[0].starts_with("do-resolve");
    let value = match text.strip_prefix("str(").or(text.strip_prefix("bool(")).or(text.strip_prefix("int(")) {
        Some(rest) if rest.ends_with(')') && !rest.contains(',') => {
            Source::Text(rest.trim_end_matches(')').to_string())
        }
        _ if is_address => Source::Unknown,
        _ => match super::samples::expression(&sample::last_of_field(&text), scope.context, &of_variable) {
            Ok(text) if !rules.state.is_stale(&text, scope.context.maps) => Source::Template(text),
            _ => Source::Unknown,
        },
    };
    match value {
        Source::Unknown => ledger.changes(
            item.line,
            format!("`{text}` has no variable"),
            "write the value where it is used: maps and functions of variables choose and change values",
        ),
        _ => ledger.carried(item.line),
    }
    rules.state.set_var(name, on, value);
}

/// Reads a line of `http-response` or `http-after-response`.
fn response(item: &Item, words: &[String], tail: &[String], scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    let after = item.word(0) == "http-after-response";
    match words[0].as_str() {
        // It has a condition on responses.
        "cache-store" => caching::store(item, words.get(1).map_or("", String::as_str), scope, ledger),
        "accept" => ledger.dropped(item.line, "responses are allowed"),
        "allow" if tail.is_empty() => ledger.dropped(item.line, "responses are allowed"),
        "allow" => ledger.changes(
            item.line,
            "a rule that exempts responses from later rules is not available",
            "exclude these responses by `when` in the edits that follow",
        ),
        name if !name.contains("-header") && !name.contains("-value") && name != "set-bandwidth-limit" => {
            let reason = "responses are not refused";
            let on = viewed(item, tail, scope, rules).viewed;
            close_widened(item, reason, &on.and(Expr::unknown(reason)), scope, rules, ledger);
        }
        "set-bandwidth-limit" => {
            let conjs = viewed(item, tail, scope, rules).viewed.alternatives(scope.context.maps);
            bandwidth::enable(item, words, &conjs.unwrap_or_default(), scope, rules, ledger);
        }
        _ => fields::of_response(item, words, tail, after, scope, rules, ledger),
    }
}

/// A rule for requests or connections.
fn request(
    item: &Item,
    words: &[String],
    tail: &[String],
    scope: &Scope<'_>,
    rules: &mut Rules,
    exceptions: &mut Vec<Exception>,
    ledger: &mut Ledger,
) {
    let name = words[0].as_str();
    let condition = viewed(item, tail, scope, rules);
    if condition.viewed == Expr::Const(false) {
        return ledger.dropped(item.line, "its condition never holds");
    }
    if scope.keeps_ends && ends(name) {
        let is_page = (name == "monitor-uri").then(|| Cond::one_of(Key::Path, [item.word(1)]).into());
        let on = is_page.unwrap_or_else(|| condition.viewed.clone());
        rules.state.ended = rules.state.ended.clone().or(on);
    }
    match name {
        "allow" | "accept" => return allow(item, &condition.viewed, rules, scope, exceptions, ledger),
        "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value" => {
            return fields::fields(item, words, &condition, scope, rules, ledger);
        }
        // `monitor-uri` changes no path.
        "monitor-uri" => {}
        "option" if item.word(2) != "reject" => {
            let reason = "fields are forwarded whatever the characters of their names";
            return ledger.changes(item.line, reason, "name each field in `remove` of request_headers");
        }
        "use-service" if item.word(2) == "prometheus-exporter" => {}
        _ if name.ends_with("-path") || name.ends_with("-pathq") || name.ends_with("-uri") || name == "set-query" => {
            return paths::change(item, words, &condition, scope, rules, ledger);
        }
        _ if refuses_by_line(name) => {
            return guessed(item, "it refuses by an expression over lines", &condition, scope, rules, ledger);
        }
        _ if name.starts_with("lua.") || name == "use-service" => {
            let reason = "Lua is not supported, and the script may refuse or answer requests";
            return guessed(item, reason, &condition, scope, rules, ledger);
        }
        _ if !is_read(name) => {
            let reason = "`convert` does not know this rule, which may refuse requests";
            return guessed(item, reason, &condition, scope, rules, ledger);
        }
        _ => {}
    }
    // Address lists know of clients that are allowed.
    let is_of_addresses = |conj: &Conj| AddressRule::of(conj, item.line, Stage::Request, false, 403).is_some();
    let by_address = condition.with_allowed.alternatives(scope.context.maps);
    let is_list = is_refusal(name) && by_address.is_ok_and(|conjs| conjs.iter().all(is_of_addresses));
    let viewed = if is_list { &condition.with_allowed } else { &condition.viewed };
    let Some(conjs) = conjs(item, name, viewed, scope, rules, ledger) else { return };
    if conjs.is_empty() {
        return ledger.dropped(item.line, "its condition never holds");
    }
    match name {
        name if is_refusal(name) && name != "return" => deny(item, words, &conjs, scope, rules, ledger),
        // A slash is added to paths that end with none.
        "redirect" if words.iter().any(|word| word == "append-slash") && !conjs.iter().all(ends_without_slash) => {
            let reason = "`append-slash` is available for requests with a path that does not end with a slash";
            unanswered(item, &conjs, reason, scope, rules, ledger);
        }
        "redirect" => match redirect::redirect(&words[1..], item.word(0) == "redirect", scope.context, &rules.state) {
            Ok(action) => finals(item, &conjs, action, Draft::default(), scope, rules, ledger),
            Err(reason) => unanswered(item, &conjs, &reason, scope, rules, ledger),
        },
        "return" => match redirect::respond(&words[1..], 200, scope, &rules.state) {
            Ok((action, fields)) => {
                let guards = |f: &Filter| f.set.has(key!("access")) || f.set.has(key!("basic_auth"));
                let is_guarded = !rules.addresses.is_empty() || rules.filters.iter().any(guards);
                if is_guarded && fields.has(key!("response_headers")) {
                    let reason = "clients that an address list or a password before it refuses get its fields, too";
                    ledger.changes(item.line, reason, "nothing, unless the fields are secret");
                }
                finals(item, &conjs, action, fields, scope, rules, ledger);
                paged(item, scope, ledger);
            }
            Err(reason) => unanswered(item, &conjs, &reason, scope, rules, ledger),
        },
        "monitor-uri" => {
            let page = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";
            let response = Draft::one(key!("status"), 200).with(key!("body"), page).with(key!("type"), "text/html");
            ledger.changes(item.line, "requests with a query get the page, too", "");
            let conds = [Cond::one_of(Key::Path, [item.word(1)])];
            let conj = Conj { matching: Match::of(conds), ..Conj::default() };
            let mut fields = Draft::default();
            fields.insert(key!("response_headers.set"), "Cache-Control", "no-cache");
            finals(item, &[conj], Action::Respond(response), fields, scope, rules, ledger);
        }
        "expect-proxy" => expect_proxy(item, &conjs, &condition, scope, rules, ledger),
        "auth" => auth::auth(item, &words[1..], &conjs, scope, rules, ledger),
        "cache-use" => caching::enable(item, words.get(1).map_or("", String::as_str), &conjs, scope, rules, ledger),
        "set-bandwidth-limit" => bandwidth::enable(item, words, &conjs, scope, rules, ledger),
        "use-service" => {
            finals(item, &conjs, Action::respond(404), Draft::default(), scope, rules, ledger);
            let todo = "scrape /metrics at `admin.http`, which is a listener of its own";
            ledger.changes(item.line, "metrics are served by the admin's listener, not by this one", todo);
        }
        _ => {}
    }
}

/// True if the requests have a path that does not end with a slash.
fn ends_without_slash(conj: &Conj) -> bool {
    let is = |cond: &Cond| cond.key == Key::Path && cond.negated && cond.test == Test::Ends("/".to_string());
    conj.matching.conds.iter().any(is)
}

/// Alternatives of the condition of a rule. A refusal whose condition cannot be written is for all requests that may fulfil
/// it; `None` if a rule is left out.
fn conjs(
    item: &Item,
    name: &str,
    viewed: &Expr,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) -> Option<Vec<Conj>> {
    let maps = scope.context.maps;
    // HAProxy looks up each element of a list.
    let is_list = |atom: &Atom| match atom {
        Atom::Is(Cond { key: Key::Map(name), .. }) => {
            let from = maps.input(name);
            from.contains("{header.") && !from.contains("{header.Host")
        }
        _ => false,
    };
    let doubted = (is_refusal(name) && viewed.has(&is_list))
        .then(|| viewed.doubted(&is_list, "elements of a list are not looked up one by one", false));
    let viewed = doubted.as_ref().unwrap_or(viewed);
    let reason = match viewed.alternatives(maps) {
        Ok(conjs) => return Some(conjs),
        Err(reason) => format!("its condition cannot be written: {reason}"),
    };
    // Clients that a rule answers or redirects get no further, unless it is for times when servers are down.
    let is_sorry = reason.contains(STATE) && (name == "redirect" || answers(item));
    if is_sorry || !is_refusal(name) && !matches!(name, "auth" | "redirect" | "use-service" | "expect-proxy") {
        let todo = "write a [[route]] for it by hand, if another condition can stand for it";
        ledger.decide(item.line, reason, todo);
        return None;
    }
    close_widened(item, &reason, viewed, scope, rules, ledger);
    None
}

/// Refuses all requests that may fulfil a condition.
fn close_widened(item: &Item, reason: &str, viewed: &Expr, scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    match viewed.widened().alternatives(scope.context.maps) {
        Ok(conjs) if conjs.iter().all(Conj::is_plain) => {
            conjs.iter().for_each(|conj| close(item, reason, &conj.matching, rules, ledger));
        }
        _ => close(item, reason, &Match::default(), rules, ledger),
    }
}

/// A rule that may refuse requests, and cannot be carried over.
fn guessed(
    item: &Item,
    reason: &str,
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let may = condition.viewed.clone().and(Expr::unknown(reason));
    close_widened(item, reason, &may, scope, rules, ledger);
}

/// `expect-proxy` for connections of networks, which start with the header of the PROXY protocol.
fn expect_proxy(
    item: &Item,
    conjs: &[Conj],
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    for conj in conjs {
        match (conj.matching.conds.as_slice(), conj.is_plain()) {
            ([], true) => rules.limits.put(key!("accept_proxy_protocol"), vec!["0.0.0.0/0", "::/0"]),
            ([Cond { key: Key::Client, test: Test::OneOf(networks), negated: false }], true) => {
                rules.limits.put(key!("accept_proxy_protocol"), networks.clone())
            }
            _ => {
                let reason = "networks that send the PROXY protocol are listed";
                return guessed(item, reason, condition, scope, rules, ledger);
            }
        };
        ledger.carried(item.line);
    }
}

/// Notes a response without a body that gets the page of its status.
fn paged(item: &Item, scope: &Scope<'_>, ledger: &mut Ledger) {
    let has = |word: &str| item.words.iter().any(|other| other == word);
    let is_empty = !["string", "lf-string", "file", "lf-file", "errorfile", "errorfiles"].iter().any(|word| has(word));
    let is_paged =
        |other: &&&Item| other.word(0).starts_with("error") && (other.word(0) == "errorfiles" || has(other.word(1)));
    if is_empty && scope.items.iter().any(|other| is_paged(&other)) {
        let todo = "respond = { status = 503, body = \"TEXT\" } in the [[route]]";
        ledger.changes(item.line, "the response has no body there, and the page of its status here", todo);
    }
}

/// True for a response that refuses nothing.
fn answers(item: &Item) -> bool {
    let status = item.words.iter().position(|word| word == "status").map(|at| item.word(at + 1));
    item.words.iter().any(|word| word == "return") && status.is_none_or(|status| status < "400")
}

/// Adds a rule that ends a request, for each alternative of its condition.
fn finals(
    item: &Item,
    conjs: &[Conj],
    action: Action,
    set: RouteKeys,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    ledger.carried(item.line);
    for conj in conjs {
        if !conj.client_files.is_empty() && conj.rates.is_empty() && conj.auth.is_empty() {
            // Clients that get this response get no further.
            refuse_files(item, conj, 403, rules, ledger);
            let todo = "nothing, unless clients depend on the answer";
            ledger.changes(item.line, "clients of a list in a file are refused instead of being answered by it", todo);
            continue;
        }
        if !conj.is_plain() {
            deny(item, &[], std::slice::from_ref(conj), scope, rules, ledger);
            let todo = "nothing, unless clients depend on the answer";
            ledger.changes(item.line, "its requests are refused instead of being answered by it", todo);
            continue;
        }
        end(item, conj.matching.clone(), action.clone(), set.clone(), rules);
    }
}

/// A redirect or response that cannot be written. Its requests get no further.
fn unanswered(item: &Item, conjs: &[Conj], reason: &str, scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    deny(item, &[], conjs, scope, rules, ledger);
    let todo = "write the answer by hand, in the [[route]] that responds instead";
    ledger.decide(item.line, format!("{reason}: its requests are refused"), todo);
}
