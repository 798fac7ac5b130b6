//! Phases of a request: a bar of them, and below it a bar for each try, on a common time scale.

use crate::page::escape;
use std::fmt::Write;

/// Height of the bar of phases, and of the bar of a try.
const HEIGHTS: (usize, usize) = (8, 5);

/// A phase or a try of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase<'n> {
    /// Name, shown as a tooltip.
    pub name: &'n str,
    /// Start and end, relative to the start of the request.
    pub span: (f64, f64),
    /// Index of its colour in [`COLOURS`](crate::page::COLOURS), 0 to 7.
    pub colour: usize,
}

/// Draws a request: `phases` from left to right, and `tries` from top to bottom. The full length stands for `whole`,
/// in the unit of the spans. `label` is the text for screen readers.
pub fn phases(phases: &[Phase<'_>], tries: &[Phase<'_>], whole: f64, label: &str) -> String {
    let height = HEIGHTS.0 + tries.len() * (HEIGHTS.1 + 1);
    let label = escape(label);
    let mut svg = format!(
        "<svg class=\"phases\" viewBox=\"0 0 200 {height}\" role=\"img\" aria-label=\"{label}\">\
         <title>{label}</title>"
    );
    let mut bar = |phase: &Phase<'_>, y: usize, height: usize| {
        let place = |at: f64| if whole > 0.0 { (at / whole).clamp(0.0, 1.0) * 200.0 } else { 0.0 };
        let (from, to) = (place(phase.span.0), place(phase.span.1));
        let (colour, width) = (phase.colour % 8, (to - from).max(0.5));
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<rect class=\"f{colour}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"><title>{}</title></rect>",
            escape(phase.name)
        );
    };
    phases.iter().for_each(|phase| bar(phase, 0, HEIGHTS.0));
    for (at, one) in tries.iter().enumerate() {
        bar(one, HEIGHTS.0 + 1 + at * (HEIGHTS.1 + 1), HEIGHTS.1);
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_on_one_scale() {
        let phase = |from, to| Phase { name: "a<b", span: (from, to), colour: 9 };
        let drawn = phases(&[phase(0.0, 25.0), phase(25.0, 50.0)], &[phase(50.0, 200.0)], 100.0, "x");
        assert!(drawn.contains("class=\"f1\" x=\"50.0\" y=\"0\" width=\"50.0\" height=\"8\""), "{drawn}");
        assert!(drawn.contains("x=\"100.0\" y=\"9\" width=\"100.0\" height=\"5\"><title>a&lt;b</title>"), "{drawn}");
        assert!(!phases(&[phase(0.0, 1.0)], &[], 0.0, "").contains("NaN"));
    }
}
