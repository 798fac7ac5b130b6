//! Setups of balancers that several experiments share.

pub mod mixed;
pub mod sidecars;
