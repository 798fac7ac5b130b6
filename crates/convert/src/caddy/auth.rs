//! `basic_auth` and `forward_auth`: passwords and permission of routes. Where they are not carried over, routes are
//! closed.

use super::lexer::Directive;
use super::{proxy, value};
use crate::ledger::Ledger;
use crate::model::{Draft, RouteKeys, Target};
use crate::protection::{close, closed_by, user};
use crate::report::{OPEN, PROTECTED};
use evenkeel_config::plan::ForwardAuth;

/// Filters for `basic_auth [ALGORITHM [REALM]]`. Its users become lines for a file with this name.
pub(super) fn passwords(directive: &Directive, words: &[String], file: &str, ledger: &mut Ledger) -> RouteKeys {
    ledger.carried(directive.line);
    for row in &directive.block {
        user(row.line, row.name(), row.word(1), file, ledger);
    }
    // Caddy forwards the credentials too.
    let mut set = Draft::one(key!("basic_auth.file"), file).with(key!("basic_auth.keep"), true);
    match words.get(1) {
        Some(realm) if realm.is_ascii() && !realm.is_empty() => drop(set.put(key!("basic_auth.realm"), realm.as_str())),
        _ => {}
    }
    set
}

/// File of the users of a route.
pub(super) fn file(set: &RouteKeys) -> Option<&str> {
    set.text(key!("basic_auth.file"))
}

/// Filters for `forward_auth UPSTREAM { uri, copy_headers }`.
pub(super) fn service(directive: &Directive, words: &[String], target: &mut Target, ledger: &mut Ledger) -> RouteKeys {
    let mut set = Draft::default();
    let own = |row: &&Directive| matches!(row.name(), "uri" | "copy_headers");
    let mut path = None;
    let mut copied = Vec::new();
    for row in directive.block.iter().filter(own) {
        ledger.carried(row.line);
        match row.name() {
            "uri" => match value::read(row.word(1)) {
                Ok(text) if text.starts_with('/') && !text.contains('{') => path = Some(text),
                _ => closed_by(row.line, "the path of the service has a placeholder", &mut set, ledger),
            },
            _ => {
                row.block.iter().for_each(|inner| ledger.carried(inner.line));
                let names = row.from(1).iter().chain(row.block.iter().flat_map(|inner| &inner.words));
                copied.extend(names.cloned());
            }
        }
    }
    if copied.iter().any(|name| name.contains('>')) {
        let reason = "fields of the service's answer reach endpoints under their own names only";
        closed_by(directive.line, reason, &mut set, ledger);
    }
    // The remaining rows are read as rows of a `reverse_proxy`.
    let mut rest = directive.clone();
    rest.block.retain(|row| !own(&row));
    let noted = rest.block.iter().find(|row| {
        !matches!(row.name(), "to" | "lb_policy" | "lb_retries" | "transport" | "fail_duration" | "max_fails")
            && !row.name().starts_with("health_")
    });
    if let Some(row) = noted {
        closed_by(row.line, "the service gets no such setting", &mut set, ledger);
    }
    let Some((pool, _)) = proxy::read(&rest, words, target, ledger) else {
        close(&mut set);
        directive.lost(PROTECTED, OPEN, ledger);
        return set;
    };
    let Some(path) = path else {
        closed_by(directive.line, "it names no path of the service", &mut set, ledger);
        return set;
    };
    let mut auth: Draft<ForwardAuth> = Draft::one(key!("pool"), pool).with(key!("path"), path);
    let (cookies, copied): (Vec<String>, Vec<String>) =
        copied.into_iter().partition(|name| name.eq_ignore_ascii_case("set-cookie"));
    if !copied.is_empty() {
        auth.put(key!("copy_headers"), copied);
    }
    if !cookies.is_empty() {
        auth.put(key!("client_headers"), cookies);
    }
    if !crate::protection::is_closed(&set) {
        set.put(key!("forward_auth"), auth);
        ledger.changes(
            directive.line,
            "Caddy sends every field to the service; here it gets Cookie, Authorization and X-Forwarded-*",
            "forward_auth.request_headers lists further fields that the service reads",
        );
    }
    set
}
