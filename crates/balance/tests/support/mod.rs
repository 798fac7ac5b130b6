//! Support for the contract tests: the rows they run over, and a pool beside a plain model of it.

pub mod rows;
pub mod world;
