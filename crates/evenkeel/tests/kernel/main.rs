//! Planes of the kernel: a whole evenkeel in a network namespace of its own, real servers behind it, and clients before
//! it or beside it. Each scenario is a row, each [`Mechanism`] a column.

mod contract;
mod datagrams;
mod flood;
mod load;
mod mechanism;
mod namespace;
mod remains;
mod segments;
mod server;
mod site;
#[path = "../support/mod.rs"]
mod support;
