//! What the contract tests share: the rows they run over, a pool beside a plain model of it, and virtual time.
#![allow(dead_code, reason = "every test binary uses its part of this")]

pub mod rows;
pub mod virtual_time;
pub mod world;
