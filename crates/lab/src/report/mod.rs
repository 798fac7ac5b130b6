//! Results as text on a terminal.

pub mod table;
