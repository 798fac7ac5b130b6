//! How do figures look to a person? Reports of `sim` and `lab` and the dashboard of a running process are drawn by the same code:
//! text in, HTML and SVG out, nothing from elsewhere.
//!
//! 1. [`page`]: the page around it, and its colours by day and by night.
//! 2. [`axis`]: from values to places; [`chart`]: lines over two axes; [`intervals`]: values on one; [`panels`]: a run, second by second.
//! 3. [`spark`], [`share`], [`phases`], [`heatmap`], [`flow`]: what a dashboard shows in little room.
//! 4. [`number`]: figures in words.
#![forbid(unsafe_code)]

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
