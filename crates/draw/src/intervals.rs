//! How far are some values apart, as far as runs can say? A line each: its interval, its median, and a mark for what was expected.

use crate::number::digits;
use crate::page::escape;
use std::fmt::Write;

/// Height of a line, and where the scale begins and ends.
const LINE: f64 = 22.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 600.0;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Its interval and its median; `None` if there is only the median.
    pub interval: Option<(f64, f64)>,
    /// The median.
    pub median: f64,
    /// What was expected.
    pub expected: Option<f64>,
    /// Which colour of [`COLOURS`](crate::page::COLOURS) it has: 0 to 7.
    pub colour: usize,
}

/// All of them on one scale from 0 on. `label` is read in its place.
pub fn intervals(rows: &[Row], label: &str) -> String {
    let all = rows.iter().flat_map(|row| [Some(row.median), row.interval.map(|of| of.1), row.expected]);
    let whole = all.flatten().fold(0.0, f64::max);
    let place = |x: f64| LEFT + if whole > 0.0 { (x / whole).clamp(0.0, 1.0) * (RIGHT - LEFT) } else { 0.0 };
    let (height, label) = (LINE * rows.len() as f64 + 4.0, escape(label));
    let mut svg = format!(
        "<svg class=\"intervals\" viewBox=\"0 0 700 {height}\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>"
    );
    for (at, row) in rows.iter().enumerate() {
        let (y, colour) = (LINE * (at as f64 + 0.5) + 2.0, row.colour % 8);
        // A String takes everything.
        let mut add = |text: String| _ = svg.write_str(&text);
        add(format!("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>", LEFT - 12.0, y + 4.0, escape(&row.name)));
        add(format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>"));
        if let Some((low, high)) = row.interval {
            let (from, to) = (place(low), place(high));
            let width = (to - from).max(1.0);
            add(format!(
                "<rect class=\"f{colour} band\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\"/>",
                y - 6.0
            ));
        }
        add(format!("<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{y}\" r=\"4\"/>", place(row.median)));
        if let Some(expected) = row.expected {
            let x = place(expected);
            add(format!("<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>", y - 9.0, y + 9.0));
        }
        add(format!("<text x=\"{}\" y=\"{}\">{}</text>", RIGHT + 12.0, y + 4.0, digits(row.median)));
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_on_one_scale_from_zero() {
        let row = |median, interval| Row { name: "a<b".into(), interval, median, expected: Some(0.5), colour: 9 };
        let drawn = intervals(&[row(1.0, Some((0.5, 1.0))), row(0.0, None)], "x");
        assert!(
            drawn.contains("<rect class=\"f1 band\" x=\"395.0\" y=\"7.0\" width=\"205.0\" height=\"12\"/>"),
            "{drawn}"
        );
        assert!(
            drawn.contains("cx=\"600.0\"") && drawn.contains("cx=\"190.0\"") && drawn.contains("a&lt;b"),
            "{drawn}"
        );
        assert!(!intervals(&[], "").contains("NaN"));
    }
}
