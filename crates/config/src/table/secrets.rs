//! Recognition of secret keys by kind and name. A value under such a name in the wrong table is a secret too.

use super::row::{Key, Kind, Table};
use crate::form::Form;
use std::collections::HashMap;

/// Further suffixes of secret fields of requests and responses, written like [`NAMES`].
const FIELDS: &[&str] = &["cookie", "session", "sessionid", "signature", "accesskey", "authkey"];

/// Suffixes of secret keys, in lower case, without `-` and `_`.
const NAMES: &[&str] =
    &["secret", "password", "passwd", "passphrase", "token", "apikey", "privatekey", "credentials", "authorization"];

/// True if the name denotes a secret value, unless a table has a key of that name for a file.
pub fn is_secret(root: &'static Table, key: &str) -> bool {
    let is_file = |table: &&Table| table.key(key).is_some_and(|row| matches!(row.kind, Kind::Text(Form::File)));
    is_named_secret(&plain(key)) && !root.walk().iter().any(is_file)
}

/// True if a value of this kind is a secret.
pub fn is_secret_kind(kind: &Kind) -> bool {
    match kind {
        Kind::Text(form) => matches!(form, Form::Secret | Form::Users),
        Kind::List(of) => is_secret_kind(of),
        _ => false,
    }
}

/// What diagnostics may show of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    Everything,
    /// Paths and URLs. Any other text may be the secret, in the place of its file.
    Paths,
    Nothing,
}

/// Further suffixes of keys for files with secrets, without `file` at their ends.
const FILES: &[&str] = &["key", "keys", "headers"];

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

/// True if the name denotes a file with a secret, or a secret.
pub fn is_named_file(key: &str) -> bool {
    let name = plain(key);
    let name = name.strip_suffix("file").unwrap_or(&name);
    is_named_secret(name) || FILES.iter().any(|file| name.ends_with(file))
}

/// True if a table has a key whose value is not shown as it is.
pub fn is_guarded(root: &'static Table, table: &Table) -> bool {
    table.keys.iter().any(|key| exposure(root, table, key) != Exposure::Everything)
}

/// Keys of the schema, for files that cannot be parsed. The default knows none and guards none.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// True for keys of secrets or of their files.
    keys: HashMap<&'static str, bool>,
}

impl Vocabulary {
    pub fn of(root: &'static Table) -> Vocabulary {
        let mut keys = HashMap::new();
        for table in root.walk() {
            for key in table.keys {
                // Most keys of this name take a file without a secret.
                let is_guarded = key.name != "file" && exposure(root, table, key) != Exposure::Everything;
                *keys.entry(key.name).or_default() |= is_guarded;
            }
        }
        Vocabulary { keys }
    }

    /// True if some table has this key.
    pub fn has(&self, word: &str) -> bool {
        self.keys.is_empty() || self.keys.contains_key(word)
    }

    /// True if the value of such a key may be a secret.
    pub fn is_guarded(&self, word: &str) -> bool {
        self.keys.get(word).copied().unwrap_or_else(|| !self.keys.is_empty() && is_named_secret(&plain(word)))
    }
}

/// True if values of this field, cookie or parameter of a request or response are secrets.
pub fn is_secret_field(name: &str) -> bool {
    let plain = plain(name);
    is_named_secret(&plain) || FIELDS.iter().any(|field| plain.ends_with(field))
}

fn is_named_secret(plain: &str) -> bool {
    NAMES.iter().any(|name| plain.ends_with(name))
}

/// Name in lower case, without `-` and `_`.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
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
        for field in ["Authorization", "cookie", "Set-Cookie", "x-api-key", "X-Auth-Token", "proxy-authorization"] {
            assert!(is_secret_field(field), "{field}");
        }
        assert!(!is_secret_field("x-forwarded-proto") && !is_secret_field("x-cookie-policy"));
        for key in ["secret_file", "write_token", "read_token", "bind", "tokens"] {
            assert!(!is_secret(&ROOT, key), "{key}");
        }
    }
}
