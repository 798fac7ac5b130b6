//! Responses that are arriving, over real connections.

mod behind;
mod ends;
mod lifecycle;
mod sharing;
mod stepped;
mod unstored;
