//! Values with variables, for fields and paths. The configuration parses them; this module prepares them for a route,
//! and renders them into a buffer of the caller for each request or response.

pub mod lines;
pub mod lookup;
pub mod lookups;
pub mod maps;
pub mod parameters;
pub mod source;
pub mod value;
pub mod variables;
