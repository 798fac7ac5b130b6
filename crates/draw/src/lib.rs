//! Drawings for the reports of `sim` and `lab` and for the dashboard of a running process: self-contained text, HTML
//! and SVG, without scripts or external resources.
//!
//! 1. [`page`]: the surrounding page, and its colours in light and dark mode.
//! 2. [`axis`]: values on axes; [`chart`]: lines over two axes; [`intervals`]: values on an axis; [`panels`]: a
//!    run, second by second.
//! 3. [`spark`], [`share`], [`phases`], [`heatmap`], [`flow`]: small drawings for a dashboard.
//! 4. [`number`]: numbers as text.
#![forbid(unsafe_code)]

// Order: flow, heatmap, intervals, phases, panels, share, spark, chart, page, axis, number
pub mod axis;
pub mod chart;
pub mod flow;
pub mod heatmap;
pub mod intervals;
pub mod number;
pub mod page;
pub mod panels;
pub mod phases;
pub mod share;
pub mod spark;
