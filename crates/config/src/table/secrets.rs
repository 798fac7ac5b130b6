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
