//! Doubts about a log: each shows that answers by it would be wrong, says how that is known, and what would help.

// Order: units, order, gaps, joined, shared, overload, counted, queued, failures
mod counted;
mod failures;
mod gaps;
mod joined;
mod order;
mod overload;
mod queued;
mod shared;
mod units;

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;

/// Search for a doubt about the traffic of a record.
type Look = fn(&Record, &Traffic) -> Option<Doubt>;

/// All searches, in the order in which their doubts are shown.
const LOOKS: &[Look] = &[
    units::too_few,
    units::lacking,
    units::coarse,
    order::neither_by_start_nor_end,
    order::goes_back,
    order::repeated,
    order::instances,
    gaps::gap,
    joined::joins_or_leaves,
    shared::by_pools,
    counted::more_in_flight,
    queued::waited,
    failures::many,
    overload::piles_up,
];

/// Doubts about the traffic of a pool of a record; none if it can be analysed.
pub fn doubts(record: &Record, traffic: &Traffic) -> Vec<Doubt> {
    LOOKS.iter().filter_map(|look| look(record, traffic)).collect()
}
