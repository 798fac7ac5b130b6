//! Explanations of picks: why requests went where they went, and where a request would go.

use evenkeel_balance::explain;
use evenkeel_balance::{EndpointId, Exclusion, Explanation, NoPick, Slot};
use explain::LoadParts;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// Explanation of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// Request id as the access log writes it.
    pub request_id: String,
    /// The trace that it belongs to, in digits, if that is known.
    pub trace_id: Option<String>,
    /// Time when its head was there, milliseconds since 1970.
    pub at_ms: u64,
    /// Reason for the explanation: `sample`, `token` or `next`.
    pub asked: Cow<'static, str>,
    /// The worker that served it.
    pub worker: u64,
    /// The listener it came in at.
    pub listener: Arc<str>,
    /// Protocol of the client, as the access log writes it.
    #[serde(default)]
    pub protocol: Cow<'static, str>,
    /// Figures of the client's connection, over HTTP/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicFigures>,
    pub route: Arc<str>,
    pub pool: Arc<str>,
    pub method: String,
    /// Host as the client wrote it.
    pub host: String,
    /// Path of the request, without the query.
    pub path: String,
    /// Filters of its route that did something, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterStep>,
    /// Tries in order; the endpoint of the last try answered, or failed last.
    pub tries: Vec<ExplainedTry>,
    /// Wait for a place, nanoseconds.
    pub queue_ns: u64,
    /// Status that the client got; 0 for none.
    pub status: u16,
    /// Side that ended it; `normal` if it ended as it should.
    pub end: Cow<'static, str>,
    pub phase: Cow<'static, str>,
    /// Time from its head to its end, nanoseconds.
    pub total_ns: u64,
}

/// Connection of a client over HTTP/3, up to the end of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuicFigures {
    /// Time from its first packet to the end of the handshake, nanoseconds.
    pub handshake_ns: u64,
    /// Number of times that the address of the client has changed.
    pub migrations: u32,
    /// Packets to the client that were lost.
    pub packets_lost: u64,
}

/// Effect of a filter on a request or its response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FilterStep {
    pub name: Cow<'static, str>,
    pub did: Cow<'static, str>,
}

/// Try of a request at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedTry {
    /// Start, from the request's head on, nanoseconds.
    pub at_ns: u64,
    /// `picked` by the algorithm, `waited` and then picked, the endpoint of its `session`, or a `hedge`.
    pub how: Cow<'static, str>,
    pub endpoint: Option<Arc<str>>,
    /// Explanation of the pick, unless a session decided.
    pub pick: Option<Pick>,
    /// Reason for which another try followed.
    pub failed: Option<String>,
}

/// Explanation of a pick of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pick {
    /// Step of the algorithm that decided, in words.
    pub rule: Cow<'static, str>,
    /// Deciding step, for programs.
    pub by: Cow<'static, str>,
    /// Rule of that step in words, with the rule of ties.
    pub decides: String,
    /// Endpoint that was picked.
    pub picked: Option<Arc<str>>,
    /// Reason for which none was.
    pub refused: Option<String>,
    /// Endpoints that were compared.
    pub candidates: Vec<Candidate>,
    /// Number of candidates that are not listed.
    pub unlisted: u64,
    /// Endpoints that could not be picked.
    pub excluded: Vec<Excluded>,
    /// Number of those that are not listed.
    pub excluded_more: u64,
    /// 0: of the first tier and zone; else those that it overflows into.
    pub level: u64,
    /// The hash of the request's key, hexadecimal.
    pub key: Option<String>,
    /// Requests in flight in the pool before.
    pub in_flight: u32,
    /// True if health was ignored as too few are healthy.
    pub in_panic: bool,
    /// Share of the pool's requests whose endpoint is drawn uniformly instead of picked; 0 if none.
    #[serde(default)]
    pub explored_share: f64,
}

/// An endpoint that was compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    pub endpoint: Arc<str>,
    /// Requests in flight there before the pick.
    pub in_flight: u32,
    /// Weight in the set: while endpoints ramp or zones spill, all are scaled by a common factor.
    pub weight: u32,
    /// Value that was compared, lower is better, if that is not the requests in flight per weight.
    pub score: Option<f64>,
    /// Lead of its picks over its share, in rounds of turns: among equals the lower is due.
    pub ahead: f64,
    /// The load that the algorithm went by.
    pub load: Option<f64>,
    /// Parts of the load by who counted them, if several did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// The latency that it reported, nanoseconds.
    pub latency_ns: Option<u64>,
    /// Place within its class of weight.
    pub place: Option<u32>,
    /// Tier in the plan, if that still has the endpoint.
    pub tier: Option<u8>,
    /// Zone in the plan, if that still has the endpoint.
    pub zone: Option<Arc<str>>,
}

/// Requests in flight at an endpoint, by the process that counted them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Requests of the worker that picks.
    pub here: u32,
    /// Requests of other workers of the process, as last read.
    pub siblings: u32,
    /// Requests of other balancers, as the endpoint reports or as is usual; absent if no endpoint of the pool reports.
    pub others: Option<u32>,
}

impl From<LoadParts> for Counted {
    fn from(LoadParts { here, siblings, others }: LoadParts) -> Counted {
        Counted { here, siblings, others }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} here, {} at other workers", self.here, self.siblings)?;
        self.others.map_or(Ok(()), |others| write!(f, ", {others} of other balancers by its reports"))
    }
}

/// An endpoint that could not be picked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Excluded {
    pub endpoint: Arc<str>,
    /// Reason for which it was left out.
    pub reason: String,
    /// Start of its present state, milliseconds since 1970, if that is known.
    pub since_ms: Option<u64>,
}

impl Pick {
    /// Explains a pick, with names for slots. `refused` is the reason if nothing was picked.
    pub fn new(why: &Explanation, refused: Option<NoPick>, name: impl Fn(Slot) -> Arc<str>) -> Pick {
        let candidate = |c: &explain::Candidate| Candidate {
            endpoint: name(c.slot),
            in_flight: c.in_flight,
            weight: c.weight,
            score: c.score,
            ahead: c.ahead,
            load: c.load,
            counted: c.parts.map(Counted::from),
            latency_ns: (c.latency_ns > 0).then_some(c.latency_ns),
            place: c.place.map(|(_, place)| place),
            tier: None,
            zone: None,
        };
        let excluded = |(slot, _, reason): &(Slot, EndpointId, Exclusion)| Excluded {
            endpoint: name(*slot),
            reason: reason.to_string(),
            since_ms: None,
        };
        Pick {
            rule: why.rule.into(),
            by: why.by.name().into(),
            decides: why.by.to_string(),
            picked: why.picked.map(&name),
            refused: refused.map(|why| why.to_string()),
            candidates: why.candidates.iter().map(candidate).collect(),
            unlisted: why.unlisted as u64,
            excluded: why.excluded.iter().map(excluded).collect(),
            excluded_more: why.excluded_more as u64,
            level: why.level as u64,
            key: why.key.map(|key| format!("{key:016x}")),
            in_flight: why.in_flight_total,
            in_panic: why.in_panic,
            explored_share: why.explored_share,
        }
    }

    fn size(&self) -> usize {
        size_of::<Pick>()
            + self.candidates.len() * size_of::<Candidate>()
            + self.excluded.len() * (size_of::<Excluded>() + 32)
    }
}

impl Explained {
    /// Returns about how many bytes the explanation takes.
    pub fn size(&self) -> usize {
        let text = self.request_id.len() + self.method.len() + self.host.len() + self.path.len();
        let filters: usize = self.filters.iter().map(|step| size_of::<FilterStep>() + step.did.len()).sum();
        let tries = self.tries.iter().map(|one| size_of::<ExplainedTry>() + one.pick.as_ref().map_or(0, Pick::size));
        size_of::<Explained>() + text + filters + tries.sum::<usize>()
    }
}

/// Prediction for a request on trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WouldGo {
    /// Route that takes it, and why the others do not.
    pub routed: Routed,
    /// Values that the maps have for it; empty for a map without a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<MapValue>,
    /// Filters that it would pass, as far as they do anything that is known before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterTrial>,
    /// Answer of the filter that would end it; no endpoint is picked then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<FilterAnswer>,
    /// Pick that the pool would make now, by any of its workers.
    pub pick: Option<Pick>,
    /// Number of the worker that predicted it.
    pub worker: Option<u64>,
}

/// Value of a map for a request on trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapValue {
    pub map: Arc<str>,
    pub value: String,
}

/// Filter that a request on trial would pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FilterTrial {
    pub name: Cow<'static, str>,
    /// Expected effect on the request, in a few words.
    pub would: Cow<'static, str>,
}

/// Answer of a filter to a request on trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FilterAnswer {
    pub filter: Cow<'static, str>,
    pub status: u16,
    /// Reason in words; empty for a redirect or a response of the route's own.
    pub why: Cow<'static, str>,
    /// Value of `Location`, if the response has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

impl fmt::Display for FilterAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "answers with {}", self.status)?;
        self.location.as_ref().map_or(Ok(()), |location| write!(f, " to {location}"))?;
        if self.why.is_empty() { Ok(()) } else { write!(f, ": {}", self.why) }
    }
}

/// Routing of a request at a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Routed {
    pub listener: Arc<str>,
    /// The route that takes it, if any.
    pub route: Option<Arc<str>>,
    /// Pool of the route; `None` if it has another action.
    pub pool: Option<Arc<str>>,
    /// Routes in the order of the plan.
    pub routes: Vec<Considered>,
    /// Readings of the path, as sent first; empty if servers read it in one way only, or in too many ways.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// Path and query in normal form, if they are matched and forwarded instead of those sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normal: Option<String>,
    /// Reason for which the request gets a 400 instead of a route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Path as some servers read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    pub path: String,
    /// Route that it chooses, if any.
    pub route: Option<Arc<str>>,
}

impl Routed {
    /// Pool that gets the request, or the route's action instead.
    pub fn outcome(&self) -> String {
        if let Some(why) = &self.refused {
            return format!("a 400: {why}");
        }
        let action = || self.routes.iter().find(|route| route.taken).map(|route| route.pool.to_string());
        self.pool.as_ref().map(|pool| format!("pool {pool}")).or_else(action).unwrap_or_default()
    }
}

/// Route that was considered for a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Considered {
    pub route: Arc<str>,
    /// Pool of the route, or its action in a few words.
    pub pool: Arc<str>,
    /// True if it takes the request.
    pub taken: bool,
    /// Reason for which it does, or does not.
    pub why: String,
}

/// A pool whose next request is to be explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Armed {
    pub pool: String,
    /// True if the next request will be explained.
    pub armed: bool,
}
