//! Alternatives to the running configuration: [`shadows`] of its algorithms, and [`advice`] on all of it.

// Order: advice, shadows
pub mod advice;
pub mod shadows;
