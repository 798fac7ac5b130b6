//! How are results shown? As text.

pub mod table;
