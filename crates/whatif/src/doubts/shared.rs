//! Endpoints that other pools use, too.

use crate::doubt::Doubt;
use crate::record::{Record, Row};
use crate::traffic::Traffic;
use std::collections::BTreeMap;

/// Share of an endpoint's tries by other pools that changes its load.
const SHARE_MIN: f64 = 0.02;

pub(super) fn by_pools(record: &Record, traffic: &Traffic) -> Option<Doubt> {
    let own = record.pools.iter().position(|pool| *pool == traffic.pool)? as u32;
    let mut uses: BTreeMap<u32, [usize; 2]> = BTreeMap::new();
    for row in &record.rows {
        row.tries().for_each(|of| uses.entry(of.endpoint).or_default()[usize::from(row.pool != own)] += 1);
    }
    let is_shared = |[own, other]: &[usize; 2]| *own > 0 && *other as f64 > SHARE_MIN * (own + other) as f64;
    let (&endpoint, [ours, theirs]) = uses.iter().find(|(_, uses)| is_shared(uses))?;
    let other = record.rows.iter().find(|row| row.pool != own && row.tries().any(|of| of.endpoint == endpoint));
    let other = other.map_or("", |row: &Row| &record.pools[row.pool as usize]);
    let text = format!(
        "{} also serves pool \"{other}\" ({:.0} % of its requests): its load depends on the picks of both pools",
        record.endpoints[endpoint as usize],
        100.0 * *theirs as f64 / (ours + theirs) as f64
    );
    Some(Doubt::new("shared", text, "answers need endpoints that only one pool uses"))
}
