//! Maps as operators see them: rows, memory, and lookups without a row.

use crate::filters::template::maps::{Map, Maps};
use crate::observe::numbers::Numbers;
use evenkeel_view::status;
use std::sync::Arc;

impl Numbers {
    /// Rows, memory and misses of each map of the plan.
    pub fn shown_maps(&self) -> Vec<status::Map> {
        let one = |map: &Arc<Map>| status::Map {
            name: map.plan.name.to_string(),
            rows: map.rows() as u64,
            bytes: map.bytes() as u64,
            unmatched: map.unmatched(),
            is_behind: map.is_behind(),
        };
        self.resources.get::<Maps>().map_or(Vec::new(), |maps| maps.all().iter().map(one).collect())
    }
}
