//! What do workers see of a pool? A [`View`], which the control side replaces as a whole.

use crate::endpoints::set::EndpointSet;
use crate::measurement::loads::Counts;

/// What workers see of a pool: the set, and counts with room for each of its slots.
#[derive(Debug)]
pub struct View {
    /// Which endpoints may get a request.
    pub set: EndpointSet,
    /// How many requests each has in flight.
    pub counts: Counts,
}
