//! Identity of a route: the parts of the router share it.

/// Index of a route in the plan.
pub type RouteId = usize;
