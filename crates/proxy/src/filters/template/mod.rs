//! Values with variables, for fields and paths: parsed by the configuration, prepared here for one route, and rendered
//! for each request or response into a buffer of the caller.

pub mod lines;
pub mod parameters;
pub mod source;
pub mod value;
pub mod variables;
