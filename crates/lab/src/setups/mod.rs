//! Setups of balancers that several experiments share.

// Order: mixed, sidecars
pub mod mixed;
pub mod sidecars;
