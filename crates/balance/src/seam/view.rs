//! The workers' view of a pool, which the control side replaces as a whole.

use crate::endpoints::set::EndpointSet;
use crate::measurement::loads::Counts;

/// The endpoint set of a pool, and counts with room for each of its slots.
#[derive(Debug)]
pub struct View {
    /// Endpoints that may get a request.
    pub set: EndpointSet,
    /// Requests in flight at each endpoint.
    pub counts: Counts,
}
