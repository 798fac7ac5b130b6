//! Keys whose values are secret, by their names: what is set under such a name in the wrong table is one, too.

use super::row::{Kind, Table};
use crate::form::Form;

/// Ends of names of secrets, in lower case and without `-` and `_`.
const NAMES: &[&str] =
    &["secret", "password", "passwd", "passphrase", "token", "apikey", "privatekey", "credentials", "authorization"];

/// True if a key of this name has a secret as its value: by the tables, or by its name where no table has it as a file.
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
