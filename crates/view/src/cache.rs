//! Types for the cache: its state, its content, and purges.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// State of the cache that all routes with `cache` share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cache {
    /// Bytes of memory in use, with all that is kept for a response.
    pub bytes: u64,
    /// Bytes of memory that may be in use: `memory` of `[cache]`.
    pub capacity: u64,
    /// Keys under which responses are stored.
    pub entries: u64,
    /// Stored responses: all variants of all keys.
    pub objects: u64,
    /// Responses stored since the start, including replacements of older responses.
    pub inserted: u64,
    pub evicted: Evicted,
    pub refused: Refused,
    /// Responses that purges and changed content have removed.
    pub purged: u64,
    /// Responses that soft purges have made stale.
    pub made_stale: u64,
    /// Fetches that are under way behind requests: of stale responses that have answered them, and of whole responses,
    /// whose parts have.
    pub fetching_behind: u64,
    /// Disk beside the memory, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<CacheDisk>,
    /// Routes with a cache, in the order of the configuration.
    pub routes: Vec<CacheRoute>,
}

/// Disk of the cache: its state, and the bytes read and written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CacheDisk {
    /// Folder of its file: `path` of `disk`.
    pub path: String,
    /// State in words: `open`, or the reason why nothing is found there.
    pub state: String,
    /// True if responses are found there.
    pub is_open: bool,
    /// Bytes of responses that can be found.
    pub bytes: u64,
    /// Bytes that it may take: `size` of `disk`.
    pub capacity: u64,
    /// Responses that can be found.
    pub objects: u64,
    /// Looks at it for keys that memory does not have, without looks that ended at the index in memory.
    pub reads: u64,
    /// Looks that have given a response.
    pub hits: u64,
    /// Responses written since the start.
    pub writes: u64,
    /// Responses that were not written, since the disk was too slow or the index full.
    pub dropped: u64,
    /// Responses that were not read since too many reads waited.
    pub reads_dropped: u64,
    /// Calls that have failed, and responses that were not as they were written.
    pub errors: u64,
}

/// Keys that were dropped for want of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evicted {
    pub entries: u64,
    /// Bytes of memory that they took.
    pub bytes: u64,
    /// Mean time from the last storing under a key to its eviction, in milliseconds. A short time means too little
    /// memory.
    pub mean_age_ms: Option<f64>,
    /// Evicted keys by that time; classes without any are left out.
    pub ages: Vec<AgeClass>,
}

/// Evicted keys up to an age.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgeClass {
    /// End of the class in seconds; the class begins at half of it. `None`: no end.
    pub below_s: Option<u64>,
    pub entries: u64,
}

/// Responses that could be stored by their fields and were not, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Refused {
    /// Larger than the memory allows for a single response.
    pub too_large: u64,
    /// Asked for before a purge that may be meant for them.
    pub purged: u64,
    /// Used less than those that would have to go for them.
    pub unused: u64,
}

/// Requests of a route with a cache since the start, by their results. Each is in one of the first six counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CacheRoute {
    pub route: String,
    /// Answered with a fresh response.
    pub hit: u64,
    /// Answered with a stale response.
    pub stale: u64,
    /// Answered with a stored response that the endpoint has validated.
    pub renewed: u64,
    /// Answered by the endpoint, and stored.
    pub stored: u64,
    /// Answered by the endpoint, and not stored.
    pub not_stored: u64,
    /// Not for the cache, by their method or their fields.
    pub passed: u64,
    /// Part of the requests for the cache that a stored response answered, fresh or stale, 0 to 1; `None` without
    /// requests.
    pub hit_ratio: Option<f64>,
    /// Hit ratio over the last five minutes; `None` without requests.
    pub hit_ratio_of_late: Option<f64>,
    /// Reasons why responses were not stored, the most frequent first.
    pub reasons: Vec<NotStored>,
    /// Requests that have waited for the response to another request.
    pub collapsed: u64,
    /// Bytes of bodies that came from the cache.
    pub bytes: u64,
}

impl CacheRoute {
    /// Requests that asked for a stored response.
    pub fn asked(&self) -> u64 {
        self.hit + self.stale + self.renewed + self.stored + self.not_stored
    }
}

/// Reason why responses were not stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotStored {
    /// Name, as in the metric `evenkeel_cache_not_stored`.
    pub reason: String,
    /// Reason as a person reads it, in a few words.
    pub text: String,
    pub responses: u64,
}

/// Order and number of keys in a list.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TopWanted {
    /// `hits` for the most used keys first, `size` for the largest.
    #[serde(default)]
    #[param(inline)]
    pub by: TopBy,
    /// Largest number of keys, 1 to 1000; 20 by default.
    #[param(minimum = 1, maximum = 1000)]
    pub n: Option<u16>,
}

/// Order of a list of keys, `hits` or `size`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TopBy {
    #[default]
    Hits,
    Size,
}

/// Key of stored responses, with the most recently used of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopKey {
    pub url: String,
    pub route: String,
    /// Bytes of memory that all its variants take.
    pub bytes: u64,
    /// Requests answered since something was first stored under the key.
    pub hits: u32,
    /// Stored responses under the key.
    pub variants: u64,
    /// Age in seconds of the variant that was used last, as in `Age`.
    pub age_s: u32,
    /// Seconds until that response is stale; negative since when it is.
    pub ttl_s: i64,
    /// Tags of the variant that was used last.
    pub tags: Vec<String>,
}

/// URL whose stored responses are asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ShowWanted {
    /// The whole URL as clients ask for it, such as `https://shop.example/a?b=c`.
    pub url: String,
}

/// Stored response with its key, its terms and its validators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoredResponse {
    /// URL of its key, with the query that counts.
    pub url: String,
    /// Route whose requests it answers.
    pub route: String,
    /// User whose requests it answers, for routes with `by_user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Pool that answered; each pool of a split has separate responses.
    pub pool: String,
    /// Fields of requests in the key, as `x-tenant: a`: the fields of `headers` of the route. Also `host` if it was not
    /// spelled as in the URL, and `sent as` for a path that the route rewrites.
    pub key_fields: Vec<String>,
    /// Fields that requests have for it, as its `Vary` demands: `accept-encoding: gzip`, or the name alone for none.
    pub varies_by: Vec<String>,
    pub status: u16,
    /// Age in seconds, as in `Age`.
    pub age_s: u32,
    /// Seconds until it is stale; negative since when it is.
    pub ttl_s: i64,
    /// Lifetime in seconds, counted from age 0.
    pub lifetime_s: u32,
    /// Field, directive or rule that states the lifetime.
    pub lifetime_by: String,
    /// Seconds for which it is served when stale, while a new response is fetched.
    pub stale_while_revalidate_s: u32,
    /// Seconds for which it is served when stale, if the endpoints fail.
    pub stale_if_error_s: u32,
    /// True if a soft purge has made it stale.
    pub made_stale: bool,
    /// True if it is validated before each use.
    pub no_cache: bool,
    /// True if no request may accept it when it is stale.
    pub must_revalidate: bool,
    /// True if it does not change while it is fresh.
    pub immutable: bool,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Length of its body in bytes.
    pub body_bytes: u64,
    /// Forms of its body that are compressed for all clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encoded: Vec<EncodedBody>,
    /// Requests answered by its key, with all its variants.
    pub hits: u32,
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// Form of a stored body in a content coding, which clients get that accept it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EncodedBody {
    /// Content coding, such as `gzip`.
    pub coding: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Order of an operator to purge stored responses: exactly one of `url`, `prefix`, `tag` and `all`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// The whole URL as clients ask for it. Scheme and host are taken in any case, and its query as the route takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Beginning of URLs, with scheme and whole host: `https://shop.example/images/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Tag that the response had in `Surrogate-Key` or `Cache-Tag`, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// True for all responses of all routes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// True if responses become stale, and are validated or replaced at their next use, instead of being removed.
    #[serde(default)]
    pub soft: bool,
}

/// Responses that a purge was meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant<'p> {
    Url(&'p str),
    Prefix(&'p str),
    Tag(&'p str),
    All,
}

impl Purge {
    /// Responses that it is meant for.
    ///
    /// # Errors
    /// None or several of the four keys are there, in words.
    pub fn meant(&self) -> Result<Meant<'_>, String> {
        let Purge { url, prefix, tag, all, .. } = self;
        let url = url.as_deref().map(Meant::Url);
        let prefix = prefix.as_deref().map(Meant::Prefix);
        let tag = tag.as_deref().map(Meant::Tag);
        let mut all = [url, prefix, tag, all.then_some(Meant::All)].into_iter().flatten();
        match (all.next(), all.next()) {
            (Some(meant), None) => Ok(meant),
            (None, _) => Err("a purge needs one of url, prefix, tag, and all as true".to_owned()),
            (Some(_), Some(_)) => Err("a purge takes only one of url, prefix, tag and all".to_owned()),
        }
    }
}

/// Result of a purge, once all stored responses were looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PurgeDone {
    /// Target in words, with the URLs as the cache has them: `url https://shop.example/a`.
    pub purged: String,
    pub soft: bool,
    /// Stored responses that it was meant for.
    pub objects: u64,
    /// Bytes of memory of these.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_is_meant_for_one_thing() {
        let of = |text: &str| serde_json::from_str::<Purge>(text).map_err(|error| error.to_string());
        let meant = |text: &str| of(text).and_then(|purge| purge.meant().map(|meant| format!("{meant:?}")));
        assert_eq!(meant(r#"{"url":"http://a/"}"#).as_deref(), Ok("Url(\"http://a/\")"));
        assert_eq!(meant(r#"{"all":true,"soft":true}"#).as_deref(), Ok("All"));
        for (text, why) in [
            ("{}", "needs one of"),
            (r#"{"all":false}"#, "needs one of"),
            (r#"{"tag":"a","all":true}"#, "only one of"),
            (r#"{"tag":"a","prefix":"b"}"#, "only one of"),
            (r#"{"path":"/a"}"#, "unknown field"),
        ] {
            let refused = meant(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
