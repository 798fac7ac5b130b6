//! Keys of the cache of a route, from its configuration, and their description for operators.

use evenkeel_cache::key::{KeyRules, Query};
use evenkeel_config::plan::{self, CacheQuery};

/// Parts of requests that make up keys.
pub fn keys(plan: &plan::Cache) -> KeyRules {
    let ignored = || plan.query_ignore.iter().map(|name| name.to_string().into()).collect();
    KeyRules {
        query: match plan.query {
            CacheQuery::None => Query::None,
            _ if plan.query_ignore.is_empty() => Query::All,
            _ => Query::Except(ignored()),
        },
        sorts_query: plan.query == CacheQuery::Sorted,
        fields: plan.headers.iter().map(|name| name.to_string().into()).collect(),
    }
}

/// User of a key as operators see it: the name, or for a token its issuer and subject. Other claims of the key are
/// omitted.
pub fn user_text(user: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut names, mut rest) = (Vec::new(), user);
    // Parts after their lengths; claims follow, which no length fits.
    while let Some((length, after)) = rest.split_first_chunk()
        && let Some((name, after)) =
            usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|at| after.split_at_checked(at))
    {
        names.push(text(name));
        rest = after;
    }
    names.retain(|name| !name.is_empty());
    if names.is_empty() { text(user) } else { names.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_shown_by_their_names_alone() {
        let part = |name: &str| [&(name.len() as u64).to_le_bytes(), name.as_bytes()].concat();
        assert_eq!(user_text(b"anna"), "anna");
        assert_eq!(user_text(b"anna-with-a-long-name"), "anna-with-a-long-name");
        let token = [part("https://idp"), part("anna"), b"{\"email\":\"secret\"}".to_vec()].concat();
        assert_eq!(user_text(&token), "https://idp anna");
        assert_eq!(user_text(&[part("a"), token].concat()), "a https://idp anna");
        assert_eq!(user_text(&[part(""), part("anna")].concat()), "anna");
    }
}
