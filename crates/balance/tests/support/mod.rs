//! What the contract tests share: the rows they run over, and a pool beside a plain model of it.
#![allow(dead_code, reason = "every test binary uses its part of this")]

pub mod rows;
pub mod world;
