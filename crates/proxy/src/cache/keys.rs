//! Keys of the cache of a route, from its configuration.

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
