//! Setups of balancers that several experiments have.

pub mod mixed;
pub mod sidecars;
