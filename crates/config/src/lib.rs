//! What did the user ask for, and is it possible? Text in; a [`Plan`], or every error with its place, out.

pub mod plan;

pub use plan::Plan;
