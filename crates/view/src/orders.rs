//! Orders of operators for endpoints and splits, beside the configuration.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Order of operators for an endpoint, beside its configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Order {
    /// Mode in which it drains, if it does.
    pub drain: Option<Drain>,
    /// Weight instead of the configured weight, 0 to 65535.
    pub weight: Option<u32>,
    /// State that it counts as, whatever its checks say.
    pub health: Option<Health>,
    /// Operator who gave the latest order.
    pub by: String,
    /// Time of the latest order, milliseconds since 1970.
    pub at_ms: u64,
}

/// Mode in which an endpoint drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// Sticky clients stay until they end.
    KeepSessions,
    /// They go elsewhere with their next request.
    Now,
}

/// State that an endpoint counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Counts as working, whatever its checks and requests report.
    Up,
    /// Counts as not working, whatever its checks and requests report.
    Down,
}

/// A change of the orders for an endpoint (RFC 7396): keys that are left out stay, and `null` takes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<Drain>)]
    pub drain: Option<Option<Drain>>,
    /// Weight, 0 to 65535.
    #[serde(default, deserialize_with = "said_whole")]
    #[schema(value_type = Option<u32>, maximum = 65535)]
    pub weight: Option<Option<u32>>,
    /// State that it counts as, whatever its checks find.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<Health>)]
    pub health: Option<Option<Health>>,
}

/// Weights of a split that an operator changes, by pool: `None` returns to the configured weight, for a single pool or
/// for all.
pub type SplitChanges = Option<BTreeMap<String, Option<u32>>>;

/// A change of the weights of a split (RFC 7396): pools that are left out keep theirs, and `null` takes an order back,
/// for a single pool or for all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitPatch {
    /// Weights by pool, 0 to 1000000.
    #[serde(default, deserialize_with = "said_weights")]
    #[schema(value_type = Option<BTreeMap<String, Option<u32>>>)]
    pub weights: Option<SplitChanges>,
}

/// Weight that may be written like 3.0.
#[derive(Deserialize)]
struct Whole(#[serde(deserialize_with = "whole")] Option<u32>);

fn said_weights<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SplitChanges>, D::Error> {
    let weights = Option::<BTreeMap<String, Whole>>::deserialize(deserializer)?;
    Ok(Some(weights.map(|weights| weights.into_iter().map(|(pool, weight)| (pool, weight.0)).collect())))
}

/// `null` is something else than nothing.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads such a number if it is whole, however it is written: for JSON 3.0 is whole.
fn said_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    whole(deserializer).map(Some)
}

/// A number that is whole, or nothing.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(serde::de::Error::custom(format!("{number} is no whole number from 0 on")));
    }
    Ok(Some(number as u32))
}
