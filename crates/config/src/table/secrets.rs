//! Recognition of secret keys by name. A value under such a name in the wrong table is a secret too.

use super::row::{Kind, Table};
use crate::form::Form;

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

/// True if a value of this kind is a secret, or a table that can hold a secret.
pub fn can_hold_secret(kind: &Kind) -> bool {
    is_secret_kind(kind) || kind.table().is_some_and(holds_secret)
}

/// True if a table has a key for a secret, or for the file of one.
pub fn holds_secret(table: &Table) -> bool {
    table.keys.iter().any(|key| {
        let plain = plain(key.name);
        let is_named = || is_named_secret(plain.strip_suffix("file").unwrap_or(&plain));
        is_secret_kind(&key.kind) || matches!(key.kind, Kind::Text(_)) && is_named()
    })
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
    use crate::diagnostic::Findings;
    use crate::root::ROOT;
    use crate::source::Span;
    use crate::table::Reader;
    use crate::tree::{self, Tree};

    /// Messages and helps about a value under a table of the schema.
    fn texts(table: &'static Table, text: &str) -> Vec<String> {
        let node = tree::parse_value(text).unwrap_or_else(|| panic!("not TOML: {text}"));
        let Tree::Table(inner) = &node.tree else { panic!("not a table: {text}") };
        let mut findings = Findings::default();
        Reader::new(&ROOT, &mut findings, true).table(table, inner, Span::whole(0));
        findings.texts().collect()
    }

    #[test]
    fn no_message_has_a_value_that_may_be_a_secret() {
        const VALUE: &str = "hunter2";
        let holders: Vec<&'static Table> = ROOT.walk().into_iter().filter(|table| holds_secret(table)).collect();
        let known = ["sticky of [pool.NAME]", "basic_auth of [[route]]", "http of [admin]"];
        assert!(known.iter().all(|path| holders.iter().any(|table| table.path == *path)), "{}", holders.len());
        let shapes = [
            format!("\"{VALUE}\""),
            format!("[\"{VALUE}\"]"),
            format!("{{ {VALUE} = \"{VALUE}\" }}"),
            format!("{{ a = \"{VALUE}\", secret = [\"{VALUE}\"] }}"),
        ];
        let check = |table: &'static Table, key: &str| {
            for shape in &shapes {
                for text in texts(table, &format!("{{ \"{key}\" = {shape} }}")) {
                    // The user has named a key so.
                    let text = text.replace(&format!("unknown key \"{VALUE}\""), "");
                    assert!(!text.contains(VALUE), "{}: {key} = {shape}: {text}", table.path);
                }
            }
        };
        for table in holders {
            for key in ["sekret", "user", "pass", "key", "auth", "value"].iter().filter(|key| table.key(key).is_none())
            {
                check(table, key);
            }
            for key in table.keys.iter().filter(|key| is_secret_kind(&key.kind)) {
                check(table, key.name);
            }
        }
        // In the place of the table itself.
        for table in ROOT.walk() {
            for key in table.keys.iter().filter(|key| can_hold_secret(&key.kind)) {
                check(table, key.name);
            }
        }
    }

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
