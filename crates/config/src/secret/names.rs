//! Names of keys and fields whose values are secrets, and the keys of the schema by name.

use std::collections::HashMap;

/// Suffixes of secret keys, in lower case, without `-` and `_`.
const NAMES: &[&str] =
    &["secret", "password", "passwd", "passphrase", "token", "apikey", "privatekey", "credentials", "authorization"];

/// Further suffixes of secret fields of requests and responses, written like [`NAMES`].
const FIELDS: &[&str] = &["cookie", "session", "sessionid", "signature", "accesskey", "authkey"];

/// Further suffixes of keys for files with secrets, without `file` at their ends.
const FILES: &[&str] = &["key", "keys", "headers"];

/// True if the name denotes a secret value.
pub(crate) fn is_named_secret(name: &str) -> bool {
    let plain = plain(name);
    NAMES.iter().any(|name| plain.ends_with(name))
}

/// True if the name denotes a file with a secret, or a secret.
pub(crate) fn is_named_file(key: &str) -> bool {
    let name = plain(key);
    let name = name.strip_suffix("file").unwrap_or(&name);
    is_named_secret(name) || FILES.iter().any(|file| name.ends_with(file))
}

/// True if values of this field, cookie or parameter of a request or response are secrets.
pub(crate) fn is_secret_field(name: &str) -> bool {
    is_named_secret(name) || FIELDS.iter().any(|field| plain(name).ends_with(field))
}

/// Name in lower case, without `-` and `_`.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Keys of the schema, for files that cannot be parsed. The default knows none and guards none.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    /// True for keys of secrets or of their files.
    keys: HashMap<&'static str, bool>,
}

impl Vocabulary {
    pub fn new(keys: HashMap<&'static str, bool>) -> Vocabulary {
        Vocabulary { keys }
    }

    /// True if some table has this key.
    pub fn has(&self, word: &str) -> bool {
        self.keys.is_empty() || self.keys.contains_key(word)
    }

    /// True if the value of such a key may be a secret.
    pub fn is_guarded(&self, word: &str) -> bool {
        self.keys.get(word).copied().unwrap_or_else(|| !self.keys.is_empty() && is_named_secret(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_secret_by_the_ends_of_their_names() {
        for field in ["Authorization", "cookie", "Set-Cookie", "x-api-key", "X-Auth-Token", "proxy-authorization"] {
            assert!(is_secret_field(field), "{field}");
        }
        assert!(!is_secret_field("x-forwarded-proto") && !is_secret_field("x-cookie-policy"));
    }
}
