//! Types for routes, certificates and zones.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Route with the requests that it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Route {
    pub name: String,
    /// The hosts that it takes; any, if there are none. The same as in `match`.
    pub hosts: Vec<String>,
    /// Pattern of the paths that it takes.
    pub path: String,
    /// The pool, or another action in a few words.
    pub pool: String,
    #[serde(default)]
    pub action: Action,
    #[serde(default, rename = "match")]
    pub matching: Matching,
    /// Keys of its filters, in the order in which requests pass them.
    #[serde(default)]
    pub filters: Vec<String>,
    /// Requests by listener that it belongs to.
    pub at: Vec<Passed>,
    /// Part of the requests for its cache that a stored response answered so far, 0 to 1; absent without a cache or
    /// requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
}

/// Effect of a route on its requests: an object with a single key of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Name of the pool that gets the requests.
    Pool(String),
    /// The pool that a map names.
    Choice(Choice),
    Split(Split),
    Redirect(Redirect),
    Respond(Respond),
}

/// Choice of the pool by a map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Choice {
    pub map: String,
    /// Pools that it can choose.
    pub pools: Vec<String>,
}

/// Redirect of clients to another URL, with a status from 301 to 308.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Redirect {
    pub status: u16,
    /// URL or path as a template, as `https://{host}{path}`.
    pub to: String,
}

/// Response without an endpoint, with a status from 200 to 599.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Respond {
    pub status: u16,
}

/// Requests that a route takes. All parts must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Matching {
    /// The hosts that it takes; any, if there are none.
    pub hosts: Vec<String>,
    /// The path as it is written, after its key unless that is `path`: `/cart`, `prefix /api`. Absent for any path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Criteria in words, as `method GET, HEAD`, `header x-beta = 1`, `not client 10.0.0.0/8` and `alpn h2`.
    pub criteria: Vec<String>,
    /// Alternatives in words, any of which must match too; none, if it is empty.
    pub any: Vec<String>,
}

impl Default for Action {
    fn default() -> Action {
        Action::Pool(String::new())
    }
}

impl Action {
    /// The action in a few words: a pool by its name.
    pub fn words(&self) -> String {
        match self {
            Action::Pool(pool) => pool.clone(),
            Action::Choice(choice) => format!("{{map.{}}}", choice.map),
            Action::Split(split) => format!("split {}", split.words()),
            Action::Redirect(redirect) => format!("redirect {} to {}", redirect.status, redirect.to),
            Action::Respond(respond) => format!("respond {}", respond.status),
        }
    }

    /// Pools that get requests, with their shares, 0 to 1.
    pub fn pools(&self) -> Vec<(&str, f64)> {
        match self {
            Action::Pool(pool) => vec![(pool, 1.0)],
            Action::Split(split) => split.pools.iter().map(|pool| (&*pool.pool, pool.share)).collect(),
            // The shares depend on the requests.
            Action::Choice(_) | Action::Redirect(_) | Action::Respond(_) => Vec::new(),
        }
    }
}

impl Matching {
    /// The match in words: `shop.example, prefix /api, method GET`; `everything` if each request matches.
    pub fn words(&self) -> String {
        let any = (!self.any.is_empty()).then(|| format!("any of: {}", self.any.join(" | ")));
        let all: Vec<&str> = [&self.hosts, self.path.as_slice(), &self.criteria, any.as_slice()]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if all.is_empty() { "everything".to_owned() } else { all.join(", ") }
    }
}

/// Pools that share the requests of a route by weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Split {
    pub route: String,
    /// Pools in the order of the configuration.
    pub pools: Vec<Share>,
    /// Latest order of operators for its weights, if any applies.
    pub order: Option<SplitOrderer>,
}

/// Pool of a split, with its share of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    pub pool: String,
    /// Weight that operators have ordered, or else the configured weight, 0 to 1000000.
    pub weight: u32,
    /// Weight of the configuration.
    pub configured: u32,
    /// True if all endpoints of the pool are drained, so that the other pools have its share.
    #[serde(default)]
    pub drained: bool,
    /// Share of the requests by the weights, 0 to 1.
    pub share: f64,
}

/// Author of an order for the weights of a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SplitOrderer {
    /// Operator who gave the latest order.
    pub by: String,
    /// Time of the latest order, milliseconds since 1970.
    pub at_ms: u64,
}

impl Split {
    /// The pools with their weights, as in `stable 95, canary 5 (drained)`.
    pub fn words(&self) -> String {
        let words = |pool: &Share| {
            let drained = if pool.drained { " (drained)" } else { "" };
            format!("{} {}{drained}", pool.pool, pool.weight)
        };
        self.pools.iter().map(words).collect::<Vec<_>>().join(", ")
    }
}

/// Requests from a listener by a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Passed {
    pub listener: String,
    /// Requests, or sessions, so far.
    pub requests: u64,
    /// Requests answered with 500 and above so far.
    pub errors: u64,
    /// Requests per second, over the last five seconds.
    pub rate: f64,
    /// Errors per second, over the last five seconds.
    pub error_rate: f64,
    /// Requests per second that went on to a pool, over the last five seconds: neither a filter nor the cache answered
    /// them.
    #[serde(default)]
    pub sent_rate: f64,
    /// Errors per second among these, over the last five seconds.
    #[serde(default)]
    pub sent_error_rate: f64,
    /// Mean time from the head of a request to the end of its response, in milliseconds, over the last five seconds;
    /// for sessions their length.
    pub mean_ms: Option<f64>,
    /// 99th percentile of that time, in milliseconds: the end of a bucket of the metrics, so the real value may be
    /// less. Absent if it is above the last bucket.
    pub p99_ms: Option<f64>,
}

/// A certificate that clients are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Certificate {
    /// The listener that shows it.
    pub listener: String,
    /// First name of the certificate, or its file.
    pub name: String,
    /// All names that it is for, addresses as text.
    pub names: Vec<String>,
    /// Distinguished name of its issuer, as `CN=R11, O=Example`.
    pub issuer: String,
    /// Expiry, milliseconds since 1970.
    pub not_after_ms: u64,
    /// Time when the next certificate is ordered, milliseconds since 1970, if an authority is asked for it.
    pub renewed_ms: Option<u64>,
}

/// State of the kernel for a listener that it forwards for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InKernel {
    pub listener: String,
    /// Mechanism that forwards: `nftables`, `ebpf` or `ipvs`.
    pub plane: String,
    /// Pool whose endpoints get the connections.
    pub pool: String,
    /// Connections of the pool that are open, as the kernel counted them last.
    pub connections: u64,
    /// Rules, entries and counts, as the mechanism describes them.
    pub lines: Vec<String>,
}

/// A zone that is answered for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Zone {
    /// The listener that answers.
    pub listener: String,
    pub name: String,
    /// Queries so far, of all types.
    pub queries: u64,
    /// Queries per second, over the last five seconds.
    pub rate: f64,
    /// Queries per second answered with SERVFAIL, over the last five seconds.
    pub error_rate: f64,
    /// Responses so far by code, without codes that were never sent.
    pub responses: Vec<Answered>,
    /// Records that it answers with endpoints.
    pub records: Vec<Record>,
}

/// Number of responses with a code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// Code, as `NOERROR`.
    pub code: String,
    pub responses: u64,
}

/// A name that stands for a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Record {
    /// Name below the zone's name.
    pub name: String,
    /// The pool whose endpoints are named.
    pub pool: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_an_object_with_one_key_and_a_few_words() {
        let share =
            |pool: &str, weight, share| Share { pool: pool.into(), weight, configured: weight, share, drained: false };
        let split = Split {
            route: "shop".into(),
            pools: vec![share("stable", 95, 0.95), share("canary", 5, 0.05)],
            order: None,
        };
        for (action, key, words, pools) in [
            (Action::Pool("shop".into()), "pool", "shop", 1),
            (Action::Choice(Choice { map: "m".into(), pools: vec!["a".into()] }), "choice", "{map.m}", 0),
            (Action::Split(split), "split", "split stable 95, canary 5", 2),
            (Action::Redirect(Redirect { status: 301, to: "/new".into() }), "redirect", "redirect 301 to /new", 0),
            (Action::Respond(Respond { status: 404 }), "respond", "respond 404", 0),
        ] {
            let json = serde_json::to_value(&action).expect("JSON");
            let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
            assert_eq!(keys, [key]);
            assert_eq!(serde_json::from_value::<Action>(json).expect("the same"), action);
            assert_eq!((action.words().as_str(), action.pools().len()), (words, pools));
        }
    }

    #[test]
    fn a_match_has_all_its_parts_in_words() {
        assert_eq!(Matching::default().words(), "everything");
        let matching = Matching {
            hosts: vec!["shop.example".into()],
            path: Some("prefix /api".into()),
            criteria: vec!["method GET".into()],
            any: vec!["header a = 1".into(), "cookie b present".into()],
        };
        let words = "shop.example, prefix /api, method GET, any of: header a = 1 | cookie b present";
        assert_eq!(matching.words(), words);
    }
}
