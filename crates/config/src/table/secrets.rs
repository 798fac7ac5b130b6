//! Recognition of secret keys by name. A value under such a name in the wrong table is a secret too.

use super::row::{Kind, Table};
use crate::form::Form;

/// Suffixes of secret keys, in lower case, without `-` and `_`.
const NAMES: &[&str] =
    &["secret", "password", "passwd", "passphrase", "token", "apikey", "privatekey", "credentials", "authorization"];

/// True if the name denotes a secret value, unless a table has a key of that name for a file.
pub fn is_secret(root: &'static Table, key: &str) -> bool {
    let plain: String = key.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect();
    let is_file = |table: &&Table| table.key(key).is_some_and(|row| matches!(row.kind, Kind::Text(Form::File)));
    NAMES.iter().any(|name| plain.ends_with(name)) && !root.walk().iter().any(is_file)
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
