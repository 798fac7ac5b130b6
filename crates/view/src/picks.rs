//! What does the API say of picks? Why requests went where they went, where one would go, and what other algorithms would have
//! done.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// As the access log writes it.
    pub request_id: String,
    /// The trace that it belongs to, in digits, if that is known.
    pub trace_id: Option<String>,
    /// When its head was there, milliseconds since 1970.
    pub at_ms: u64,
    /// Why it is explained: `sample`, `token` or `next`.
    pub asked: String,
    /// The worker that served it.
    pub worker: u64,
    /// The listener it came in at.
    pub listener: String,
    /// The route that took it.
    pub route: String,
    /// The route's pool.
    pub pool: String,
    /// As sent.
    pub method: String,
    /// As the client wrote it.
    pub host: String,
    /// Without the query.
    pub path: String,
    /// In order; the last one's endpoint answered, or failed last.
    pub tries: Vec<ExplainedTry>,
    /// How long it waited for a place, nanoseconds.
    pub queue_ns: u64,
    /// What its client got; 0 for nothing.
    pub status: u16,
    /// Who ended it.
    pub end: String,
    /// Where it was then.
    pub phase: String,
    /// From its head to its end, nanoseconds.
    pub total_ns: u64,
}

/// One try.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedTry {
    /// From the request's head on, nanoseconds.
    pub at_ns: u64,
    /// `picked` by the algorithm, `waited` and then picked, the endpoint of its `session`, or a `hedge`.
    pub how: String,
    /// Where it went.
    pub endpoint: Option<String>,
    /// Why, unless a session decided.
    pub pick: Option<Pick>,
    /// Why that was not the last.
    pub failed: Option<String>,
}

/// One pick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pick {
    /// What decided, in words.
    pub rule: String,
    /// The same as a program follows it.
    pub by: String,
    /// That in words, with the rule of ties.
    pub decides: String,
    /// Who was picked.
    pub picked: Option<String>,
    /// Why none was.
    pub refused: Option<String>,
    /// What was compared.
    pub candidates: Vec<Candidate>,
    /// Candidates behind these.
    pub unlisted: u64,
    /// What could not be picked.
    pub excluded: Vec<Excluded>,
    /// More of them.
    pub excluded_more: u64,
    /// 0: of the first tier and zone; else those that it overflows into.
    pub level: u64,
    /// The hash of the request's key, hexadecimal.
    pub key: Option<String>,
    /// Requests in flight in the pool before.
    pub in_flight: u32,
    /// Whether health was ignored as too few are healthy.
    pub in_panic: bool,
}

/// An endpoint that was compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    /// Its name.
    pub endpoint: String,
    /// Requests in flight there before the pick.
    pub in_flight: u32,
    /// Its weight in the set: while endpoints ramp or zones spill, all are scaled by a common factor.
    pub weight: u32,
    /// What was compared, lower is better, if that is not the requests in flight per weight.
    pub score: Option<f64>,
    /// How far its picks are ahead of its share, in rounds of turns: of equal ones the lower is due.
    pub ahead: f64,
    /// The load that the algorithm went by.
    pub load: Option<f64>,
    /// Parts of the load by who counted them, if several did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// The latency that it reported, nanoseconds.
    pub latency_ns: Option<u64>,
    /// Its place among those of its class of weight.
    pub place: Option<u32>,
    /// As the plan has it, if that still has it.
    pub tier: Option<u8>,
    /// As its tier.
    pub zone: Option<String>,
}

/// Requests in flight at an endpoint, by the one who counted them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// The worker that picks.
    pub here: u32,
    /// Other workers of the process, as last read.
    pub siblings: u32,
    /// Other balancers, as the endpoint reports or as is usual; absent if no endpoint of the pool reports.
    pub others: Option<u32>,
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} here, {} at other workers", self.here, self.siblings)?;
        self.others.map_or(Ok(()), |others| write!(f, ", {others} of other balancers by its reports"))
    }
}

/// An endpoint that could not be picked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Excluded {
    /// Its name.
    pub endpoint: String,
    /// Why.
    pub reason: String,
    /// Since when it is in its present state, milliseconds since 1970, if that is known.
    pub since_ms: Option<u64>,
}

/// What would become of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WouldGo {
    /// Which route takes it, and why the others do not.
    pub routed: Routed,
    /// What the pool would pick now, by one of its workers.
    pub pick: Option<Pick>,
    /// The worker that says so.
    pub worker: Option<u64>,
}

/// What becomes of a request at one listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Routed {
    /// The listener.
    pub listener: String,
    /// The route that takes it, if one does.
    pub route: Option<String>,
    /// Its pool.
    pub pool: Option<String>,
    /// All routes, in the order of the plan.
    pub routes: Vec<Considered>,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Considered {
    /// Its name.
    pub route: String,
    /// Its pool.
    pub pool: String,
    /// Whether it takes the request.
    pub taken: bool,
    /// Why, or why not.
    pub why: String,
}

/// The shadows of one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolShadows {
    /// Its name.
    pub pool: String,
    /// The algorithm that picks.
    pub balance: String,
    /// The latest requests, which predictions are made from.
    pub requests: u64,
    /// From the start of the first of them to that of the last, nanoseconds.
    pub span_ns: u64,
    /// Why nothing can be predicted, if so.
    pub nothing: Option<String>,
    /// Requests in flight at the picked endpoint before the pick, on average; measured.
    pub met: Option<f64>,
    /// The time to the first byte of the response that 99 of 100 requests did not pass, nanoseconds; measured.
    pub p99_ns: Option<f64>,
    /// In the order of the configuration.
    pub shadows: Vec<Shadow>,
}

/// Predictions for a shadow. A figure that is not known is absent, and `withheld` has the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shadow {
    /// With what is not at its default.
    pub algorithm: String,
    /// True if its picks do not depend on what requests do: shares are those of the picks themselves. Otherwise they are those
    /// of the simulator with endpoints as they were measured, or what was measured if it is the pool's own algorithm.
    pub exact: bool,
    /// Requests in flight at the picked endpoint before the pick, on average.
    pub met: Option<f64>,
    /// The time to the first byte of the response that 99 of 100 requests would not pass, nanoseconds.
    pub p99_ns: Option<f64>,
    /// The most picks for its weight that an endpoint gets, over its fair share: 1 is even.
    pub peak: Option<f64>,
    /// In the order of the set.
    pub endpoints: Vec<ShadowEndpoint>,
    /// Why figures are absent.
    pub withheld: Vec<String>,
}

/// Shares of an endpoint, as picked and as the shadow would pick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShadowEndpoint {
    /// Its name.
    pub endpoint: String,
    /// The part of the requests that it got.
    pub real: f64,
    /// The part that it would get.
    pub shadow: Option<f64>,
    /// By weight.
    pub fair: f64,
}

/// A pool whose next request is to be explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Armed {
    /// The pool.
    pub pool: String,
    /// Whether it is waited for.
    pub armed: bool,
}

/// A request that is described, and not sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// GET, if it is left out.
    #[serde(default)]
    pub method: Option<String>,
    /// `http://HOST/PATH`, `https://HOST/PATH`, or a path alone.
    #[schema(pattern = r"^(/|https?://[^/?#])")]
    pub url: String,
    /// Its fields, each as `NAME: VALUE`.
    #[serde(default)]
    #[schema(value_type = Vec<FieldLine>)]
    pub fields: Vec<String>,
    /// The listener that it would come in at; the first for HTTP, if it is left out.
    #[serde(default)]
    pub listener: Option<String>,
    /// The client's address; 127.0.0.1, if it is left out.
    #[serde(default)]
    #[schema(value_type = Option<IpText>)]
    pub client: Option<String>,
}

/// A field of a request: `NAME: VALUE`.
#[derive(ToSchema)]
#[schema(pattern = ":")]
#[expect(dead_code, reason = "only its schema is used")]
struct FieldLine(String);

/// An IP address.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum IpText {
    /// With four numbers.
    #[schema(format = Ipv4)]
    V4(String),
    /// With colons.
    #[schema(format = Ipv6)]
    V6(String),
}
