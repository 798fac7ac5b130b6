//! What does the API say, and what does it take? Plain shapes, which are also its documentation.

pub mod config;
pub mod history;
pub mod picks;
pub mod served;
pub mod tap;

use config::Running;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The process, in short.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Of evenkeel.
    pub version: String,
    /// Of the process.
    pub pid: u32,
    /// When it started, milliseconds since 1970.
    pub started_ms: u64,
    /// Now, milliseconds since 1970.
    pub now_ms: u64,
    /// Whether new requests should be sent to it.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Event loops.
    pub workers: u32,
    /// The configuration that runs.
    pub config: Running,
    /// In the order of the configuration.
    pub listeners: Vec<Listener>,
    /// In the order of the configuration.
    pub pools: Vec<Pool>,
}

/// A listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// What it speaks: `http`, `tcp`, `udp` or `dns`.
    pub mode: String,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// Connections that are open.
    pub connections: u64,
    /// Connections so far.
    pub accepted: u64,
    /// Bytes from clients so far.
    pub bytes_in: u64,
    /// Bytes to clients so far.
    pub bytes_out: u64,
}

/// A pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub algorithm: String,
    /// Whether so few endpoints are healthy that health is ignored.
    pub in_panic: bool,
    /// Requests that wait for a place at an endpoint.
    pub waiting: u32,
    /// In the order of the configuration.
    pub endpoints: Vec<Endpoint>,
}

/// An endpoint of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Where it is, once that is known.
    pub address: Option<String>,
    /// `up`, `ramping`, `probation`, `ejected`, `unchecked`, `down`, `unresolved`, `disabled` or `draining`.
    pub state: String,
    /// Why it is not `up`.
    pub reason: Option<String>,
    /// Since when it is in this state, milliseconds since 1970.
    pub since_ms: u64,
    /// Its weights.
    pub weight: Weights,
    /// Its tier.
    pub priority: u8,
    /// Its zone.
    pub zone: Option<String>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Tries so far, with those that got no connection.
    pub requests: u64,
    /// Tries that failed by fault of the endpoint: answered with 500 and above, refused, reset, malformed, or too late.
    pub failed: u64,
    /// The part of its pool's requests that it got of late, 0 to 1.
    pub share: Option<f64>,
    /// The part that its weight asks for, 0 to 1.
    pub fair_share: f64,
    /// To the first byte of responses, of late.
    pub latency: Option<LatencyOfLate>,
    /// Its latest health check.
    pub check: Option<Check>,
    /// What it says of its own load, if it does.
    pub report: Option<LoadReport>,
    /// What operators want of it.
    pub order: Option<Order>,
}

/// Weights of an endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Weights {
    /// As the configuration says.
    pub configured: u32,
    /// As it counts now: 0 where it gets no requests, and a part during slow start.
    pub effective: f64,
}

/// Latencies of the last half minute to minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LatencyOfLate {
    /// Responses.
    pub responses: u64,
    /// Half of them took at most so many milliseconds, to a fifth.
    pub p50_ms: f64,
    /// 99 of 100 took at most so many.
    pub p99_ms: f64,
}

/// What an endpoint said last of its own load, to whichever worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LoadReport {
    /// How long ago, milliseconds.
    pub age_ms: u64,
    /// Requests in flight there, from all balancers.
    pub in_flight: u64,
    /// What a request takes at its load, if it says that, milliseconds.
    pub latency_ms: Option<f64>,
    /// How busy it is, if it says that: 1 is all that it has.
    pub utilization: Option<f64>,
}

/// A health check.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// When it ended, milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took, milliseconds.
    pub took_ms: f64,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// What operators want of an endpoint, beside its configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Order {
    /// That it drains.
    pub drain: Option<Drain>,
    /// Another weight, 0 to 65535.
    pub weight: Option<u32>,
    /// That it counts as up or down.
    pub health: Option<Health>,
    /// Who said so last.
    pub by: String,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// How an endpoint drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// Its sticky clients stay.
    KeepSessions,
    /// They go elsewhere with their next request.
    Now,
}

/// What an endpoint counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As one that works.
    Up,
    /// As one that does not.
    Down,
}

/// A change of what operators want of an endpoint (RFC 7396): what is left out stays, and `null` takes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Whether and how it drains.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<Drain>)]
    pub drain: Option<Option<Drain>>,
    /// Its weight, 0 to 65535.
    #[serde(default, deserialize_with = "said_whole")]
    #[schema(value_type = Option<u32>, maximum = 65535)]
    pub weight: Option<Option<u32>>,
    /// What it counts as.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<Health>)]
    pub health: Option<Option<Health>>,
}

/// `null` is something else than nothing.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The same for a number that is whole, however it is written: for JSON 3.0 is one.
fn said_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    whole(deserializer).map(Some)
}

/// A number that is whole, or nothing.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(serde::de::Error::custom(format!("{number} is no whole number from 0 on")));
    }
    Ok(Some(number as u32))
}

/// Something that happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts up, from 1.
    pub id: u64,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// `endpoint`, `pool`, `operator`, `config` or `process`.
    pub kind: String,
    /// The pool that it is about.
    pub pool: Option<String>,
    /// The endpoint of that pool.
    pub endpoint: Option<String>,
    /// What happened.
    pub text: String,
    /// Who did it.
    pub by: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_tells_nothing_from_null() {
        let patch = |text: &str| crate::api::problem::body::<Patch>(text.as_bytes());
        assert_eq!(patch("{}").unwrap(), Patch::default());
        assert_eq!(patch(r#"{"weight":3.0}"#).unwrap(), Patch { weight: Some(Some(3)), ..Patch::default() });
        let want = Patch { drain: Some(None), weight: Some(Some(3)), health: None };
        assert_eq!(patch(r#"{"drain":null,"weight":3}"#).unwrap(), want);
        let want = Patch { drain: Some(Some(Drain::KeepSessions)), weight: None, health: Some(Some(Health::Down)) };
        assert_eq!(patch(r#"{"drain":"keep-sessions","health":"down"}"#).unwrap(), want);
        for wrong in [r#"{"drains":null}"#, r#"{"weight":-1}"#, r#"{"weight":1.5}"#, r#"{"health":"well"}"#, "[]", ""] {
            assert!(patch(wrong).is_err(), "{wrong}");
        }
    }
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
