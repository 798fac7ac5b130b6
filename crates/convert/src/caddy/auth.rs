//! `basic_auth` and `forward_auth`: passwords and permission of routes. Where they are not carried over, routes are
//! closed.

use super::lexer::Directive;
use super::{proxy, value};
use crate::ledger::Ledger;
use crate::model::{Draft, RouteKeys, Target};
use crate::protection::{READ, close, closed_by};
use crate::report::{OPEN, PROTECTED};
use evenkeel_config::plan::ForwardAuth;

/// Filters for `basic_auth [ALGORITHM [REALM]]` with its users. `None` if a hash is of another kind, which is noted.
pub(super) fn passwords(directive: &Directive, words: &[String], ledger: &mut Ledger) -> Option<RouteKeys> {
    ledger.carried(directive.line);
    let mut users = Vec::new();
    for row in &directive.block {
        let hash = decoded(row.word(1));
        // Caddy accepts no password for a hash that is cut off; here it is an error.
        let is_whole = !hash.starts_with("$2") || hash.len() == 60;
        match is_whole && READ.iter().any(|start| hash.starts_with(start)) && !row.name().contains([':', '{']) {
            true => {
                ledger.carried(row.line);
                users.push(format!("{}:{hash}", row.name()));
            }
            false => ledger.changes(row.line, "its hash is of a kind that is not read", "make a hash by `htpasswd -B`"),
        }
    }
    if users.is_empty() {
        return None;
    }
    // Caddy forwards the credentials too.
    let mut set = Draft::one(key!("basic_auth.users"), users.join("\n")).with(key!("basic_auth.keep"), true);
    let realm = words.get(1).map(String::as_str).filter(|realm| realm.is_ascii() && !realm.is_empty());
    set.put(key!("basic_auth.realm"), realm.unwrap_or("restricted"));
    Some(set)
}

/// A hash as it is, or in base64, in which older versions have it.
fn decoded(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if text.starts_with('$') {
        return text.to_string();
    }
    let (mut bits, mut n, mut bytes) = (0_u32, 0, Vec::new());
    for c in text.trim_end_matches('=').bytes() {
        let Some(digit) = DIGITS.iter().position(|digit| *digit == c) else { return text.to_string() };
        bits = bits << 6 | digit as u32;
        n += 6;
        if n >= 8 {
            n -= 8;
            bytes.push((bits >> n) as u8);
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_string())
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
    let Some(proxy::Proxied { pool, .. }) = proxy::read(&rest, words, target, ledger) else {
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
