//! Routes with a password or a permission: they stay closed where it was not carried over. Also fields that a client
//! must not set, and users of passwords as lines for a file.

use crate::ledger::{Ledger, Line};
use crate::model::{Draft, RouteKeys};
use crate::report::{OPEN, PROTECTED};
use evenkeel_config::plan::Access;

/// Beginnings of hashes that `basic_auth` reads.
pub(crate) const READ: [&str; 6] = ["$2y$", "$2b$", "$2a$", "$argon2id$", "$5$", "$6$"];

/// Lets no client use a route, whatever its address list was: a refusal that cannot be kept stays a refusal.
pub(crate) fn close(set: &mut RouteKeys) {
    set.put(key!("access"), Draft::<Access>::one(key!("deny"), ALL.to_vec()));
}

/// Closes a route, and notes why at the directive that protected it.
pub(crate) fn closed_by(line: Line, reason: &str, set: &mut RouteKeys, ledger: &mut Ledger) {
    close(set);
    ledger.decide(line, format!("{reason}; {PROTECTED}"), OPEN);
}

/// The whole of both families of addresses.
const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// True if no client may use a route.
pub(crate) fn is_closed(set: &RouteKeys) -> bool {
    let allows = set.has(key!("access.allow")) || set.has(key!("access.allow_files"));
    !allows && set.get(key!("access.deny")) == Some(&ALL.to_vec().into())
}

/// Fields of requests that evenkeel always sets itself.
const OWN: [&str; 4] = ["host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// Notes a request field that cannot be set, and removes it. The original replaces the client's field, so the client's
/// field must not pass instead.
pub(crate) fn withhold(name: &str, line: Line, reason: &str, set: &mut RouteKeys, ledger: &mut Ledger) {
    let todo = format!("set {name} by hand, or in the application");
    if !can_be_withheld(name) {
        return ledger.changes(line, reason, todo);
    }
    set.push(key!("request_headers.remove"), name);
    ledger.changes(line, format!("{reason}: the field is removed"), todo);
}

/// True for a field that is removed where it cannot be set.
pub(crate) fn can_be_withheld(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(':') && !OWN.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// True for a text that can be the name of a field (RFC 9110, section 5.6.2), or that becomes one by the environment.
pub(crate) fn is_field(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(fits) || name.contains("${")
}

/// True if a route asks for something that another protection would replace.
pub(crate) fn would_replace(set: &RouteKeys, more: &RouteKeys) -> bool {
    [key!("basic_auth"), key!("forward_auth"), key!("jwt")]
        .into_iter()
        .any(|key| more.has(key) && set.has(key) && more.get(key) != set.get(key))
}

/// True for a hash that `basic_auth` reads.
pub(crate) fn is_read(hash: &str) -> bool {
    let last = hash.rsplit('$').next().unwrap_or_default().len();
    let has_length = match hash.get(..3) {
        Some("$5$") => last == 43,
        Some("$6$") => last == 86,
        Some("$2a" | "$2b" | "$2y") => last == 53,
        _ => true,
    };
    has_length && READ.iter().any(|start| hash.starts_with(start))
}

/// Notes a user of a list in the configuration: the line for the file, if evenkeel reads this kind of hash.
pub(crate) fn user(line: Line, name: &str, hash: &str, file: &str, ledger: &mut Ledger) {
    let todo = match is_read(hash) {
        true => format!("write the line {name}:{hash} into {file}"),
        false => format!("its hash is of a kind that is not read: htpasswd -B {file} {name}"),
    };
    ledger.decide(line, "users are in a file, which has to be there before evenkeel starts", todo);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_protection_of_the_same_kind_is_seen() {
        let one = |file: &str| Draft::one(key!("basic_auth.file"), file);
        assert!(would_replace(&one("a"), &one("b")));
        assert!(
            !would_replace(&one("a"), &one("a")) && !would_replace(&Draft::one(key!("body_max"), "1MiB"), &one("a"))
        );
    }

    #[test]
    fn closing_replaces_an_address_list() {
        let mut set = Draft::one(key!("access.allow"), vec!["0.0.0.0/0"]);
        assert!(!is_closed(&set));
        close(&mut set);
        assert!(is_closed(&set));
    }
}
