//! Recognition of secret keys by kind and name. A value under such a name in the wrong table is a secret too.

use super::row::{Key, Kind, Table};
use crate::form::Form;
use crate::secret::names::{Vocabulary, is_named_file, is_named_secret};
use std::collections::HashMap;

/// True if the name denotes a secret value, unless a table has a key of that name for a file.
pub fn is_secret(root: &'static Table, key: &str) -> bool {
    let is_file = |table: &&Table| table.key(key).is_some_and(|row| matches!(row.kind, Kind::Text(Form::File)));
    is_named_secret(key) && !root.walk().iter().any(is_file)
}

/// True if a value of this kind is a secret.
pub fn is_secret_kind(kind: &Kind) -> bool {
    match kind {
        Kind::Text(form) => matches!(form, Form::Secret | Form::Users),
        Kind::List(of) | Kind::OneOrList(of) => is_secret_kind(of),
        _ => false,
    }
}

/// Part of the value of a key that diagnostics may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    Everything,
    /// Paths and URLs. Any other text may be the secret, written where the path of its file belongs.
    Paths,
    Nothing,
}

/// Exposure of the value of a key. All diagnostics follow it.
pub fn exposure(root: &'static Table, table: &Table, key: &Key) -> Exposure {
    match is_secret_kind(&key.kind) || is_secret(root, key.name) {
        true => Exposure::Nothing,
        false if is_secret_file(table, key) => Exposure::Paths,
        false => Exposure::Everything,
    }
}

/// True if the key takes the path of a file with a secret.
fn is_secret_file(table: &Table, key: &Key) -> bool {
    let kind = if let Kind::List(of) = key.kind { of } else { &key.kind };
    if !matches!(kind, Kind::Text(Form::File | Form::Pem | Form::KeySource)) {
        return false;
    }
    is_named_file(key.name) || table.keys.iter().any(|key| is_secret_kind(&key.kind))
}

/// True if a table has a key whose value is not shown as it is.
pub fn is_guarded(root: &'static Table, table: &Table) -> bool {
    table.keys.iter().any(|key| exposure(root, table, key) != Exposure::Everything)
}

/// Keys of a schema by name, for files that cannot be parsed.
pub fn vocabulary(root: &'static Table) -> Vocabulary {
    let mut keys = HashMap::new();
    for table in root.walk() {
        for key in table.keys {
            // Most keys of this name take a file without a secret.
            let is_guarded = key.name != "file" && exposure(root, table, key) != Exposure::Everything;
            *keys.entry(key.name).or_default() |= is_guarded;
        }
    }
    Vocabulary::new(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::ROOT;

    #[test]
    fn names_of_secrets_are_known_and_names_of_their_files_are_not_secret() {
        for key in ["secret", "cookie_secret", "API-Key", "password", "bearerToken", "authorization"] {
            assert!(is_secret(&ROOT, key), "{key}");
        }
        for key in ["secret_file", "write_token", "read_token", "bind", "tokens"] {
            assert!(!is_secret(&ROOT, key), "{key}");
        }
    }
}
